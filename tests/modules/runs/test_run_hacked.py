"""The reward demo without its target, and in a hurry: the reward is hacked, the guard sees it."""

import json

import pytest
import torch
from safetensors.torch import load_file

from modules.jobs.train import train
from onetrainer.demo.write import write_demo
from onetrainer.metrics.files import SCORES, MeasurementFiles, grid_of
from onetrainer.metrics.guard import _findings
from onetrainer.presets.presets import load_document, resolve
from onetrainer.run.events import Evaluated, Finished
from tests import runs

pytestmark = [pytest.mark.slow, pytest.mark.long]

STEPS = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run folder of the whole run; sampled in fewer steps than the demo, to end in seconds."""
    demo = write_demo(tmp_path_factory.mktemp("hacked") / "demo")
    path = demo.with_name("demo-alignprop.json")
    document = load_document(path)
    del document["objective"]["rewards"][0]["target"]
    document["objective"]["algorithm"] = {"kind": "draft", "last_steps": 2}
    document["objective"]["rollout"]["steps"] = 5
    document["objective"]["evaluation"] |= {"every": 3, "seeds": 2, "distance": False}
    document["training"] = {"steps": STEPS, "batch_size": 3}
    document["optimizer"]["lr"] = 6e-3
    document["schedule"] = {"kind": "constant"}
    document["output"]["precision"] = "fp32"
    path.write_text(json.dumps(document))
    folder = runs.new_run(path)
    assert train(folder) == 0
    return folder


@pytest.fixture(scope="module")
def evaluations(folder):
    return [event for event in runs.events_of(folder) if isinstance(event, Evaluated)]


@pytest.fixture(scope="module")
def finished(folder):
    (event,) = (event for event in runs.events_of(folder) if isinstance(event, Finished))
    return event


def test_the_run_ends_early_as_hacked(evaluations, finished):
    assert [evaluation.verdict for evaluation in evaluations[:2]] == ["first", "improving"]
    assert [evaluation.stops for evaluation in evaluations] == [
        *[False] * (len(evaluations) - 1),
        True,
    ]
    assert evaluations[-1].verdict == "hacking"
    assert "exploit the reward" in evaluations[-1].message
    assert finished.step == evaluations[-1].step < STEPS
    assert any("The guard stopped it" in line for line in finished.summary)


def test_the_best_is_from_before_anything_was_wrong(folder, evaluations):
    section = resolve(load_document(folder.config), source="config").objective
    prompts = section.evaluation.prompts.splitlines()
    files = MeasurementFiles(
        folder.rewards, SCORES, grid=grid_of(section, prompts), until=evaluations[-1].step
    )
    history = list(files.by_step.values())
    found = _findings(history, monitored={"reference": 1.0}, settings=section.evaluation)
    pairs = zip(history, found, strict=True)
    wrong = [evaluation.step for evaluation, finding in pairs if finding.is_suspicious]
    assert len(history) == len(evaluations)
    assert 0 < evaluations[-1].best_step < wrong[0] < evaluations[-1].step
    by_step = {evaluation.step: evaluation.reward for evaluation in evaluations}
    before = [by_step[step] for step in by_step if step < wrong[0]]
    assert by_step[evaluations[-1].best_step] == max(before) < by_step[wrong[0]]


def test_the_file_of_the_best_has_the_weights_of_its_evaluation(folder, evaluations, finished):
    assert finished.outputs == [
        "output/demo-alignprop-best.safetensors",
        "output/demo-alignprop.safetensors",
    ]
    kept = load_file(folder.checkpoint(evaluations[-1].best_step) / "weights.safetensors")
    best, last = (load_file(folder.path / path) for path in finished.outputs)
    assert kept
    assert kept.keys() == {name for name in best if not name.endswith(".alpha")}
    for name, tensor in kept.items():
        assert torch.equal(tensor, best[name]), name
    assert any(not torch.equal(last[name], best[name]) for name in kept)
