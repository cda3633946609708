"""Images that a person asks a running worker for, which change nothing of the run."""

import threading
from contextlib import closing

import numpy
import pytest
from PIL import Image

from modules.jobs.sample import sample as sample_job
from modules.jobs.train import train
from modules.training.inbox import Inbox
from onetrainer.jobs.run_trial import RunTrial, run_on
from onetrainer.jobs.sample_request import Axis, SampledLora, SampleRequest
from onetrainer.run.commands import ImageRequest, encode_command
from onetrainer.run.events import Failed, Finished, Progress, Sample, Stopped, Tried
from tests import runs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_workers")]

PROMPT = {"prompts": ("a blue circle",), "width": 64, "height": 64, "steps": 2, "precision": "fp32"}
STRENGTHS = Axis(of="strength", values=("0", "100"))


@pytest.fixture
def request_for(config, tmp_path):
    def make(folder, **changes):
        base = str(config.parent / "base")
        loras = (SampledLora(path=str(folder.path)),)
        out = str(tmp_path / "tried")
        return SampleRequest(
            **{"base": base, "device": "cpu", "out": out, "loras": loras, **PROMPT, **changes}
        )

    return make


def command(name, request):
    return encode_command("sample", ImageRequest(name, request.model_dump(mode="json")))


def tried(folder):
    return [event for event in runs.events_of(folder) if isinstance(event, Tried)]


def losses(folder):
    return [event.loss for event in runs.events_of(folder) if isinstance(event, Progress)]


def pixels(path):
    with Image.open(path) as image:
        return numpy.asarray(image).astype(int)


def test_requested_images_change_no_byte_of_the_run_and_are_of_what_it_trains(
    config, straight, request_for, tmp_path
):
    folder = runs.new_run(config)
    grid = request_for(folder, x=STRENGTHS, y=Axis(of="seed", values=("3", "4")))
    impossible = request_for(folder, x=Axis(of="step", values=("1",)))
    folder.commands.write_text(
        command("first", grid)
        + command("second", impossible)
        + command("regretted", grid)  # while it still waits for a step
        + encode_command("cancel", canceled="regretted")
    )
    with closing(Inbox(folder.commands)) as inbox:
        runs.wait_until(inbox.has_images)
        assert train(folder, inbox) == 0
    for name in ("output", "samples", "checkpoints"):
        for path in (straight.path / name).rglob("*.*"):
            if path.name != "state.json":  # which says how long the list of events was
                same = folder.path / path.relative_to(straight.path)
                assert same.read_bytes() == path.read_bytes(), path.name
    losses = [
        [e.loss for e in runs.events_of(f) if isinstance(e, Progress)] for f in (folder, straight)
    ]
    assert losses[0] == losses[1]

    events = tried(folder)
    assert [(event.request, event.place, event.error == "") for event in events] == [
        *(("first", place, True) for place in (0, 1, 2, 3, -1)),
        ("second", -1, False),
        ("regretted", -1, True),
    ]
    bare = runs.new_run(config, sampling={"prompts": []}, training={"steps": 1})
    bare.commands.write_text(command("third", grid))
    with closing(Inbox(bare.commands)) as inbox:
        runs.wait_until(inbox.has_images)
        assert train(bare, inbox) == 0
    assert "no sample prompts" in (error := tried(bare)[0].error)
    assert f"{bare.name} trains" in error and f"Pause {bare.name}" in error

    without = grid.model_copy(
        update={"loras": (), "x": None, "y": None, "seeds": (3,), "out": str(tmp_path / "base")}
    )
    (base,) = sample_job(without, lambda _: None).outputs
    assert abs(pixels(events[0].path) - pixels(base)).max() <= 1


def test_the_window_asks_a_run_follows_its_answer_and_cancels_it(config, request_for):
    folder = runs.new_run(config, training={"steps": 100_000}, sampling={"every": 0})
    run = runs.client.start(folder)
    runs.wait_until(lambda: len(losses(folder)) > 2)  # the first ones change next to nothing
    assert run_on("auto") is not None
    assert run_on("auto").path == folder.path
    *events, last = RunTrial(folder).events(request_for(folder, seeds=(7,), x=STRENGTHS))
    shown = [event for event in events if isinstance(event, Sample)]
    assert [(event.prompt_index, event.seed) for event in shown] == [(0, 7), (1, 7)]
    assert (pixels(shown[0].path) != pixels(shown[1].path)).any()
    assert last.outputs == [*(event.path for event in shown), last.outputs[-1]]
    *_, refused = RunTrial(folder).events(request_for(folder, width=64, out="/proc/nowhere"))
    assert isinstance(refused, Failed)

    trial = RunTrial(folder)
    many, got = request_for(folder, seeds=tuple(range(300)), grid=True), []
    reading = threading.Thread(target=lambda: got.extend(trial.events(many)))
    reading.start()
    runs.wait_until(lambda: len(tried(folder)) > 3)  # two of the first request and one refusal
    RunTrial(folder).cancel()  # another window's, which ends no other request
    before = len(tried(folder))
    runs.wait_until(lambda: len(tried(folder)) > before + 1)
    trial.cancel()
    reading.join()
    assert isinstance(got[-1], Finished)
    assert got[-1].outputs[-1].endswith("-grid.png")

    before = len(tried(folder))
    reading = threading.Thread(target=lambda: got.extend(RunTrial(folder).events(many)))
    reading.start()
    runs.wait_until(lambda: len(tried(folder)) > before)
    run.send("stop")
    assert run.wait(runs.DEADLINE) is not None
    reading.join()
    assert isinstance(got[-1], Failed | Stopped)
