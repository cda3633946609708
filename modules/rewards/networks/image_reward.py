"""ImageReward: how well people would like a picture as an answer to its prompt, about -2 to 2.

BLIP's vision tower, its text tower, which looks at the picture, and a head on the text's first
vector. Source: Xu et al. 2023, arXiv:2304.05977, and the layout of its authors' file.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from accelerate import init_empty_weights
from torch import Size, Tensor, nn
from transformers import BertTokenizer, BlipTextConfig, BlipVisionConfig
from transformers.models.blip.modeling_blip import BlipVisionModel
from transformers.models.blip.modeling_blip_text import BlipTextModel

from modules.formats.files.tensor_source import TensorReader, open_tensors
from modules.formats.original.layout import MissingTensorsError, read_component
from modules.formats.original.recipe import Recipe
from modules.memory.to_device import sent
from modules.rewards.networks.clip_pixels import clip_pixels
from modules.rewards.networks.heads import Head, empty_head, read_head
from modules.rewards.networks.network_files import NetworkFiles
from onetrainer.errors import UserError

LONGEST = 35  # tokens of a prompt
# The mean and spread of the head's numbers over its authors' pictures.
MEAN, SPREAD = 0.16717362830052426, 1.0333394966054072
_FEW_WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # enough for counting
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
    """The frozen networks, in evaluation mode. text: stands in for all prompts; "" for none."""

    vision: BlipVisionModel
    words: BlipTextModel
    head: Head
    tokenizer: BertTokenizer
    text: str = ""

    @property
    def has_gradient(self) -> bool:
        return True

    def own_modules(self) -> nn.Module:
        return nn.ModuleList([self.vision, self.words, self.head]).eval()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        size = self.vision.config.image_size
        assert isinstance(size, int)
        pixels = clip_pixels(images, size).to(self.vision.dtype)
        seen = self.vision(pixel_values=pixels).last_hidden_state  # (B, fields + 1, width)
        tokens = self.tokenizer(
            [self.text or prompt for prompt in prompts],
            padding="max_length",
            truncation=True,
            max_length=LONGEST,
            return_tensors="pt",
        )
        read = self.words(
            input_ids=sent(tokens["input_ids"], images.device),
            attention_mask=_added(sent(tokens["attention_mask"], images.device), seen.dtype),
            encoder_hidden_states=seen,
        ).last_hidden_state
        scores: Tensor = self.head(read[:, 0].to(torch.float32))[:, 0]
        return (scores - MEAN) / SPREAD


def load_image_reward(
    files: NetworkFiles,
    *,
    vocabulary: Path,
    text: str,
    device: torch.device,
    dtype: torch.dtype,
) -> ImageReward:
    """The networks in ImageReward's file, and the vocabulary of bert-base-uncased in another.

    Raises UserError where either is not what it should be.
    """
    tokenizer = load_vocabulary(vocabulary)
    with open_tensors(files.weights) as reader:
        before = _prefix(reader.names)
        if before is None:
            raise UserError(
                f"{files.weights[0]}: this is not ImageReward",
                f"A file with {_MARK} among its tensors was expected",
                "Choose ImageReward.pt, or a copy of it as safetensors",
            )
        shapes = {
            name.removeprefix(before): reader.shape(name)
            for name in reader.names
            if name.startswith(before)
        }
        vision, words = empty_towers(vision_config(shapes), text_config(shapes))
        _fill(vision, reader, f"{before}visual_encoder.", device=device, dtype=dtype)
        _fill(words, reader, f"{before}text_encoder.", device=device, dtype=dtype)
        heads = [name for name in reader.names if re.search(r"(^|\.)mlp\.layers\.", name)]
        head = read_head(
            reader, [name for name in heads if "encoder." not in name], files.weights[0]
        )
    return ImageReward(vision, words, head.to(device), tokenizer, text)


def empty_image_reward(text: str, dtype: torch.dtype) -> ImageReward:
    """The published networks without weights, on the meta device: BLIP's larger ones."""
    vision, words = empty_towers(
        BlipVisionConfig(
            hidden_size=1024,
            intermediate_size=4096,
            num_hidden_layers=24,
            num_attention_heads=16,
            image_size=224,
        ),
        BlipTextConfig(encoder_hidden_size=1024, num_attention_heads=12),
    )
    networks: tuple[nn.Module, ...] = (vision, words)
    for network in networks:
        network.requires_grad_(False).eval().to(torch.device("meta"), dtype)
    head = empty_head(words.config.hidden_size)
    return ImageReward(vision, words, head, _tokenizer(_FEW_WORDS), text)


def empty_towers(
    vision: BlipVisionConfig, words: BlipTextConfig
) -> tuple[BlipVisionModel, BlipTextModel]:
    """The towers without weights, on the meta device."""
    with init_empty_weights():
        return BlipVisionModel(vision), BlipTextModel(words, add_pooling_layer=False)


def vision_config(shapes: Mapping[str, Size]) -> BlipVisionConfig:
    """What the vision tower of these tensors is like; their names without what is before all."""
    width, _, patch, _ = shapes["visual_encoder.patch_embed.proj.weight"]
    places = shapes["visual_encoder.pos_embed"][1]
    return BlipVisionConfig(
        hidden_size=width,
        intermediate_size=shapes["visual_encoder.blocks.0.mlp.fc1.weight"][0],
        num_hidden_layers=_count(shapes, r"visual_encoder\.blocks\.(\d+)\.norm1\.weight"),
        num_attention_heads=max(1, width // _HEAD_WIDTH),
        image_size=patch * math.isqrt(places - 1),
        patch_size=patch,
        layer_norm_eps=_VISION_EPSILON,
    )


def text_config(shapes: Mapping[str, Size]) -> BlipTextConfig:
    """What the text tower of these tensors is like."""
    start = "text_encoder.encoder.layer"
    words, width = shapes["text_encoder.embeddings.word_embeddings.weight"]
    return BlipTextConfig(
        vocab_size=words,
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
    """BERT's tokenizer in lower case, of a vocab.txt."""
    if not path.is_file():
        raise UserError(
            f"{path}: there is no such file",
            "ImageReward reads prompts with the vocabulary of bert-base-uncased",
            "Put the vocab.txt of bert-base-uncased there",
        )
    return _tokenizer(path.read_text(encoding="utf-8").splitlines())


def _tokenizer(words: Sequence[str]) -> BertTokenizer:
    return BertTokenizer(vocab={word: place for place, word in enumerate(words)})


def _added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added to the attention's logits, (B, 1, 1, n), so that padding is not looked at.

    mask: (B, n), 1 for words. Made here: transformers would look at the numbers, and wait for them.
    """
    added = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return added.masked_fill(mask == 0, torch.finfo(dtype).min)[:, None, None]


def _prefix(names: Iterable[str]) -> str | None:
    found = next((name for name in names if name.endswith(_MARK)), None)
    return None if found is None else found.removesuffix(_MARK)


def _count(shapes: Mapping[str, Size], pattern: str) -> int:
    return sum(re.fullmatch(pattern, name) is not None for name in shapes)


def _original(ours: str) -> str:
    """A vision tensor's name in the file; the text tower's are ours already."""
    if ours in _TOP:
        return _TOP[ours]
    found = re.fullmatch(r"encoder\.layers\.(\d+)\.(.+)\.(weight|bias)", ours)
    if found is None:
        return ours
    return f"blocks.{found[1]}.{_LAYER[found[2]]}.{found[3]}"


def _fill(
    network: nn.Module,
    reader: TensorReader,
    prefix: str,
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> None:
    shapes = {name: tensor.shape for name, tensor in network.state_dict().items()}
    recipes = [Recipe(prefix + _original(name), (name,), "same") for name in shapes]
    try:
        state = read_component(reader, recipes, shapes, dtype=dtype, device=device)
    except MissingTensorsError as error:
        raise UserError(
            f"{reader.tables[0].path}: {len(error.names)} tensors are missing or have another"
            f" shape, first {error.names[0]}",
            "ImageReward's file was expected",
            "Choose another file, or download it again",
        ) from error
    network.load_state_dict(state, assign=True)
    network.requires_grad_(False).eval().to(device)
