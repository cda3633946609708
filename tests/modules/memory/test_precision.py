import warnings
from itertools import product

import pytest
import torch

from modules.memory import precision
from modules.memory.precision import storage_dtype
from onetrainer.config.run.hardware import Hardware
from onetrainer.errors import UserError
from tests import pretend, tiny
from tests.each import each

FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def test_autocast_is_off_for_fp32():
    with precision.autocast(tiny.CPU, "fp32"):
        assert not torch.is_autocast_enabled("cpu")
    with precision.autocast(tiny.CPU, "bf16"):
        assert torch.is_autocast_enabled("cpu")


@each(("name", "dtype"), FORMATS.items())
def test_components_are_stored_in_the_dtypes_that_are_asked_for(name, dtype):
    for component in ("unet", "te", "te1", "te2"):
        assert storage_dtype(component, precision=name) == dtype
    for component, stored in product(("unet", "vae"), (torch.float32, torch.bfloat16)):
        assert storage_dtype(component, precision=name, trained_as=stored) == stored
    assert storage_dtype("vae", precision=name) == torch.float32
    assert storage_dtype("vae", precision=name, vae_precision="bf16") == torch.bfloat16
    rewards = torch.float32 if name == "fp16" else dtype
    assert storage_dtype("rewards", precision=name) == rewards


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


def test_missing_gpu_is_reported_only_when_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert precision.choose_device("auto") == torch.device("cpu")
    for name, expected in {"cuda": "AMD", "cuda:1": "NVIDIA", "mps": "a Mac"}.items():
        with pytest.raises(UserError, match=rf"finds no usable GPU\..*{expected}.* Set the device"):
            precision.choose_device(name)


def test_cpu_is_taken_even_where_there_is_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert precision.choose_device("cpu").type == "cpu"
    assert precision.choose_device("auto").type == "cuda"


def test_a_numbered_gpu_is_chosen_or_those_that_are_there_are_named(monkeypatch):
    with pretend.accelerator(name="cuda:1"):
        chosen = []
        monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
        assert precision.choose_device("cuda:1") == torch.device("cuda:1")
        assert chosen == [torch.device("cuda:1")]
        with pytest.raises(UserError, match=r"no GPU 2\..*cuda:0 \(Pretended card\), cuda:1 \("):
            precision.choose_device("cuda:2")
        assert precision.choose_device("auto") == torch.device("cuda")


def test_each_process_of_a_computer_chooses_a_gpu_of_its_own(monkeypatch):
    with pretend.accelerator(name="cuda:1"):
        monkeypatch.setattr(torch.cuda, "set_device", lambda _device: None)
        for name, gpus in {"auto": (0, 1), "cuda": (0, 1), "cuda:1,cuda:0": (1, 0)}.items():
            chosen = [precision.choose_device(name, process) for process in (0, 1)]
            assert tuple(device.index or 0 for device in chosen) == gpus
        for name in ("auto", "cuda:0,cuda:1,cuda:2"):
            with pytest.raises(UserError, match="finds no GPU 2"):
                precision.choose_device(name, 2)
    assert precision.choose_device("cpu", 1) == torch.device("cpu")


def test_a_gpu_is_asked_for_bf16_and_apples_is_used_by_name_only(monkeypatch):
    def notes(on, **settings):
        return " ".join(precision.device_notes(Hardware(**settings), torch.device(on)))

    with pretend.accelerator():
        assert notes("cuda") == ""
        assert precision.usual_precision(torch.device("cuda")) == "bf16"
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
        assert notes("cuda").startswith("Pretended card has no bf16 and emulates it")
        assert "fp16 (hardware.precision)" in notes("cuda")
        assert notes("cuda", precision="fp16") == ""
        assert precision.usual_precision(torch.device("cuda")) == "fp16"
    with pretend.accelerator(name="mps:0"):
        assert precision.choose_device("mps") == torch.device("mps")
        assert precision.choose_device("auto") == torch.device("cpu")
        assert "hardware.device" in notes("cpu", precision="fp32")
        assert notes("mps") == notes("cpu", precision="fp32", device="cpu") == ""
        monkeypatch.setattr(torch.backends.mps, "is_macos_or_newer", lambda major, minor: False)
        with pytest.raises(UserError, match="bf16 needs macOS 14"):
            notes("mps")
