"""Tiny models shared by the engine's tests; nobody writes into what a session fixture gives."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
import torch
from accelerate.state import AcceleratorState
from torch import nn

from modules import worker
from modules.families import components
from modules.families.stable_diffusion import StableDiffusion
from modules.jobs.train import train
from modules.training.reporter import Reporter
from modules.world.launch import ADDRESS, place_in, variables_of
from modules.world.link import Hub, Line
from modules.world.world import World
from onetrainer.families.spec import ComponentSpec
from onetrainer.run import client
from tests import runs, tiny
from tests.copies import Original
from tests.forked import Forked, Forking
from tests.modules import worker_at_a_moment

THREADS = int(os.environ.get("TEST_THREADS", "1"))


@pytest.fixture(scope="session", autouse=True)
def as_tiny_tensors_are_fast() -> None:
    """Tiny tensors gain nothing from threads, and several processes of tests lose much.

    `tests.processors` asks for more, as two threads add in another order. Convolutions by oneDNN
    prepare more than they compute: without it a step takes two thirds of the time.
    """
    torch.set_num_threads(THREADS)
    torch.backends.mkldnn.enabled = False


@pytest.fixture(autouse=True)
def as_many_threads_as_asked_for() -> None:
    """Jobs that are called here, and are a process's only one otherwise, set their own number."""
    torch.set_num_threads(THREADS)


@pytest.fixture(scope="session", autouse=True)
def built_networks() -> Iterator[None]:
    """Empty networks of a config are built once and then copied, as that takes half of loading."""

    @cache
    def built(component: ComponentSpec, config: str) -> Original[nn.Module]:
        return Original(build(component, json.loads(config)))

    build = components.build_empty
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            components,
            "build_empty",
            lambda component, config: built(component, json.dumps(config)).copy(),
        )
        yield


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory) -> Path:
    """A tiny SD 1.5 as a diffusers folder."""
    return tiny.write_folder(tmp_path_factory.mktemp("models") / "tiny-sd15")


@pytest.fixture(scope="session")
def tiny_configs(tmp_path_factory) -> Path:
    """The configs that `tiny_file` is opened with."""
    return tiny.write_configs(tmp_path_factory.mktemp("configs") / "tiny-sd15")


@pytest.fixture(scope="session")
def tiny_file(tmp_path_factory) -> Path:
    """The same tiny SD 1.5 as a single file in the original layout."""
    return tiny.write_single_file(tmp_path_factory.mktemp("models") / "tiny-sd15.safetensors")


@pytest.fixture
def family() -> StableDiffusion:
    """A loaded tiny SD 1.5 of the test's own, float32 on the CPU."""
    return tiny.family()


@pytest.fixture(scope="module")
def real_blocks() -> Iterator[None]:
    """The UNets of a file's tests have as many layers as the real ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "layers_per_block", 2)
        yield


@pytest.fixture
def no_network(monkeypatch) -> None:
    """Any attempt to connect fails the test."""

    def refuse(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def forked_workers(monkeypatch) -> Iterator[None]:
    """Workers are forked from this process, which has loaded everything that they import."""
    forking = Forking(worker.main)
    monkeypatch.setattr(client, "subprocess", forking)
    yield
    forking.end()


@pytest.fixture
def starting(monkeypatch):
    """A worker that is started meanwhile is one to which something happens.

    What it can be, `worker_at_a_moment` says.
    """
    forked = []

    @contextmanager
    def start(moment):
        what, steps = moment.split()

        def main(arguments: list[str]) -> int:
            return worker_at_a_moment.main(Path(arguments[0]), what, int(steps))

        forked.append(Forking(main))
        with monkeypatch.context() as patch:
            patch.setattr(client, "subprocess", forked[-1])
            yield

    yield start
    for forking in forked:
        forking.end()


@pytest.fixture
def at_a_moment(starting):
    """Works on a run folder until its worker ends, to which something happens; the exit code.

    then: called with the run as soon as it is started.
    """

    def work(moment, folder, then=None):
        with starting(moment):
            run = client.start(folder)
        if then is not None:
            then(run)
        return run.wait(runs.DEADLINE)

    return work


@pytest.fixture
def crash_in(monkeypatch):
    """Runs a folder until a step has been made, then dies without a message."""

    class Crash(BaseException):
        pass

    def crash(folder, step):
        def progress(self, **arguments):
            if arguments["step"] == step:
                raise Crash
            original(self, **arguments)

        original = Reporter.progress
        with monkeypatch.context() as patch:
            patch.setattr(Reporter, "progress", progress)
            with pytest.raises(Crash):
                train(folder)

    return crash


@pytest.fixture
def together(tmp_path):
    """Runs rank 0's part in a fork, with others that follow its orders; returns its result."""
    processes = []

    def run(size, first, orders):
        hub = Hub(size, host="127.0.0.1", log_of=str, on_lost=lambda _: None)
        variables = {**variables_of(size, device="cpu", threads=1), ADDRESS: hub.address}

        def main(arguments):
            os.environ.update(variables | {"RANK": arguments[0], "LOCAL_RANK": arguments[0]})
            AcceleratorState._reset_state(reset_partial_state=True)
            place = place_in(os.environ)
            if place.rank == 0:
                hub.start({})
                world = World(place, hub)
                world.join()
                (tmp_path / "result").write_text(json.dumps(first(world)))
                hub.close(is_done=True)
                return 0
            world = World(place, Line(place.address, place.rank))
            world.join()
            world.follow(orders(world))
            return 1

        with (tmp_path / "log").open("wb") as log:
            processes.extend(Forked(main, [str(rank)], log) for rank in range(size))
        hub.close(is_done=True)  # here; rank 0 has its own
        assert [each.wait(60) for each in processes] == [0] * size, (tmp_path / "log").read_text()
        return json.loads((tmp_path / "result").read_text())

    yield run
    for process in processes:
        process.kill()
        process.wait()
