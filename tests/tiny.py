"""Stable Diffusion a thousand times smaller, with the classes and the blocks of the real one.

Every family, as objects, as a diffusers folder and as a single file in the original layout; besides
that small captioned images, and files that must be refused. Everything follows from the seed.
"""

import json
import math
import shutil
import struct
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
)

from modules.diffusion.ddpm import ddpm
from modules.diffusion.schedule import ScheduleSettings
from modules.families.components import Components, load_tokenizer
from modules.families.load import assemble
from modules.families.stable_diffusion import StableDiffusion
from modules.formats.files.component_configs import MODELS
from modules.formats.original.recipe import merge
from onetrainer.families.registry import base_of, family_spec
from onetrainer.model_files.original.layout import recipes
from onetrainer.model_files.wholeness import whole_file
from tests import headers
from tests.copies import Original

CPU = torch.device("cpu")
FAMILIES = ("sd15", "sd15-inpainting", "sd2", "sd2-inpainting", "sdxl", "sdxl-inpainting")
WIDTHS = {"sd15": (32,), "sd2": (24,), "sdxl": (32, 40)}  # of each text encoder's output
WIDTH = WIDTHS["sd15"][0]
PROJECTION = 48  # of SDXL's second encoder; other than its width, so that directions show
TIME_WIDTH = 8  # of each of SDXL's six sizes
layers_per_block = 1
"""Of every network, whose UNet has two levels then. The real ones have two layers in three or four
levels, as those of the tests that ask for `real_blocks`."""


def configs(name: str = "sd15") -> dict[str, dict]:
    """The configs of a family's components, with the real ones' blocks and tiny widths."""
    return _configs(name, layers_per_block)


@cache
def _configs(name: str, layers: int) -> dict[str, dict]:
    base = base_of(name)
    real = {
        path.parent.name: json.loads(path.read_text())
        for path in (MODELS / base).glob("*/config.json")
    }
    widths = WIDTHS[base]
    unet = {
        "block_out_channels": [8, 12, 16, 16],
        "norm_num_groups": 4,
        "attention_head_dim": 2,
        "cross_attention_dim": sum(widths),
        "sample_size": 8,
        "in_channels": 9 if name.endswith("-inpainting") else 4,
        "layers_per_block": layers,
    }
    if base == "sdxl":
        unet |= {
            "block_out_channels": [8, 12, 16],
            "transformer_layers_per_block": [1, 1, 2] if layers == 1 else [1, 2, 3],
            "addition_time_embed_dim": TIME_WIDTH,
            "projection_class_embeddings_input_dim": PROJECTION + 6 * TIME_WIDTH,
        }
    if layers == 1:
        unet |= least_blocks(real["unet"] | unet)
    vae = {"block_out_channels": [8, 12, 16, 16], "norm_num_groups": 4, "sample_size": 64}
    vae["layers_per_block"] = layers
    tiny = {"unet": real["unet"] | unet, "vae": real["vae"] | vae}
    for encoder, width in zip(family_spec(base).encoders, widths, strict=True):
        tiny[encoder.component.folder] = real[encoder.component.folder] | {
            "hidden_size": width,
            "intermediate_size": 2 * width,
            "num_attention_heads": 2,
            "num_hidden_layers": 3 if base == "sdxl" else 2,
            "projection_dim": PROJECTION if encoder.has_projection else width,
        }
    return tiny


def least_blocks(unet: dict) -> dict:
    """Two levels, one of which attends to the text: what takes time is each operator."""
    is_xl = unet["down_block_types"][0] == "DownBlock2D"
    plain, attending = ("DownBlock2D", "UpBlock2D"), ("CrossAttnDownBlock2D", "CrossAttnUpBlock2D")
    levels = (plain, attending) if is_xl else (attending, plain)
    # What differs by level, in SD 2 and SDXL, is cut to as many as there are.
    return {name: value[:2] for name, value in unet.items() if isinstance(value, list)} | {
        "down_block_types": [down for down, _ in levels],
        "up_block_types": [up for _, up in reversed(levels)],
    }


def components(seed: int = 0, name: str = "sd15") -> Components:
    """The networks, untrained, float32 on the CPU."""
    return _components(seed, name, layers_per_block).copy()


@cache
def _components(seed: int, name: str, layers: int) -> Original[Components]:
    tiny = _configs(name, layers)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = Components(
            UNet2DConditionModel.from_config(tiny["unet"]),
            AutoencoderKL.from_config(tiny["vae"]),
            {
                encoder.component.folder: (
                    CLIPTextModelWithProjection if encoder.has_projection else CLIPTextModel
                )(CLIPTextConfig(**tiny[encoder.component.folder]))
                for encoder in family_spec(name).encoders
            },
        )
        _make_decoder_respond(made.vae)
    return Original(made)


def family(
    name: str = "sd15",
    *,
    seed: int = 0,
    prediction: str = "epsilon",
    zero_terminal_snr: bool = False,
    clip_skip: int = 0,
    compute_dtype: torch.dtype = torch.float32,
    device: torch.device = CPU,
) -> StableDiffusion:
    """A loaded tiny model, frozen, without any file written."""
    made, spec = components(seed, name), family_spec(name)
    for part in (made.unet, *made.encoders.values()):
        nn.Module.to(part, compute_dtype)  # diffusers' own `to` warns about nothing
    for part in (made.unet, made.vae, *made.encoders.values()):
        part.requires_grad_(False).eval().to(device)
    settings = ScheduleSettings(zero_terminal_snr=zero_terminal_snr)
    return assemble(
        spec,
        made,
        tokenizer=_tokenizer(),
        process=ddpm(settings, prediction).to(device),
        clip_skip=clip_skip,
    )


def encoders(train: bool = True) -> dict[str, dict[str, dict[str, bool]]]:
    """A method's settings that train all text encoders, or none."""
    return {"text_encoders": {key: {"train": train} for key in ("te1", "te2")}}


def write_configs(
    folder: Path,
    name: str = "sd15",
    *,
    prediction: str = "epsilon",
    zero_terminal_snr: bool = False,
) -> Path:
    """The folder with configs and tokenizers that `write_single_file`'s files are opened with."""
    shutil.copytree(MODELS / base_of(name), folder)
    for tokenizer in folder.glob("tokenizer*"):
        for file in ("vocab.json", "merges.txt"):
            shutil.copy(MODELS / "sd15" / "tokenizer" / file, tokenizer / file)
    for component, config in configs(name).items():
        (folder / component / "config.json").write_text(json.dumps(config))
    _change(folder / "model_index.json", _class_name=family_spec(name).pipeline)
    _change(
        folder / "scheduler" / "scheduler_config.json",
        prediction_type=prediction,
        **({"rescale_betas_zero_snr": True} if zero_terminal_snr else {}),
    )
    return folder


def write_folder(
    folder: Path,
    made: Components | None = None,
    *,
    name: str = "sd15",
    dtype: torch.dtype = torch.float32,
    prediction: str = "epsilon",
    zero_terminal_snr: bool = False,
) -> Path:
    """A diffusers folder, as people have them: text encoder names with `text_model.`."""
    made = made or components(name=name)
    write_configs(folder, name, prediction=prediction, zero_terminal_snr=zero_terminal_snr)
    for component, part in _named(made).items():
        stem = "model" if component in made.encoders else "diffusion_pytorch_model"
        _save(_canonical(component, part), folder / component / f"{stem}.safetensors", dtype)
    return folder


def write_single_file(
    path: Path,
    made: Components | None = None,
    *,
    name: str = "sd15",
    dtype: torch.dtype = torch.float32,
) -> Path:
    """A file in the original layout; of SD 1.x with the position ids that old files have."""
    made = made or components(name=name)
    state = {}
    if base_of(name) == "sd15":
        ids = "cond_stage_model.transformer.text_model.embeddings.position_ids"
        state[ids] = torch.arange(77)
    for component, part in _named(made).items():
        tensors = _canonical(component, part)
        for recipe in recipes(family_spec(name).components[component], tensors):
            state[recipe.original] = merge(recipe, [tensors[ours] for ours in recipe.ours])
    _save(state, path, dtype)
    return path


def write_header(path: Path, shapes: dict[str, tuple[int, ...]]) -> Path:
    """A safetensors file with these float16 tensors."""
    header, end = {}, 0
    for name, shape in shapes.items():
        start, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"\1" * end)
    return path


def write_sdxl(path: Path) -> Path:
    """A file that is recognizably SDXL."""
    return headers.write(path, whole_file(family_spec("sdxl")))


def write_images(
    folder: Path, captions: Iterable[str] = ("a red square", "a blue circle"), *, side: int = 64
) -> Path:
    """One small PNG with a caption file for each caption."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, caption in enumerate(captions):
        shade = (40 + 67 * index % 200, 200 - 53 * index % 180, 90 + 31 * index % 150)
        image = Image.radial_gradient("L").resize((side, side)).convert("RGB")
        Image.blend(image, Image.new("RGB", (side, side), shade), 0.6).save(
            folder / f"picture-{index}.png"
        )
        (folder / f"picture-{index}.txt").write_text(caption + "\n", encoding="utf-8")
    return folder


@cache
def _tokenizer() -> CLIPTokenizer:
    """The real one; loading it takes most of the time that a tiny family does."""
    return load_tokenizer(MODELS / "sd15")


def _named(made: Components) -> dict[str, nn.Module]:
    return {"unet": made.unet, "vae": made.vae, **made.encoders}


def _canonical(component: str, part: nn.Module) -> dict[str, Tensor]:
    if not component.startswith("text_encoder"):
        return part.state_dict()
    return {
        name if name.startswith(("text_model.", "text_projection")) else f"text_model.{name}": t
        for name, t in part.state_dict().items()
    }


def _change(path: Path, **values) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def _save(state: dict[str, Tensor], path: Path, dtype: torch.dtype) -> None:
    floats = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor
              for name, tensor in state.items()}  # fmt: skip
    save_file({name: tensor.contiguous() for name, tensor in floats.items()}, path)


def _make_decoder_respond(vae: AutoencoderKL) -> None:
    """Without this an untrained decoder shows the same gray for every latent."""
    for module in (*vae.decoder.modules(), vae.post_quant_conv):
        if isinstance(module, nn.Conv2d):
            nn.init.orthogonal_(module.weight)
            nn.init.zeros_(module.bias)
