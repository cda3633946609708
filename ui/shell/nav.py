"""Navigation: list of pages with a mark for problems and changes."""

import tkinter as tk
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from tkinter import ttk
from typing import NamedTuple

from ui.context import Page
from ui.theme.palette import Role
from ui.theme.rounded import entry_style
from ui.theme.theme import BODY, LARGE, SMALL
from ui.widgets.button import bind_press
from ui.widgets.widgets import Label, Widgets

WIDTH = 196
_MARGIN = 10
_TEXT_MARGIN = 9
# Height of header, status line and foot, about.
_AROUND = 115


class _Size(NamedTuple):
    """Height of an entry, its font, space around entries, and around a group's title."""

    height: int
    font: str
    gap: int
    above: int
    below: int


# The first that fits into the window. An entry is never lower than its text and 8 pixels.
_SIZES = (
    _Size(34, LARGE, 1, 18, 4),
    _Size(31, LARGE, 1, 18, 4),
    _Size(27, LARGE, 1, 18, 4),
    _Size(25, BODY, 0, 2, 1),
    _Size(23, SMALL, 0, 2, 1),
)


class NavItem:
    """Entry of one page."""

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        page: Page,
        go: Callable[[], object],
        size: _Size,
    ) -> None:
        self._widgets = widgets
        self.is_current = False
        self.mark = ("", "")
        self.button = ttk.Button(parent, text=page.title, command=go, takefocus=1)
        self._go = go
        self._label: Label | None = None
        self.fit(size)
        self.button.pack(fill="x", padx=widgets.px(_MARGIN))
        widgets.name(self.button, f"page {page.name}")
        bind_press(self.button, go)

    def fit(self, size: _Size) -> None:
        """Give the entry a size."""
        theme, px = self._widgets.theme, self._widgets.px
        around, margin = max(px(size.height) - theme.line_height(size.font), 0), px(_TEXT_MARGIN)
        padding = (margin, around // 2, margin, around - around // 2)
        self.button.configure(style=entry_style(theme.faces, size.font), padding=padding)
        self.button.pack_configure(pady=px(size.gap))

    def set_current(self, is_current: bool) -> None:
        """Show whether this is the current page."""
        if is_current == self.is_current:
            return
        self.is_current = is_current
        self.button.state(["selected" if is_current else "!selected"])
        self._color_mark()

    def set_mark(self, text: str, tone: str) -> None:
        """Show a text at the right end. tone: style of a label, such as "Danger"."""
        if (text, tone) == self.mark:
            return
        self.mark = (text, tone)
        if not text and self._label is None:  # as that of most pages, always
            return
        label = self._label or self._make_mark()
        label.say(text, f"Small{tone}")
        if text:
            label.place(relx=1.0, rely=0.5, anchor="e", x=-self._widgets.px(10))
        else:
            label.place_forget()

    def _make_mark(self) -> Label:
        """Create the label of the mark, which looks and acts as a part of the button."""
        self._label = label = self._widgets.label(self.button, style="SmallDim", ground="side")
        label.bind("<Button-1>", lambda _: self._go())
        for event in ("<Enter>", "<Leave>"):
            self.button.bind(event, lambda _: self._color_mark(), add="+")
        self._color_mark()
        return label

    def _color_mark(self) -> None:
        if self._label is not None:
            x, y = self.button.winfo_pointerxy()
            below = self.button.winfo_containing(x, y)
            is_over = below in (self.button, self._label)
            face: Role = "selected" if self.is_current else "raised" if is_over else "side"
            self._widgets.theme.paint(self._label, background=face)

    def take_focus(self) -> None:
        """Move the keyboard to the entry."""
        self.button.focus_set()


class Nav:
    """Navigation with groups of entries.

    height: pixels of the window once it is on the screen; another one draws all entries again.
    """

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        pages: Sequence[Page],
        go: Callable[[str], object],
        height: int,
    ) -> None:
        self._widgets = widgets
        self.outer = widgets.frame(parent, ground="side")
        self.outer.pack_propagate(False)
        # The button that shows the navigation where it is folded.
        self.opener: tk.Misc | None = None
        self._items: dict[str, NavItem] = {}
        self._groups: list[tuple[ttk.Frame, Label, list[NavItem]]] = []
        self.foot = widgets.frame(self.outer, ground="side")
        listed = (page for page in pages if page.group)
        members = {title: [*each] for title, each in groupby(listed, key=lambda page: page.group)}
        self._counts = [len(each) for each in members.values()]
        for title in members:
            box = widgets.frame(self.outer, ground="side")
            label = widgets.label(box, title, style="SmallDim", ground="side")
            label.pack(anchor="w", padx=widgets.px(18))
            self._groups.append((box, label, []))
        self._columns = 0
        self.spread(False)
        self._size = self._largest(height - widgets.px(_AROUND))
        for (box, label, items), each in zip(self._groups, members.values(), strict=True):
            self._space(label, self._size)
            for page in each:
                item = NavItem(widgets, box, page, partial(go, page.name), self._size)
                self._items[page.name] = item
                items.append(item)
        self.foot.lift()  # the last in the Tab order
        self.outer.bind("<Configure>", self._fit)

    def spread(self, is_spread: bool) -> None:
        """Put the groups side by side, or one below the other."""
        columns = len(self._groups) if is_spread else 1
        if columns == self._columns:
            return
        self._columns = columns
        width, pad = self._widgets.px(WIDTH), self._widgets.px(8)
        for box, _, __ in self._groups:
            box.configure(width=width)
            box.pack(side="left" if is_spread else "top", fill="both" if is_spread else "x")
            box.pack(expand=is_spread)
        if is_spread:  # in the column with most room
            self.foot.pack_forget()
            left = self._shortest / columns
            self.foot.place(relx=left, rely=1, x=pad, y=-pad, width=width - 2 * pad, anchor="sw")
        else:
            # Before the entries, so that it is not the part that is cut off.
            self.foot.place_forget()
            self.foot.pack(side="bottom", fill="x", before=self._groups[0][0], padx=pad, pady=pad)
        self.outer.configure(width=width * columns)

    @property
    def least_height(self) -> int:
        """Pixels that all groups need one below the other."""
        return self._needed(_SIZES[-1], columns=1)

    @property
    def _shortest(self) -> int:
        """The index of the group with the fewest entries."""
        return self._counts.index(min(self._counts))

    def take_focus(self) -> None:
        """Move the keyboard to the current page's entry."""
        items = [*self._items.values()]
        current = next((item for item in items if item.is_current), items[0])
        current.take_focus()

    def show_current(self, name: str) -> None:
        """Highlight the current page."""
        for key, item in self._items.items():
            item.set_current(key == name)

    def mark(self, name: str, text: str, tone: str = "Dim") -> None:
        """Show the mark of a page."""
        if name in self._items:
            self._items[name].set_mark(text, tone)

    def _fit(self, event: "tk.Event[tk.Misc]") -> None:
        """Reduce the entries and the space between groups if the window is too low for them."""
        self._set_size(self._largest(event.height))

    def _largest(self, room: int) -> _Size:
        sizes = (size for size in _SIZES if self._needed(size, columns=self._columns) <= room)
        return next(sizes, _SIZES[-1])

    def _needed(self, size: _Size, *, columns: int) -> int:
        px = self._widgets.px
        heights = [
            px(size.above)
            + title.winfo_reqheight()
            + px(size.below)
            + count * (px(size.height) + 2 * px(size.gap))
            for (_, title, _), count in zip(self._groups, self._counts, strict=True)
        ]
        foot = self.foot.winfo_reqheight() + 2 * px(8)
        return (
            sum(heights) + foot if columns == 1 else max(*heights, heights[self._shortest] + foot)
        )

    def _set_size(self, size: _Size) -> None:
        if size == self._size:
            return
        self._size = size
        for _, title, items in self._groups:
            self._space(title, size)
            for item in items:
                item.fit(size)

    def _space(self, title: Label, size: _Size) -> None:
        title.pack(pady=(self._widgets.px(size.above), self._widgets.px(size.below)))
