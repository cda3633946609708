"""A lack of memory in a run: reported with its phase, its parts, and the setting to change."""

import json
from contextlib import closing

import pytest
import torch

from modules import worker
from modules.forecast import out_of_memory
from modules.forecast.forecast import Planner, Target
from modules.forecast.out_of_memory import explain_out_of_memory, phase_of
from modules.training.inbox import Inbox
from onetrainer.config.run.validation import Validation
from onetrainer.config.train import TrainConfig, Training
from onetrainer.errors import EXIT_PROGRAM
from onetrainer.messages.memory import GB, format_memory
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Failed, Phase, Progress, Sample
from onetrainer.run.failures import OUT_OF_MEMORY
from onetrainer.run.run_folder import create_run
from tests.forecasts import forecast
from tests.runs import events_of

CUDA_WORDS = "CUDA out of memory. Tried to allocate 20.00 MiB."
PROMPT = {"prompt": "a", "width": 64, "height": 64}


@pytest.fixture(scope="module")
def config(base):
    document = {
        "model": {"path": base},
        "data": {"resolution": 192, "folder": "there"},
        "sampling": {"prompts": [PROMPT]},
        "hardware": {"device": "cpu"},
    }
    return TrainConfig.model_validate(document)


@pytest.fixture
def run(config, tmp_path):
    made = create_run(tmp_path / "runs", name="run", config=config.model_dump(mode="json"))
    events = EventWriter(made.events)
    events.write(Phase("caching", 1, 2))
    events.write(Progress(1, 2, 0, 0.1, 1e-4))
    events.close()
    return made


def fails_with(error, monkeypatch):
    def train(*_):
        raise error

    from modules.jobs import train as job

    monkeypatch.setattr(job, "train", train)


def test_it_names_the_phase_its_largest_parts_and_the_setting_to_change(config):
    large = config.model_copy(update={"training": Training(batch_size=8)})
    parts = forecast(large).phases["training"]
    available = sum(parts.values())  # which is sure to fit only into more
    failure = explain_out_of_memory(large, "training", Target("cuda", available=available))
    assert (failure.kind, failure.what) == ("program", "there is not enough memory for training")
    assert "activations" in failure.expected
    assert f"{format_memory(available)} in all" in failure.expected
    assert "hardware.gradient_checkpointing to " in failure.remedy
    assert "Everything up to the last checkpoint is safe" in failure.remedy


def test_where_it_should_fit_others_are_in_the_way(config):
    failure = explain_out_of_memory(config, "training", Target("cuda", available=GB))
    assert "close other programs that use the device" in failure.remedy


def test_phases_of_runs_are_those_of_forecasts(config, monkeypatch):
    config = config.model_copy(update={"validation": Validation(use=True)})
    known = forecast(config)
    monkeypatch.setattr(Planner, "forecast", lambda *_, **__: known)
    for phase, words in (
        ("sampling", ("sampling", "decoding samples", "encoding prompts")),
        ("loading", ("caching images",)),
        ("validating", ("validation",)),
    ):
        failure = explain_out_of_memory(config, phase, Target("cuda", available=GB))
        assert any(text in failure.what for text in words), failure.what


def test_the_phase_is_that_of_the_last_event():
    progress = Progress(1, 2, 0, 0.1, 1e-4)
    sample = Sample(1, 0, "x.png", "a", 1)
    assert phase_of([]) == "loading"
    assert phase_of([Phase("caching"), progress]) == "training"
    assert phase_of([Phase("caching"), progress, Phase("sampling"), sample]) == "sampling"


LACKS = [
    torch.OutOfMemoryError(CUDA_WORDS),
    MemoryError(),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
]


@pytest.fixture(autouse=True)
def _environment_of_a_worker(monkeypatch):
    """As it sets its own, which would stay that of the tests."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")


def ended(run):
    with closing(Inbox(run.commands)) as inbox:
        return worker._train(run, inbox)


def test_a_run_that_lacks_memory_ends_with_the_explanation(run, monkeypatch):
    fails_with(LACKS[0], monkeypatch)
    assert ended(run) == EXIT_PROGRAM
    failure = events_of(run)[-1]
    assert isinstance(failure, Failed)
    assert failure.what == "there is not enough memory for training"
    assert "UNet" in failure.expected or "activations" in failure.expected
    assert failure.failure == "device memory"


def test_every_lack_of_memory_is_explained(run, monkeypatch):
    explanation = Failed("program", "explained", "", "")
    monkeypatch.setattr(out_of_memory, "explain_failure", lambda folder: explanation)
    for error in LACKS:
        fails_with(error, monkeypatch)
        assert ended(run) == EXIT_PROGRAM
        failure = events_of(run)[-1]
        assert (failure.what, failure.failure in OUT_OF_MEMORY) == ("explained", True), error


def test_the_plain_message_stays_where_nothing_can_be_counted(run, monkeypatch):
    fails_with(torch.OutOfMemoryError(CUDA_WORDS), monkeypatch)
    run.config.write_text(json.dumps({"model": {"family": "none"}}))
    assert ended(run) == EXIT_PROGRAM
    failure = events_of(run)[-1]
    assert failure.what == "there is not enough memory"
    assert "gradient checkpointing" in failure.remedy


def test_another_error_is_not_explained(run, monkeypatch):
    fails_with(ZeroDivisionError("by zero"), monkeypatch)
    monkeypatch.setattr(out_of_memory, "explain_failure", pytest.fail)
    ended(run)
    assert "ZeroDivisionError" in events_of(run)[-1].what
