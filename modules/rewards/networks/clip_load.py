"""Loading of CLIP networks from files: with their weights, or empty for forecasts."""

from collections.abc import Mapping
from functools import cache, partial
from typing import Literal

import torch
from torch import nn
from transformers import (
    CLIPTextConfig,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    CLIPVisionConfig,
    CLIPVisionModelWithProjection,
)

from modules.formats.files.tensor_source import TensorReader, open_tensors
from modules.memory.empty import build_empty
from modules.rewards.networks.clip import Clip
from modules.rewards.networks.clip_convert import (
    Tower,
    TowerConfig,
    TowerLocation,
    find_tower,
    recipes,
    text_config,
    vision_config,
)
from modules.rewards.networks.network_files import NetworkFiles, fill_network
from onetrainer.errors import UserError
from onetrainer.families.spec import CLIP_TOKENIZER

Published = Literal["vit-l-14", "vit-h-14"]
# Width and layers of the vision tower and of the text tower, whose width both project to.
_PUBLISHED: Mapping[Published, tuple[tuple[int, int], tuple[int, int]]] = {
    "vit-l-14": ((1024, 24), (768, 12)),
    "vit-h-14": ((1280, 32), (1024, 24)),
}


def load_clip(
    files: NetworkFiles, *, texts: bool, device: torch.device, dtype: torch.dtype
) -> Clip:
    """Load the CLIP of some files. texts: whether to load the text tower, too.

    Raises:
        UserError: The files hold no complete CLIP.
    """
    with open_tensors(files.weights) as reader:
        vision, text = _towers(*_configs(reader, files, texts=texts))
        _fill(vision, "vision", reader, files, device=device, dtype=dtype)
        if text is None:
            return Clip(vision, None, None)
        _fill(text, "text", reader, files, device=device, dtype=dtype)
        name = f"{_location(reader, 'text', files).prefix}logit_scale"
        scale = reader.read_as(name, torch.float32).exp().item() if name in reader else 1.0
    return Clip(vision, text, _tokenizer(files), scale)


def empty_clip(files: NetworkFiles, *, texts: bool, dtype: torch.dtype) -> Clip:
    """Build it without weights, on the meta device; reads only the files' headers."""
    with open_tensors(files.weights) as reader:
        return _empty(*_configs(reader, files, texts=texts), dtype)


def published_clip(name: Published, *, texts: bool, dtype: torch.dtype) -> Clip:
    """Build a published network without weights, on the meta device.

    "vit-l-14": OpenAI's, which the aesthetic heads were trained on. "vit-h-14": OpenCLIP's, from
    which PickScore and HPSv2 were fine-tuned.
    """
    (width, layers), (text_width, text_layers) = _PUBLISHED[name]
    vision = CLIPVisionConfig(
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=16,
        patch_size=14,
        projection_dim=text_width,
    )
    text = CLIPTextConfig(
        vocab_size=49408,
        hidden_size=text_width,
        intermediate_size=4 * text_width,
        num_hidden_layers=text_layers,
        num_attention_heads=text_width // 64,
        projection_dim=text_width,
    )
    return _empty(vision, text if texts else None, dtype)


def _empty(vision: CLIPVisionConfig, text: CLIPTextConfig | None, dtype: torch.dtype) -> Clip:
    towers = _towers(vision, text)
    networks: list[nn.Module] = [network for network in towers if network is not None]
    for network in networks:
        network.requires_grad_(False).eval().to(torch.device("meta"), dtype)
    return Clip(*towers, None if text is None else _common_tokenizer())


def _towers(
    vision: CLIPVisionConfig, text: CLIPTextConfig | None
) -> tuple[CLIPVisionModelWithProjection, CLIPTextModelWithProjection | None]:
    """Build the towers without weights."""
    text_tower = None
    if text is not None:
        text_tower = build_empty(partial(CLIPTextModelWithProjection, text))
    return build_empty(partial(CLIPVisionModelWithProjection, vision)), text_tower


def _configs(
    reader: TensorReader, files: NetworkFiles, *, texts: bool
) -> tuple[CLIPVisionConfig, CLIPTextConfig | None]:
    """Return the configs of the towers, the second one's if texts are read."""
    shapes, config = {name: reader.shape(name) for name in reader.names}, files.config()
    location = _location(reader, "vision", files)
    vision = vision_config(location, shapes, _section(config, "vision_config"))
    if not texts:
        return vision, None
    location = _location(reader, "text", files)
    return vision, text_config(location, shapes, _section(config, "text_config"))


@cache  # loading it takes a quarter of a second
def _common_tokenizer() -> CLIPTokenizer:
    tokenizer: CLIPTokenizer = CLIPTokenizer.from_pretrained(CLIP_TOKENIZER, local_files_only=True)
    return tokenizer


def _tokenizer(files: NetworkFiles) -> CLIPTokenizer:
    """Load the folder's tokenizer if its vocabulary differs from the common one."""
    common = _common_tokenizer()
    if not (files.home / "vocab.json").is_file() and not (files.home / "tokenizer.json").is_file():
        return common
    own: CLIPTokenizer = CLIPTokenizer.from_pretrained(files.home, local_files_only=True)
    return common if own.get_vocab() == common.get_vocab() else own


def _location(reader: TensorReader, tower: Tower, files: NetworkFiles) -> TowerLocation:
    location = find_tower(reader.names, tower)
    if location is None:
        raise UserError(
            f"{files.weights[0]}: no {tower} tower of a CLIP in this file",
            "Expected a CLIP in the layout of transformers or OpenCLIP",
            "Choose another file; a text encoder alone, as models have it, is not enough",
        )
    return location


def _section(config: Mapping[str, object], key: str) -> TowerConfig:
    """Return a tower's section of a config, which may be the config of that tower alone."""
    inner = config.get(key)
    if isinstance(inner, dict) and config.get("model_type") == "clip":
        return inner
    model_type = config.get("model_type")
    return config if model_type == f"clip_{key.removesuffix('_config')}_model" else {}


def _fill(
    network: nn.Module,
    tower: Tower,
    reader: TensorReader,
    files: NetworkFiles,
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> None:
    fill_network(
        network,
        reader,
        recipes(_location(reader, tower, files), tower, network.state_dict()),
        device=device,
        dtype=dtype,
    )
