"""Whole runs of reward training: what is reported, kept and sampled, and how it resumes."""

import json
import shutil
import signal
from dataclasses import replace

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from modules.evaluation import scores
from modules.jobs.train import train
from modules.training.inbox import Inbox
from modules.training.sample_task import TaskProgress
from onetrainer.metrics.files import SCORES, MeasurementFiles
from onetrainer.metrics.guard import judge
from onetrainer.presets.presets import load_document
from onetrainer.run.events import (
    Checkpoint,
    Evaluated,
    Finished,
    Progress,
    Rewarded,
    Stopped,
    Validated,
    Warned,
)
from tests import runs
from tests.close import near

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_workers")]

REWARDED = {
    "kind": "alignprop",
    "rewards": [{"reward": "color"}, {"reward": "contrast", "train": False}],
    "prompts": {"text": "a cat\na dog\na red square\na green hen"},
    "rollout": {"steps": 2, "guidance": 2.0, "width": 64, "height": 64},
    "evaluation": {"prompts": "a fox\na boat", "every": 3, "seeds": 2, "guard": "warn"},
}
NO_IMAGES = {"folder": ""}


def reward_run(config, objective=None, **changes):
    """A run folder of reward training, without images unless some are asked for."""
    document = load_document(config)
    document["objective"] = {**REWARDED, **(objective or {})}
    document |= {"data": {**document["data"], **NO_IMAGES}, "sampling": {}}
    document["output"] = {**document["output"], "keep_checkpoints": 9}
    for section, values in changes.items():
        document[section] = {**document.get(section, {}), **values}
    path = config.with_name("reward.json")
    path.write_text(json.dumps(document))
    return runs.new_run(path)


def weights_of(folder, step=6):
    return load_file(folder.checkpoint(step) / "weights.safetensors")


def reported(folder, kind):
    return [event for event in runs.events_of(folder) if isinstance(event, kind)]


def require_same(one, other, step=6):
    first, second = weights_of(one, step), weights_of(other, step)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


@pytest.fixture(scope="module")
def straight(config):
    """A run that nothing has interrupted, made without a process of its own."""
    folder = reward_run(config)
    assert train(folder) == 0
    return folder


def test_each_step_reports_its_rewards(straight):
    steps = reported(straight, Rewarded)
    assert [event.step for event in steps] == [1, 2, 3, 4, 5, 6]
    for event in steps:
        assert event.images == 2
        assert event.by_name.keys() == {"color", "contrast"}
        assert event.spread > 0
        assert 1 <= event.last_steps <= 2
    by_step = {event.step: event.loss for event in reported(straight, Progress)}
    assert all(by_step[event.step] == near(-event.reward) for event in steps)


def test_evaluations_are_reported_with_their_images(straight):
    evaluations = reported(straight, Evaluated)
    assert [evaluation.step for evaluation in evaluations] == [0, 3, 6]
    assert evaluations[0].verdict == "first"
    assert evaluations[0].reward == near(0, of=1.0)  # in units of its own scores
    for evaluation in evaluations:
        assert [(one["prompt"], one["seed"]) for one in evaluation.images] == [
            (prompt, seed) for prompt in ("a fox", "a boat") for seed in (0, 1)
        ]
        for one in evaluation.images:
            with Image.open(straight.path / one["path"]) as image:
                assert image.size == (64, 64)
            assert one["rewards"].keys() == {"", "color", "contrast"}
        assert {"contrast", "saturation", "diversity", "distance"} <= evaluation.drift.keys()
    assert evaluations[0].drift["distance"] == 0
    assert evaluations[-1].drift["distance"] > 0
    assert evaluations[-1].reward > evaluations[0].reward


def test_a_killed_run_goes_on_bit_for_bit(config, at_a_moment):
    short = {
        "objective": {
            "rollout": {**REWARDED["rollout"], "steps": 1, "guidance": 1.0},
            "evaluation": {**REWARDED["evaluation"], "prompts": "a fox", "every": 2},
        },
        "training": {"steps": 2},
        "output": {"save_every": 1},
    }
    whole, folder = reward_run(config, **short), reward_run(config, **short)
    assert train(whole) == 0
    assert at_a_moment("kill 1", folder) == -signal.SIGKILL
    assert [one.step for one in reported(folder, Checkpoint)] == [1]
    assert [one.step for one in reported(folder, Rewarded)] == [1]
    assert train(folder) == 0
    require_same(whole, folder, step=2)
    first, second = (reported(one, Evaluated) for one in (whole, folder))
    assert [(evaluation.step, evaluation.reward, evaluation.drift) for evaluation in first] == [
        (evaluation.step, evaluation.reward, evaluation.drift) for evaluation in second
    ]


@pytest.mark.long  # test_alignprop.py holds it for a step
def test_a_step_is_the_same_however_it_is_cut(config, straight):
    folder = reward_run(config, training={"batch_size": 1, "accumulation": 2, "steps": 3})
    assert train(folder) == 0
    # Two images at once or one by one: products of other shapes round otherwise.
    for name, tensor in weights_of(straight, 3).items():
        assert torch.allclose(tensor, weights_of(folder, 3)[name], atol=1e-4), name


def test_best_of_n_trains_on_its_best_images_and_goes_on_in_the_middle_of_a_round(config):
    algorithm = {
        "kind": "best_of_n",
        "candidates_per_prompt": 3,
        "prompts_per_round": 2,
        "steps_per_round": 4,
    }
    size = {"reward": "jpeg_size", "weight": 1.0}
    objective = {"algorithm": algorithm, "rewards": [size, {"reward": "contrast", "train": False}]}
    whole = reward_run(config, objective)
    assert train(whole) == 0
    assert sorted(path.name for path in whole.rewards.glob("round-*")) == [
        "round-000000.safetensors",
        "round-000001.safetensors",
    ]
    again = reward_run(config, objective)
    for source in (whole.checkpoint(3),):
        shutil.copytree(source, again.path / source.relative_to(whole.path))
    shutil.copytree(whole.rewards, again.rewards)
    shutil.copy(whole.events, again.events)
    assert train(again) == 0
    require_same(whole, again)


def test_the_guard_stops_a_hacked_run_and_keeps_the_best(config, monkeypatch):
    """Where every evaluation after step 2 is hacking."""

    def judged(history, **settings):
        step = history[-1].step
        verdict = {"verdict": "hacking", "stops": True} if step > 2 else {}
        return replace(judge(history, **settings), best_step=min(step, 2), **verdict)

    monkeypatch.setattr(scores, "judge", judged)
    evaluation = {**REWARDED["evaluation"], "guard": "stop", "every": 2, "distance": False}
    folder = reward_run(config, {"evaluation": evaluation, "algorithm": {"kind": "draft"}})
    assert train(folder) == 0
    (finished,) = reported(folder, Finished)
    assert finished.step == 4
    assert finished.outputs == ["output/my-lora-best.safetensors", "output/my-lora.safetensors"]
    assert folder.checkpoint(2).is_dir()
    assert any("The guard stopped it after step 4" in line for line in finished.summary)


def test_a_run_that_is_asked_to_end_gives_its_step_up(config, at_a_moment):
    folder = reward_run(config, training={"steps": 50, "accumulation": 8})
    assert at_a_moment("stop 1", folder) == 3
    (stopped,) = reported(folder, Stopped)
    assert stopped.step == 1
    assert folder.checkpoint(1).is_dir()


def test_a_run_that_is_stopped_in_an_evaluation_makes_it_when_it_goes_on(
    config, straight, monkeypatch
):
    seen, original = [], TaskProgress.report

    def report(self, phase, **arguments):
        seen.append(phase)
        if phase.name == "evaluating" and phase.done and [each.done for each in seen].count(0) == 2:
            monkeypatch.setattr(Inbox, "leaving", "stop")
        original(self, phase, **arguments)

    folder = reward_run(config)
    monkeypatch.setattr(TaskProgress, "report", report)
    assert train(folder) == 3
    monkeypatch.undo()
    assert [evaluation.step for evaluation in reported(folder, Evaluated)] == [0]
    assert train(folder) == 0
    require_same(straight, folder)
    first, second = (reported(one, Evaluated) for one in (straight, folder))
    assert [(evaluation.step, evaluation.reward, evaluation.images) for evaluation in first] == [
        (evaluation.step, evaluation.reward, evaluation.images) for evaluation in second
    ]


def test_validation_counts_passes_over_prompts_and_keeps_the_best_where_evaluations_do_not(config):
    document = load_document(config)
    folder = reward_run(
        config,
        {
            "keep": {"denoising_fraction": 0.5, "anchor": 0.1},
            "evaluation": {**REWARDED["evaluation"], "keep_best": False},
        },
        data=document["data"],
        validation={"use": True, "split": 0.3, "every": "1 epoch", "at_end": False,
                    "at_start": False},
    )  # fmt: skip
    assert train(folder) == 0
    # Steps 1, 3 and 5 sample two of four prompts each; the others are ordinary ones.
    steps = reported(folder, Rewarded)
    assert [event.step for event in steps] == [1, 3, 5]
    assert all(event.anchor is not None for event in steps)
    assert len(reported(folder, Progress)) == 6
    assert [event.step for event in reported(folder, Validated)] == [3]
    names = [path.rpartition("/")[2] for path in reported(folder, Finished)[0].outputs]
    assert "my-lora-best.safetensors" in names


def test_other_rewards_after_a_checkpoint_are_reported_and_start_a_new_history(config, straight):
    other = {"rewards": [{"reward": "brightness"}, {"reward": "contrast", "train": False}]}
    folder = reward_run(config, other)
    shutil.copytree(straight.checkpoint(3), folder.checkpoint(3))
    shutil.copytree(straight.rewards, folder.rewards)
    shutil.copy(straight.events, folder.events)
    assert train(folder) == 0
    assert any("cannot be compared" in event.text for event in reported(folder, Warned))
    # Step 3 was evaluated with other rewards: the first evaluation of these comes next to it.
    evaluations = [
        (evaluation.step, evaluation.verdict) for evaluation in reported(folder, Evaluated)
    ]
    assert evaluations[:3] == [(0, "first"), evaluations[1], (3, "first")]
    assert [step for step, _ in evaluations] == [0, 3, 3, 6]
    assert reported(folder, Evaluated)[2].rewards.keys() == {"brightness", "contrast"}
    files = MeasurementFiles(folder.rewards, SCORES, grid="none", until=6)
    assert files.incomparable == 3


def test_a_target_that_the_base_has_reached_is_reported(config):
    rewards = [{"reward": "color", "target": -1.0}, {"reward": "contrast", "target": 9.0}]
    folder = reward_run(config, {"rewards": rewards}, training={"steps": 1})
    assert train(folder) == 0
    texts = [event.text for event in reported(folder, Warned) if "Target score" in event.text]
    assert len(texts) == 1
    assert texts[0].startswith("color: ")
