"""Navigation: list of pages with a mark for problems and changes."""

import tkinter as tk
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

import customtkinter

from ui.context import Page
from ui.theme.palette import Role
from ui.theme.theme import pair
from ui.widgets.button import focusable
from ui.widgets.widgets import Widgets

WIDTH = 196
# Height of an entry, space between entries, and above and below the title of a group: the first
# that fit into the window.
_SIZES = ((34, 1, 18, 4), (31, 1, 18, 4), (27, 1, 18, 4), (21, 0, 2, 1))
_Size = tuple[int, int, int, int]


class NavItem:
    """Entry of one page."""

    def __init__(
        self, widgets: Widgets, parent: tk.Misc, name: str, title: str, go: Callable[[], object]
    ) -> None:
        self._widgets = widgets
        self._is_current = False
        self.mark = ("", "")
        self.button = customtkinter.CTkButton(
            parent,
            text=title,
            anchor="w",
            height=_SIZES[0][0],
            corner_radius=7,
            border_width=2,
            border_spacing=1,
            fg_color=pair("side"),
            bg_color=pair("side"),
            hover_color=pair("raised"),
            border_color=pair("side"),
            text_color=pair("text"),
            font=widgets.theme.ctk_font(14),
            command=go,
        )
        self.button.pack(fill="x", padx=widgets.px(10))
        self._label = widgets.label(self.button, style="SmallDim", ground="side")
        widgets.theme.paint(self._label, background="side")
        widgets.name(self.button, f"page {name}")
        focusable(self.button, go, self._show_focus)

    def set_current(self, is_current: bool) -> None:
        """Show whether this is the current page."""
        if is_current == self._is_current:
            return
        self._is_current = is_current
        face = pair(self._face)
        hover = face if is_current else pair("raised")
        self.button.configure(fg_color=face, border_color=face, hover_color=hover)
        self._widgets.theme.paint(self._label, background=self._face)

    def set_mark(self, text: str, tone: str) -> None:
        """Show a text at the right end. tone: style of a label, such as "Danger"."""
        if (text, tone) == self.mark:
            return
        self.mark = (text, tone)
        self._label.say(text, f"Small{tone}")
        if text:
            self._label.place(relx=1.0, rely=0.5, anchor="e", x=-self._widgets.px(10))
        else:
            self._label.place_forget()

    @property
    def _face(self) -> Role:
        return "selected" if self._is_current else "side"

    def _show_focus(self, has_focus: bool) -> None:
        self.button.configure(border_color=pair("accent" if has_focus else self._face))


class Nav:
    """Navigation with groups of entries."""

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        pages: Sequence[Page],
        go: Callable[[str], object],
    ) -> None:
        self._widgets = widgets
        self.outer = widgets.frame(parent, ground="side")
        self.outer.configure(width=widgets.px(WIDTH))
        self.outer.pack_propagate(False)
        self._items: dict[str, NavItem] = {}
        self._titles: list[tk.Widget] = []
        listed = (page for page in pages if page.group)
        for title, members in groupby(listed, key=lambda page: page.group):
            label = widgets.label(self.outer, title, style="SmallDim", ground="side")
            label.pack(anchor="w", padx=widgets.px(18))
            self._titles.append(label)
            for page in members:
                item = NavItem(widgets, self.outer, page.name, page.title, partial(go, page.name))
                self._items[page.name] = item
        self.foot = widgets.frame(self.outer, ground="side")
        # Before the entries, so that it is not the part that is cut off.
        self.foot.pack(side="bottom", fill="x", before=self._titles[0])
        self.foot.pack(padx=widgets.px(8), pady=widgets.px(8))
        self._size: _Size = (0, 0, 0, 0)
        self._set_size(_SIZES[0])
        self.outer.bind("<Configure>", self._fit)

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
        fitting = (size for size in _SIZES if self._needed(*size) <= event.height)
        self._set_size(next(fitting, _SIZES[-1]))

    def _needed(self, height: int, gap: int, above: int, below: int) -> int:
        px = self._widgets.px
        entries = len(self._items) * (px(height) + 2 * px(gap))
        titles = sum(px(above) + title.winfo_reqheight() + px(below) for title in self._titles)
        return entries + titles + self.foot.winfo_reqheight() + 2 * px(8)

    def _set_size(self, size: _Size) -> None:
        if size == self._size:
            return
        self._size = size
        px, (height, gap, above, below) = self._widgets.px, size
        for item in self._items.values():
            item.button.configure(height=height)
            item.button.pack(pady=px(gap))
        for title in self._titles:
            title.pack(pady=(px(above), px(below)))
