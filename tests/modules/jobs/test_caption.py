"""Describing images as a job: resumed, in the queue, and from the terminal."""

import pytest
from PIL import Image

from modules.jobs.caption import caption
from onetrainer.__main__ import main
from onetrainer.captioning.results import JobFolder, job_request
from onetrainer.jobs.caption_request import CaptionRequest
from onetrainer.queue.queue import Queue
from onetrainer.queue.serve import Server
from onetrainer.run.event_log import read_all
from onetrainer.run.events import Failed, Phase, Stopped
from onetrainer.run.history import summary
from tests import tiny_describers
from tests.close import near
from tests.runs import DEADLINE, wait_until

COLORS = {"a": "red", "b": "blue", "c": "lime", "d": "red", "e": "blue"}


@pytest.fixture(autouse=True)
def own_user_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("APPDATA", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tagger"
    tiny_describers.save_tagger(folder)
    return folder


@pytest.fixture
def request_of(tmp_path, tagger):
    images = tmp_path / "images"
    images.mkdir()
    for name, color in COLORS.items():
        Image.new("RGB", (24, 24), color).save(images / f"{name}.png")

    def make(**options):
        return CaptionRequest(**{"images": str(images), "model": str(tagger)} | options)

    return make


def described(reports):
    return [event.done for event in reports if isinstance(event, Phase) and event.total]


def test_an_interrupted_job_goes_on_and_describes_nothing_twice(request_of, tmp_path):
    preview = caption(request_of(limit=2), lambda _: None)
    assert preview.summary == ["2 images, 2 of them described now."]
    (tmp_path / "images" / "d.png").write_bytes(b"no image")

    def report(event):
        if isinstance(event, Phase) and event.total and event.done == 4:
            raise KeyboardInterrupt

    job = JobFolder(request_of())
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("modules.jobs.caption._SECONDS_BETWEEN_REPORTS", 0)
        caption(request_of(), report)
    before = job.results.read_bytes()
    assert len(job.read()) == 4
    finished = caption(request_of(batch_size=8), lambda _: None)
    assert finished.summary == ["5 images, 1 of them described now."]
    assert job.results.read_bytes().startswith(before)
    results = job.read()
    assert {name: result.error for name, result in results.items() if result.error} == {
        "d.png": "not a PNG, JPEG, WebP, BMP, GIF, TIFF or AVIF image, but text; replace it by the"
        " image"
    }
    assert results["a.png"].tags["red_hair"] == near(1)
    assert results["b.png"].tags["blue_sky"] == near(1)
    Image.new("RGB", (24, 24), "blue").save(tmp_path / "images" / "a.png")
    caption(request_of(), lambda _: None)
    assert job.read()["a.png"].tags["blue_sky"] == near(1)


def test_masks_are_kept_beside_the_results(request_of, tmp_path):
    network = tmp_path / "u2net.onnx"
    tiny_describers.save_background(network)
    request = request_of(model=str(network), makes="masks")
    caption(request, lambda _: None)
    job = JobFolder(request)
    for result in job.read().values():
        with Image.open(job.masks / result.mask) as mask:
            assert (mask.mode, mask.size) == ("L", (16, 16))


@pytest.mark.usefixtures("forked_workers")
def test_the_queue_runs_a_job_as_it_runs_runs(request_of, tmp_path):
    queue = Queue(tmp_path / "queue")
    wrong = request_of(model=str(tmp_path / "images"))
    jobs = [JobFolder(request).write_request() for request in (wrong, request_of())]
    queue.add(jobs)
    server = Server(queue, lambda _: None)
    wait_until(lambda: not server.poll())
    assert [summary(job).standing for job in jobs] == ["failed", "finished"]
    done = summary(jobs[1])
    assert (done.step, done.total_steps) == (len(COLORS), len(COLORS))
    assert len(JobFolder(job_request(jobs[1])).read()) == len(COLORS)
    (failure,) = [event for event in read_all(jobs[0].events) if isinstance(event, Failed)]
    assert "no model that describes images" in failure.what


@pytest.mark.usefixtures("forked_workers")
def test_a_job_that_is_asked_to_pause_ends_at_once_and_goes_on_later(
    request_of, monkeypatch, tmp_path
):
    from modules.captioning.wd_tagger import WdTagger
    from onetrainer.run import client

    describe = WdTagger.describe
    hold = tmp_path / "hold"
    hold.touch()

    def slowly(self, images):
        found = describe(self, images)
        if len(JobFolder(request_of()).read()) == 2:
            wait_until(lambda: not hold.exists())
        return found

    monkeypatch.setattr(WdTagger, "describe", slowly)
    monkeypatch.setattr("modules.jobs.caption._SECONDS_BETWEEN_REPORTS", 0)
    job = JobFolder(request_of())
    run = client.start(job.write_request())
    wait_until(lambda: summary(run.folder).step == 2)
    run.send("pause")
    run.wait(DEADLINE)
    assert read_all(run.folder.events)[-1] == Stopped(2, "pause")
    assert summary(run.folder).standing == "paused"
    hold.unlink()
    client.start(run.folder).wait(DEADLINE)
    assert len(job.read()) == len(COLORS)
    assert summary(run.folder).standing == "finished"


@pytest.mark.usefixtures("in_this_process")
def test_the_terminal_shows_first_and_writes_when_it_is_told_to(
    request_of, tagger, tmp_path, capsys
):
    images = str(tmp_path / "images")
    request_of()
    (tmp_path / "images" / "c.txt").write_text("mine")
    command = ["caption", images, str(tagger), "--prefix", "ohwx"]
    assert main([*command, "--limit", "2"]) == 0
    shown = capsys.readouterr().out
    assert "a.png: ohwx, red hair, ^_^, someone (series)" in shown
    assert "Nothing is written yet" in shown
    assert "c.png:\n  yours: mine\n  found: ohwx, " in shown
    assert not (tmp_path / "images" / "a.txt").exists()
    assert main([*command, "--write"]) == 0
    assert "4 captions written." in capsys.readouterr().out
    assert (tmp_path / "images" / "b.txt").read_text() == "ohwx, blue sky, ^_^, someone (series)\n"
    assert (tmp_path / "images" / "c.txt").read_text() == "mine"
    assert main(["caption", images, "--take-back"]) == 0
    assert sorted(path.name for path in (tmp_path / "images").glob("*.txt")) == ["c.txt"]
    assert main(["caption", images, "--take-back"]) == 2
    assert main(["caption", images]) == 2
    assert "SmilingWolf" in capsys.readouterr().err
    assert main(["mask", images, str(tagger)]) == 2
    assert "which makes captions" in capsys.readouterr().err
    Image.new("RGB", (24, 24), "red").save(tmp_path / "images" / "new.png")
    assert main([*command, "--queue"]) == 0
    (entry,) = Queue().read().waiting
    assert entry.job == "caption"
    assert 0 < entry.seconds < 10  # for the new one, by how long the others took
