"""The fastest attention kernel is measured once, for the shapes of the model's layers."""

import pytest
import torch

from modules.assembly.attention import with_measured_attention
from modules.formats.files.component_configs import MODELS, read_config
from modules.memory import attention_choice
from modules.memory.attention_choice import AttentionShape, attention_shapes, fastest_kernel
from onetrainer.config.train import TrainConfig
from tests.each import each

SHAPES = [AttentionShape(1, 8, 4096, 40)]


def choose(times, file, *, gpu="a GPU", shapes=SHAPES):
    """The kernel that is chosen, and the kernels that were measured for it."""
    measured = []

    def seconds(kernel):
        measured.append(kernel)
        return times[kernel]

    kernel = fastest_kernel(shapes, torch.bfloat16, gpu=gpu, seconds=seconds, remembered=file)
    return kernel, measured


TIMES = {"auto": 1.0, "flash": 0.9, "efficient": 1.2, "cudnn": 0.8}


def test_the_fastest_is_chosen_and_remembered_for_this_gpu_and_these_shapes(tmp_path):
    file = tmp_path / "user" / "attention.json"
    assert choose(TIMES, file) == ("cudnn", [*TIMES])
    slower = TIMES | {"cudnn": 9.0}
    assert choose(slower, file) == ("cudnn", [])
    assert choose(slower, file, gpu="another") == ("flash", [*TIMES])
    assert choose(slower, file, shapes=[AttentionShape(2, 8, 4096, 40)]) == ("flash", [*TIMES])
    assert choose(TIMES, file) == ("cudnn", [])


def test_a_gain_within_the_noise_changes_nothing(tmp_path):
    assert choose(dict.fromkeys(TIMES, 0.99) | {"auto": 1.0}, tmp_path / "a")[0] == "auto"


@each("content", ["", "[]", "{", '{"x": 1}'])
def test_a_damaged_memory_is_measured_again(tmp_path, content):
    file = tmp_path / "attention.json"
    file.write_text(content)
    assert choose(TIMES, file)[0] == "cudnn"
    assert choose(TIMES, file) == ("cudnn", [])


@each(
    ("family", "side", "expected"),
    [
        ("sd15", (64, 64), [(8, 4096, 40), (8, 1024, 80), (8, 256, 160)]),
        ("sd2", (96, 96), [(5, 9216, 64), (10, 2304, 64), (20, 576, 64)]),
        ("sdxl", (128, 96), [(10, 3072, 64), (20, 768, 64)]),
    ],
)
def test_shapes_are_those_of_the_models(family, side, expected):
    unet = read_config(MODELS / family / "unet" / "config.json")
    found = attention_shapes(unet, side=side, batch=3)
    assert found == [AttentionShape(3, *each) for each in expected]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_run_that_asks_for_a_measurement_gets_a_kernel(tmp_path, monkeypatch, device):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("APPDATA", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a GPU")
    monkeypatch.setattr(
        "modules.assembly.attention.kernel_seconds", lambda kernel, **_: TIMES[kernel]
    )
    config = TrainConfig.model_validate({"hardware": {"attention": "measured"}})
    found = with_measured_attention(config, torch.device(device))
    assert found.hardware.attention == ("cudnn" if device == "cuda" else "auto")
    assert with_measured_attention(found, torch.device(device)) is found


def test_every_kernel_of_the_setting_is_a_candidate():
    kernels = {*attention_choice.AttentionKernel.__args__} - {"measured"}
    assert {*attention_choice._CANDIDATES} == kernels
