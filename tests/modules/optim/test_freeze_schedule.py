"""Weights that stop stay exactly as they are, with any optimizer state."""

import pytest

from modules.interfaces import ParameterGroup
from modules.optim.exported_weights import evaluation_form
from modules.optim.freeze_schedule import FreezeSchedule
from modules.training.checkpoint_record import find_restore_point
from onetrainer.config.optimizers.adam import AdamW
from onetrainer.run.run_folder import create_run
from tests.each import each
from tests.stepping import SECTIONS, Training, equal

DECAYING = [
    section.model_copy(update={"weight_decay": 0.1})
    if hasattr(section, "weight_decay")
    else section
    for section in SECTIONS
]


def part(made, name):
    return {
        key: w for key, w in made.snapshot().items() if key.startswith("last") == (name == "te")
    }


@each("section", DECAYING)
def test_from_its_step_on_a_group_stays_and_the_others_go_on(section):
    made = Training(section, stop_after=(0, 4)).run(0, 3)
    moving = part(made, "te")
    made.run(3, 4)
    te, unet = part(made, "te"), part(made, "unet")
    made.run(4, 9)
    assert not equal(te, moving)  # it still moved in the fourth step
    assert equal(part(made, "te"), te)
    assert not equal(part(made, "unet"), unet)


@each("kind", ["schedulefree_adamw", "schedulefree_sgd", "prodigy_schedulefree"])
def test_the_shown_form_of_what_has_stopped_stays_too(kind):
    section = next(section for section in DECAYING if section.kind == kind)
    made = Training(section, stop_after=(0, 4)).run(0, 5)
    with evaluation_form(made.updater):
        te = part(made, "te")
    made.run(5, 9)
    with evaluation_form(made.updater):
        assert equal(part(made, "te"), te)


@pytest.mark.parametrize("in_backward", [False, True])
def test_it_has_stopped_right_after_a_resume(tmp_path, in_backward):
    folder = create_run(tmp_path, name="run", config={})
    options = {"in_backward": in_backward, "stop_after": (0, 4)}
    whole = Training(AdamW(lr=0.01, weight_decay=0.5), **options).run(0, 6)
    whole.save(folder, 6)
    te = part(whole, "te")
    other = Training(AdamW(lr=0.01, weight_decay=0.5), **options, seed=1)
    other.checkpoints(folder).restore(find_restore_point(folder).record)
    other.run(6, 9)
    for step in range(6, 9):
        whole.step(step)
    assert equal(part(other, "te"), te)
    assert equal(other.snapshot(), whole.snapshot())


def test_a_resume_with_a_later_end_trains_it_again(tmp_path):
    folder = create_run(tmp_path, name="run", config={})
    Training(AdamW(lr=0.01), stop_after=(0, 4)).run(0, 6).save(folder, 6)
    other = Training(AdamW(lr=0.01), stop_after=(0, 8))
    other.checkpoints(folder).restore(find_restore_point(folder).record)
    te = part(other, "te")
    assert not equal(part(other.run(6, 7), "te"), te)


def test_nothing_is_computed_for_what_has_stopped():
    made = Training(AdamW(lr=0.01), stop_after=(0, 1)).run(0, 2)
    te = list(made.net.last.parameters())
    assert all(not weight.requires_grad and weight.grad is None for weight in te)


@each(("ends", "last"), [((2, 3), 3), ((0, 3), 0), ((0, 0), 0), ((5,), 5), ((), 0)])
def test_the_end_of_all_is_that_of_the_last(ends, last):
    groups = [ParameterGroup("unet", {}, stop_after=after) for after in ends]
    assert FreezeSchedule(groups).end == last
