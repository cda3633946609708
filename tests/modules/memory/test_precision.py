import pytest
import torch

from modules.memory import precision
from modules.methods.adapters import Adapters
from onetrainer.config.adapters import Lora as LoraSection
from onetrainer.errors import UserError
from tests import tiny


@pytest.mark.parametrize("number_format", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("kind", ["sd15", "sd2", "sdxl"])
def test_lora_steps_move_every_adapter_and_stay_finite(kind, number_format):
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
    optimizer = torch.optim.AdamW(parameters, lr=1e-2)
    scaler = precision.scaler(tiny.CPU, number_format)
    # 16 x 16, so that the innermost attention sees more than one place and its q and k matter.
    noise = torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(0))
    for _ in range(2):  # the first step moves the up matrices alone: down has no gradient yet
        with precision.autocast(tiny.CPU, number_format):
            conditioning = family.encode_text(["a cat"])
            predicted = family.predict(
                noise, torch.tensor([500]), conditioning, frames=torch.full((1, 6), 128.0)
            )
        scaler.scale((predicted - noise).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    for parameter, old in zip(parameters, before, strict=True):
        assert parameter.dtype == torch.float32
        assert parameter.isfinite().all()
        assert not torch.equal(parameter, old)


def test_only_fp16_scales_gradients():
    enabled = {n: precision.scaler(tiny.CPU, n).is_enabled() for n in ("fp32", "bf16", "fp16")}
    assert enabled == {"fp32": False, "bf16": False, "fp16": True}


def test_autocast_is_off_for_fp32():
    with precision.autocast(tiny.CPU, "fp32"):
        assert not torch.is_autocast_enabled("cpu")
    with precision.autocast(tiny.CPU, "bf16"):
        assert torch.is_autocast_enabled("cpu")


def test_missing_graphics_card_is_told_only_when_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert precision.choose_device("auto") == torch.device("cpu")
    with pytest.raises(UserError, match=r"no graphics card .* Set the device"):
        precision.choose_device("cuda")


def test_cpu_is_taken_even_where_there_is_a_graphics_card(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert precision.choose_device("cpu").type == "cpu"
    assert precision.choose_device("auto").type == "cuda"
