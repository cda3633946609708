"""Runs that several processes share: the bits of one process, and one end for all of them."""

import json
import os
import signal

import psutil
import pytest
import torch
from accelerate.state import AcceleratorState
from PIL import Image
from safetensors.torch import load_file

from modules import worker
from modules.data.encoded_items import EntryLost
from modules.jobs.train import train
from modules.training.engine import Engine
from modules.training.inbox import Inbox
from modules.training.reporter import Reporter
from modules.world import launch
from onetrainer.errors import EXIT_STOPPED, EXIT_USER, UserError
from onetrainer.run import client
from onetrainer.run.commands import encode_command
from onetrainer.run.events import Failed, Progress, Stopped, Validated, Warned
from onetrainer.run.run_folder import RunFolder
from tests import images, runs
from tests.cases import cases
from tests.close import close
from tests.forked import Forking

pytestmark = pytest.mark.slow

STEPS = 2
SHARED = {
    "training": {"steps": STEPS, "accumulation": 3, "batch_size": 1, "gradient_clipping": 1.0},
    "sampling": {"every": 0, "at_start": False, "steps": 1},
    "output": {"save_every": 2},
    "validation": {"use": False},
}
PROMPTS = [{"prompt": prompt, "width": 64, "height": 64} for prompt in ("a", "b", "c")]
REWARDED = {
    "kind": "alignprop",
    "rewards": [{"reward": "color"}],
    "prompts": {"text": "a cat\na dog\na red square\na green hen"},
    "rollout": {"steps": 2, "guidance": 2.0, "width": 64, "height": 64},
    "evaluation": {"prompts": "a fox\na boat", "every": 2, "seeds": 2, "guard": "warn"},
}
ONE_REWARD = REWARDED | {
    "rollout": {**REWARDED["rollout"], "steps": 1, "guidance": 1.0},
    "evaluation": {**REWARDED["evaluation"], "prompts": "a fox"},
}
BEST = {"kind": "best_of_n", "prompts_per_round": 2, "candidates_per_prompt": 3}
BEST |= {"kept_per_prompt": 2, "steps_per_round": 2}
SLIDER = {"kind": "slider", "width": 64, "height": 64, "steps": 2}
SLIDER |= {"directions": [{"target": "a person", "positive": "old", "negative": "young"}]}
WAYS = {
    "lora": {
        "method": {"rank": 4, "dropout": 0.2, "module_dropout": 0.3},
        "ema": {"use": True},
        "sampling": {"prompts": PROMPTS},
        "validation": {"use": True, "split": 0.5, "every": 2},
    },
    "full": {
        "method": {"kind": "full", "weights": "bf16", "stochastic_rounding": True},
        "optimizer": {"kind": "adamw", "lr": 1e-3},
    },
    "embedding": {
        "method": {"kind": "embedding"},
        "embeddings": {"tokens": [{"token": "<my-token>", "initial_text": "red"}]},
        "data": {"trigger": "<my-token>"},
    },
    "shapes": {"method": {"rank": 4}, "training": {"batch_size": 2}},
    "one reward": {"objective": ONE_REWARD, "data": {"folder": ""}},
    "rewards": {"objective": REWARDED, "data": {"folder": ""}},
    "rewards and images": {
        "objective": {
            **REWARDED,
            "algorithm": {"kind": "draft_lv"},
            "keep": {"denoising_fraction": 0.5, "anchor": 0.1},
        },
    },
    "slider": {"objective": SLIDER, "data": {"folder": ""}},
    "fp16": {"hardware": {"precision": "fp16"}, "method": {"rank": 4}},
    "best of n": {"objective": {**REWARDED, "algorithm": BEST}, "data": {"folder": ""}},
}
SHARDED = {
    "method": {"kind": "full", "weights": "fp32", "text_encoders": {"te1": {"train": True}}},
    "optimizer": {"kind": "adamw", "lr": 1e-3},
    "hardware": {"sharding": "full", "precision": "fp32", "gradient_checkpointing": "block"},
    "ema": {"use": True},
    "training": {"gradient_clipping": 0},
    "sampling": {"prompts": PROMPTS[:1]},
    "validation": {"use": True, "split": 0.5, "every": 2},
    "output": {"save_every": 1},
}
HALF = SHARDED | {
    "method": {**SHARDED["method"], "weights": "bf16"},
    "hardware": {**SHARDED["hardware"], "precision": "bf16"},
    "training": {"gradient_clipping": 0.5},
}
# Where blocks share an input, FSDP adds its gradients in another order: they differ by rounding.
TOLERANCES = {"sharded": 1e-5, "sharded bf16": 2e-2}
ALWAYS = [("lora", 2), ("full", 2), ("shapes", 3), ("one reward", 2)]


def main(arguments: list[str]) -> int:
    """The worker, in a fork of a process that may have trained alone before."""
    AcceleratorState._reset_state(reset_partial_state=True)
    return worker.main(arguments)


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = runs.write_project(tmp_path_factory.mktemp("processes"))
    document = json.loads(path.read_text())
    path.write_text(json.dumps({key: document[key] for key in document if key != "method"}))
    images.folder(path.parent / "shapes", images.SHAPES)
    return path


@pytest.fixture
def processes(monkeypatch):
    """Runs a folder in as many processes, forked from this one; the exit code."""
    forkings = []

    def finish(folder, main=main):
        forkings.append(Forking(main))
        for place in (client, launch):
            monkeypatch.setattr(place, "subprocess", forkings[-1])
        return runs.finish(folder)

    yield finish
    for forking in forkings:
        forking.end()


def new_run(config, way, count):
    sections = SHARED.copy()
    for section, values in {**WAYS, "sharded": SHARDED, "sharded bf16": HALF}[way].items():
        sections[section] = {**sections.get(section, {}), **values}
    sections |= {"data": {"folder": str(config.parent / way)}} if way == "shapes" else {}
    sections["hardware"] = sections.get("hardware", {}) | {"device": "cpu", "processes": count}
    return runs.new_run(config, **sections)


def reported(folder, kind):
    return [event for event in runs.events_of(folder) if isinstance(event, kind)]


def results(folder):
    """What a run has left: the files of its last checkpoint, its samples, and what it reported."""
    checkpoint = folder.checkpoint(STEPS)
    files = [checkpoint / f"{name}.safetensors" for name in ("weights", "optimizer", "ema")]
    files += [*folder.validation.glob("*.json"), *folder.rewards.rglob("*.jp*g")]
    content = {path.name: path.read_bytes() for path in files if path.is_file()}
    # Without metadata, which name the config.
    content |= {path.name: Image.open(path).tobytes() for path in folder.samples.glob("*.png")}
    content |= {path.name: load_file(path) for path in folder.rewards.glob("round*")}
    progress = reported(folder, Progress)
    told = [(event.step, event.loss, event.gradient_norm, event.lr) for event in progress]
    return content, told, reported(folder, Validated)


def require_same(one, other):
    assert one[1:] == other[1:]
    assert one[0].keys() == other[0].keys()
    for name, content in one[0].items():
        if isinstance(content, dict):
            content, expected = (
                {k: v.tolist() for k, v in r[0][name].items()} for r in (one, other)
            )
            assert content == expected, name
        else:
            assert content == other[0][name], name


@pytest.fixture(scope="module")
def alone(config):
    """The results of runs in this process, made once each."""
    made = {}

    def of(way):
        if way not in made:
            folder = new_run(config, way, 1)
            assert train(folder) == 0
            made[way] = results(folder)
        return made[way]

    return of


@pytest.mark.parametrize(("way", "count"), cases([(w, c) for w in WAYS for c in (2, 3)], ALWAYS))
def test_several_processes_give_the_bits_of_one(config, processes, alone, way, count):
    folder = new_run(config, way, count)
    assert processes(folder) == 0
    require_same(results(folder), alone(way))
    assert {path.name for path in folder.path.glob("worker-*.log")} == {
        f"worker-{rank}.log" for rank in range(1, count)
    }


def numbers_of(folder, file):
    """All numbers of a file of the last checkpoint, in one row."""
    tensors = load_file(folder.checkpoint(STEPS) / f"{file}.safetensors")
    return torch.cat([tensors[name].flatten().double() for name in sorted(tensors)])


def require_close(folder, one, tolerance):
    """A sharded run has the numbers of one that was made in one process, but for rounding."""
    content, told, validated = results(folder)
    expected, expected_told, expected_validated = results(one)
    assert content.keys() == expected.keys()
    for file in ("weights", "optimizer", "ema"):
        first, second = numbers_of(folder, file), numbers_of(one, file)
        assert (first - second).norm() < tolerance * second.norm(), file
    assert torch.tensor(told).allclose(torch.tensor(expected_told), rtol=tolerance)
    assert told[0][1] == expected_told[0][1]  # of the same weights, to the last bit
    losses, reference = (torch.tensor(v[0].by_level) for v in (validated, expected_validated))
    assert losses.allclose(reference, rtol=tolerance)
    (sample,) = [name for name in content if name.endswith(".png")]
    pixels, reference = (
        torch.frombuffer(bytearray(c[sample]), dtype=torch.uint8).float()
        for c in (content, expected)
    )
    assert (pixels - reference).abs().max() <= 255 * tolerance + 1
    files = [next(each.output.glob("*.safetensors")) for each in (folder, one)]
    shapes = [{name: each.shape for name, each in load_file(path).items()} for path in files]
    assert shapes[0] == shapes[1]


def killed_and_resumed(config, processes):
    """A sharded run of three processes, one of which is killed, that two have finished."""
    folder = new_run(config, "sharded", 3)
    assert processes(folder, dying(1, 1)) == EXIT_USER
    assert "process 1 of 3" in reported(folder, Failed)[0].what
    assert folder.newest_step() == 1
    with_processes(folder, 2)
    assert processes(folder) == 0
    return folder


def in_one_process(config, way):
    folder = new_run(config, way, 1)
    assert train(folder) == 0
    return folder


@pytest.mark.long  # tests/modules/sharding holds the numbers of processes that share weights
def test_a_sharded_run_gives_the_numbers_of_one_process_also_after_a_kill_in_fewer(
    config, processes
):
    folder = killed_and_resumed(config, processes)
    require_close(folder, in_one_process(config, "sharded"), TOLERANCES["sharded"])


@pytest.mark.long
@pytest.mark.parametrize("way", TOLERANCES)
def test_a_sharded_run_is_that_of_one_process_and_of_other_numbers(config, processes, way):
    folder = new_run(config, way, 2)
    assert processes(folder) == 0
    require_close(folder, in_one_process(config, way), TOLERANCES[way])
    if way == "sharded":
        again, told_again, validated_again = results(killed_and_resumed(config, processes))
        content, told, validated = results(folder)
        assert (again, validated_again) == (content, validated)
        # The norm of the whole gradient is added up from other parts.
        close(torch.tensor(told_again), torch.tensor(told), each=True)


def dying(rank, step):
    """The worker, one of whose processes is killed before a step."""

    def begin(self, number):
        if number == step:
            os.kill(os.getpid(), signal.SIGKILL)
        original(self, number)

    def main_of_one(arguments):
        if os.environ.get("RANK", "0") == str(rank):
            Engine.begin = begin
        return main(arguments)

    original = Engine.begin
    return main_of_one


def with_processes(folder, count):
    document = json.loads(folder.config.read_text())
    document["hardware"]["processes"] = count
    folder.config.write_text(json.dumps(document))


@pytest.mark.parametrize("count", cases([1, 2, 3], [1]))
def test_a_killed_process_ends_the_run_which_resumes_in_any_number(config, processes, alone, count):
    folder = new_run(config, "lora", 2)
    assert processes(folder, dying(1, 1)) == EXIT_USER
    (failed,) = reported(folder, Failed)
    assert "process 1 of 2" in failed.what
    assert "SIGKILL" in failed.what
    assert str(folder.log_of(1)) in failed.remedy
    # What was trained until then is saved.
    assert folder.newest_step() == 1
    with_processes(folder, count)
    assert (processes(folder) if count > 1 else train(folder)) == 0
    require_same(results(folder), alone("lora"))


def test_the_end_of_the_first_process_ends_the_others(config, processes):
    folder = new_run(config, "embedding", 2)
    assert processes(folder, dying(0, 1)) == -signal.SIGKILL
    pid = int(folder.log_of(1).read_text().splitlines()[0].rpartition(" ")[2])
    runs.wait_until(lambda: not psutil.pid_exists(pid))
    assert not folder.is_busy()


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 3])
def test_a_paused_run_goes_on_in_another_number_of_processes(config, processes, alone, count):
    def pausing(arguments):
        if os.environ.get("RANK", "0") == "0":
            Reporter.progress = pause
        return main(arguments)

    def pause(self, **arguments):
        original(self, **arguments)
        RunFolder(folder.path).commands.write_text(encode_command("pause"))
        runs.wait_until(lambda: inboxes[0].is_leaving())

    original, inboxes = Reporter.progress, []
    remember = Inbox.__init__

    def init(self, *arguments, **named):
        remember(self, *arguments, **named)
        inboxes.append(self)

    folder = new_run(config, "lora", 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Inbox, "__init__", init)
        assert processes(folder, pausing) == EXIT_STOPPED
    assert reported(folder, Stopped)[0].step == 1
    with_processes(folder, count)
    assert processes(folder) == 0
    require_same(results(folder), alone("lora"))


@pytest.mark.parametrize("way", ["embedding", "sharded"])
def test_an_error_in_one_process_is_the_runs_and_names_what_is_wrong(config, processes, way):
    def failing(arguments):
        if os.environ.get("RANK") == "1":
            Engine.backward = fail
        return main(arguments)

    def fail(self, loss):
        raise UserError("x.png: gone", "Expected an image", "Restore it.")

    folder = new_run(config, way, 2)
    assert processes(folder, failing) == EXIT_USER
    (failed,) = reported(folder, Failed)
    # Others compute the sharded blocks together with this one, and cannot agree on its error.
    where = "process 1 of 2: " if way == "sharded" else ""
    assert (failed.what, failed.expected) == (f"{where}x.png: gone", "Expected an image")


def test_more_processes_than_microbatches_are_refused(config, processes):
    folder = new_run(config, "lora", 4)
    assert processes(folder) == EXIT_USER
    assert "training.accumulation" in reported(folder, Failed)[0].what


def losing_an_entry(arguments):
    """The worker, whose process 1 finds one cache entry damaged."""

    def backward(self, loss):
        if not lost:
            lost.append(1)
            raise EntryLost("a cache entry was damaged")
        original(self, loss)

    original, lost = Engine.backward, []
    if os.environ.get("RANK") == "1":
        Engine.backward = backward
    return main(arguments)


def test_what_starts_a_run_again_in_one_process_does_so_in_all(config, processes, alone):
    folder = new_run(config, "full", 2)
    assert processes(folder, losing_an_entry) == 0
    assert "encoded again" in reported(folder, Warned)[-1].text
    require_same(results(folder), alone("full"))


@pytest.mark.long
def test_a_length_in_minutes_is_decided_by_all_together(config, processes):
    folder = new_run(config, "lora", 2)
    document = json.loads(folder.config.read_text())
    document["training"]["steps"] = "0.02 minutes"
    folder.config.write_text(json.dumps(document))
    assert processes(folder) == 0
    assert reported(folder, Progress)
