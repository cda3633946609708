"""ImageReward out of its authors' layout, against their forward, written down by hand.

It was also compared with the code of the package image-reward 1.5 itself, with random weights of a
tiny size: the same to the last bit.
"""

import math

import pytest
import torch
from torch.nn import functional

from modules.rewards.load import make_rewards
from modules.rewards.networks.clip_pixels import clip_pixels
from onetrainer.config.rewards.reward import Reward as Section
from onetrainer.errors import UserError
from tests.close import close

CPU = torch.device("cpu")
WIDTH, TEXT, FIELDS, SIDE = 128, 64, 5, 32  # vision's, text's; fields with the class's
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "dog", "##s", ","]
SIZES = (1024, 128, 64, 16, 1)


def file_tensors():
    """Random tensors under the names of the authors' file."""
    generator = torch.Generator().manual_seed(0)
    shapes = {
        "visual_encoder.cls_token": (1, 1, WIDTH),
        "visual_encoder.pos_embed": (1, FIELDS, WIDTH),
        "visual_encoder.patch_embed.proj.weight": (WIDTH, 3, 16, 16),
        "visual_encoder.patch_embed.proj.bias": (WIDTH,),
        "text_encoder.embeddings.word_embeddings.weight": (len(WORDS), TEXT),
        "text_encoder.embeddings.position_embeddings.weight": (40, TEXT),
        **norm("visual_encoder.norm", WIDTH),
        **norm("text_encoder.embeddings.LayerNorm", TEXT),
        "vision_proj.weight": (8, WIDTH),
    }
    block, layer = "visual_encoder.blocks.0", "text_encoder.encoder.layer.0"
    shapes |= norm(f"{block}.norm1", WIDTH) | norm(f"{block}.norm2", WIDTH)
    shapes |= linear(f"{block}.attn.qkv", WIDTH, 3 * WIDTH)
    shapes |= linear(f"{block}.attn.proj", WIDTH, WIDTH)
    shapes |= linear(f"{block}.mlp.fc1", WIDTH, 96) | linear(f"{block}.mlp.fc2", 96, WIDTH)
    for part, source in (("attention", TEXT), ("crossattention", WIDTH)):
        shapes |= linear(f"{layer}.{part}.self.query", TEXT, TEXT)
        shapes |= linear(f"{layer}.{part}.self.key", source, TEXT)
        shapes |= linear(f"{layer}.{part}.self.value", source, TEXT)
        shapes |= linear(f"{layer}.{part}.output.dense", TEXT, TEXT)
        shapes |= norm(f"{layer}.{part}.output.LayerNorm", TEXT)
    shapes |= linear(f"{layer}.intermediate.dense", TEXT, 48)
    shapes |= linear(f"{layer}.output.dense", 48, TEXT) | norm(f"{layer}.output.LayerNorm", TEXT)
    made = {f"blip.{name}": random(shape, generator) for name, shape in shapes.items()}
    before = TEXT
    for place, size in zip((0, 2, 4, 6, 7), SIZES, strict=True):
        for name, shape in linear(f"mlp.layers.{place}", before, size).items():
            made[name] = random(shape, generator)
        before = size
    return made


def random(shape, generator):
    return torch.randn(shape, generator=generator) / math.sqrt(shape[-1] if len(shape) > 1 else 4)


def norm(name, width):
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def linear(name, before, size):
    return {f"{name}.weight": (size, before), f"{name}.bias": (size,)}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("image-reward") / "ImageReward.pt"
    torch.save(file_tensors(), path)
    path.with_name("vocab.txt").write_text("\n".join(WORDS) + "\n")
    return path


def reward(model, dtype=torch.float32, **settings):
    section = Section(reward="image_reward", model=str(model), **settings)
    return make_rewards([section], device=CPU, dtype=dtype, offline=True, report=print)[0]


def by_hand(images, ids):
    """The authors' forward for prompts without padding. ids: (B, n)."""
    state = file_tensors()

    def apply(name, values):
        return functional.linear(values, state[f"blip.{name}.weight"], state[f"blip.{name}.bias"])

    def normed(name, values, eps):
        weights = state[f"blip.{name}.weight"], state[f"blip.{name}.bias"]
        return functional.layer_norm(values, values.shape[-1:], *weights, eps)

    def attended(query, key, value, heads):
        parts = [x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (query, key, value)]
        weights = (parts[0] @ parts[1].mT / math.sqrt(parts[0].shape[-1])).softmax(dim=-1)
        return (weights @ parts[2]).transpose(1, 2).flatten(2)

    patch = "visual_encoder.patch_embed.proj"
    fields = functional.conv2d(
        images, state[f"blip.{patch}.weight"], state[f"blip.{patch}.bias"], stride=16
    )
    start = state["blip.visual_encoder.cls_token"].expand(len(images), 1, WIDTH)
    seen = torch.cat([start, fields.flatten(2).mT], dim=1) + state["blip.visual_encoder.pos_embed"]
    block = "visual_encoder.blocks.0"
    parts = apply(f"{block}.attn.qkv", normed(f"{block}.norm1", seen, 1e-6)).chunk(3, dim=-1)
    seen = seen + apply(f"{block}.attn.proj", attended(*parts, heads=2))
    wide = functional.gelu(apply(f"{block}.mlp.fc1", normed(f"{block}.norm2", seen, 1e-6)))
    seen = normed("visual_encoder.norm", seen + apply(f"{block}.mlp.fc2", wide), 1e-6)

    words = state["blip.text_encoder.embeddings.word_embeddings.weight"][ids]
    places = state["blip.text_encoder.embeddings.position_embeddings.weight"][: ids.shape[1]]
    read = normed("text_encoder.embeddings.LayerNorm", words + places, 1e-12)
    layer = "text_encoder.encoder.layer.0"
    for part in ("attention", "crossattention"):
        source = read if part == "attention" else seen
        own = f"{layer}.{part}"
        inner = attended(
            apply(f"{own}.self.query", read),
            *(apply(f"{own}.self.{which}", source) for which in ("key", "value")),
            heads=1,
        )
        read = normed(f"{own}.output.LayerNorm", read + apply(f"{own}.output.dense", inner), 1e-12)
    wide = functional.gelu(apply(f"{layer}.intermediate.dense", read))
    read = normed(f"{layer}.output.LayerNorm", read + apply(f"{layer}.output.dense", wide), 1e-12)
    score = read[:, 0]
    for place in (0, 2, 4, 6, 7):
        weights = state[f"mlp.layers.{place}.weight"], state[f"mlp.layers.{place}.bias"]
        score = functional.linear(score, *weights)
    return (score[:, 0] - 0.16717362830052426) / 1.0333394966054072


def images(count=2):
    coarse = torch.rand(count, 3, 5, 4, generator=torch.Generator().manual_seed(1))
    return functional.interpolate(coarse, size=(40, 36), mode="bilinear")


def test_scores_equal_the_authors_forward(file):
    shown = images()
    scores = reward(file).score(shown, ["A cat, dogs", "dog a , cats"])
    ids = torch.tensor([[2, 5, 6, 9, 7, 8, 3], [2, 7, 5, 9, 6, 8, 3]])
    wanted = by_hand(clip_pixels(shown, SIDE), ids)
    close(scores, wanted)


def test_prompts_of_other_lengths_in_the_batch_change_nothing(file):
    own, shown = reward(file), images()
    together = own.score(shown, ["a cat", "dogs, " * 40])
    close(together[:1], own.score(shown[:1], ["a cat"]))
    ids = torch.tensor([[2, *[7, 8, 9] * 11, 3]])
    wanted = by_hand(clip_pixels(shown[1:], SIDE), ids)  # cut at 35 tokens
    close(together[1:], wanted)


def test_in_bf16_a_finite_gradient_reaches_the_images(file):
    own, shown = reward(file, torch.bfloat16), images().requires_grad_()
    scores = own.score(shown, ["a cat", "dogs"])
    scores.sum().backward()
    assert scores.dtype == torch.float32
    torch.testing.assert_close(
        scores, reward(file).score(shown, ["a cat", "dogs"]), rtol=0, atol=0.1
    )
    assert shown.grad.isfinite().all()
    assert shown.grad.abs().max() > 0


def test_what_is_missing_is_reported(file, tmp_path):
    torch.save(file_tensors(), tmp_path / "ImageReward.pt")
    with pytest.raises(UserError, match=r"vocab\.txt: no such file"):
        reward(tmp_path / "ImageReward.pt")
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    torn = file_tensors()
    del torn["blip.text_encoder.encoder.layer.0.crossattention.self.query.bias"]
    torch.save(torn, tmp_path / "ImageReward.pt")
    with pytest.raises(UserError, match=r"1 tensor .*crossattention\.self\.query\.bias"):
        reward(tmp_path / "ImageReward.pt")
    torch.save({"weight": torch.zeros(1)}, tmp_path / "other.pt")
    with pytest.raises(UserError, match="not an ImageReward file"):
        reward(tmp_path / "other.pt")
