"""Whatever is checkpointed or offloaded, outputs and gradients are the same, bit for bit."""

from contextlib import nullcontext
from functools import cache, partial
from itertools import product

import pytest
import torch

from modules.memory.layers.layers import LayerSettings
from modules.memory.precision import autocast
from modules.methods.adapters.adapters import Adapters
from modules.methods.embedding import Embeddings
from modules.methods.original_weights import OriginalWeights
from modules.sampling.sampler import SamplingContexts, sample
from onetrainer.config.methods.embedding import Embeddings as EmbeddingsSection
from onetrainer.config.methods.embedding import EmbeddingToken
from onetrainer.config.run.sampling import Prompt
from tests import tiny
from tests.adapters import section, shake
from tests.managed import CPU, manage

SETTINGS = {
    "selective": LayerSettings(checkpointing="selective"),
    "block": LayerSettings(checkpointing="block"),
    "half away": LayerSettings(checkpointing="selective", offload=0.5, activations=0.5),
    "all away": LayerSettings(offload=1.0, activations=1.0),
}
KINDS = ("lora", "dora", "loha", "lokr", "oft", "full", "embedding")
# Each method, family, precision and setting once or more; every pair of them in long runs.
FEW = [
    *product(["lora"], ["sd15"], ["fp32"], SETTINGS),
    ("dora", "sd15", "bf16", "half away"),
    ("loha", "sd15", "fp32", "selective"),
    ("lokr", "sd15", "fp32", "half away"),
    ("oft", "sd15", "fp16", "half away"),
    ("full", "sd15", "fp16", "selective"),
    ("full", "sdxl", "fp32", "half away"),
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
        drops = {"module_dropout": 0.3} if kind == "oft" else DROPS
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


def test_the_decoder_of_a_vae_is_the_same():
    found = []
    for settings in (None, *SETTINGS.values()):
        family = tiny.family()
        if settings:
            manage(family, settings)
        family.vae.decoder.requires_grad_(True).train()
        latents = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(0))
        pixels = family.decode_unclamped(latents)
        pixels.square().mean().backward()
        found.append([pixels, *(weight.grad for weight in family.vae.decoder.parameters())])
    for settings, managed in zip(SETTINGS, found[1:], strict=True):
        assert all(map(torch.equal, found[0], managed)), settings


@pytest.mark.parametrize("kind", ["lora", "full"])
def test_a_prediction_of_the_model_before_training_disturbs_no_step(kind):
    found = []
    for settings in (LayerSettings(), SETTINGS["all away"]):
        family, weights = attached(kind, "sd15", torch.float32)
        manage(family, settings)
        named = {str(number): weight for number, weight in enumerate(weights)}
        original = OriginalWeights.of(named, CPU)
        with torch.no_grad():
            for weight in weights:
                weight *= 1.01
        torch.manual_seed(5)
        loss = loss_of(family, "fp32")
        with original.restored() if kind == "full" else nullcontext(), torch.no_grad():
            before = loss_of(family, "fp32", seed=1)
        (loss * before).backward()
        found.append([loss, before, *(w.grad for w in weights if w.grad is not None)])
    assert len(found[0]) == len(found[1])
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("name", ["sd15", "sdxl"])
def test_samples_are_the_same(name):
    prompt = Prompt(prompt="a cat", width=64, height=64, seed=1)
    contexts = SamplingContexts(partial(autocast, CPU, "bf16"))
    drawn = []
    for settings in (LayerSettings(), SETTINGS["all away"]):
        family = tiny.family(name, compute_dtype=torch.bfloat16)
        manage(family, settings)
        drawn.append(sample(family, [prompt], steps=2, guidance=3.0, contexts=contexts))
    assert torch.equal(*drawn)
