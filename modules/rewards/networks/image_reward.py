"""ImageReward: how well an image answers its prompt by human preference, about -2 to 2.

BLIP's vision tower, its text tower with cross-attention to the image, and a head on the text's
first vector. Source: Xu et al. 2023, arXiv:2304.05977, and the layout of its authors' file.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import torch
from torch import Size, Tensor, nn
from transformers import BertTokenizer, BlipTextConfig, BlipVisionConfig
from transformers.models.blip.modeling_blip import BlipVisionModel
from transformers.models.blip.modeling_blip_text import BlipTextModel

from modules.formats.files.tensor_source import open_tensors
from modules.memory.empty import build_empty
from modules.memory.to_device import to_device
from modules.rewards.networks.clip_pixels import clip_pixels
from modules.rewards.networks.heads import Head, empty_head, read_head
from modules.rewards.networks.network_files import NetworkFiles, fill_network
from onetrainer.errors import UserError
from onetrainer.files.lines import split_lines
from onetrainer.model_files.original.recipe import Recipe

MAX_TOKENS = 35  # of a prompt
# Mean and standard deviation of the head's outputs over its authors' images.
MEAN, DEVIATION = 0.16717362830052426, 1.0333394966054072
_SMALL_VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # enough for a forecast
_MARK = "visual_encoder.cls_token"
_HEAD_WIDTH = 64
_VISION_EPSILON = 1e-6
_TOP: Mapping[str, str] = {
    "embeddings.class_embedding": "cls_token",
    "embeddings.position_embedding": "pos_embed",
    "embeddings.patch_embedding.weight": "patch_embed.proj.weight",
    "embeddings.patch_embedding.bias": "patch_embed.proj.bias",
    "post_layernorm.weight": "norm.weight",
    "post_layernorm.bias": "norm.bias",
}
_LAYER: Mapping[str, str] = {
    "self_attn.qkv": "attn.qkv",
    "self_attn.projection": "attn.proj",
    "layer_norm1": "norm1",
    "layer_norm2": "norm2",
    "mlp.fc1": "mlp.fc1",
    "mlp.fc2": "mlp.fc2",
}


@dataclass(frozen=True)
class ImageReward:
    """The frozen networks, in evaluation mode. text: Replaces every prompt; "" uses the prompts."""

    vision: BlipVisionModel
    text_model: BlipTextModel
    head: Head
    tokenizer: BertTokenizer
    text: str = ""

    has_gradient: ClassVar[bool] = True

    def extra_modules(self) -> nn.Module:
        return nn.ModuleList([self.vision, self.text_model, self.head]).eval()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        size = self.vision.config.image_size
        assert isinstance(size, int)
        pixels = clip_pixels(images, size).to(self.vision.dtype)
        patches = self.vision(pixel_values=pixels).last_hidden_state  # (B, patches + 1, width)
        tokens = self.tokenizer(
            [self.text or prompt for prompt in prompts],
            padding="max_length",
            truncation=True,
            max_length=MAX_TOKENS,
            return_tensors="pt",
        )
        # Made here: transformers would read the mask, and wait for it.
        mask = to_device(tokens["attention_mask"], images.device)
        bias = torch.zeros(mask.shape, dtype=patches.dtype, device=mask.device)
        bias = bias.masked_fill(mask == 0, torch.finfo(bias.dtype).min)[:, None, None]
        hidden = self.text_model(
            input_ids=to_device(tokens["input_ids"], images.device),
            attention_mask=bias,  # (B, 1, 1, n), added to the attention's logits
            encoder_hidden_states=patches,
        ).last_hidden_state
        scores: Tensor = self.head(hidden[:, 0].to(torch.float32))[:, 0]
        return (scores - MEAN) / DEVIATION


def load_image_reward(
    files: NetworkFiles,
    *,
    vocabulary: Path,
    text: str,
    device: torch.device,
    dtype: torch.dtype,
) -> ImageReward:
    """Load the networks of ImageReward's file, and the vocabulary of bert-base-uncased.

    Raises:
        UserError: One of the files is invalid.
    """
    tokenizer = load_vocabulary(vocabulary)
    with open_tensors(files.weights) as reader:
        mark = next((name for name in reader.names if name.endswith(_MARK)), None)
        if mark is None:
            raise UserError(
                f"{files.weights[0]}: not an ImageReward file",
                f"Expected a file with {_MARK} among its tensors",
                "Choose ImageReward.pt, or a copy of it as safetensors",
            )
        prefix = mark.removesuffix(_MARK)
        shapes = {
            name.removeprefix(prefix): reader.shape(name)
            for name in reader.names
            if name.startswith(prefix)
        }
        vision, text_model = empty_towers(vision_config(shapes), text_config(shapes))
        towers: tuple[tuple[nn.Module, str], ...] = ((vision, "visual"), (text_model, "text"))
        for network, name in towers:
            start = f"{prefix}{name}_encoder."
            fill_network(
                network,
                reader,
                [Recipe(start + _original(ours), (ours,), "same") for ours in network.state_dict()],
                device=device,
                dtype=dtype,
            )
        heads = [name for name in reader.names if re.search(r"(^|\.)mlp\.layers\.", name)]
        head = read_head(
            reader, [name for name in heads if "encoder." not in name], files.weights[0]
        )
    return ImageReward(vision, text_model, head.to(device), tokenizer, text)


def empty_image_reward(text: str, dtype: torch.dtype) -> ImageReward:
    """Build the published networks without weights, on the meta device: BLIP's larger ones."""
    vision, text_model = empty_towers(
        BlipVisionConfig(
            hidden_size=1024,
            intermediate_size=4096,
            num_hidden_layers=24,
            num_attention_heads=16,
            image_size=224,
        ),
        BlipTextConfig(encoder_hidden_size=1024, num_attention_heads=12),
    )
    networks: tuple[nn.Module, ...] = (vision, text_model)
    for network in networks:
        network.requires_grad_(False).eval().to(torch.device("meta"), dtype)
    head = empty_head(text_model.config.hidden_size)
    return ImageReward(vision, text_model, head, _tokenizer(_SMALL_VOCABULARY), text)


def empty_towers(
    vision: BlipVisionConfig, text: BlipTextConfig
) -> tuple[BlipVisionModel, BlipTextModel]:
    """Build the towers without weights, on the meta device."""
    return (
        build_empty(partial(BlipVisionModel, vision)),
        build_empty(partial(BlipTextModel, text, add_pooling_layer=False)),
    )


def vision_config(shapes: Mapping[str, Size]) -> BlipVisionConfig:
    """Derive the config of the vision tower from shapes, by names without the prefix."""
    width, _, patch, _ = shapes["visual_encoder.patch_embed.proj.weight"]
    positions = shapes["visual_encoder.pos_embed"][1]
    return BlipVisionConfig(
        hidden_size=width,
        intermediate_size=shapes["visual_encoder.blocks.0.mlp.fc1.weight"][0],
        num_hidden_layers=_count(shapes, r"visual_encoder\.blocks\.(\d+)\.norm1\.weight"),
        num_attention_heads=max(1, width // _HEAD_WIDTH),
        image_size=patch * math.isqrt(positions - 1),
        patch_size=patch,
        layer_norm_eps=_VISION_EPSILON,
    )


def text_config(shapes: Mapping[str, Size]) -> BlipTextConfig:
    """Derive the config of the text tower from shapes."""
    start = "text_encoder.encoder.layer"
    tokens, width = shapes["text_encoder.embeddings.word_embeddings.weight"]
    return BlipTextConfig(
        vocab_size=tokens,
        hidden_size=width,
        encoder_hidden_size=shapes[f"{start}.0.crossattention.self.key.weight"][1],
        intermediate_size=shapes[f"{start}.0.intermediate.dense.weight"][0],
        num_hidden_layers=_count(shapes, rf"{start}\.(\d+)\.output\.dense\.weight"),
        num_attention_heads=max(1, width // _HEAD_WIDTH),
        max_position_embeddings=shapes["text_encoder.embeddings.position_embeddings.weight"][0],
        bos_token_id=None,
        sep_token_id=None,
    )


def load_vocabulary(path: Path) -> BertTokenizer:
    """Load BERT's lower-case tokenizer from a vocab.txt."""
    if not path.is_file():
        raise UserError(
            f"{path}: no such file",
            "ImageReward reads prompts with the vocabulary of bert-base-uncased",
            "Copy bert-base-uncased's vocab.txt into this folder",
        )
    return _tokenizer(split_lines(path.read_text(encoding="utf-8")))


def _tokenizer(tokens: Sequence[str]) -> BertTokenizer:
    return BertTokenizer(vocab={token: index for index, token in enumerate(tokens)})


def _count(shapes: Mapping[str, Size], pattern: str) -> int:
    return sum(re.fullmatch(pattern, name) is not None for name in shapes)


def _original(ours: str) -> str:
    """Return a vision tensor's name in the file; the text tower's names are the same."""
    if ours in _TOP:
        return _TOP[ours]
    match = re.fullmatch(r"encoder\.layers\.(\d+)\.(.+)\.(weight|bias)", ours)
    if match is None:
        return ours
    return f"blocks.{match[1]}.{_LAYER[match[2]]}.{match[3]}"
