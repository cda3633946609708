"""Recognition of diffusers folders, and a check that they are complete."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from onetrainer.errors import UserError
from onetrainer.families import registry
from onetrainer.families.registry import FAMILY_LABELS, family_spec, narrowed
from onetrainer.families.spec import FamilySpec
from onetrainer.files.ordinary import read_ordinary
from onetrainer.files.own_json import NotOurs, parse_object
from onetrainer.model_files.prediction_hints import PredictionHints, hints_in_scheduler
from onetrainer.model_files.tensors import Recognized, recognize, with_channels
from onetrainer.model_files.wholeness import VAE, Problems, labels_of, problems_in_folder
from onetrainer.tensor_files.entries import TensorTable
from onetrainer.tensor_files.refusals import DOWNLOAD_AGAIN
from onetrainer.tensor_files.table import read_table

INCOMPLETE = "The folder was not downloaded completely; download it again"
DIFFUSERS_WEIGHTS, TRANSFORMERS_WEIGHTS = "diffusion_pytorch_model", "model"
# The name of transformers' pickles; diffusers' are named like its safetensors files.
_PICKLE_STEMS: Mapping[str, str] = {TRANSFORMERS_WEIGHTS: "pytorch_model"}


def folder_at(path: Path) -> Recognized:
    """Recognize the folder of a model or a component. Raises UserError if it is incomplete."""
    if (path / "model_index.json").is_file():
        return _pipeline_at(path, _read_json(path / "model_index.json"))
    if (path / "config.json").is_file():
        return _component_at(path, _read_json(path / "config.json"))
    raise UserError(
        f"{path}: this folder has no model_index.json",
        "Expected a diffusers folder, a .safetensors or a .ckpt file",
        _folder_remedy(path),
    )


def weight_files(folder: Path, stem: str) -> list[Path]:
    """Return a component's weight files: one, one of a variant ("fp16"), or several shards.

    Pickles (.bin) are used only without safetensors. Raises UserError if there are neither.
    """
    for name, suffix in ((stem, ".safetensors"), (_PICKLE_STEMS.get(stem, stem), ".bin")):
        plain = folder / f"{name}{suffix}"
        if plain.is_file():
            return [plain]
        if index := _variant_of(folder, f"{plain.name}.index", ".json"):
            return _shards(folder, index)
        if file := _variant_of(folder, name, suffix):
            return [file]
    raise UserError(
        f"{folder}: the weights ({stem}.safetensors) are missing",
        remedy=INCOMPLETE,
        failure="model file",
    )


def _pipeline_at(path: Path, index: Mapping[str, Any]) -> Recognized:
    base = _base_of(path, index)
    if base is None or not (base.engine or base.has_unet):
        return Recognized(base.name if base else "unknown")
    unet = _read_json(path / base.unet.folder / "config.json")
    channels = _channels(unet, base)
    kind = with_channels(base, channels)
    if kind not in FAMILY_LABELS:
        return Recognized(kind, (), channels)
    scheduler = path / "scheduler" / "scheduler_config.json"
    hints = PredictionHints()
    if scheduler.is_file():
        hints = hints_in_scheduler(_read_json(scheduler), path.name)
    components = {"VAE": base.vae, **{e.label: e.component for e in base.encoders}}
    missing = tuple(
        label for label, each in components.items() if _is_left_out(path, index, each.folder)
    )
    spec = family_spec(kind)
    tables, problems = list[TensorTable](), list[tuple[str, str]]()
    for label, component in labels_of(spec).items():
        if label not in missing:
            config = _read_json(path / component.folder / "config.json")
            own = _tables(path / component.folder, component.weights)
            problems += problems_in_folder(label, own, spec, component, config)
            tables += own
    if not scheduler.is_file():
        problems.append(("scheduler", "scheduler/scheduler_config.json is missing"))
    if any(encoder.component.has_text_level for encoder in base.encoders):
        tokenizer = path / "tokenizer"
        has_both = (tokenizer / "vocab.json").is_file() and (tokenizer / "merges.txt").is_file()
        if not has_both and not (tokenizer / "tokenizer.json").is_file():
            raise UserError(
                f"{tokenizer}: the tokenizer's vocabulary is missing",
                "Expected vocab.json and merges.txt, or tokenizer.json",
                INCOMPLETE,
            )
    return Recognized(kind, missing, channels, None, hints, tuple(tables), tuple(problems))


def _base_of(path: Path, index: Mapping[str, Any]) -> FamilySpec | None:
    """Return the model regardless of the UNet's input channels; None if it is unknown."""
    bases = registry.recognized_bases()
    folders = {folder for spec in bases for folder in spec.encoder_folders}
    named = {folder for folder in folders if _is_named(index, folder)}
    present = named | {folder for folder in folders if (path / folder).is_dir()}
    specs = _of_pipeline(str(index.get("_class_name", "")), bases)
    is_known = any(not spec.encoders or named <= spec.encoder_folders for spec in specs)
    if not is_known:  # pipelines of other people have any name
        specs = [spec for spec in bases if named and _is_named(index, spec.unet.folder)]
    specs = narrowed(specs, lambda spec: named <= spec.encoder_folders)
    specs = narrowed(specs, lambda spec: present <= spec.encoder_folders)
    specs = narrowed(specs, lambda spec: named == spec.encoder_folders)
    return _by_configs(path, index, specs)[0] if is_known or len(specs) == 1 else None


def _of_pipeline(name: str, specs: Iterable[FamilySpec]) -> list[FamilySpec]:
    """Return the models whose pipeline, or one of its tasks, this is."""
    words = {spec.name: spec.pipeline.removesuffix("Pipeline") for spec in specs}
    longest = max((w for w in words.values() if w and name.startswith(w)), key=len, default=None)
    return [spec for spec in specs if words[spec.name] == longest]


def _by_configs(path: Path, index: Mapping[str, Any], specs: list[FamilySpec]) -> list[FamilySpec]:
    """Return those of the models that the config of the text encoder or of the UNet may be of."""
    if len(specs) == 1:
        return specs
    encoder = specs[0].encoders[0].component.folder
    if _is_left_out(path, index, encoder):
        unet = _read_json(path / specs[0].unet.folder / "config.json")
        is_convolution = not unet.get("use_linear_projection")
        return narrowed(specs, lambda spec: spec.has_convolution_projections == is_convolution)
    # OpenCLIP's text encoders have exact GELU.
    config = _read_json(path / encoder / "config.json")
    is_open_clip = config.get("hidden_act", "quick_gelu") != "quick_gelu"
    return narrowed(
        specs, lambda spec: (spec.encoders[0].component.names == "open-clip") == is_open_clip
    )


def _component_at(path: Path, config: Mapping[str, Any]) -> Recognized:
    """Recognize the folder of a single component: a VAE, a UNet or a text encoder."""
    architectures = config.get("architectures")
    names = [config.get("_class_name"), *(architectures if isinstance(architectures, list) else [])]
    if config.get("model_type") == "clip_text_model":
        names.append("CLIPTextModel")
    roles = {
        component.network.partition(":")[2]: (kind, component.weights)
        for spec in registry.FAMILIES
        for kind, component in (
            ("unet", spec.unet),
            ("vae", spec.vae),
            *(("text-encoder", encoder.component) for encoder in spec.encoders),
        )
    }
    found = [roles[name] for name in names if isinstance(name, str) and name in roles]
    if not found:
        return Recognized("unknown")
    kind, stem = found[0]
    channels = _channels(config, registry.FAMILIES[0]) if kind == "unet" else 0
    tables = tuple(_tables(path, stem))
    made_for = None
    problems: Problems = ()
    if kind == "vae":
        factor = config.get("scaling_factor")
        # The first family with this factor: SD 2 has the VAE of SD 1.5.
        specs = registry.recognized()
        made_for = next((spec.name for spec in specs if spec.vae_scale == factor), None)
        spec = next((s for s in registry.FAMILIES if s.name == made_for), registry.FAMILIES[0])
        problems = problems_in_folder(VAE, tables, spec, spec.vae, config)
    elif kind == "unet":
        entries = {name: entry for table in tables for name, entry in table.entries.items()}
        made_for = recognize(entries, {}).made_for
    return Recognized(kind, (), channels, made_for, tables=tables, problems=problems)


def _channels(config: Mapping[str, Any], base: FamilySpec) -> int:
    channels = config.get("in_channels", base.latent_channels)
    return channels if isinstance(channels, int) else 0


def _is_named(index: Mapping[str, Any], component: str) -> bool:
    """Return whether the index names this component; [null, null] means that it has none."""
    named = index.get(component)
    return isinstance(named, list) and any(named)


def _is_left_out(path: Path, index: Mapping[str, Any], component: str) -> bool:
    """Return whether a component is absent on purpose rather than missing."""
    is_none = component in index and not _is_named(index, component)
    return is_none or not (path / component).is_dir()


def _tables(folder: Path, stem: str) -> list[TensorTable]:
    return [read_table(file) for file in weight_files(folder, stem)]


def _shards(folder: Path, index: Path) -> list[Path]:
    """Return the files that an index names. Raises UserError if one is missing."""
    table = _read_json(index).get("weight_map", {})
    names = table.values() if isinstance(table, dict) else ()
    # Only the file name: an index must not refer to other folders.
    shards = sorted({folder / Path(str(name)).name for name in names})
    missing = [shard for shard in shards if not shard.is_file()]
    if missing or not shards:
        raise UserError(
            f"{missing[0] if missing else index}: this weight file of the model is missing",
            remedy=INCOMPLETE,
        )
    return shards


def _variant_of(folder: Path, stem: str, suffix: str) -> Path | None:
    """Return the file `stem` + `suffix`, or the first one with a variant between; None if none."""
    names = [folder / f"{stem}{suffix}", *sorted(folder.glob(f"{stem}.*{suffix}"))]
    return next((name for name in names if name.is_file()), None)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return parse_object(read_ordinary(path))
    except FileNotFoundError as error:
        raise UserError(
            f"{path}: this file of the model is missing",
            remedy=INCOMPLETE,
            failure="model file",
        ) from error
    except OSError as error:
        raise UserError(
            f"{path}: the file cannot be read ({(error.strerror or str(error)).lower()})",
            remedy=DOWNLOAD_AGAIN,
        ) from error
    except NotOurs as error:
        raise UserError(f"{path}: this file {error}", remedy=DOWNLOAD_AGAIN) from error


def _folder_remedy(folder: Path) -> str:
    if (folder / "state.json").is_file():
        return (
            "This is a checkpoint of a run. Choose a model in"
            f" {folder.absolute().parents[1] / 'output'}; `onetrainer convert RUN_FOLDER --step N`"
            " writes that of a checkpoint there"
        )
    files = sorted(file for end in ("safetensors", "ckpt") for file in folder.glob(f"*.{end}"))
    if files:
        return f"Choose a file in it, for example {files[0].name}"
    return "Choose the folder that holds model_index.json, unet, vae and text_encoder"
