"""The file of a run's checkpoint, as the run itself would write it, without its images."""

from pathlib import Path

import torch

from modules.assembly.method import attach
from modules.assembly.optimizer import optimization_of
from modules.assembly.start_files import with_start_files_copied
from modules.jobs.base_model import load_base, local_model, recorded_revision, use_hardware
from modules.methods.model_source import ModelSource
from modules.training.checkpoint_record import read_record
from modules.training.tasks import export_options
from onetrainer.config.methods.full import Full, Vae
from onetrainer.config.run.output import Output
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.jobs.convert_request import ConvertRequest, model_format, require_suffix
from onetrainer.rules.changes import config_at
from onetrainer.run.checkpoint_files import DamagedCheckpoint, verify
from onetrainer.run.events import Finished, Phase, Report
from onetrainer.run.fork import state_at
from onetrainer.run.run_folder import RunFolder, cannot_write
from onetrainer.schedules.amounts import estimated

# It takes no memory of the GPU, on which the run may be training.
_DEVICE = torch.device("cpu")


def export_checkpoint(folder: RunFolder, request: ConvertRequest, report: Report) -> Finished:
    """Write the files of a checkpoint's weights, or of their EMA; see `source_run`.

    Raises:
        UserError: If it is damaged, or the base model is gone.
    """
    step = int(state_at(folder, request.step)["step"])
    try:
        verify(folder.checkpoint(step), step)
    except DamagedCheckpoint as error:
        raise UserError(
            f"{folder.checkpoint(step)}: this checkpoint is damaged ({error})",
            "",
            "Choose another step",
        ) from error
    record = read_record(folder, step)
    # Of how long anything trains, nothing is needed here.
    config = estimated(config_at(folder, step))
    use_hardware(config.hardware)
    section, path = _output(config, request, folder.output / f"{config.output.name}-{step:06d}")
    model = config.model
    revision = recorded_revision(record.versions)
    place = local_model(model.path, report, offline=model.offline, revision=revision)
    family, model = load_base(config, place, report, device=_DEVICE, components_device=_DEVICE)
    started = with_start_files_copied(config, folder)
    method = attach(started, family, ModelSource.of(model)).method
    optimization = optimization_of(config, folder, method, device=_DEVICE)
    notes = optimization.checkpoints.restore(record)
    report(Phase("saving", detail=path.name))
    try:
        with optimization.exported.for_files():
            written = method.export(path, export_options(section, record.metadata))
    except OSError as error:
        raise cannot_write(path, error, "OUT") from error
    notes += method.reader_notes(section.lora_naming)
    notes.append(f"Wrote the weights after step {step:,} of {folder.name}.")
    return Finished(step, [str(file) for file in written], notes)


def _output(config: TrainConfig, request: ConvertRequest, path: Path) -> tuple[Output, Path]:
    """Return the settings of the files to write, and their path without a suffix.

    path: That of a request without a target.
    """
    changes: dict[str, object] = {}
    if request.precision != "keep":
        changes["precision"] = request.precision
    if request.target:
        path = target = Path(request.target)
        if isinstance(config.method, Full | Vae) and model_format(target, "") == "diffusers":
            changes["model_format"] = "diffusers"
        else:
            require_suffix(target)
            changes["model_format"], path = "single-file", target.with_suffix("")
    return config.output.model_copy(update=changes), path
