"""Makes one file or folder of another; LoRAs and embeddings have files of their own for it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic

from torch import Tensor

from modules.formats.component_configs import MODELS, read_config
from modules.formats.files import HASHES
from modules.formats.model_folder import write_model_folder
from modules.formats.modelspec import PREFIX, ModelSpec
from modules.formats.single_file import write_single_file
from modules.formats.stored_model import open_stored
from modules.formats.tensor_source import PRECISIONS, LazyTensor, lazily
from modules.formats.whole_model import Description, WholeModel, describe
from onetrainer.config.model import FamilyName, base_of
from onetrainer.convert_request import MODEL_FORMATS, ConvertRequest, ModelFormat
from onetrainer.errors import UserError
from onetrainer.events import Event, Finished, Phase
from onetrainer.model_files import (
    DESCRIPTIONS,
    ModelFile,
    inspect_model,
    require_family,
    resolve_prediction,
    resolve_zero_snr,
)
from onetrainer.model_files.kinds import FAMILIES

Tell = Callable[[Event], None]

SUFFIX = ".safetensors"
SIDES: Mapping[str, int] = {"sd15": 512, "sd2": 512, "sdxl": 1024}
SD2_V_SIDE = 768
_SECONDS_PER_PHASE = 1.0


def convert(request: ConvertRequest, tell: Tell, *, configs: Path = MODELS) -> Finished:
    """Converts a base model, a LoRA or an embedding, whichever the source is.

    configs: the folder with each base's component configs, for sources that bring none.
    Raises UserError, before anything is written, for whatever cannot be converted.
    """
    source, target = Path(request.source), Path(request.target)
    tell(Phase("loading", detail=source.name))
    found = inspect_model(source)
    _refuse_overlap(target, source, request.vae)
    tell(Phase("saving", detail=target.name))
    try:
        notes = _convert(found, target, request, tell, configs=configs)
    except OSError as error:
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
        case "lora":
            return _convert_lora(found, target, request)
        case "embedding":
            return _convert_embedding(found, target, request)
        case kind:
            family = request.family or next((name for name in FAMILIES if name == kind), None)
    if family is None:
        raise UserError(
            f"{found.path.name}: this is {DESCRIPTIONS[found.kind]}",
            "A whole model, a LoRA or an embedding was expected",
            "Choose another file",
        )
    return _convert_model(found, target, request, tell, _describe(found, family, request, configs))


def _convert_model(
    found: ModelFile,
    target: Path,
    request: ConvertRequest,
    tell: Tell,
    description: Description,
) -> list[str]:
    target_format = _model_format(target, request.to)
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
            notes += _invented_notes(invented) + _scale_notes(model.description)
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
    require_family(found, family, vae_given=bool(request.vae))
    return describe(
        found.path if found.layout == "folder" else configs / base_of(family),
        family,
        prediction=resolve_prediction(found, request.prediction),
        zero_terminal_snr=resolve_zero_snr(found, request.zero_terminal_snr),
    )


def _model_format(target: Path, word: str) -> ModelFormat:
    """The format by its word, or by the target's name; the name has to fit it."""
    if word and word not in MODEL_FORMATS:
        raise UserError(
            f'"{word}" is no format for a base model',
            "One of " + ", ".join(f'"{name}" ({text})' for name, text in MODEL_FORMATS.items()),
            "Choose one of these, or leave it out",
        )
    is_file = target.suffix.lower() == SUFFIX
    if word == "diffusers" and is_file:
        raise UserError(f"{target.name}: a folder's name was expected", remedy="Leave out the end")
    if is_file:
        return "original"
    if word == "original" or target.suffix.lower() in (".ckpt", ".pt", ".bin"):
        raise UserError(
            f"{target.name}: single files are written as {SUFFIX} only",
            f"A name that ends in {SUFFIX} was expected",
            f"Use {target.stem}{SUFFIX}",
        )
    return "diffusers"


def _metadata(model: WholeModel, target: Path) -> dict[str, str]:
    """What the source said about itself, or what is known of it."""
    description = model.description
    own = {key: text for key, text in model.metadata.items() if key not in HASHES}
    base = base_of(description.family)
    is_v = description.prediction == "v_prediction"
    side = SD2_V_SIDE if base == "sd2" and is_v else SIDES[base]
    spec = ModelSpec(
        family=description.family,
        prediction=description.prediction,
        kind="model",
        title=target.stem,
        resolution=(side, side),
    ).fields()
    if any(key.startswith(PREFIX) for key in own):
        # The source's own words; only what the model predicts may have been set for it.
        return own | {PREFIX + "prediction_type": spec[PREFIX + "prediction_type"]}
    return spec | own


def _invented_notes(names: list[str]) -> list[str]:
    if not names:
        return []
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    count = "1 tensor" if len(names) == 1 else f"{len(names)} tensors"
    return [f"Made up {count} that such files have and folders do not: {shown}."]


def _scale_notes(description: Description) -> list[str]:
    published = read_config(MODELS / base_of(description.family) / "vae" / "config.json")
    key = "scaling_factor"
    usual = published[key]
    own = description.configs["vae"].get(key, usual)
    if own == usual:
        return []
    return [
        f"The VAE scales latents by {own}, which a single file cannot tell: other programs will"
        f" take {usual}. Keep the folder."
    ]


def _refuse_overlap(target: Path, source: Path, vae: str) -> None:
    """The source is never written, not even when overwriting is allowed."""
    place = target.resolve()
    for kept in (source, *([Path(vae)] if vae else [])):
        whole = kept.resolve()
        if whole == place or place in whole.parents or whole in place.parents:
            raise UserError(
                f"{target}: this is where {kept.name} itself is",
                "A place of its own was expected for what is written",
                "Choose another name",
            )


def _convert_lora(found: ModelFile, target: Path, request: ConvertRequest) -> list[str]:
    from modules.formats.convert_lora import convert_lora
    from modules.formats.lora_names import NAMINGS

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
    )


def _convert_embedding(found: ModelFile, target: Path, request: ConvertRequest) -> list[str]:
    from modules.formats.convert_embedding import convert_embedding

    return convert_embedding(
        found.path,
        target,
        precision=request.precision,
        overwrite=request.overwrite,
        name=request.name,
    )
