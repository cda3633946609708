"""Forks of whole runs: what they go on from, end in, and refuse."""

import json
from itertools import product

import pytest

from modules.jobs.train import train
from onetrainer.errors import UserError
from onetrainer.presets.presets import change_config
from onetrainer.run.events import Checkpoint, Finished, Progress, Sample, Validated, Warned
from onetrainer.run.fork import copy_history, state_at
from onetrainer.run.run_folder import create_run
from tests import runs
from tests.cases import cases

pytestmark = pytest.mark.slow

TOKEN = {"token": "<w>", "initial_text": "red"}
METHODS = {
    "lora": {"method": {"rank": 2}},
    "full": {"method": {"kind": "full", "targets": "attn"}},
    "embedding": {"method": {"kind": "embedding"}, "embeddings": {"tokens": [TOKEN]}},
}
REWARDED = {
    "kind": "alignprop",
    "rewards": [{"reward": "color"}],
    "prompts": {"text": "a cat\na <w>"},
    "rollout": {"steps": 1, "guidance": 1.0, "width": 64, "height": 64},
    "evaluation": {"prompts": "a fox", "every": 3, "seeds": 2, "guard": "warn"},
}
OBJECTIVES = {
    "denoising": {
        "data": {"captions": {"template": "{caption} <w>", "dropout": 0.2}},
        "validation": {"use": True, "split": 0.25, "every": 2, "keep_best": True},
        "ema": {"use": True},
    },
    "reward": {"objective": REWARDED, "data": {"folder": ""}, "sampling": {"prompts": []}},
}
STEPS = {"denoising": (1, 3, 4, 5), "reward": (1, 4, 5)}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = runs.write_project(tmp_path_factory.mktemp("a project"))
    document = json.loads(path.read_text())
    del document["method"]
    path.write_text(json.dumps(document))
    return path


def forked(source, step, **changes):
    document = {**json.loads(source.config.read_text()), **changes}
    fork = create_run(source.path.parent, name="fork", config=document)
    copy_history(source, state_at(source, step), fork)
    return fork


def files(folder):
    """Everything that a run leaves behind, but its log and times: by name, as bytes."""
    kept = (folder.output, folder.samples, folder.validation, folder.rewards, folder.checkpoints)
    return {
        path.relative_to(folder.path): path.read_bytes()
        for parent in kept
        for path in parent.rglob("*")
        if path.is_file() and path.name != "state.json"
    }


def essence(folder):
    return [
        (event.step, event.loss, event.lr) if isinstance(event, Progress) else event
        for event in runs.events_of(folder)
        if isinstance(event, Progress | Sample | Checkpoint | Validated | Finished)
    ]


@pytest.mark.parametrize(
    ("method", "objective", "steps"),
    cases(
        [
            ("lora", "denoising", (2,)),
            *((*both, STEPS[both[1]]) for both in product(METHODS, OBJECTIVES)),
        ],
        [("lora", "denoising", (2,))],
    ),
)
def test_a_fork_with_nothing_changed_ends_in_the_same_bytes(config, method, objective, steps):
    changes = {**METHODS[method], **OBJECTIVES[objective]}
    output = {"save_every": 1, "keep_checkpoints": 9}
    source = runs.new_run(config, output=output, training={"steps": max(steps) + 1}, **changes)
    assert train(source) == 0
    for step in steps:
        fork = forked(source, step)
        assert [number for number, _ in fork.complete_checkpoints()][-1] == step
        assert train(fork) == 0
        assert files(fork) == files(source), step
        assert essence(fork) == essence(source), step
        assert not [one for one in runs.events_of(fork) if isinstance(one, Warned)]


def test_changed_settings_are_named_and_fixed_ones_are_refused(config):
    source = runs.new_run(config, training={"steps": 1}, sampling={"prompts": []})
    assert train(source) == 0
    fork = forked(source, 1)
    change_config(fork.config, {"training.steps": 2, "optimizer.lr": 0.02, "sampling.every": 0})
    assert train(fork) == 0
    assert [one.text for one in runs.events_of(fork) if isinstance(one, Warned)] == [
        "“Length” (training.steps) has changed (from 1 to 2); this moves the run's end, and the"
        " schedules that depend on it from step 1 on",
        "“Learning rate” (optimizer.lr) has changed (from 0.01 to 0.02); this"
        " applies from step 1 on",
        "“Sample every” (sampling.every) has changed (from 2 to 0); this applies"
        " to samples from step 1 on",
    ]
    change_config(fork.config, {"method.rank": 8})
    with pytest.raises(UserError, match=r"“Rank” cannot change any more \(from 16 to 8\)"):
        train(fork)
