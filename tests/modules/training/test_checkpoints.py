"""Checkpoints: exact, atomic, pruned."""

import errno
import json

import pytest
import torch

from modules.training import checkpoints as state_module
from modules.training.checkpoint_record import find_restore_point
from modules.training.engine import MAX_OVERFLOWS_IN_A_ROW
from onetrainer.config.optimizers.adam import AdamW
from onetrainer.errors import UserError
from onetrainer.run.leftovers import clean
from onetrainer.run.run_folder import STATE_FILE, create_run
from onetrainer.run.starred import star, starred_steps
from tests.stepping import Training, equal


@pytest.fixture
def folder(tmp_path):
    return create_run(tmp_path, name="run", config={})


@pytest.fixture
def made():
    return Training(AdamW(), ema=True).run(0, 2)


def test_only_the_newest_are_kept(made, folder):
    for number in range(1, 5):
        made.save(folder, number)
    assert [number for number, _ in folder.complete_checkpoints()] == [3, 4]
    made.save(folder, 5, best_step=3)
    made.save(folder, 6, best_step=3)
    assert [number for number, _ in folder.complete_checkpoints()] == [3, 5, 6]
    assert star(folder, 5, is_starred=True) == {5} == starred_steps(folder)
    for number in (7, 8):
        made.save(folder, number)
    assert [number for number, _ in folder.complete_checkpoints()] == [5, 7, 8]
    star(folder, 5, is_starred=False)
    made.save(folder, 9)
    assert [number for number, _ in folder.complete_checkpoints()] == [8, 9]


@pytest.mark.parametrize("where", ["write_atomic", "_write", "sync_folder"])
def test_a_save_that_fails_anywhere_leaves_the_old_checkpoint(made, folder, monkeypatch, where):
    made.save(folder, 1)

    def fail(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(state_module, where, fail)
    with pytest.raises(UserError, match="no space left"):
        made.save(folder, 2)
    assert [number for number, _ in folder.complete_checkpoints()] == [1]
    assert not list(folder.checkpoints.glob("*.part"))


def test_what_an_interrupted_save_left_is_cleaned_and_never_resumed_from(made, folder):
    made.save(folder, 1)
    (folder.checkpoints / "step-000002.part").mkdir()
    (folder.checkpoints / "step-000003").mkdir()  # a deletion that was interrupted
    assert find_restore_point(folder).record.step == 1
    clean(folder)
    assert [path.name for path in folder.checkpoints.iterdir()] == ["step-000001"]


def test_a_damaged_state_is_reported_with_a_message(made, folder):
    path = made.save(folder, 1)
    (path / "state.json").write_text("{")
    with pytest.raises(UserError, match="step-000001"):
        find_restore_point(folder)


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.json"])
def test_a_damaged_checkpoint_is_reported_with_a_message(made, folder, name):
    file = made.save(folder, 1) / name
    file.write_bytes(file.read_bytes()[:1])
    with pytest.raises(UserError, match="step-000001"):
        made.checkpoints(folder).restore(find_restore_point(folder).record)


def test_overflows_move_nothing_lower_the_scale_and_are_reported_if_they_do_not_end():
    made = Training(AdamW(), precision="fp16").run(0, 2)
    before, scale = made.snapshot(), made.engine.state_dict()["scale"]
    for weight in made.weights.values():
        weight.register_hook(lambda gradient: gradient * float("inf"))
    made.step(2)
    assert equal(made.snapshot(), before)
    assert made.engine.state_dict()["scale"] == scale / 2
    with pytest.raises(UserError, match="overflow"):
        made.run(3, 2 + MAX_OVERFLOWS_IN_A_ROW)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_gradients_are_clipped_by_their_common_norm(precision):
    made, norms = Training(AdamW(), precision=precision, clipping=1e-3), []

    def count(*_):
        # What a fused kernel divides by, which spares the gradients a pass of their own.
        divisor = vars(made.optimizer).get("grad_scale", 1.0)
        each = [(weight.grad / divisor).norm() for weight in made.weights.values()]
        norms.append(float(torch.stack(each).norm()))

    made.optimizer.register_step_pre_hook(count)
    made.step(1)
    assert norms == [pytest.approx(1e-3, rel=1e-4)]


def test_a_record_of_an_earlier_version_is_read(made, folder):
    path = made.save(folder, 1, validation="images@2") / STATE_FILE
    document = json.loads(path.read_text())
    del document["files"], document["sha256"]
    path.write_text(json.dumps(document).replace('"validation"', '"held_out"'))
    assert find_restore_point(folder).record.validation == "images@2"
