"""Makes one file or folder of another; LoRAs and embeddings have files of their own for it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic

from torch import Tensor

from modules.formats.embeddings.convert_embedding import convert_embedding
from modules.formats.embeddings.modelspec import PREFIX, ModelSpec
from modules.formats.files.component_configs import MODELS, read_config
from modules.formats.files.files import HASHES
from modules.formats.files.tensor_source import PRECISIONS, LazyTensor, lazily
from modules.formats.lora.convert_lora import convert_lora
from modules.formats.lora.lora_names import NAMINGS
from modules.formats.models.extras import made_up_notes
from modules.formats.models.model_folder import write_model_folder
from modules.formats.models.single_file import write_single_file
from modules.formats.models.stored_model import open_stored
from modules.formats.models.whole_model import INDEX, Description, WholeModel, describe
from onetrainer.config.run.model import FamilyName, base_of, native_side
from onetrainer.errors import UserError
from onetrainer.jobs.convert_request import MODEL_FORMATS, ConvertRequest, examine, model_format
from onetrainer.model_files import (
    DESCRIPTIONS,
    ModelFile,
    require_family,
    require_predictable,
    require_published_size,
    resolve_prediction,
    resolve_zero_snr,
)
from onetrainer.model_files.kinds import FAMILIES
from onetrainer.run.events import Event, Finished, Phase

Tell = Callable[[Event], None]

# How a VAE scales latents; whether an empty negative prompt is encoded or made of zeros.
SCALE, ZEROS = "scaling_factor", "force_zeros_for_empty_prompt"
_SECONDS_PER_PHASE = 1.0


def convert(request: ConvertRequest, tell: Tell, *, configs: Path = MODELS) -> Finished:
    """Converts a base model, a LoRA or an embedding, whichever the source is.

    configs: the folder with each base's component configs, for sources that bring none.
    Raises UserError for whatever cannot be converted; nothing is left half written.
    """
    target = Path(request.target)
    tell(Phase("loading", detail=f"loading {Path(request.source).name}"))
    found = examine(request)
    tell(Phase("saving", detail=target.name))
    try:
        notes = _convert(found, target, request, tell, configs=configs)
    except OSError as error:  # of writing: whatever reads tells in its own words
        raise UserError(
            f"{target}: cannot write here ({(error.strerror or str(error)).lower()})",
            "A place that you may write to was expected, on a disk with free space",
            "Choose another one",
        ) from error
    return Finished(0, [str(target)], notes)


def _convert(
    found: ModelFile, target: Path, request: ConvertRequest, tell: Tell, *, configs: Path
) -> list[str]:
    match found.kind:
        case "lora" if not request.name:
            return _convert_lora(found, target, request)
        case "lora" | "embedding":
            return convert_embedding(
                found.path,
                target,
                precision=request.precision,
                overwrite=request.overwrite,
                name=request.name,
            )
        case kind:
            own = next((name for name in FAMILIES if name == kind), None)
    family = request.family or own
    assert family is not None  # examined
    return _convert_model(found, target, request, tell, _describe(found, family, request, configs))


def _convert_model(
    found: ModelFile,
    target: Path,
    request: ConvertRequest,
    tell: Tell,
    description: Description,
) -> list[str]:
    target_format = model_format(target, request.to)
    vae = Path(request.vae) if request.vae else None
    dtype = PRECISIONS[request.precision]
    notes = [f"Read {found.path.name}: {DESCRIPTIONS[found.kind]}."]
    with open_stored(found, description, vae=vae, ema=request.ema) as stored:
        notes += stored.notes
        model = _told(stored.model, tell, target.name)
        if target_format == "diffusers":
            write_model_folder(target, model, dtype=dtype, overwrite=request.overwrite)
        else:
            metadata = _metadata(model, target)
            invented = write_single_file(
                target, model, dtype=dtype, metadata=metadata, overwrite=request.overwrite
            )
            notes += made_up_notes(invented) + _untold_notes(model.description)
    return [*notes, f"Wrote {target.name}: {MODEL_FORMATS[target_format]}."]


def _told(model: WholeModel, tell: Tell, name: str) -> WholeModel:
    """The same model, which tells from time to time how many of its tensors have been read."""
    total = sum(len(tensors) for tensors in model.components.values())
    done, last = 0, monotonic()

    def told(tensor: LazyTensor) -> LazyTensor:
        def read() -> Tensor:
            nonlocal done, last
            done += 1
            if monotonic() - last > _SECONDS_PER_PHASE:
                last = monotonic()
                tell(Phase("saving", done, total, name))
            return tensor.read()

        return replace(tensor, read=read)

    components = {
        component: {name: told(lazily(tensor)) for name, tensor in tensors.items()}
        for component, tensors in model.components.items()
    }
    return replace(model, components=components)


def _describe(
    found: ModelFile, family: FamilyName, request: ConvertRequest, configs: Path
) -> Description:
    missing = found.missing
    if request.ema and found.has_ema:  # the averaged weights are a UNet too
        missing = tuple(part for part in missing if part != "UNet")
    require_family(replace(found, missing=missing), family, vae_given=bool(request.vae))
    if configs == MODELS:
        require_published_size(found)
    prediction = resolve_prediction(found, request.prediction)
    zero_snr = resolve_zero_snr(found, request.zero_terminal_snr)
    require_predictable(prediction, zero_terminal_snr=zero_snr, model=found)
    is_own = found.layout == "folder"
    return describe(
        found.path if is_own else configs / base_of(family),
        family,
        prediction=prediction,
        zero_terminal_snr=zero_snr,
        is_own=is_own,
    )


_SETTLED = (PREFIX + "prediction_type",)
_SETTLED_OF_SD2 = (PREFIX + "architecture", PREFIX + "resolution")
ZERO_SNR_KEY = "ss_zero_terminal_snr"
PREDICT_KEY = PREFIX + "predict_key"  # the prediction again, in ComfyUI's words


def _metadata(model: WholeModel, target: Path) -> dict[str, str]:
    """What the source said about itself, or what is known of it."""
    description = model.description
    own = {key: text for key, text in model.metadata.items() if key not in HASHES}
    side = native_side(description.family, description.prediction)
    spec = ModelSpec(
        family=description.family,
        prediction=description.prediction,
        kind="model",
        title=target.stem,
        resolution=(side, side),
    ).fields()
    # The source's own words count, but not against what was chosen for it.
    settled = {key: spec[key] for key in _SETTLED if key in spec}
    if description.family.startswith("sd2"):  # whose architecture and size tell the prediction too
        settled |= {key: spec[key] for key in _SETTLED_OF_SD2}
    if ZERO_SNR_KEY in own:
        settled[ZERO_SNR_KEY] = str(description.zero_terminal_snr)
    kept = {key: text for key, text in own.items() if key != PREDICT_KEY}
    return spec | kept | settled


def _untold_notes(description: Description) -> list[str]:
    """What only a folder tells, where it differs from what programs assume of a single file."""
    published = MODELS / base_of(description.family)
    told = (
        (SCALE, description.configs["vae"], published / "vae" / "config.json"),
        (ZEROS, description.index, published / INDEX),
    )
    notes = []
    for key, config, place in told:
        usual = read_config(place).get(key)
        own = config.get(key, usual)
        if own != usual:
            notes.append(
                f"This model's {key} is {own}, which a single file cannot tell: other programs"
                f" will take {usual}. Keep the folder."
            )
    return notes


def _convert_lora(found: ModelFile, target: Path, request: ConvertRequest) -> list[str]:
    naming = next((name for name in NAMINGS if name == (request.to or "kohya")), None)
    if naming is None:
        raise UserError(
            f'"{request.to}" is no naming of LoRA files',
            "One of " + ", ".join(NAMINGS),
            "Choose one of these, or leave it out",
        )
    return convert_lora(
        found.path,
        target,
        naming=naming,
        family=request.family,
        precision=request.precision,
        overwrite=request.overwrite,
        bundle=request.bundle,
    )
