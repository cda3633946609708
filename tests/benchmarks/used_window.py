"""Uses the window and reports what it takes: `python -m tests.benchmarks.used_window JOURNEY PATH`.

JOURNEY: "pages" and "images" with a config, "samples" with a run's folder; see `big_lists`.

Of each stage, in ms: own: the longest that the window's thread computes at a stretch, for which a
key would have to wait; all: the longest that the process computes, with all of its threads, between
two turns of the window: a bound of what it waits for its other threads; late: the longest between
two turns by the clock, which a busy machine makes longer. MB: resident memory; most: the largest
so far.
"""

import itertools
import json
import resource
import sys
import time
import tkinter as tk
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from onetrainer.presets.find import locate
from ui.app import App

_TICK_MS = 1
_TURNS = 250
_REST_S = 1.0
_CHANGES = 6

Journey = Callable[[App], Iterator[str]]
"""Yields the name of the stage that goes on; "" for one that is not reported."""


class Watch:
    """Follows a journey, one step a turn of the window, and reports each of its stages."""

    def __init__(self, app: App, journey: Journey) -> None:
        self._app, self._steps = app, journey(app)
        self._stage = ""
        self._clocks = (time.thread_time, time.process_time, time.perf_counter)
        self._longest = [0.0, 0.0, 0.0]
        self._began = time.perf_counter()
        self._turn([clock() for clock in self._clocks])

    def _turn(self, before: list[float]) -> None:
        spent = [clock() - then for clock, then in zip(self._clocks, before, strict=True)]
        self._longest = [max(pair) for pair in zip(self._longest, spent, strict=True)]
        stage = next(self._steps, None)
        if stage != self._stage:
            self._report()
            self._stage, self._longest = stage or "", [0.0, 0.0, 0.0]
            self._began = time.perf_counter()
        if stage is None:
            self._app.root.destroy()
            return
        self._app.root.after(_TICK_MS, self._turn, [clock() for clock in self._clocks])

    def _report(self) -> None:
        if not self._stage:
            return
        names = ("own", "all", "late")
        figures = {name: round(1000 * s) for name, s in zip(names, self._longest, strict=True)}
        seconds = round(time.perf_counter() - self._began, 1)
        say(stage=self._stage, **figures, seconds=seconds, **memory())


def say(**figures: object) -> None:
    sys.stdout.write(json.dumps({"benchmark": "big_lists", **figures}) + "\n")
    sys.stdout.flush()


def memory() -> dict[str, int]:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"MB": psutil.Process().memory_info().rss >> 20, "most": most}


def until(condition: Callable[[], object], stage: str = "") -> Iterator[str]:
    while not condition():
        yield stage


def rest(stage: str = "") -> Iterator[str]:
    end = time.perf_counter() + _REST_S
    yield from until(lambda: time.perf_counter() > end, stage)


def visit(app: App, name: str) -> float:
    """Shows a page; the ms of the window's thread until it is on the screen."""
    began = time.thread_time()
    app.show_page(name)
    app.root.update()
    return 1000 * (time.thread_time() - began)


def turn(widget: tk.Misc, button: int, stage: str, count: int = _TURNS) -> Iterator[str]:
    """Turns the mouse wheel over a widget."""
    for _ in range(count):
        widget.event_generate(f"<Button-{button}>", x=20, y=20)
        yield stage


def through_pages(app: App) -> Iterator[str]:
    """Visits all pages twice, once the window has prepared them."""
    say(stage="opened", **memory())
    yield from until(lambda: app.preparations.is_done, "prepared")
    names = [page.name for page in app.context.pages]
    for stage in ("first visit", "later visit"):
        visits = {}
        for name in names:
            visits[name] = round(visit(app, name))
            yield from rest()
        say(stage=stage, **visits)
    yield from rest("all pages seen")
    app.show_page("training")
    yield from rest()
    presets = itertools.cycle(map(locate, ("sdxl/lora-16gb", "sd15/lora")))
    zooms = itertools.cycle((1, -1))
    for name, change in (
        ("preset applied", lambda: app.presets.load(next(presets))),
        ("theme changed", app.switch_mode),
        ("scale changed", lambda: app.zoom(next(zooms))),
    ):
        spent = []
        for _ in range(_CHANGES):
            spent.append(round(timed(app, change)))
            yield from until(lambda: app.preparations.is_done)
            yield from rest()
        say(stage=name, ms=sorted(spent), **memory())


def timed(app: App, change: Callable[[], object]) -> float:
    """Changes something; the ms of the window's thread until it is on the screen."""
    began = time.thread_time()
    change()
    app.root.update()
    while app._is_resizing:
        app.root.update()
    app.root.update()
    return 1000 * (time.thread_time() - began)


def through_images(app: App) -> Iterator[str]:
    """Opens the page of images while they are read, then scrolls, searches, and counts tags."""
    yield from until(lambda: app.preparations.is_done, "opened")
    app.show_page("images")
    page = app.view("images")
    canvas = page.thumbnails.grid.canvas
    yield from until(lambda: page.images.rows, "listed")
    while page.query.is_working:  # in bursts, as a person does, and the readers get on
        yield from turn(canvas, 5, "scrolled while reading", 20)
        yield from rest("scrolled while reading")
    yield from rest("read")
    yield from turn(canvas, 5, "scrolled")
    for key in ("End", "Prior", "Prior", "Home", "Next"):
        canvas.event_generate(f"<{key}>")
        yield from turn(canvas, 5, "to the end and back", 10)
    page.filter_bar._text.set("tag 7")
    yield from rest("searched")
    page.filter_bar._text.set("")
    yield from rest("all again")
    page.panels.show_tab("tags")
    yield from until(lambda: page.panels.tags.counts, "tags counted")
    yield from turn(page.panels.tags.grid.canvas, 5, "tags scrolled", 50)
    canvas.event_generate("<Control-a>")
    yield from rest("all marked")
    page._reread()
    yield from until(lambda: not page.query.is_working, "read again")
    yield from rest("at rest")
    app.show_page("preview")
    yield from until(lambda: not app.context.preview.query.is_working, "examined")
    yield from rest("preview at rest")


def through_samples(app: App) -> Iterator[str]:
    """Shows a run with thousands of samples, scrolls their table, and goes along the steps."""
    yield from until(lambda: app.preparations.is_done, "opened")
    app.show_page("samples")
    page = app.view("samples")
    yield from until(lambda: not app.session.has_worker, "read")
    yield from rest("shown")
    for _ in range(_TURNS):
        page.gallery._xview("scroll", "-1", "units")
        yield "scrolled"
    yield from turn(page.gallery.canvas, 5, "scrolled")
    for _ in range(_TURNS // 5):
        page.viewer.timeline.move(-1)
        yield "along the steps"
    yield from rest("at rest")


JOURNEYS: dict[str, Journey] = {
    "pages": through_pages,
    "images": through_images,
    "samples": through_samples,
}


def main(arguments: list[str]) -> None:
    from ui.__main__ import make_parser, open_window

    name, path = arguments
    is_run = Path(path).is_dir()
    app = open_window(make_parser().parse_args([] if is_run else [path]))
    if is_run:
        app.runs.attach(Path(path))
    Watch(app, JOURNEYS[name])
    app.run()


if __name__ == "__main__":
    main(sys.argv[1:])
