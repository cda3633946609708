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
# Height of an entry, in a window of the usual height and in a low one.
_HEIGHT, _LOW_HEIGHT = 34, 27


class NavItem:
    """Entry of one page."""

    def __init__(
        self, widgets: Widgets, parent: tk.Misc, name: str, title: str, go: Callable[[], None]
    ) -> None:
        self._widgets = widgets
        self._is_current = False
        self.mark = ("", "")
        self.button = customtkinter.CTkButton(
            parent,
            text=title,
            anchor="w",
            height=_HEIGHT,
            corner_radius=7,
            border_width=2,
            border_spacing=2,
            fg_color=pair("side"),
            bg_color=pair("side"),
            hover_color=pair("raised"),
            border_color=pair("side"),
            text_color=pair("text"),
            font=widgets.theme.ctk_font(14),
            command=go,
        )
        self.button.pack(fill="x", padx=widgets.px(10), pady=1)
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

    def set_low(self, *, is_low: bool) -> None:
        """Reduce the height, or restore it."""
        self.button.configure(height=_LOW_HEIGHT if is_low else _HEIGHT)

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
        go: Callable[[str], None],
    ) -> None:
        self._widgets = widgets
        self.outer = widgets.frame(parent, ground="side")
        self.outer.configure(width=widgets.px(WIDTH))
        self.outer.pack_propagate(False)
        self._items: dict[str, NavItem] = {}
        listed = (page for page in pages if page.group)
        for title, members in groupby(listed, key=lambda page: page.group):
            widgets.label(self.outer, title, style="SmallDim", ground="side").pack(
                anchor="w", padx=widgets.px(18), pady=(widgets.px(18), widgets.px(4))
            )
            for page in members:
                item = NavItem(widgets, self.outer, page.name, page.title, partial(go, page.name))
                self._items[page.name] = item
        self.foot = widgets.frame(self.outer, ground="side")
        self.foot.pack(side="bottom", fill="x", padx=widgets.px(8), pady=widgets.px(8))
        self._needed = 0
        self._is_low = False
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
        """Reduce the height of the entries if the window is too low for them."""
        if not self._needed:  # at the usual height of the entries
            margin = 2 * self._widgets.px(18) + 2 * self._widgets.px(8)
            children = self.outer.winfo_children()
            self._needed = margin + sum(child.winfo_reqheight() + 2 for child in children)
        is_low = event.height < self._needed
        if is_low != self._is_low:
            self._is_low = is_low
            for item in self._items.values():
                item.set_low(is_low=is_low)
