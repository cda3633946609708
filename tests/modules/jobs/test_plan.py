"""The job of planning, and `onetrainer plan` with it: what it reports besides the numbers."""

import json

import pytest
import torch

from modules.forecast import fixes, operator_costs
from modules.jobs.plan import plan
from onetrainer.__main__ import main
from onetrainer.config.train import TrainConfig
from onetrainer.jobs.plan_request import PlanRequest
from onetrainer.run.device_owner import Owner, owning, places_of
from onetrainer.run.events import Forecast, Phase
from tests import tiny
from tests.close import near
from tests.images import folder


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return str(tiny.write_configs(tmp_path_factory.mktemp("plan") / "base"))


@pytest.fixture(autouse=True)
def _speed_is_measured_shortly(monkeypatch):
    monkeypatch.setattr(operator_costs, "SECONDS_PER_RATE", 0.0)
    monkeypatch.setattr(operator_costs, "LATENT_SIDES", (1,))


def reported(base, memory=0.0, optimizer=None, **hardware):
    document = {"model": {"path": base}, "data": {"resolution": 64}, "hardware": hardware}
    if optimizer:
        document["optimizer"] = optimizer
    config, events = TrainConfig.model_validate(document), []
    plan(PlanRequest(config=config, memory=memory), events.append)
    assert isinstance(events[0], Phase)
    return [event for event in events if isinstance(event, Forecast)]


def test_it_says_what_automatic_checkpointing_would_take(base, monkeypatch):
    monkeypatch.setattr(fixes, "candidates", lambda *_, **__: [])  # each takes its time
    (roomy,) = reported(base, memory=24, gradient_checkpointing="auto")
    assert "Automatic gradient checkpointing would be off." in roomy.notes
    scarce = reported(base, memory=0.0001, gradient_checkpointing="auto")
    # What is reported again, with what lowers the peak, has the notes as well.
    assert len(scarce) == 2
    for one in scarce:
        assert "Automatic gradient checkpointing would be full." in one.notes


def test_it_tells_the_speed_of_this_computer_unless_something_computes_on_it(base, tmp_path):
    config, events = TrainConfig.model_validate({"hardware": {"precision": "bf16"}}), []
    plan(PlanRequest(config=config, only_speed=True), events.append)
    assert events[-1].speed["flops"]["product bfloat16"] > 0
    assert (events[-1].phases, bool(events[-1].device)) == ({}, True)
    with owning(places_of("auto"), Owner("paper-001")):
        plan(PlanRequest(config=config, only_speed=True), events.append)
    assert events[-1].speed == {}


def test_it_says_that_samples_without_prompts_are_not_counted(base):
    (found,) = reported(base, memory=24)
    assert found.notes == ["Samples are not included, as there is no prompt."]


def test_it_says_how_an_optimizer_of_ones_own_is_counted(base):
    (found,) = reported(base, 24, {"kind": "custom", "function": "file.py:Mine"})
    assert "An optimizer of your own is counted as AdamW" in found.notes[0]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_it_says_that_host_memory_is_counted_where_there_is_no_gpu(base):
    assert any("this is about RAM" in note for note in reported(base)[0].notes)
    chosen = reported(base, device="cpu")[0].notes
    assert not any("this is about RAM" in note for note in chosen)


def test_it_says_whose_sizes_are_counted_for_a_model_that_is_not_there(tmp_path):
    for path, what in (
        (str(tmp_path / "nope.safetensors"), "nope.safetensors was not found"),
        ("", "No base model is chosen"),
    ):
        (found,) = reported(path, memory=24)
        assert found.notes[0] == f"{what}, so SD 1.5's published sizes are used."


def test_time_is_estimated_for_this_machine_alone(base):
    (here,) = reported(base, device="cpu")
    assert here.time["message"].endswith("in all (on this processor)")
    assert here.time["run_seconds"] == near(1000 * here.time["seconds"])
    (elsewhere,) = reported(base, memory=24)
    assert "seconds" not in elsewhere.time
    assert elsewhere.time["parts"] == here.time["parts"] == {"ordinary": 1, "backward": 2}


@pytest.fixture
def command(tmp_path, base, in_this_process, monkeypatch, capfd):
    """Runs `onetrainer plan` on a config without weights and images; gives code and output."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    document = {"model": {"family": "sd15", "path": str(base)}, "data": {"resolution": 64}}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**document, "hardware": {"device": "cpu"}}))

    def run(*arguments):
        return main(["plan", str(path), *arguments]), capfd.readouterr()

    return run


def test_what_does_not_fit_is_an_answer_with_fixes(command):
    code, said = command("--json", "--memory", "0.001", "--set", "data.resolution=128")
    found = json.loads(said.out)
    assert code == 0
    assert found["peak_bytes"] > found["available_bytes"] == round(0.001 * 2**30)
    assert found["fixes"][0]["changes"]


def test_settings_that_do_not_go_together_are_refused_before_the_job_starts(command):
    for arguments, word in (
        (("--set", "model.zero_terminal_snr=on", "--set", "model.prediction=epsilon"),
         "model.zero_terminal_snr"),
        (("--memory", "-1"), "--memory"),
    ):  # fmt: skip
        code, said = command(*arguments)
        assert (code, word in said.err) == (2, True)


def test_images_are_described_with_what_the_model_knows_of_them(command, tmp_path):
    cats = folder(tmp_path / "cats", [(64, 64)] * 3)
    (cats / "1.txt").write_text("cat " * 90)
    code, said = command("--json", "--set", f"data.folder={cats}")
    data = json.loads(said.out)["data"]
    assert (code, data["images"]) == (0, 3)
    assert data["caching_seconds"] > 0
    assert [one["path"] for one in data["long_captions"]] == [str(cats / "1.png")]
