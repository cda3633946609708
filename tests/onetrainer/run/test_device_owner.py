import subprocess
import sys
import threading

from onetrainer.run.client import environment
from onetrainer.run.device_owner import Owner, is_wanted, owner_of, owning, places_of
from tests.runs import wait_until

RUN = Owner("run-001", "/runs/run-001")


def test_each_device_has_one_name_whatever_setting_means_it(monkeypatch):
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
    second.join()
    assert heard == [RUN]
    assert owned.is_set()
    assert owner_of(["gpu-0", "gpu-1"], tmp_path) is None


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
