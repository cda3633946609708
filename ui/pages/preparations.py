"""What the window does while it is idle, so that the first visit of another page is quick."""

import tkinter as tk
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from onetrainer.config.base.field_help import field_help
from ui.context import View
from ui.model.form_fields import pages, settings_on
from ui.pages.registry import load_next
from ui.theme.faces import Faces
from ui.theme.rounded import set_up_all

AFTER_MS = 400
# Until the screen has usually asked for all that it shows.
_SEEN_AFTER_MS = 50
_INTERVAL_MS = 30


class Preparations:
    """Creates the pages of settings and imports the others, in pieces that delay no key.

    faces: get the styles of all pages. drawn: is called before, once the first page is drawn.
    views: the pages that exist. view: creates one of a name.
    """

    def __init__(
        self,
        root: tk.Tk,
        faces: Faces,
        drawn: Callable[[], None],
        views: Mapping[str, View],
        view: Callable[[str], View],
    ) -> None:
        self._faces = faces
        self._root = root
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
        self._timer = self._root.after(AFTER_MS, self._go_on, self._pieces())

    def _see(self) -> None:
        """Draw what the screen has asked for since, and go on with what it has no need of."""
        # Otherwise a page would stand there half drawn meanwhile.
        self._root.winfo_pointerxy()  # which it answers when it has asked for everything
        self._root.update()
        if not self._is_over:  # the window may have been closed
            self._drawn()

    def end(self) -> None:
        """Leave the rest, since the pages are destroyed."""
        self._is_over = True
        if self._timer:
            self._root.after_cancel(self._timer)
            self._timer = ""

    def _go_on(self, pieces: Iterator[None]) -> None:
        self._timer = ""
        for _ in pieces:
            self._timer = self._root.after(_INTERVAL_MS, self._go_on, pieces)
            return
        self.is_done = True

    def _pieces(self) -> Iterator[None]:
        """Yield after each piece."""
        set_up_all(self._faces)
        yield
        plans = pages()
        for plan in plans:
            if plan.name not in self._views:
                view = self._view(plan.name)
                yield
                yield from view.prepare()
        while load_next():
            yield
        for plan in plans:  # for the search, which looks into every help
            for setting in settings_on(plan):
                field_help(*setting.defined_at)
            yield
