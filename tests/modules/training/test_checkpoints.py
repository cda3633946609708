"""Checkpoints: exact, atomic, pruned."""

import errno
from dataclasses import replace

import pytest
import torch
from torch import nn

from modules.optim.ema import Ema
from modules.optim.freeze_schedule import FreezeSchedule
from modules.optim.optimizer_state import OptimizerProgress
from modules.optim.update import WeightUpdater
from modules.training import checkpoints as state_module
from modules.training.checkpoints import CheckpointRecord, Checkpoints, newest_record
from modules.training.engine import MAX_OVERFLOWS_IN_A_ROW, Engine
from onetrainer.errors import UserError
from onetrainer.run.run_folder import STATE_FILE, create_run


class Weights:
    """The least that is a Method."""

    def __init__(self, value=0.0):
        self.weight = nn.Parameter(torch.full((3,), value))

    def parameter_groups(self):
        return []

    def state_dict(self):
        return {"weight": self.weight.detach()}

    def load_state_dict(self, state):
        with torch.no_grad():
            self.weight.copy_(state["weight"])


@pytest.fixture
def folder(tmp_path):
    return create_run(tmp_path, name="run", config={})


def checkpoints(folder, value=0.0, precision="fp32"):
    method = Weights(value)
    optimizer = torch.optim.AdamW([method.weight], lr=0.1)
    engine = Engine(
        device=torch.device("cpu"),
        precision=precision,
        updater=WeightUpdater(optimizer, rounding_seed=None, updates_independently=True),
        freeze_schedule=FreezeSchedule([]),
        gradient_clipping=1.0,
    )
    return Checkpoints(
        folder=folder,
        method=method,
        optimizer=OptimizerProgress(optimizer, {"weight": method.weight}),
        ema=Ema({"weight": method.weight}, decay=0.9, ramp=False, every=1, location="device"),
        engine=engine,
        keep=2,
    )


def step(made):
    made.engine.begin(0)
    made.engine.backward((made.method.weight**3 + made.method.weight).sum())
    made.engine.clip_gradients()
    made.engine.step()


def record(number, made):
    return CheckpointRecord(number, "digest", 10, {}, made.engine.state_dict())


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_restored_run_goes_on_bit_for_bit(folder, precision):
    made = checkpoints(folder, 2.0, precision)
    step(made)
    made.save(record(1, made))
    step(made)
    other = checkpoints(folder, 7.0, precision)
    other.restore(newest_record(folder))
    step(other)
    assert torch.equal(other.method.weight, made.method.weight)
    assert other.engine.state_dict() == made.engine.state_dict()


def test_only_the_newest_are_kept(folder):
    made = checkpoints(folder)
    for number in range(1, 5):
        made.save(record(number, made))
    assert [number for number, _ in folder.complete_checkpoints()] == [3, 4]
    made.save(record(5, made), best_step=3)
    made.save(record(6, made), best_step=3)
    assert [number for number, _ in folder.complete_checkpoints()] == [3, 5, 6]


@pytest.mark.parametrize("where", ["write_atomic", "_save_tensors", "sync_folder"])
def test_a_save_that_fails_anywhere_leaves_the_old_checkpoint(folder, monkeypatch, where):
    made = checkpoints(folder)
    made.save(record(1, made))

    def fail(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(state_module, where, fail)
    with pytest.raises(UserError, match="no space left"):
        made.save(record(2, made))
    assert [number for number, _ in folder.complete_checkpoints()] == [1]
    assert not list(folder.checkpoints.glob("*.part"))


def test_what_an_interrupted_save_left_is_cleaned_and_never_resumed_from(folder):
    made = checkpoints(folder)
    made.save(record(1, made))
    (folder.checkpoints / "step-000002.part").mkdir()
    (folder.checkpoints / "step-000003").mkdir()  # a deletion that was interrupted
    assert newest_record(folder).step == 1
    made.clean()
    assert [path.name for path in folder.checkpoints.iterdir()] == ["step-000001"]


def test_a_damaged_state_is_reported_with_a_message(folder):
    made = checkpoints(folder)
    path = made.save(record(1, made))
    (path / "state.json").write_text("{")
    with pytest.raises(UserError, match="step-000001"):
        newest_record(folder)


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.json"])
def test_a_damaged_checkpoint_is_reported_with_a_message(folder, name):
    made = checkpoints(folder)
    step(made)
    file = made.save(record(1, made)) / name
    file.write_bytes(file.read_bytes()[:1])
    with pytest.raises(UserError, match="step-000001"):
        made.restore(newest_record(folder))


def test_fp16_gradients_that_overflow_move_nothing_and_lower_the_scale(folder):
    made = checkpoints(folder, 2.0, "fp16")
    scale = made.engine.state_dict()["scale"]
    made.engine.begin(0)
    made.engine.backward((made.method.weight * 1e38).sum())
    made.engine.clip_gradients()
    made.engine.step()
    assert made.method.weight.tolist() == [2.0] * 3
    assert made.engine.state_dict()["scale"] == scale / 2


def test_overflows_that_do_not_end_are_reported_with_a_message(folder):
    made = checkpoints(folder, 2.0, "fp16")
    with pytest.raises(UserError, match="overflow"):
        for step in range(MAX_OVERFLOWS_IN_A_ROW):
            made.engine.begin(step)
            made.engine.backward((made.method.weight * float("inf")).sum())
            made.engine.clip_gradients()
            made.engine.step()


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_gradients_are_clipped_by_their_common_norm(folder, precision):
    made = checkpoints(folder, 2.0, precision)
    norms = []
    made.engine._updater.optimizer.register_step_pre_hook(
        lambda *_: norms.append(float(made.method.weight.grad.norm()))
    )
    step(made)  # 3 * 2^2 + 1 in each of three weights
    assert norms == [pytest.approx(1.0, abs=1e-5)]


def test_a_record_of_an_earlier_version_is_read(folder):
    made = checkpoints(folder)
    path = made.save(replace(record(1, made), validation="images@2")) / STATE_FILE
    path.write_text(path.read_text().replace('"validation"', '"held_out"'))
    assert newest_record(folder).validation == "images@2"
