"""Full fine-tuning in every number format, against gradients in float64."""

import itertools

import pytest
import torch

from modules.methods.full import component_dtypes
from onetrainer.config.methods.full import Full as FullSection
from tests import tiny
from tests.cases import cases
from tests.managed import checkpoint
from tests.modules.methods.sources import attach, loss_of, states, write_origin

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
SCALE = 1000.0  # of the loss, above what fp16 loses
# How far the gradients of a network may be from float64's, relative to their length: fp32 with
# 24 bits, bf16 with 8 and fp16 with 11, through some fifty layers.
PRECISIONS = [
    ("fp32", None, 1e-4),
    ("fp32", torch.bfloat16, 0.1),
    ("fp32", torch.float16, 0.02),
    ("bf16", None, 0.1),
    ("bf16", torch.bfloat16, 0.1),
]


NAMES = ("sd15", "sdxl")


@pytest.fixture(scope="module", params=NAMES)
def origin(request, tmp_path_factory):
    return write_origin(tmp_path_factory.mktemp(request.param), request.param, "folder")


@pytest.mark.parametrize(
    ("origin", "weights"),
    cases(itertools.product(NAMES, ["fp32", "bf16"]), [("sdxl", "bf16")]),
    indirect=["origin"],
    scope="module",
)
def test_trained_weights_come_from_the_file_without_a_detour(origin, weights):
    name = origin.section.family
    section = FullSection(weights=weights, text_encoders={"te2": {"train": True}})
    family = origin.load(component_dtypes(section, name), dtype=torch.float16)
    expected = states(tiny.family(name))
    for key, tensor in states(family).items():
        wanted = torch.float32 if key.startswith("vae.") else torch.float16
        wanted = DTYPES[weights] if key.startswith(("unet.", "te2.")) else wanted
        assert tensor.dtype == wanted
        assert torch.equal(tensor, expected[key].to(wanted))


@pytest.fixture(scope="module")
def exact(origin):
    """Gradients of every network, in float64."""
    family = origin.load()
    for module in (family.unet, *family.text_encoders.values()):
        module.double().requires_grad_(True)
    (loss_of(family) * SCALE).backward()
    return gradients(family)


def gradients(family):
    """Each network's gradients as one row; tables of tokens left out, which do not train."""
    return {
        part: torch.cat(
            [
                parameter.grad.double().flatten()
                for name, parameter in module.named_parameters()
                if "embedding.weight" not in name and parameter.grad is not None
            ]
        )
        for part, module in {"unet": family.unet, **family.text_encoders}.items()
    }


@pytest.mark.parametrize(
    ("origin", "weights", "precision", "tolerance", "checkpointing"),
    cases(
        [(n, *p, c) for n, p, c in itertools.product(NAMES, PRECISIONS, [False, True])],
        [("sd15", *PRECISIONS[2], True), ("sd15", *PRECISIONS[4], False)],
    ),
    indirect=["origin"],
    scope="module",
)
def test_every_number_format_has_the_gradients_of_float64(
    origin, exact, weights, precision, tolerance, checkpointing
):
    section = FullSection(weights=weights, **tiny.encoders(True))
    family, method = attach(origin, section, dtype=precision or torch.float32)
    if checkpointing:
        checkpoint(family)
    method.train(True)
    with torch.autocast("cpu", precision or torch.bfloat16, enabled=bool(precision)):
        loss = loss_of(family) * SCALE
    loss.backward()
    for part, found in gradients(family).items():
        assert (found - exact[part]).norm() < tolerance * exact[part].norm(), part
