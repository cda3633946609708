"""Embeddings train and generate in any number formats of the encoders and of the training.

Every gradient is compared with that of the same model in float64.
"""

import copy
import itertools
from dataclasses import replace
from functools import cache, partial

import pytest
import torch
from torch import nn

from modules.memory.precision import autocast
from modules.methods.embedding import Embeddings
from modules.sampling.sampler import SamplingContexts, sample
from onetrainer.config.methods.embedding import Embeddings as Section
from onetrainer.config.methods.embedding import EmbeddingToken
from onetrainer.config.run.sampling import Prompt
from tests import tiny
from tests.cases import cases
from tests.managed import checkpoint

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
PLACES = ("input", "output")
SCALE = 4096  # of the loss, as float16 needs it
# The least cosine between a gradient and float64's, by the coarser of both formats.
LEAST = {"fp32": 1 - 1e-6, "fp16": 0.999, "bf16": 0.95}


@cache
def model(name):
    return tiny.family(name)


def family(name, dtype, unet_dtype):
    """Encoders in a format of their own, with a UNet in that of the training."""
    made = replace(model(name), unet=copy.deepcopy(model(name).unet).to(unet_dtype))
    encoders = tuple(
        replace(each, model=copy.deepcopy(each.model).to(dtype)) for each in made.prompts.encoders
    )
    return replace(made, prompts=replace(made.prompts, encoders=encoders))


def attached(made):
    """Two tokens, one that the encoders read and one that they say."""
    words = [
        EmbeddingToken(token=f"<{place}>", initial_text="red cat", place=place) for place in PLACES
    ]
    return Embeddings.attach(made, Section(tokens=words), seed=3)


def gradients(made, method, precision):
    """Of a prediction's square, by parameter."""
    generator = torch.Generator().manual_seed(0)
    noisy = torch.randn(2, 4, 8, 8, generator=generator)
    time_ids, timesteps = torch.full((2, 6), 64.0), torch.tensor([300, 700])
    method.train(True)
    with autocast(torch.device("cpu"), precision):
        conditioning = made.encode_text(["a <input> and <output>", "<input>"])
        predicted = made.predict(noisy, timesteps, conditioning, time_ids=time_ids)
        loss = predicted.pow(2).mean()
    (loss * SCALE).backward()
    method.train(False)
    parameters = {n: p for group in method.parameter_groups() for n, p in group.parameters.items()}
    found = {name: parameter.grad / SCALE for name, parameter in parameters.items()}
    for parameter in parameters.values():
        parameter.grad = None
    return found


@cache
def reference(name):
    """The gradients of the model in float64."""
    return gradients(*attached(family(name, torch.float64, torch.float64)), "fp32")


FEW = [("sd15", "bf16", "fp16"), ("sdxl", "fp16", "fp32"), ("sd2", "fp32", "bf16")]


@pytest.mark.parametrize(
    ("name", "dtype", "precision"), cases(itertools.product(tiny.FAMILIES, DTYPES, DTYPES), FEW)
)
def test_tokens_train_and_generate(name, dtype, precision):
    made, method = attached(family(name, DTYPES[dtype], DTYPES[precision]))
    found, expected = gradients(made, method, precision), reference(name)
    assert len(found) == len(PLACES) * len(made.text_encoders)
    coarser = min((dtype, precision), key=LEAST.__getitem__)
    for key, gradient in found.items():
        assert gradient.dtype == torch.float32
        assert gradient.isfinite().all()
        assert gradient.abs().max() > 0
        assert similarity(gradient, expected[key]) > LEAST[coarser], key
    frozen = (made.unet, *made.text_encoders.values())
    assert all(p.grad is None for part in frozen for p in part.parameters())
    assert image(made, precision).isfinite().all()
    checkpoint(made)
    again = gradients(made, method, precision)
    assert all(torch.equal(again[key], gradient) for key, gradient in found.items())


def similarity(one, other):
    return nn.functional.cosine_similarity(one.flatten().double(), other.flatten().double(), dim=0)


def image(made, precision):
    prompt = Prompt(prompt="a <input> and <output>", width=64, height=64, seed=1)
    context = partial(autocast, torch.device("cpu"), precision)
    return sample(made, [prompt], steps=1, guidance=3.0, contexts=SamplingContexts(context))
