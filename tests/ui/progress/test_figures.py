"""What a run reports besides its loss, and when it makes no steps."""

import json

from onetrainer.run.events import Checkpoint, Measured, Phase, Progress, Started
from onetrainer.run.wire import decode_event
from ui.progress import figures
from ui.progress.run_state import RunState
from ui.progress.stall import stall_of


def run_of(*events):
    state = RunState()
    for event in events:
        state.apply(event)
    return state


def step(number, **values):
    known = {"loss": 0.1, "lr": 1e-4, "steps_per_second": 2.0, "memory_bytes": 100}
    return Progress(number, 100, 0, **known | values)


def values(state, name):
    return [(point.step, point.mean) for point in state.figures[name].points()]


def test_figures_are_curves_by_step_and_images_follow_from_the_speed():
    state = run_of(
        step(1, gradient_norm=3.0),
        Measured(1, 4, 7, device_bytes=9, learning_rates={"unet": 1.0, "unet 2": 2.0}),
        step(2, gradient_norm=None, steps_per_second=3.0),
        Measured(2, 5, 8, temperature=61.0),
    )
    assert values(state, figures.GRADIENT_NORM) == [(1, 3)]
    assert values(state, figures.IMAGES) == [(1, 8), (2, 15)]
    assert values(state, figures.HOST) == [(1, 7), (2, 8)]
    assert values(state, figures.HELD) == [(1, 9)]
    assert values(state, figures.TEMPERATURE) == [(2, 61)]
    assert [name for name, _ in state.figures.rates()] == ["unet", "unet 2"]


def test_the_events_of_an_older_run_have_the_figures_that_they_have():
    line = {"type": "Progress", "step": 3, "total_steps": 9, "epoch": 0, "loss": 0.5, "lr": 1e-4}
    state = run_of(decode_event(json.dumps(line)))
    assert [(name, len(curve)) for name, curve in state.figures.rates()] == [("", 1)]
    assert not len(state.figures[figures.HOST])


def test_a_stall_is_told_by_the_run_s_own_pace_and_only_while_it_trains():
    trains = (Started(1, 0, 100), Phase("training"))
    assert stall_of(run_of(*trains, step(5)), 59) is None  # usual are 0.5 s
    stall = stall_of(run_of(*trains, step(5)), 61)
    assert stall.text == "no step for 1 min 01 s"
    assert "A step takes 0.5 s otherwise; the last was 5." in stall.advice
    slow = step(5, steps_per_second=0.05)
    assert stall_of(run_of(*trains, slow), 190) is None
    assert stall_of(run_of(*trains, slow), 210)
    assert stall_of(run_of(*trains), 3600) is None  # the first step may compile
    for phase in ("caching", "sampling", "validating", "evaluating", "saving", "loading"):
        assert stall_of(run_of(*trains, step(5), Phase(phase)), 3600) is None, phase
    state = run_of(*trains, step(5), Checkpoint(5, "checkpoints/step-000005"))
    assert stall_of(state, 3600).step == 5
