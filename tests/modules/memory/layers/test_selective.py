"""Selective checkpoints: products are kept, all else is repeated, and less memory is in use."""

import json
from itertools import pairwise

import torch
from diffusers.models.attention import BasicTransformerBlock
from diffusers.models.resnet import ResnetBlock2D
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import nn
from torch.nn import functional

from modules.formats.files.component_configs import MODELS
from modules.memory.layers import selective
from modules.memory.layers.layers import LayerSettings
from modules.methods.adapters.kind import AdapterPlan
from modules.methods.adapters.lora import LoraAdapter
from onetrainer.config.methods.low_rank import Lora
from tests import tiny
from tests.batches import TIME_IDS
from tests.managed import Operations, checkpoint, manage

MiB = 1 << 20
META = torch.device("meta")
ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


class Block(nn.Module):
    """A convolution and attention with 600 terms and more for each number."""

    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(4, 600)
        self.conv = nn.Conv2d(600, 600, 1)
        self.query = nn.Linear(600, 600)
        self.up = nn.Linear(16, 600, bias=False)
        self.down = nn.Linear(600, 16, bias=False)

    def forward(self, x):  # (1, 600, 2, 2)
        hidden = self.conv(functional.silu(self.norm(x))).flatten(2).mT.contiguous()  # (1, 4, 600)
        query = self.query(hidden) + self.up(self.down(hidden))
        shape = (1, 4, 4, 150)
        heads = [each.view(shape).transpose(1, 2) for each in (query, hidden, hidden)]
        return functional.scaled_dot_product_attention(*heads)


def computed_again(policy):
    """How often each operation is computed in backward, besides those of backward itself."""
    counts = []
    for each in ("off", policy):
        torch.manual_seed(0)
        block, x = Block(), torch.randn(1, 600, 2, 2)
        manage({"block": [block]}, LayerSettings(checkpointing=each), is_apart=False)
        output = block(x)
        with Operations() as operations:
            output.sum().backward()
        counts.append(operations.counts)
    plain, again = counts
    again.subtract(plain)
    return again


def test_products_are_computed_once_and_norms_twice():
    again = computed_again("selective")
    assert again["convolution"] == 0
    assert again[ATTENTION] == 0
    assert again["addmm"] == 0
    assert again["mm"] == 1  # of few terms, from rank 16; the way down adds up 600
    assert again["native_group_norm"] == 1
    assert again["silu"] == 1


def test_a_block_computes_everything_twice_up_to_what_it_saves_last():
    again = computed_again("block")
    assert again["convolution"] == 1
    assert again["addmm"] == 1
    assert again["mm"] == 2
    assert again[ATTENTION] == 1


def test_gradients_are_equal_for_every_choice_of_what_is_saved(monkeypatch):
    def gradients(policy):
        family = tiny.family()
        components = (family.unet, *family.text_encoders.values())
        for component in components:
            component.requires_grad_(True).train()
        if policy:
            checkpoint(family, policy)
        noisy = torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(0))
        text = family.encode_text(["a cat"])
        predicted = family.predict(noisy, torch.tensor([700]), text, time_ids=TIME_IDS)
        predicted.square().mean().backward()
        weights = [weight for each in components for weight in each.parameters()]
        return [weight.grad for weight in weights if weight.grad is not None]

    plain = gradients(None)
    for cheap in (1, 512):
        monkeypatch.setattr(selective, "CHEAP", cheap)
        checkpointed = gradients("selective")
        assert len(plain) == len(checkpointed) > 200
        assert all(map(torch.equal, plain, checkpointed)), cheap


def full_size_unet(monkeypatch):
    """As wide as SD 1.5's, in bfloat16 and without numbers, with LoRA."""
    monkeypatch.setattr(functional, "scaled_dot_product_attention", _attention)
    config = json.loads((MODELS / "sd15" / "unet" / "config.json").read_text())
    config |= tiny.least_blocks(config) | {"layers_per_block": 1}
    with META:
        unet = UNet2DConditionModel.from_config(config)
        nn.Module.to(unet, torch.bfloat16).requires_grad_(False).train()
        adapters = [
            LoraAdapter("", AdapterPlan(None, layer, 16, 1.0, None), Lora())
            for name, layer in unet.named_modules()
            if isinstance(layer, nn.Linear) and "transformer_blocks" in name
        ]
    for adapter in adapters:
        adapter.apply_to()
    return unet, [w for each in (unet, *adapters) for w in (*each.parameters(), *each.buffers())]


def _attention(query, key, value, *_, **__):
    # On the meta device torch chooses the form that keeps the matrix, as no GPU does.
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value)[0]


def test_without_holds_most_then_selective_then_block(monkeypatch):
    alive = []
    unet, own = full_size_unet(monkeypatch)
    for policy in ("off", "selective", "block"):
        layers = [m for m in unet.modules() if isinstance(m, ResnetBlock2D | BasicTransformerBlock)]
        manage({"unet": layers}, LayerSettings(checkpointing=policy), is_apart=False)
        given = torch.empty(1, 4, 64, 64, device=META, dtype=torch.bfloat16)
        text = torch.empty(1, 77, 768, device=META, dtype=torch.bfloat16)
        with Operations(besides=own) as operations:
            output = unet(given, torch.zeros(1, device=META, dtype=torch.int64), text).sample
            alive.append(operations.alive / MiB)
        del output
    assert all(more > 1.5 * less for more, less in pairwise(alive)), alive
