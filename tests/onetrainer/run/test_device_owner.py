import subprocess
import sys
import threading
import time

from onetrainer.gpu_driver import present
from onetrainer.run.client import environment
from onetrainer.run.device_owner import (
    Holder,
    Owner,
    expecting,
    holders,
    is_wanted,
    owner_of,
    owning,
    places_of,
)
from onetrainer.run.events import Phase
from tests.runs import wait_until

RUN = Owner("run-001", "/runs/run-001")


def test_each_device_has_one_name_whatever_setting_means_it(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(present, "GPU_DEVICES", (str(tmp_path),))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for device, processes, places in (
        ("auto", 0, ("gpu-0",)),
        ("cuda", 1, ("gpu-0",)),
        ("cuda:0", 0, ("gpu-0",)),
        ("cuda:0,cuda:2", 0, ("gpu-0", "gpu-2")),
        ("auto", 2, ("gpu-0", "gpu-1")),
        ("cpu", 3, ("cpu",)),
    ):
        assert places_of(device, processes) == places
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-8f/1")
    assert places_of("auto") == ("gpu-3",)
    assert places_of("cuda:1") == ("gpu-GPU-8f-1",)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert places_of("auto") == places_of("cpu")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(present, "GPU_DEVICES", ())
    assert places_of("auto") == places_of("cpu")


def test_a_processor_is_shared_by_all_and_waits_only_for_what_lets_go(tmp_path):
    heard, trial = [], Owner("Try model", yields=True)
    with owning(["cpu"], RUN, folder=tmp_path), owning(["cpu"], trial, folder=tmp_path):
        assert holders(tmp_path) == [Holder("cpu", RUN), Holder("cpu", trial)]
        second = threading.Thread(target=own, args=(tmp_path, heard))
        second.start()
        wait_until(lambda: is_wanted(["cpu"], tmp_path))
    with owning(["cpu"], RUN, folder=tmp_path):
        second.join()
        own(tmp_path, heard)
    assert heard == [trial]
    assert owner_of(["cpu"], tmp_path) is None


def own(folder, heard):
    with owning(["cpu"], Owner("second"), on_wait=heard.append, folder=folder):
        assert owner_of(["cpu"], folder) is not None


def test_who_waits_is_seen_by_the_owner_and_gets_the_device_after_it(tmp_path):
    heard, owned = [], threading.Event()

    def wait():
        with owning(["gpu-0"], Owner("second"), on_wait=heard.append, folder=tmp_path):
            owned.set()

    with owning(["gpu-0", "gpu-1"], RUN, folder=tmp_path):
        assert owner_of(["gpu-1"], tmp_path) == RUN
        assert not is_wanted(["gpu-0"], tmp_path)
        second = threading.Thread(target=wait)
        second.start()
        wait_until(lambda: bool(heard))
        assert is_wanted(["gpu-0", "gpu-1"], tmp_path)
        assert not is_wanted(["gpu-1"], tmp_path)
        assert not owned.is_set()
        assert holders(tmp_path) == [
            Holder("gpu-0", RUN),
            Holder("gpu-0", Owner("second"), waits=True),
            Holder("gpu-1", RUN),
        ]
    second.join()
    assert heard == [RUN]
    assert owned.is_set()
    assert owner_of(["gpu-0", "gpu-1"], tmp_path) is None
    assert holders(tmp_path) == []


def test_an_owner_tells_by_its_images_when_it_expects_to_be_done(tmp_path):
    reported, begun = [], time.time()
    with owning(["cpu"], RUN, folder=tmp_path) as expect:
        report = expecting(reported.append, expect)
        for done in (0, 0, 1):
            assert holders(tmp_path)[0].owner.ends == 0
            report(Phase("sampling", done, 3))
        # Two are left, for each of which the first is the measure.
        assert begun < holders(tmp_path)[0].owner.ends < time.time() + 2 * (time.time() - begun)
        expect(0)
        assert holders(tmp_path)[0].owner.ends == 0
    assert len(reported) == 3


def test_a_killed_owner_owns_nothing(tmp_path):
    code = (
        "import sys, time; from pathlib import Path;"
        " from onetrainer.run.device_owner import Owner, owning\n"
        "with owning(['cpu'], Owner('dies'), folder=Path(sys.argv[1])): time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=environment())
    wait_until(lambda: owner_of(["cpu"], tmp_path) == Owner("dies"))
    process.kill()
    process.wait()
    with owning(["cpu"], RUN, folder=tmp_path):
        assert owner_of(["cpu"], tmp_path) == RUN
