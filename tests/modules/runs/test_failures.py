"""Every entry of the catalog of failures, by what really causes it in a worker.

Only what needs a GPU is raised by the test: with the classes that torch has for it.
"""

import math
import os
import resource
import shutil
import signal
import sys
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file

from modules import worker
from modules.forecast import out_of_memory
from modules.formats.files import hub_download
from modules.interfaces import Loss
from modules.jobs import train as job
from modules.objectives.denoising import Denoising
from modules.training.engine import Engine
from onetrainer.run import client
from onetrainer.run.events import Failed
from onetrainer.run.failures import FAILURES, recognize
from onetrainer.run.known_folders import known_run_folders
from onetrainer.run.oom_kills import own_oom_count
from onetrainer.run.run_folder import RunFolder, cannot_write
from tests import runs
from tests.forked import Forking
from tests.modules.runs.test_run_lost import damage

pytestmark = pytest.mark.slow

SMALL = {
    "training": {"steps": 2, "batch_size": 1},
    "sampling": {"prompts": [], "every": 0},
    "data": {"loader_threads": 0},
}
UNCACHED = {"data": {"folder": "copies", "cache_latents": False}, "training": {"steps": 8}}
STOPPING = {"training": {"broken_steps": {"action": "stop"}}}
PRODIGY = "prodigy_schedulefree"
CUDA_ERROR = "CUDA error: an illegal memory access was encountered"


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = runs.write_project(tmp_path_factory.mktemp("catalog"))
    shutil.copytree(path.parent / "pictures", path.parent / "copies")
    shutil.copytree(path.parent / "base", path.parent / "incomplete")
    weights = next((path.parent / "incomplete" / "unet").glob("*.safetensors"))
    tensors = load_file(weights)
    tensors.popitem()
    save_file(tensors, weights)
    return path


@pytest.fixture
def fail(config, monkeypatch):
    """Works on a run in a forked process to which something happens; a function that waits for it,
    and returns its event and the run.
    """
    monkeypatch.chdir(config.parent)  # which paths of changes are relative to
    forked, backward = [], Engine.backward

    def fail(happen=lambda folder: None, *, before=lambda folder: None, **changes):
        """happen: in the first step. before: in the worker, before it begins."""
        sections = {key: SMALL.get(key, {}) | changes.get(key, {}) for key in {*SMALL, *changes}}
        folder = runs.new_run(config, **sections)

        def main(arguments):
            before(folder)
            out_of_memory.explain_failure = lambda _: (_ for _ in ()).throw(LookupError)
            Engine.backward = lambda *given: (happen(folder), backward(*given))[1]
            return worker.main(arguments)

        forked.append(Forking(main))
        monkeypatch.setattr(client, "subprocess", forked[-1])
        run = client.start(folder)

        def ended():
            run.wait(runs.DEADLINE)
            events = runs.events_of(folder)
            run.poll()
            return (events[-1] if isinstance(events[-1], Failed) else None), run

        return ended

    yield fail
    for process in forked:
        process.end()


def raising(error):
    def happen(_):
        raise error

    return happen


def take_more_than_the_computer_has(_):
    used = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
    torch.empty(16 << 30, dtype=torch.uint8)


def take_no_large_file(_):
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY))


def checkpoints_on_sysfs(folder):
    """Where not even root makes folders; after the start, which refuses links."""
    if not folder.checkpoints.is_symlink():
        folder.checkpoints.rmdir()
        folder.checkpoints.symlink_to("/sys")


def truncate_images(folder):
    for path in (folder.path.parents[1] / "copies").glob("*.png"):
        path.write_bytes(path.read_bytes()[:200])


def without_package(_):
    sys.modules["prodigyplus"] = None


def without_a_network(_):
    class Unreachable:
        def model_info(self, *_arguments, **_options):
            raise OSError("no network")

    hub_download.HfApi = Unreachable


def lose_the_loss(_):
    def compute(*arguments):
        found = original(*arguments)
        return Loss(found.value * math.nan, found.per_item * math.nan)

    original, Denoising.compute = Denoising.compute, compute


def damage_the_cache(_):
    def assemble(run, *arguments):
        damage(RunFolder(run.folder.path.parents[1] / "own" / "run"), "latents")
        return made(run, *arguments)

    made, job.assemble = job.assemble, assemble


NO_MEMORY = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
CASES = {
    # Classes of errors and messages of torch, where there is no GPU.
    "device memory": ("program", {"happen": raising(NO_MEMORY)}),
    "device lost": ("program", {"happen": raising(torch.AcceleratorError(CUDA_ERROR))}),
    "host memory": ("program", {"happen": take_more_than_the_computer_has}),
    "disk full": ("user", {"happen": take_no_large_file}),
    "permission": ("user", {"happen": checkpoints_on_sysfs}),
    "file missing": ("user", {"model": {"path": "gone"}}),
    "image": ("user", {"happen": truncate_images} | UNCACHED),
    "cache": ("user", {"before": damage_the_cache, "data": {"cache_folder": "own/cache"}}),
    "driver": ("user", {"hardware": {"device": "cuda"}}),
    "package": ("user", {"before": without_package, "optimizer": {"kind": PRODIGY}}),
    "model family": ("user", {"model": {"path": "base", "family": "sd2"}}),
    "model file": ("user", {"model": {"path": "incomplete"}}),
    "offline": ("user", {"model": {"path": "owner/model", "offline": True}}),
    "download": ("user", {"before": without_a_network, "model": {"path": "owner/model"}}),
    "diverged": ("user", {"before": lose_the_loss} | STOPPING),
    "program": ("program", {"happen": raising(ZeroDivisionError("by zero"))}),
}


@pytest.mark.skipif(torch.cuda.is_available(), reason="the driver's case is for no GPU")
def test_what_ends_a_run_has_its_entry(fail):
    started = {name: fail(**what) for name, (_, what) in CASES.items()}
    for name, (kind, _) in CASES.items():
        failed, _ = started[name]()
        assert failed is not None, name
        assert (failed.failure, failed.kind) == (name, kind), failed
        assert all((failed.what, failed.remedy)), name


ENDS = {
    "killed": ("SIGKILL", lambda _: os.kill(os.getpid(), signal.SIGKILL)),
    "crashed": ("SIGSEGV", lambda _: os.kill(os.getpid(), signal.SIGSEGV)),
    "ended": ("SIGALRM", lambda _: os.kill(os.getpid(), signal.SIGALRM)),
    "silent": ("exit code 7", lambda _: os._exit(7)),
}


def test_what_ends_a_worker_without_a_word_has_its_entry(fail):
    started = {name: fail(happen) for name, (_, happen) in ENDS.items()}
    counted = {} if own_oom_count() is None else {"killed": "killed by another"}
    for name, (word, _) in ENDS.items():
        failed, run = started[name]()
        left = run.unexpected_exit()
        assert failed is None
        assert (left.failure, word in left.what) == (counted.get(name, name), True), left
        assert run.folder.path.parent in known_run_folders()  # for the window's lists


# torch's own, of GPUs that tests have none of.
WORDS = {
    "The operator 'aten::x' is not currently implemented for the MPS device.": "operation",
    "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64."
    " Please use float32 instead.": "operation",
    "Trying to convert Float8_e4m3fn to the MPS backend but it does not have support for that"
    " dtype.": "operation",
    "MPS backend out of memory (MPS allocated: 9.0 GB, max allowed: 9.1 GB).": "device memory",
    "adaptive_avg_pool2d_backward_cuda does not have a deterministic implementation, but you set"
    " 'torch.use_deterministic_algorithms(True)'.": "not deterministic",
    "HIP out of memory. Tried to allocate 20.00 MiB.": "device memory",
    "HIP error: unspecified launch failure": "device lost",
}


def test_words_of_apples_and_amds_gpus_are_recognized():
    for words, name in WORDS.items():
        assert recognize(RuntimeError(words)) == name


def test_a_disk_that_reports_errors_has_its_entry():
    with Path("/proc/self/mem").open("rb") as file, pytest.raises(OSError) as caught:
        file.read(1)
    wrapped = cannot_write(Path("/disk/run"), caught.value)
    wrapped.__cause__ = caught.value
    assert recognize(wrapped) == "disk error"
    # test_oom_kills.py, test_lost_worker.py
    elsewhere = {"out of memory", "killed by another", "lost", "restarted"}
    assert {*CASES, *ENDS, *WORDS.values(), "disk error", *elsewhere} == set(FAILURES)
