import warnings
from itertools import product

import pytest
import torch

from modules.memory import precision
from modules.memory.precision import ComponentPrecision, precision_of
from modules.memory.scaling import LossScale
from modules.methods.adapters.adapters import Adapters
from onetrainer.config.methods.low_rank import Lora as LoraSection
from onetrainer.errors import UserError
from tests import tiny

FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


FEW = [("sd15", "bf16"), ("sd2", "fp32"), ("sdxl", "fp16")]
CASES = [
    pytest.param(*case, marks=[] if case in FEW else pytest.mark.long)
    for case in product(["sd15", "sd2", "sdxl"], FORMATS)
]


@pytest.mark.parametrize(("kind", "number_format"), CASES)
def test_lora_steps_update_every_adapter_and_stay_finite(kind, number_format):
    family = tiny.family(kind, compute_dtype=precision.compute_dtype(number_format))
    section = LoraSection(rank=2, alpha=2, targets="full", **tiny.encoders(True))
    method = Adapters.attach(family, section, seed=0)
    # SDXL reads its first text encoder at the last layer but one; what follows never moves.
    parameters = [
        parameter
        for held in method.adapters.values()
        for name, parameter in held.named_parameters()
        if not name.startswith("lora_te1_text_model_encoder_layers_2_")
    ]
    before = [p.detach().clone() for p in parameters]
    optimizer, scale = torch.optim.AdamW(parameters, lr=1e-2), LossScale()
    # 16 x 16, so that the innermost attention sees more than one place and its q and k matter.
    noise = torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(0))
    for _ in range(2):  # the first step moves the up matrices alone: down has no gradient yet
        with precision.autocast(tiny.CPU, number_format):
            conditioning = family.encode_text(["a cat"])
            predicted = family.predict(
                noise, torch.tensor([500]), conditioning, time_ids=torch.full((1, 6), 128.0)
            )
        scale.scaled((predicted - noise).square().mean()).backward()
        assert scale.unscale([p.grad for p in parameters]).item() == 0
        optimizer.step()
        optimizer.zero_grad()
    for parameter, old in zip(parameters, before, strict=True):
        assert parameter.dtype == torch.float32
        assert parameter.isfinite().all()
        assert not torch.equal(parameter, old)


def test_autocast_is_off_for_fp32():
    with precision.autocast(tiny.CPU, "fp32"):
        assert not torch.is_autocast_enabled("cpu")
    with precision.autocast(tiny.CPU, "bf16"):
        assert torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize(("name", "dtype"), FORMATS.items())
def test_networks_are_stored_and_computed_in_the_dtypes_that_are_asked_for(name, dtype):
    for component in ("unet", "te", "te1", "te2"):
        assert precision_of(component, precision=name) == ComponentPrecision(dtype, dtype)
    for stored in (torch.float32, torch.bfloat16):
        found = precision_of("unet", precision=name, trained_as=stored)
        assert found == ComponentPrecision(stored, dtype)
    assert precision_of("method", precision=name).storage == torch.float32
    fp32 = ComponentPrecision(torch.float32, torch.float32)
    assert precision_of("vae", precision=name) == fp32
    half = precision_of("vae", precision=name, vae_precision="bf16")
    assert half == ComponentPrecision(torch.bfloat16, torch.bfloat16)
    assert precision_of("vae", precision=name, trained_as=torch.float32) == fp32


@pytest.fixture
def tf32_as_it_was():
    kept = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = kept


@pytest.mark.usefixtures("tf32_as_it_was")
@pytest.mark.parametrize("is_on", [True, False])
def test_tf32_is_set_for_products_and_convolutions_as_both_interfaces_report(is_on):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        precision.apply_tf32(not is_on)
        precision.apply_tf32(is_on)
    assert torch.backends.cuda.matmul.allow_tf32 is is_on
    assert torch.backends.cudnn.allow_tf32 is is_on
    assert (torch.backends.cuda.matmul.fp32_precision == "tf32") is is_on
    assert (torch.backends.cudnn.conv.fp32_precision == "tf32") is is_on


@pytest.mark.usefixtures("tf32_as_it_was")
def test_tf32_changes_no_bit_on_the_cpu():
    one, other = torch.randn(64, 64), torch.randn(64, 64)
    results = []
    for is_on in (False, True):
        precision.apply_tf32(is_on)
        results.append(one @ other)
    assert torch.equal(*results)


@pytest.mark.parametrize("name", ["bf16", "fp16"])
@pytest.mark.parametrize("kind", ["sd15", "sdxl"])
def test_a_vae_in_half_precision_gives_nearly_what_one_in_fp32_gives(kind, name):
    # Measured: 0.002 to 0.018 in bf16, and 0.0003 to 0.0028 in fp16.
    bound = {"bf16": 0.05, "fp16": 0.01}[name]
    exact, half = tiny.family(kind), tiny.family(kind)
    torch.nn.Module.to(half.vae, FORMATS[name])  # diffusers' own `to` warns about nothing
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(1, 3, 64, 64, generator=generator) * 2 - 1
    latents = torch.randn(1, 4, 8, 8, generator=generator)
    with torch.no_grad():
        means = [one.encode_images(pixels).mean for one in (exact, half)]
        stds = [one.encode_images(pixels).std for one in (exact, half)]
        images = [one.decode_latents(latents) for one in (exact, half)]
    for wanted, found in (means, stds, images):
        assert found.dtype == torch.float32
        assert (found - wanted).norm() < bound * wanted.norm()
        assert not torch.equal(found, wanted)


def test_missing_gpu_is_reported_only_when_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert precision.choose_device("auto") == torch.device("cpu")
    with pytest.raises(UserError, match=r"torch finds no usable GPU\..* Set the device"):
        precision.choose_device("cuda")


def test_cpu_is_taken_even_where_there_is_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert precision.choose_device("cpu").type == "cpu"
    assert precision.choose_device("auto").type == "cuda"
