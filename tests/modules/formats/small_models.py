"""Small models of every family, with the blocks of the real ones, written by diffusers itself."""

import json
import shutil
from pathlib import Path

import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    EulerDiscreteScheduler,
    PNDMScheduler,
    StableDiffusionInpaintPipeline,
    StableDiffusionPipeline,
    StableDiffusionXLInpaintPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from safetensors.torch import load_file
from torch import nn
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
)

from modules.formats.files.component_configs import MODELS
from onetrainer.families.registry import base_of, family_spec

PIPELINES = {
    "sd15": StableDiffusionPipeline,
    "sd15-inpainting": StableDiffusionInpaintPipeline,
    "sd2": StableDiffusionPipeline,
    "sd2-inpainting": StableDiffusionInpaintPipeline,
    "sdxl": StableDiffusionXLPipeline,
    "sdxl-inpainting": StableDiffusionXLInpaintPipeline,
}
FAMILIES = [
    ("sd15", "epsilon"),
    ("sd15-inpainting", "epsilon"),
    ("sd2", "epsilon"),
    ("sd2", "v_prediction"),
    ("sd2-inpainting", "epsilon"),
    ("sdxl", "epsilon"),
    ("sdxl", "v_prediction"),
    ("sdxl-inpainting", "epsilon"),
]
"""Every family with what its models predict."""

SCHEDULERS = {"sd15": PNDMScheduler, "sd2": DDIMScheduler, "sdxl": EulerDiscreteScheduler}
CLASSES = {
    "unet": UNet2DConditionModel,
    "vae": AutoencoderKL,
    "text_encoder": CLIPTextModel,
    "text_encoder_2": CLIPTextModelWithProjection,
}
SMALL_UNET = {"norm_num_groups": 4}
SMALL_VAE = {"block_out_channels": [8, 12, 16, 16], "norm_num_groups": 4, "sample_size": 64}
SMALL_ENCODER = {"num_attention_heads": 2, "intermediate_size": 20, "num_hidden_layers": 3}
SMALL = {
    "sd15": {
        "unet": {
            "block_out_channels": [8, 12, 16, 16],
            "attention_head_dim": 2,
            "cross_attention_dim": 16,
        },
        "text_encoder": {"hidden_size": 16, "projection_dim": 16},
    },
    "sd2": {
        "unet": {
            "block_out_channels": [8, 12, 16, 16],
            "attention_head_dim": [1, 2, 2, 2],
            "cross_attention_dim": 24,
        },
        "text_encoder": {"hidden_size": 24, "projection_dim": 12},
    },
    # Both encoders side by side; the projection has other sides than the encoder is wide.
    "sdxl": {
        "unet": {
            "block_out_channels": [8, 12, 16],
            "attention_head_dim": [1, 2, 2],
            "cross_attention_dim": 16 + 24,
            "transformer_layers_per_block": [1, 2, 3],
            "addition_time_embed_dim": 4,
            "projection_class_embeddings_input_dim": 20 + 6 * 4,
        },
        "text_encoder": {"hidden_size": 16, "projection_dim": 16},
        "text_encoder_2": {"hidden_size": 24, "projection_dim": 20},
    },
}


def write_configs(root: Path) -> Path:
    """As configs/models, of small models."""
    for base, small in SMALL.items():
        shutil.copytree(MODELS / base, root / base)
        for component in family_spec(base).components:
            path = root / base / component / "config.json"
            config = json.loads(path.read_text()) | small.get(component, {})
            match component:
                case "unet":
                    config |= SMALL_UNET
                case "vae":
                    config |= SMALL_VAE
                case _:
                    config |= SMALL_ENCODER
            path.write_text(json.dumps(config))
    return root


def write_folder(
    folder: Path, family: str, configs: Path, *, prediction: str = "epsilon", seed: int = 0
) -> Path:
    """A diffusers folder of a random model, written by its pipeline."""
    base = base_of(family)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        networks = {
            name: _network(configs, base, family, name) for name in family_spec(base).components
        }
    pads = {"tokenizer": "!" if base == "sd2" else "<|endoftext|>"}
    pads |= {"tokenizer_2": "!"} if base == "sdxl" else {}
    tokenizers = {
        name: CLIPTokenizer.from_pretrained(MODELS / "sd15" / "tokenizer", pad_token=pad)
        for name, pad in pads.items()
    }
    scheduler = SCHEDULERS[base].from_pretrained(configs / base / "scheduler")
    scheduler.register_to_config(prediction_type=prediction)
    others = {} if base == "sdxl" else {"safety_checker": None, "feature_extractor": None}
    options = {} if base == "sdxl" else {"requires_safety_checker": False}
    pipeline = PIPELINES[family](**networks, **tokenizers, scheduler=scheduler, **others, **options)
    pipeline.save_pretrained(folder)
    return folder


def _network(configs: Path, base: str, family: str, component: str) -> nn.Module:
    config = json.loads((configs / base / component / "config.json").read_text())
    if component.startswith("text_encoder"):
        network = CLASSES[component](CLIPTextConfig(**config))
    else:
        if component == "unet" and family.endswith("-inpainting"):
            config["in_channels"] = 9
        network = CLASSES[component].from_config(config)
    for tensor in network.state_dict().values():  # biases and norms are zeros and ones otherwise
        if tensor.is_floating_point():
            tensor.add_(torch.randn(tensor.shape) * 0.05)
    return network


def read_folder(folder: Path) -> dict[str, torch.Tensor]:
    """Every tensor of a diffusers folder as COMPONENT/NAME, text encoders' with `text_model.`."""
    found = {}
    for file in sorted(folder.glob("*/*.safetensors")):
        component = file.parent.name
        for name, tensor in load_file(file).items():
            above = ("text_model.", "text_projection.")
            if component.startswith("text_encoder") and not name.startswith(above):
                name = f"text_model.{name}"
            found[f"{component}/{name}"] = tensor
    return found


def assert_equal(found, expected) -> None:
    """The same tensors under the same names."""
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape), name
        assert torch.equal(found[name], tensor), name
