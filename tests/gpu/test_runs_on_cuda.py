"""Whole small runs on a GPU."""

import pytest
from safetensors.torch import load_file

from modules.jobs.self_test import self_test
from modules.jobs.train import train
from onetrainer.jobs.self_test_request import SelfTestRequest
from onetrainer.run.events import Progress, Sample
from tests import runs, tiny

pytestmark = pytest.mark.cuda


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return runs.write_project(tmp_path_factory.mktemp("cuda"))


def losses(folder):
    return [event.loss for event in runs.events_of(folder) if isinstance(event, Progress)]


def test_the_losses_on_the_gpu_are_those_of_the_cpu(config):
    folders = [
        runs.new_run(config, hardware={"precision": "fp32", "tf32": False, "device": device})
        for device in ("cpu", "cuda")
    ]
    assert [train(folder) for folder in folders] == [0, 0]
    # The same noise, other kernels: float32 sums in another order.
    assert losses(folders[1]) == pytest.approx(losses(folders[0]), rel=1e-3)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_run_on_the_gpu_trains_samples_and_goes_on(config, precision):
    hardware = {"precision": precision, "device": "cuda", "gradient_checkpointing": "block"}
    method = {**tiny.encoders(True)}
    folder = runs.new_run(config, hardware=hardware, method=method, training={"steps": 3})
    assert train(folder) == 0
    folder.config.write_text(folder.config.read_text().replace('"steps": 3', '"steps": 6'))
    assert train(folder) == 0
    assert len(losses(folder)) == 6
    assert any(isinstance(event, Sample) for event in runs.events_of(folder))
    state = load_file(folder.output / "my-lora.safetensors")
    assert all(value.isfinite().all() for value in state.values())
    assert any(value.abs().max() > 0 for name, value in state.items() if ".lora_up." in name)


@pytest.mark.parametrize("precision", ["auto", "fp32", "fp16"])
def test_the_doctors_five_steps_work_on_the_gpu(precision):
    request = SelfTestRequest(device="cuda", precision=precision)
    (summary,) = self_test(request, lambda _: None).summary
    assert summary.startswith("five steps on cuda in ")
