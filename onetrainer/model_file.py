"""What a model file or folder is, told from its headers alone.

Only names, shapes and sizes are read, never weights, so a file of any size answers at once. A
file is recognized by the names of its tensors, not by their widths.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from onetrainer.errors import UserError
from onetrainer.safetensors_header import AGAIN, TensorEntry, pickle_error, read_header

Layout = Literal["folder", "single-file"]
Kind = Literal[
    "sd15", "sd15-inpainting", "sd2", "sdxl", "sd3", "flux", "lora", "embedding", "vae", "unet",
    "unknown",
]  # fmt: skip

DESCRIPTIONS: Mapping[Kind, str] = {
    "sd15": "an SD 1.5 model",
    "sd15-inpainting": "an SD 1.5 inpainting model",
    "sd2": "an SD 2 model",
    "sdxl": "an SDXL model",
    "sd3": "an SD 3 model",
    "flux": "a Flux model",
    "lora": "a LoRA, not a whole model",
    "embedding": "an embedding, not a whole model",
    "vae": "a VAE alone, not a whole model",
    "unet": "a UNet alone, not a whole model",
    "unknown": "not a Stable Diffusion model that this version knows",
}
NAMES: Mapping[Kind, str] = {"sd15": "SD 1.5"}
INCOMPLETE = "The folder was not downloaded completely; download it again"


@dataclass(frozen=True)
class ModelFile:
    """What was found at a path.

    missing: parts of a whole model that a single file lacks ("VAE", "text encoder").
    """

    path: Path
    layout: Layout
    kind: Kind
    missing: tuple[str, ...] = ()


def inspect_model(path: Path) -> ModelFile:
    """What a model is, and that it is complete; raises UserError if it cannot be read."""
    try:
        if path.is_dir():
            return ModelFile(path, "folder", _inspect_folder(path))
        if not path.is_file():
            raise UserError(
                f"{path}: there is no such file or folder",
                "A diffusers folder or a .safetensors file was expected",
                "Check the path of the base model",
            )
        entries = read_header(path)
    except OSError as error:
        raise UserError(
            f"{path}: the model cannot be read ({error.strerror})",
            remedy="Check the path and the rights to read it",
        ) from error
    kind = recognize(entries)
    return ModelFile(path, "single-file", kind, _missing_parts(entries, kind))


def require_family(model: ModelFile, family: Kind) -> None:
    """Raises UserError, naming the right family, unless the model is a whole one of `family`."""
    name = NAMES[family]
    if model.kind != family:
        raise UserError(
            f"{model.path.name}: this is {DESCRIPTIONS[model.kind]}",
            f"Only {name} can be trained by this version",
            f"Choose an {name} file or diffusers folder",
        )
    if model.missing:
        raise UserError(
            f"{model.path.name}: this {name} file has no {' and no '.join(model.missing)}",
            "A file with UNet, VAE and text encoder was expected",
            "Choose a file that holds the whole model",
        )


def weight_files(folder: Path, stem: str) -> list[Path]:
    """A component's safetensors files: one, one of a variant ("fp16"), or several shards.

    Raises UserError if there are none or only pickles.
    """
    plain = folder / f"{stem}.safetensors"
    if plain.is_file():
        return [plain]
    if index := _variant_of(folder, f"{stem}.safetensors.index", ".json"):
        return _shards(folder, index)
    if file := _variant_of(folder, stem, ".safetensors"):
        return [file]
    if pickles := sorted(folder.glob(f"{stem}*.bin")):
        raise pickle_error(pickles[0])
    raise UserError(
        f"{folder}: the weights ({plain.name}) are missing",
        remedy=INCOMPLETE,
    )


def recognize(entries: Mapping[str, TensorEntry]) -> Kind:
    """What the names and shapes of a file's tensors make it."""
    if _any_starts(entries, "model.diffusion_model."):
        return _recognize_whole(entries)
    if any(n.startswith("lora_") or ".lora" in n for n in entries):
        return "lora"
    if _any_starts(entries, "emb_params", "clip_l", "clip_g", "string_to_param"):
        return "embedding"
    if _any_starts(entries, "first_stage_model.", "decoder.", "encoder.down"):
        return "vae"
    if _any_starts(entries, "down_blocks.", "input_blocks."):
        return "unet"
    if _any_starts(entries, "double_blocks."):
        return "flux"
    return "unknown"


def _recognize_whole(entries: Mapping[str, TensorEntry]) -> Kind:
    unet = "model.diffusion_model."
    if _any_starts(entries, unet + "joint_blocks."):
        return "sd3"
    if _any_starts(entries, unet + "double_blocks."):
        return "flux"
    if _any_starts(entries, "conditioner.", unet + "label_emb."):
        return "sdxl"
    if _any_starts(entries, "cond_stage_model.model."):
        return "sd2"
    first = entries.get(unet + "input_blocks.0.0.weight")
    if first is None or len(first.shape) != 4:
        return "unknown"
    if not _any_starts(entries, "cond_stage_model.transformer."):
        return "unet"
    return _by_channels(first.shape[1])


def _by_channels(channels: int) -> Kind:
    """SD 1.5 by the channels that its UNet reads."""
    match channels:
        case 4:
            return "sd15"
        case 9:
            return "sd15-inpainting"
        case _:
            return "unknown"


def _missing_parts(entries: Mapping[str, TensorEntry], kind: Kind) -> tuple[str, ...]:
    if kind == "sd15" and not _any_starts(entries, "first_stage_model."):
        return ("VAE",)
    return ()


def _any_starts(entries: Mapping[str, TensorEntry], *prefixes: str) -> bool:
    return any(name.startswith(prefixes) for name in entries)


def _inspect_folder(folder: Path) -> Kind:
    if not (folder / "model_index.json").is_file():
        raise UserError(
            f"{folder}: there is no model_index.json in this folder",
            "A diffusers folder or a .safetensors file was expected",
            _folder_remedy(folder),
        )
    index = _read_json(folder / "model_index.json")
    kind = _recognize_folder(folder, index)
    if kind.startswith("sd15"):
        for part, weights in {
            "unet": "diffusion_pytorch_model",
            "vae": "diffusion_pytorch_model",
            "text_encoder": "model",
        }.items():
            _read_json(folder / part / "config.json")
            for file in weight_files(folder / part, weights):
                read_header(file)
        _check_tokenizer(folder / "tokenizer")
    return kind


def _shards(folder: Path, index: Path) -> list[Path]:
    """The files that an index names, all of which must be there."""
    shards = sorted(
        {folder / str(name) for name in _read_json(index).get("weight_map", {}).values()}
    )
    missing = [shard for shard in shards if not shard.is_file()]
    if missing or not shards:
        raise UserError(
            f"{missing[0] if missing else index}: this part of the model's weights is missing",
            remedy=INCOMPLETE,
        )
    return shards


def _variant_of(folder: Path, stem: str, suffix: str) -> Path | None:
    """The file `stem` + `suffix`, else the first one with a variant between; None if none is."""
    names = [folder / f"{stem}{suffix}", *sorted(folder.glob(f"{stem}.*{suffix}"))]
    return next((name for name in names if name.is_file()), None)


def _recognize_folder(folder: Path, index: Mapping[str, Any]) -> Kind:
    pipeline = str(index.get("_class_name", ""))
    if pipeline.startswith("StableDiffusion3"):
        return "sd3"
    if pipeline.startswith("Flux"):
        return "flux"
    if pipeline.startswith("StableDiffusionXL") or index.get("text_encoder_2"):
        return "sdxl"
    if not pipeline.startswith("StableDiffusion"):
        return "unknown"
    # SD 2 has OpenCLIP's text encoder, which uses the exact activation; SD 1.x OpenAI's.
    text = _read_json(folder / "text_encoder" / "config.json")
    if text.get("hidden_act", "quick_gelu") != "quick_gelu":
        return "sd2"
    return _by_channels(int(_read_json(folder / "unet" / "config.json").get("in_channels", 4)))


def _check_tokenizer(folder: Path) -> None:
    has_both = (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file()
    if not has_both and not (folder / "tokenizer.json").is_file():
        raise UserError(
            f"{folder}: the tokenizer's vocabulary is missing",
            "vocab.json and merges.txt, or tokenizer.json, were expected",
            INCOMPLETE,
        )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(
            f"{path}: this part of the model is missing",
            remedy=INCOMPLETE,
        ) from error
    except (ValueError, OSError) as error:
        raise UserError(f"{path}: the file cannot be read ({error})", remedy=AGAIN) from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: an object was expected in this file", remedy=AGAIN)
    return content


def _folder_remedy(folder: Path) -> str:
    files = sorted(folder.glob("*.safetensors"))
    if files:
        return f"Choose a file in it, for example {files[0].name}"
    return "Choose the folder that holds model_index.json, unet, vae and text_encoder"
