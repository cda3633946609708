from onetrainer.run.events import (
    Failed,
    Finished,
    Phase,
    Progress,
    Sample,
    Started,
    Stopped,
    Validated,
)
from ui.progress.run_state import RunState
from ui.progress.samples import SampleBook


def reported(*events):
    state = RunState()
    for event in events:
        state.apply(event)
    return state


def test_a_run_goes_from_starting_to_its_end():
    state = RunState()
    assert state.status == "starting"
    state.apply(Started(1, 0, 100))
    assert state.status == "running"
    state.apply(Progress(40, 100, 1, 0.2, 1e-4, 3.0, 20.0))
    assert (state.step, state.fraction, len(state.curve)) == (40, 0.4, 1)
    state.apply(Finished(100, ["output/a.safetensors"]))
    assert (state.status, state.fraction) == ("finished", 1.0)
    assert state.outputs == ["output/a.safetensors"]


def test_a_pause_is_no_stop():
    assert reported(Started(1, 0, 9), Stopped(3, "pause")).status == "paused"
    assert reported(Started(1, 0, 9), Stopped(3, "stop")).status == "stopped"
    assert reported(Started(1, 0, 9), Failed("user", "no model")).status == "failed"
    assert reported(Started(1, 0, 9), Stopped(3, "pause"), Started(2, 3, 9)).status == "running"


def test_validations_are_kept_apart_from_the_loss_of_training():
    state = reported(
        Started(1, 0, 9),
        Phase("validating", 3, 8),
        Validated(0, 0.2, 0.01, 8, 0, True, "first", "words"),
    )
    assert state.status_text() == "Validating · 3 of 8"
    assert (len(state.validation), len(state.curve)) == (1, 0)
    assert state.validation.newest.loss == 0.2


def test_samples_are_found_by_prompt_and_step():
    book = SampleBook.of(
        Sample(step, prompt, f"{step}-{prompt}.png", "words", 1)
        for step in (0, 50, 100)
        for prompt in (0, 1)
        if (step, prompt) != (50, 1)
    )
    assert (book.prompts, book.steps) == ([0, 1], [0, 50, 100])
    assert book.steps_of(1) == [0, 100]
    assert book.at(1, 50) is None
    assert book.nearest(1, 60).step == 100
    assert [sample.path for sample in book.newest()] == ["100-0.png", "100-1.png"]
