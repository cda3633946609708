"""What the window does while it is idle, so that the first visit of another page is quick."""

import tkinter as tk
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from threading import Event

from onetrainer.config.base.field_help import field_help
from ui.background.threads import Jobs
from ui.context import View
from ui.model.form_fields import pages, settings_on
from ui.pages.registry import load_all
from ui.theme.faces import Faces
from ui.theme.rounded import set_up_all

AFTER_MS = 400
# Until the screen has usually asked for all that it shows, and again until it shows that.
_SEEN_AFTER_MS = 40
_INTERVAL_MS, _AT_ONCE_MS = 30, 1


class Preparations:
    """Creates the pages of settings in pieces that delay no key, and imports the others.

    jobs: imports in a thread. faces: get the styles of all pages. drawn: does in pieces what is to
    follow the first page at once. views: the pages that exist. view: creates one of a name.
    """

    def __init__(
        self,
        root: tk.Tk,
        jobs: Jobs,
        faces: Faces,
        drawn: Callable[[], Iterator[None]],
        views: Mapping[str, View],
        view: Callable[[str], View],
    ) -> None:
        self._root, self._jobs, self._faces = root, jobs, faces
        self._drawn = drawn
        self._views = views
        self._view = view
        self._timer = ""
        self.is_done = self._is_over = False

    def begin(self) -> None:
        """Begin a while after the first page is on the screen."""
        # Idle once, Tk draws what it has placed; idle again, it has done so.
        see = partial(self._root.after, _SEEN_AFTER_MS, self._see)
        self._root.after_idle(self._root.after_idle, see)

    def end(self) -> None:
        """Leave the rest, since the pages are destroyed."""
        self._is_over = True
        if self._timer:
            self._root.after_cancel(self._timer)
            self._timer = ""

    def _see(self) -> None:
        """Draw what the screen has asked for since, and go on with what it has no need of."""
        if self._is_over:
            return
        # Otherwise a page would stand there half drawn meanwhile.
        self._root.winfo_pointerxy()  # which it answers when it has asked for everything
        # Before the events, one of which may open a dialog, and the next pieces must not wait for
        # its end, or close the window.
        self._timer = self._root.after(_SEEN_AFTER_MS, self._go_on, self._pieces())
        self._root.update()

    def _go_on(self, pieces: Iterator[int]) -> None:
        self._timer = ""
        for pause in pieces:
            self._timer = self._root.after(pause, self._go_on, pieces)
            return
        self.is_done = True

    def _pieces(self) -> Iterator[int]:
        """Yield after each piece how long to rest, in ms."""
        for _ in self._drawn():
            yield _AT_ONCE_MS
        yield AFTER_MS
        set_up_all(self._faces)
        yield _INTERVAL_MS
        plans = pages()
        for plan in plans:
            if plan.name not in self._views:
                view = self._view(plan.name)
                yield _INTERVAL_MS
                for _ in view.prepare():
                    yield _INTERVAL_MS
        loaded = Event()

        def load() -> None:
            try:
                load_all()
            finally:  # `deliver` raises what a page that cannot be imported has raised
                loaded.set()

        self._jobs.run(load, lambda _: None)
        for plan in plans:  # for the search, which looks into every help
            for setting in settings_on(plan):
                field_help(*setting.defined_at)
            yield _INTERVAL_MS
        while not loaded.is_set():
            yield _INTERVAL_MS
