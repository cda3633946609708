"""With any checkpointing and offloading, outputs and gradients are the same, bit for bit."""

from functools import cache
from itertools import product

import pytest
import torch

from modules.memory.layers.layers import LayerSettings
from modules.memory.precision import autocast
from modules.methods.adapters.adapters import Adapters
from modules.methods.embedding import Embeddings
from onetrainer.config.methods.embedding import Embeddings as EmbeddingsSection
from onetrainer.config.methods.embedding import EmbeddingToken
from tests import tiny
from tests.adapters import section, shake
from tests.managed import CPU, manage

SETTINGS = {
    "selective": LayerSettings(checkpointing="selective"),
    "block": LayerSettings(checkpointing="block"),
    "half away": LayerSettings(checkpointing="selective", offload=0.5, activations=0.5),
    "all away": LayerSettings(offload=1.0, activations=1.0),
}
KINDS = ("lora", "dora", "loha", "lokr", "oft", "ia3", "full", "embedding")
# Each method, family, precision and setting once or more; every pair of them in long runs.
FEW = [
    ("lora", "sd15", "fp32", "block"),
    ("lora", "sd15", "fp32", "all away"),
    ("dora", "sd15", "bf16", "half away"),
    ("loha", "sd15", "fp32", "selective"),
    ("lokr", "sd15", "fp32", "half away"),
    ("oft", "sd15", "fp16", "all away"),
    ("ia3", "sd15", "bf16", "half away"),
    ("full", "sd15", "fp16", "selective"),
    ("embedding", "sdxl", "fp32", "half away"),
]
ALL = product(KINDS, ["sd15", "sdxl"], ["fp32", "bf16", "fp16"], SETTINGS)
CASES = [*FEW, *(pytest.param(*case, marks=pytest.mark.long) for case in ALL if case not in FEW)]
DROPS = {"dropout": 0.2, "rank_dropout": 0.2, "module_dropout": 0.2}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def attached(kind, name, dtype):
    """A family, and the parameters that a method trains."""
    family = tiny.family(name, compute_dtype=dtype)
    if kind == "full":
        # Their own weights in fp32, as a person may want them, and computed in another format.
        parts = [part.float() for part in (family.unet, *family.text_encoders.values())]
        for part in parts:
            part.requires_grad_(True).train()
        return family, [weight for part in parts for weight in part.parameters()]
    if kind == "embedding":
        tokens = [EmbeddingToken(token="cat", initial_text="red cat", place="input")]
        section_ = EmbeddingsSection(tokens=tokens)
        family, method = Embeddings.attach(family, section_, seed=3)
    else:
        drops = {"module_dropout": 0.3} if kind in ("oft", "ia3") else DROPS
        method = Adapters.attach(family, section(kind, text=True, **drops), seed=0)
        shake(method)
    method.train(True)
    groups = method.parameter_groups()
    return family, [weight for group in groups for weight in group.parameters.values()]


def loss_of(family, precision, *, seed=0):
    """Of one microbatch, with all that a step computes."""
    noisy = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(seed))
    with autocast(CPU, precision):
        text = family.encode_text(["a cat"])
        time_ids = torch.full((1, 6), 64.0)
        predicted = family.predict(noisy, torch.tensor([700]), text, time_ids=time_ids)
        return (predicted - noisy).square().mean()


@cache
def plain(kind, name, precision):
    return step(*attached(kind, name, DTYPES[precision]), precision)


def step(family, weights, precision):
    """The losses of two microbatches and the gradients of both together."""
    torch.manual_seed(5)
    losses = []
    for seed in (0, 1):
        losses.append(loss_of(family, precision, seed=seed))
        losses[-1].backward()
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    return losses + gradients


@pytest.mark.parametrize(("kind", "name", "precision", "settings"), CASES)
def test_a_step_is_the_same(kind, name, precision, settings):
    expected = plain(kind, name, precision)
    family, weights = attached(kind, name, DTYPES[precision])
    manage(family, SETTINGS[settings])
    found = step(family, weights, precision)
    assert len(found) == len(expected)
    assert any(gradient.any() for gradient in expected[2:])
    assert all(map(torch.equal, found, expected))
