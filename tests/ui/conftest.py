"""A screen for the tests of the window, and windows on it that are ended after each test."""

import gc
import os
import subprocess
import sys
import time
import tkinter as tk
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from onetrainer import ROOT
from onetrainer.run.client import WORKER
from tests.forked import Forked
from tests.ui.desk import SHORT_WAITS, Desk
from tests.ui.project import write_project
from tests.ui.pumping import pump_until
from tests.ui.window_server import end_all, serve_workers
from tests.ui.xscreen import DEADLINE, Hands, screen
from ui.background.collection import collect_in_this_thread
from ui.background.threads import Jobs
from ui.forms.form import Form
from ui.forms.row import FormContext
from ui.model.draft import Draft
from ui.model.form_fields import pages
from ui.theme.theme import Theme
from ui.widgets.widgets import Widgets

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and {"display", "root", "open_desk"} & set(item.fixturenames):
            item.add_marker(pytest.mark.gui)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    if _has_root(item):
        collect_in_this_thread()  # before what the test finds is noted
    result = yield
    is_last = nextitem is None or nextitem.path != item.path
    if _has_root(item) and (is_last or not _has_root(nextitem)):
        # A root window that a later test's thread happened to drop would abort the process.
        gc.collect()
        gc.enable()
    return result


def _has_root(item: pytest.Item | None) -> bool:
    return isinstance(item, pytest.Function) and "root" in item.fixturenames


@pytest.fixture(scope="session")
def display() -> Iterator[str]:
    with screen() as name:
        yield name


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a process that forks windows and stand-in workers; it ends with the tests."""
    address = tmp_path_factory.mktemp("server") / "windows"
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.ui.window_server", str(address)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE) as process:
        _await_server(address, process)
        yield str(address)
        process.stdin.close()


@pytest.fixture(scope="module")
def window_server(served: str) -> Iterator[str]:
    """The same for a file of tests: nothing that they have started outlives them."""
    yield served
    end_all(served)


@pytest.fixture(scope="session")
def served_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a process that forks real workers."""
    address = tmp_path_factory.mktemp("server") / "workers"
    with address.with_suffix(".log").open("wb") as log:
        process = Forked(serve_workers, [str(address)], log, has_pipes=True)
    assert process.stdin is not None and process.stdout is not None
    with process.stdin, process.stdout:
        _await_server(address, process)
        yield str(address)
    process.wait(DEADLINE)


@pytest.fixture(scope="module")
def worker_server(served_workers: str) -> Iterator[str]:
    """The same for a file of tests: nothing that they have started outlives them."""
    yield served_workers
    end_all(served_workers)


def _await_server(address: Path, process: "subprocess.Popen[bytes] | Forked") -> None:
    while not address.with_suffix(".ready").exists():
        assert process.poll() is None, "the server did not start"
        time.sleep(0.02)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder of the test's own."""
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(path / "config"))
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The config of a project that can start."""
    return write_project(tmp_path / "project")


@pytest.fixture
def long_project(tmp_path: Path) -> Path:
    """The config of a project whose run does not end by itself during a test."""
    return write_project(tmp_path / "project", training={"steps": 20_000, "batch_size": 4})


@pytest.fixture
def root(display: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tk.Tk]:
    """A root window in this process; a callback that raises fails the test."""
    monkeypatch.setenv("DISPLAY", display)
    hands = Hands(display)
    hands.park()  # where the last test has left it, a widget may come to lie under it
    hands.close()
    window = tk.Tk()
    gc.collect()  # of the window before
    caught: list[BaseException] = []
    window.report_callback_exception = lambda kind, error, trace: caught.append(error)
    # The window manager gives it the keyboard a while after it has come up; a test that began
    # before would lose it to that.
    pump_until(window, lambda: window.winfo_viewable() and window.focus_get() is not None)
    yield window
    window.destroy()
    assert caught == []


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


@pytest.fixture
def widgets(root: tk.Tk, jobs: Jobs) -> Widgets:
    """What makes the widgets of the root window, which is dark."""
    made = Widgets(Theme(root), jobs)
    made.theme.apply("dark")
    return made


@pytest.fixture
def draft(home: Path, project: Path) -> Draft:
    """The project's config, being edited."""
    made = Draft()
    made.load(project)
    return made


@pytest.fixture
def make_form(root: tk.Tk, widgets: Widgets, draft: Draft) -> Callable[..., Form]:
    """Puts the settings of a page, by its name, into the root window; they follow the draft."""

    def make(name: str, *, with_advanced: bool = True) -> Form:
        plan = next(plan for plan in pages() if plan.name == name)
        frame = widgets.frame(root, ground="window")
        frame.pack()
        form = Form(FormContext(widgets, draft, lambda *_: None), frame, plan, line=0)
        form.with_advanced = with_advanced
        draft.listen(form.refresh)
        form.refresh()
        root.update()
        return form

    return make


@pytest.fixture
def open_desk(
    display: str, tmp_path: Path, window_server: str, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Desk]]:
    """Opens windows in processes of their own; a defect that one meets fails the test."""
    desks: list[Desk] = []
    folder = tmp_path / "home"

    def open_one(*arguments: object, worker: str = "tests.ui.fake_worker", **how: Any) -> Desk:
        folder.mkdir(exist_ok=True)
        words = [str(argument) for argument in arguments]
        how["server"] = window_server if worker else ""
        how["workers"] = request.getfixturevalue("worker_server") if worker == WORKER else ""
        how["constants"] = (SHORT_WAITS if worker else {}) | how.get("constants", {})
        desk = Desk(display, folder, *words, worker=worker, **how)
        desks.append(desk)
        return desk

    yield open_one
    error_log = [defect for desk in desks for defect in desk.end()]
    for events in tmp_path.rglob("events.jsonl"):
        end_worker(events)
    assert error_log == []


@pytest.fixture(scope="module")
def session_windows(
    display: str, tmp_path_factory: pytest.TempPathFactory, window_server: str
) -> Iterator[Callable[[Path, str], Desk]]:
    """Prepares the one window of a file: as if just opened with a config, at its usual size."""
    desks: list[Desk] = []

    def begin(path: Path, mode: str) -> Desk:
        if not desks:
            home = tmp_path_factory.mktemp("home")
            how: Any = {"server": window_server, "constants": SHORT_WAITS}
            desks.append(Desk(display, home, **how))
        desks[0].ask("begin", path=str(path), mode=mode)
        desks[0].park()
        return desks[0]

    yield begin
    for desk in desks:
        desk.end()


@pytest.fixture
def begin(session_windows: Callable[[Path, str], Desk]) -> Iterator[Callable[..., Desk]]:
    """Opens a config in the window of the file; a defect that it meets fails the test."""
    desks: list[Desk] = []

    def begin_with(path: Path, mode: str = "ok") -> Desk:
        desks.append(session_windows(path, mode))
        return desks[-1]

    yield begin_with
    if desks:
        desks[-1].key("Escape")
        assert desks[-1].ask("forget errors")["errors"] == []


@pytest.fixture
def desk(begin: Callable[..., Desk], project: Path) -> Desk:
    """The window of the file with the project just opened."""
    return begin(project)


def end_worker(events: Path) -> None:
    """Kills a worker that a test left at work."""
    import json
    import signal
    from contextlib import suppress

    for line in events.read_text().splitlines():
        body = json.loads(line)
        if body["type"] == "Started" and (events.parent / "lock").exists():
            with suppress(ProcessLookupError):
                os.kill(body["pid"], signal.SIGKILL)
