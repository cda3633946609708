"""Requests one after the other with a model that stays loaded, and grids over two settings."""

import gc
import os
import threading
from pathlib import Path

import numpy
import pytest
from PIL import Image

from modules.formats.lora.lora_file import LoraFile
from modules.jobs.loaded_model import LoadedModel
from modules.jobs.sample import sample as sample_job
from modules.jobs.sample import sample_with
from modules.jobs.warm import CANCEL, warm
from onetrainer.jobs.sample_request import Axis, SampledLora, SampleRequest
from onetrainer.run.device_owner import Owner, owner_of, owning
from onetrainer.run.events import ENDINGS, Finished, Phase, Sample, Stopped
from tests import tiny
from tests.modules.jobs.test_sample import write_lora
from tests.runs import wait_until


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny.write_folder(tmp_path_factory.mktemp("models") / "base")


@pytest.fixture(scope="module")
def a_lora(tmp_path_factory):
    return write_lora(tmp_path_factory.mktemp("loras") / "style.safetensors")


@pytest.fixture
def request_for(base, tmp_path):
    def make(**changes):
        values = {
            "base": str(base), "prompts": ("a cat",), "width": 64, "height": 64, "steps": 2,
            "precision": "fp32", "device": "cpu", "out": str(tmp_path / "out"),
        }  # fmt: skip
        return SampleRequest(**values | changes)

    return make


class Warm:
    """A warm worker in a thread, and what it reports."""

    def __init__(self, request, *, idle=60.0):
        out, self._in = os.pipe()
        self.events = []
        self._lines = os.fdopen(out, "rb")
        arguments = (request.model_dump_json(exclude_unset=True), self._lines, self.events.append)
        self.thread = threading.Thread(target=warm, args=arguments, kwargs={"idle": idle})
        self.thread.start()

    def send(self, line):
        os.write(self._in, line.encode() + b"\n")

    def ask(self, request):
        self.send(request.model_dump_json(exclude_unset=True))
        return self.ending(self.endings + 1)

    @property
    def endings(self):
        return sum(isinstance(event, ENDINGS) for event in self.events)

    def ending(self, number=1):
        """Wait for the end of the request of a number, and return its event."""
        wait_until(lambda: self.endings >= number)
        return [event for event in self.events if isinstance(event, ENDINGS)][number - 1]

    @property
    def loads(self):
        phases = [event for event in self.events if isinstance(event, Phase)]
        return sum(phase.detail.startswith("loading the model") for phase in phases)

    def close(self):
        if self._in:
            os.close(self._in)
            self._in = 0
            self.thread.join()
            self._lines.close()


@pytest.fixture
def start():
    started = []

    def make(*arguments, **options):
        started.append(Warm(*arguments, **options))
        return started[-1]

    yield make
    for each in started:
        each.close()


def pixels(path):
    with Image.open(path) as image:
        return numpy.asarray(image).astype(int)


def cold(request):
    """The pixels of the same request in a process that has loaded nothing."""
    return [pixels(path) for path in sample_job(request, lambda _: None).outputs]


def test_later_requests_do_not_load_the_model_again_and_give_the_same_pixels(
    start, request_for, a_lora
):
    plain = request_for()
    styled = [
        request_for(loras=(SampledLora(path=a_lora, strength=strength),)) for strength in (1, 0.5)
    ]
    worker = start(plain)
    found = [worker.ending(), *map(worker.ask, [*styled, plain, request_for(steps=3)])]
    assert worker.loads == 1
    assert worker.ask(request_for(clip_skip=2)).outputs
    assert worker.loads == 2
    worker.close()
    expected = [cold(each)[0] for each in (plain, *styled, plain, request_for(steps=3))]
    for ending, image in zip(found, expected, strict=True):
        assert (pixels(ending.outputs[0]) == image).all()
    assert (expected[1] != expected[2]).any()


def test_a_lora_that_was_replaced_is_merged_anew_and_few_stay_in_memory(request_for, tmp_path):
    path, model = tmp_path / "own.safetensors", LoadedModel()
    styled = request_for(loras=(SampledLora(path=write_lora(path)),))

    def warm_pixels(request):
        return pixels(sample_with(model, request, lambda _: None).outputs[0])

    first = warm_pixels(styled)
    write_lora(path, scale=3.0)
    os.utime(path, ns=(0, 0))  # not the time of the first one, however fast this is
    second = warm_pixels(styled)
    assert (second != first).any()
    assert (second == cold(styled)[0]).all()

    files = [write_lora(tmp_path / f"{number}.safetensors") for number in range(8)]
    before = count_loras()
    warm_pixels(request_for(loras=styled.loras, x=Axis(of="lora", values=tuple(files)), steps=1))
    assert count_loras() - before <= 2


def count_loras():
    gc.collect()
    return sum(isinstance(each, LoraFile) for each in gc.get_objects())


def test_a_grid_varies_any_two_settings_and_its_cells_are_the_single_images(
    request_for, a_lora, tmp_path
):
    lora = SampledLora(path=a_lora, strength=0.3)
    grid = request_for(
        loras=(lora,),
        x=Axis(of="guidance", values=("2", "5")),
        y=Axis(of="strength", values=("0", "1")),
    )
    reported = []
    *cells, page = sample_job(grid, reported.append).outputs
    assert Path(page).name == "00005-grid.png"
    shown = [event for event in reported if isinstance(event, Sample)]
    assert [(event.prompt_index, event.path) for event in shown] == [*enumerate(cells)]
    assert sum(p.detail.startswith("loading the m") for p in reported if isinstance(p, Phase)) == 1
    for index, (guidance, strength) in enumerate(((2, 0), (5, 0), (2, 1), (5, 1))):
        single = request_for(
            loras=(lora.model_copy(update={"strength": strength}),),
            guidance=guidance,
            out=str(tmp_path / "single"),
        )
        assert (cold(single)[0] == pixels(cells[index])).all()
    with Image.open(page) as image:
        assert image.width > 128
        assert image.height > 128


def test_what_was_generated_before_a_cancel_is_kept_with_its_grid(start, request_for):
    grid = request_for(x=Axis(of="seed", values=("1-60",)), y=Axis(of="steps", values=("2", "3")))
    worker = start(grid)
    wait_until(lambda: any(isinstance(event, Sample) for event in worker.events))
    worker.send(CANCEL)
    assert worker.ending() == Stopped(0, "stop")
    kept = sorted(path.name for path in Path(grid.out).iterdir())
    assert 2 <= len(kept) < 60
    assert kept[-1].endswith("-grid.png")
    assert worker.ask(request_for()).outputs
    assert worker.loads == 1


def test_it_lets_go_of_the_device_when_another_process_wants_it(start, request_for):
    many = request_for(seeds=tuple(range(500)))
    busy = start(many)
    wait_until(lambda: any(isinstance(event, Sample) for event in busy.events))
    assert owner_of(["cpu"]) == Owner("Try model", yields=True)
    with owning(["cpu"], Owner("run-001")):
        ending = busy.ending()
        assert isinstance(ending, Stopped)
        assert ending.because == "something else needs the device"
        busy.thread.join()
        assert isinstance(start(request_for(), idle=0.5).ending(), Finished)  # beside the run
    idle = start(request_for())
    assert isinstance(idle.ending(), Finished)
    with owning(["cpu"], Owner("run-002")):
        idle.thread.join()


def test_it_waits_for_a_gpu_and_its_wait_can_be_ended(start, request_for):
    with owning(["gpu-0"], Owner("run-001")):
        late = start(request_for(device="cuda:0"))
        waits = Phase("waiting", detail="run-001 uses the device")
        wait_until(lambda: waits in late.events)
        late.send(CANCEL)
        assert late.ending() == Stopped(0, "stop")


def test_it_ends_after_some_time_without_a_request(start, request_for):
    worker = start(request_for(), idle=0.0)
    worker.thread.join()
    assert owner_of(["cpu"]) is None
    assert worker.events == []
