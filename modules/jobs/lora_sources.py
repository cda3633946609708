"""The files of LoRAs that are given as files, or as steps of runs."""

from collections.abc import Sequence
from pathlib import Path

from modules.jobs.export_checkpoint import export_checkpoint
from onetrainer.jobs.convert_request import ConvertRequest
from onetrainer.jobs.sample_request import SampledLora
from onetrainer.run.events import Phase, Report
from onetrainer.run.run_folder import require_own
from onetrainer.run.steps import available_steps, require_step, step_files


def place_of(lora: SampledLora) -> Path:
    """Return where a LoRA is: its file, or the checkpoint that it has to be written of.

    Raises:
        UserError: If the weights of a run's step are gone, or in it is what is not of a run.
    """
    run = lora.run
    if run is None:
        return Path(lora.path)
    require_own(run)
    require_step(run, lora.step)
    step = lora.step or available_steps(run)[-1]
    is_kept = step in [kept for kept, _ in run.complete_checkpoints()]
    return run.checkpoint(step) if is_kept else step_files(run)[step]


def files_of(loras: Sequence[SampledLora], folder: Path, report: Report) -> list[Path]:
    """Return the files of some LoRAs; those of checkpoints are written into a folder first.

    Runs in different folders may have the same name, so each file has a folder of its own.
    """
    return [file_of(lora, folder / str(number), report) for number, lora in enumerate(loras)]


def file_of(lora: SampledLora, folder: Path, report: Report) -> Path:
    """Return a LoRA's file; that of a checkpoint is written into a folder of its own first."""
    place, run = place_of(lora), lora.run
    if run is None or place.is_file():
        return place
    step = int(place.name.removeprefix("step-"))
    folder.mkdir(parents=True, exist_ok=True)
    target = str(folder / f"{Path(lora.path).name}-{step}.safetensors")
    request = ConvertRequest(source=lora.path, step=step, target=target)
    report(Phase("loading", detail=f"writing the LoRA {lora.name}"))
    return Path(export_checkpoint(run, request, lambda _: None).outputs[0])
