"""The conversion job: models here, LoRAs and embeddings in their own modules."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic

from torch import Tensor

from modules.formats.embeddings.convert_embedding import convert_embedding
from modules.formats.embeddings.modelspec import PREFIX, ModelSpec
from modules.formats.files.component_configs import MODELS, read_config
from modules.formats.files.files import HASHES
from modules.formats.files.tensor_source import PRECISIONS, LazyTensor, as_lazy
from modules.formats.lora.convert_lora import convert_lora
from modules.formats.lora.lora_names import NAMINGS, Naming
from modules.formats.models.extras import standard_extras_notes
from modules.formats.models.model_folder import write_model_folder
from modules.formats.models.single_file import write_single_file
from modules.formats.models.stored_configs import config_folder, has_own_configs
from modules.formats.models.stored_model import open_stored_model
from modules.formats.models.whole_model import INDEX, Description, WholeModel, describe
from modules.jobs.export_checkpoint import export_checkpoint
from onetrainer.config.run.model import FamilyName
from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILY_LABELS, family_spec
from onetrainer.jobs.convert_request import (
    MODEL_FORMATS,
    ConvertRequest,
    examine,
    model_format,
    source_run,
)
from onetrainer.model_files.choices import (
    prediction_change,
    require_family,
    require_predictable,
    require_published_size,
    resolve_prediction,
    resolve_zero_snr,
)
from onetrainer.model_files.kinds import DESCRIPTIONS, ModelFile
from onetrainer.run.events import Finished, Phase, Report
from onetrainer.run.run_folder import cannot_write

# The VAE's latent scale; whether an empty negative prompt is zeros rather than encoded.
VAE_SCALE, ZERO_EMPTY_PROMPT = "scaling_factor", "force_zeros_for_empty_prompt"
_SECONDS_PER_PHASE = 1.0

Change = Callable[[WholeModel], tuple[WholeModel, list[str]]]
"""Returns another model, and notes for people."""


def convert(request: ConvertRequest, report: Report, *, configs: Path = MODELS) -> Finished:
    """Convert a base model, a LoRA, an embedding or a run's checkpoint, whichever the source is.

    Nothing is left half written.

    configs: Folder with each base's component configs, for sources without their own.

    Raises:
        UserError: If the source cannot be converted.
    """
    source, target = Path(request.source), Path(request.target)
    report(Phase("loading", detail=f"loading {source.name}"))
    if (run := source_run(request)) is not None:
        return export_checkpoint(run, request, report)
    model_file = examine(request)
    report(Phase("saving", detail=target.name))
    try:
        match model_file.kind:
            case "lora" if not request.name:
                notes = convert_lora(
                    source,
                    target,
                    naming=naming_of(request.to),
                    family=request.family,
                    precision=request.precision,
                    overwrite=request.overwrite,
                    bundle=request.bundle,
                )
            case "lora" | "embedding":
                notes = convert_embedding(
                    source,
                    target,
                    precision=request.precision,
                    overwrite=request.overwrite,
                    name=request.name,
                )
            case _:
                notes = convert_model(model_file, request, report, configs=configs)
    except OSError as error:  # of writing; errors of reading have their own messages
        raise cannot_write(target, error, "OUT") from error
    return Finished(0, [str(target)], notes)


def convert_model(
    model_file: ModelFile,
    request: ConvertRequest,
    report: Report,
    *,
    configs: Path = MODELS,
    change: Change | None = None,
) -> list[str]:
    """Write a base model in another format and return notes for people.

    change: Made to the model's tensors on the way; they are read when they are written.
    configs: Folder with each base's component configs, for sources without their own.
    """
    target = Path(request.target)
    own = next((name for name in FAMILY_LABELS if name == model_file.kind), None)
    family = request.family or own
    assert family is not None  # checked by `examine`
    description = describe_stored(model_file, family, request, configs)
    target_format = model_format(target, request.to)
    vae = Path(request.vae) if request.vae else None
    dtype = PRECISIONS[request.precision]
    notes = [f"Read {model_file.path.name}: {DESCRIPTIONS[model_file.kind]}."]
    if changed := prediction_change(model_file, request.prediction):
        notes.append("; ".join(changed) + ".")
    with open_stored_model(model_file, description, vae=vae, ema=request.ema) as stored:
        notes += stored.notes
        model = stored.model
        if change is not None:
            model, more = change(model)
            notes += more
        model = _with_progress(model, report, target.name)
        if target_format == "diffusers":
            write_model_folder(target, model, dtype=dtype, overwrite=request.overwrite)
        else:
            metadata = _metadata(model, target)
            added_tensors = write_single_file(
                target, model, dtype=dtype, metadata=metadata, overwrite=request.overwrite
            )
            notes += standard_extras_notes(added_tensors) + _unsaved_config_notes(model.description)
    return [*notes, f"Wrote {target.name}: {MODEL_FORMATS[target_format]}."]


def _with_progress(model: WholeModel, report: Report, name: str) -> WholeModel:
    """Return the model with tensors that report progress when read."""
    total = sum(len(tensors) for tensors in model.components.values())
    done, last = 0, monotonic()

    def counted(tensor: LazyTensor) -> LazyTensor:
        def read() -> Tensor:
            nonlocal done, last
            done += 1
            if monotonic() - last > _SECONDS_PER_PHASE:
                last = monotonic()
                report(Phase("saving", done, total, name))
            return tensor.read()

        return replace(tensor, read=read)

    components = {
        component: {name: counted(as_lazy(tensor)) for name, tensor in tensors.items()}
        for component, tensors in model.components.items()
    }
    return replace(model, components=components)


def describe_stored(
    model_file: ModelFile, family: FamilyName, request: ConvertRequest, configs: Path
) -> Description:
    """Describe a stored model by its configs, or by its family's. Raises UserError."""
    missing = model_file.missing
    if request.ema and model_file.has_ema:  # the averaged weights are a UNet too
        missing = tuple(part for part in missing if part != "UNet")
    require_family(replace(model_file, missing=missing), family, has_custom_vae=bool(request.vae))
    if configs == MODELS:
        require_published_size(model_file)
    prediction = resolve_prediction(model_file, request.prediction)
    zero_snr = resolve_zero_snr(model_file, request.zero_terminal_snr)
    require_predictable(prediction, zero_terminal_snr=zero_snr, model=model_file)
    return describe(
        config_folder(model_file, family_spec(family).configs_in(configs)),
        family_spec(family),
        prediction=prediction,
        zero_terminal_snr=zero_snr,
        is_model_folder=has_own_configs(model_file),
    )


_DERIVED = (PREFIX + "prediction_type",)
_DERIVED_SD2 = (PREFIX + "architecture", PREFIX + "resolution")
ZERO_SNR_KEY = "ss_zero_terminal_snr"
PREDICT_KEY = PREFIX + "predict_key"  # the prediction type as ComfyUI names it


def _metadata(model: WholeModel, target: Path) -> dict[str, str]:
    """Return the source's metadata, completed by what is known of the model."""
    description = model.description
    own = {key: text for key, text in model.metadata.items() if key not in HASHES}
    side = description.family.side_of(description.prediction)
    spec = ModelSpec(
        family=description.family.name,
        prediction=description.prediction,
        kind="model",
        title=target.stem,
        resolution=(side, side),
    ).fields()
    # The source's own metadata wins, except over settings chosen for the conversion.
    derived = {key: spec[key] for key in _DERIVED if key in spec}
    if description.family.sides:  # its architecture and size imply the prediction
        derived |= {key: spec[key] for key in _DERIVED_SD2}
    if ZERO_SNR_KEY in own:
        derived[ZERO_SNR_KEY] = str(description.zero_terminal_snr)
    kept = {key: text for key, text in own.items() if key != PREDICT_KEY}
    return spec | kept | derived


def _unsaved_config_notes(description: Description) -> list[str]:
    """Return notes on settings that only a folder can store, if they differ from the usual ones."""
    published = description.family.configs
    settings = (
        (VAE_SCALE, description.configs["vae"], published / "vae" / "config.json"),
        (ZERO_EMPTY_PROMPT, description.index, published / INDEX),
    )
    notes = []
    for key, config, place in settings:
        default = read_config(place).get(key)
        own = config.get(key, default)
        if own != default:
            notes.append(
                f"This model's {key} is {own}, which a single file cannot store: other programs"
                f" will use {default}. Keep the folder."
            )
    return notes


def naming_of(name: str) -> Naming:
    """Return the naming of LoRA files of this name; kohya's for "". Raises UserError."""
    naming = next((known for known in NAMINGS if known == (name or "kohya")), None)
    if naming is None:
        raise UserError(
            f'"{name}" is not a naming scheme of LoRA files',
            "Expected one of " + ", ".join(NAMINGS),
            "Choose one of these, or leave it out.",
        )
    return naming
