"""List of any number of lines, of which only the visible ones exist; they are chosen and copied."""

import tkinter as tk
from collections.abc import Callable
from functools import partial

from ui.theme.palette import Role
from ui.theme.theme import MONO
from ui.widgets.widgets import Widgets

_WHEEL = 3
_FAR = 10**9
_MOST_CHARACTERS = 20_000
"""Of a line that are shown; copied are all."""


class LineList:
    """Rows of text in a fixed-width font; place `outer`.

    Up, Down, Page Up, Page Down, Home and End move the cursor, with Shift they choose rows; Left
    and Right show the rest of long lines; Return opens a row.

    Args:
        text: Returns the text of the row at a place.
        tone: Returns its color.
        opened: Called with the place of a row on Return, Space, a double click and a click on its
            first sign.
        copy: Called with the places of the first and the last chosen row on Ctrl+C.
        moved: Called when other rows are seen.
    """

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        *,
        name: str,
        text: Callable[[int], str],
        tone: Callable[[int], Role],
        opened: Callable[[int], None],
        copy: Callable[[int, int], None],
        moved: Callable[[], None],
    ) -> None:
        self._widgets, self._text, self._tone = widgets, text, tone
        self._opened, self._copy, self._moved = opened, copy, moved
        self._count = self._top = self._cursor = self._anchor = 0
        self.outer = widgets.frame(parent)
        self._box = box = tk.Text(self.outer, wrap="none", font=MONO, width=1, height=3)
        box.configure(relief="flat", borderwidth=0, highlightthickness=1, cursor="arrow")
        box.configure(padx=widgets.px(8), pady=widgets.px(4), state="disabled", takefocus=1)
        widgets.theme.paint(
            box, bg="field", fg="text", highlightcolor="accent", highlightbackground="border"
        )
        self._bar = widgets.scrollbar(self.outer, self._scrolled)
        across = widgets.scrollbar(self.outer, box.xview, is_across=True)
        box.configure(xscrollcommand=across.set)
        self.outer.grid_rowconfigure(0, weight=1)
        self.outer.grid_columnconfigure(0, weight=1)
        box.grid(row=0, column=0, sticky="nsew")
        self._bar.grid(row=0, column=1, sticky="ns")
        across.grid(row=1, column=0, sticky="ew")
        # Tk's own bindings choose characters of what is in the box now.
        box.bindtags((str(box), str(box.winfo_toplevel()), "all"))
        box.bind("<Configure>", lambda _: self.draw())
        box.bind("<<ThemeChanged>>", lambda _: self.draw())
        box.bind("<Button-1>", partial(self._clicked, False))
        box.bind("<Shift-Button-1>", partial(self._clicked, True))
        box.bind("<B1-Motion>", partial(self._clicked, True))
        box.bind("<Double-Button-1>", lambda _: self._open())
        for key, by in {"Up": -1, "Down": 1, "Home": -_FAR, "End": _FAR}.items():
            box.bind(f"<{key}>", partial(self._key, by, False))
            box.bind(f"<Shift-{key}>", partial(self._key, by, True))
        for key, sign in {"Prior": -1, "Next": 1}.items():
            box.bind(f"<{key}>", partial(self._page, sign, False))
            box.bind(f"<Shift-{key}>", partial(self._page, sign, True))
        for key, sign in {"Left": -1, "Right": 1}.items():
            box.bind(f"<{key}>", partial(self._across, sign))
        for key in ("Return", "KP_Enter", "space"):
            box.bind(f"<{key}>", lambda _: self._open())
        box.bind("<Control-a>", lambda _: self._choose_all())
        box.bind("<Control-c>", lambda _: self._copy_chosen())
        widgets.on_wheel[box] = lambda notches: self._see(self._top + notches * _WHEEL)
        widgets.name(box, name)

    @property
    def keyboard(self) -> tk.Text:
        """What takes the keyboard."""
        return self._box

    @property
    def is_at_end(self) -> bool:
        """Whether the last row is seen."""
        return self._top >= self._count - self._rows()

    @property
    def cursor(self) -> int:
        """The place of the row that keys start from."""
        return self._cursor

    @property
    def shown(self) -> str:
        """The visible text."""
        return self._box.get("1.0", "end-1c")

    @property
    def built(self) -> int:
        """How many rows exist as text; what is drawn does not depend on how many there are."""
        return int(self._box.index("end-1c").partition(".")[0])

    def show(self, count: int, *, to_end: bool) -> None:
        """Show rows anew. to_end: Whether to go to the last one."""
        self._count = count
        last = max(0, count - 1)
        self._cursor, self._anchor = min(self._cursor, last), min(self._anchor, last)
        if to_end:
            self._cursor = self._anchor = last
        self._top = self._within(count if to_end else self._top)
        self.draw()

    def go_to(self, place: int) -> None:
        """Move the cursor to a row, and show it in the middle if it is not seen."""
        self._cursor = self._anchor = min(max(0, place), max(0, self._count - 1))
        if not self._top <= self._cursor < self._top + self._rows():
            self._top = self._within(self._cursor - self._rows() // 2)
        self.draw()
        self._moved()

    def draw(self) -> None:
        """Write the visible rows."""
        box, palette = self._box, self._widgets.theme.palette
        self._top = self._within(self._top)
        rows = range(self._top, min(self._count, self._top + self._rows() + 1))
        box.configure(state="normal")
        box.delete("1.0", "end")
        texts = [self._text(row)[:_MOST_CHARACTERS] for row in rows]
        box.insert("1.0", "\n".join(texts))
        box.tag_delete(*box.tag_names())
        first, last = sorted((self._cursor, self._anchor))
        for number, row in enumerate(rows, start=1):
            ends = f"{number}.0", f"{number + 1}.0"
            tone = self._tone(row)
            if tone != "text":
                box.tag_add(tone, *ends)
                box.tag_configure(tone, foreground=palette[tone])
            if first <= row <= last:
                box.tag_add("chosen", *ends)
        box.tag_configure("chosen", background=palette["selected"])
        box.configure(state="disabled")
        whole = max(1, self._count)
        self._bar.set(self._top / whole, min(1.0, (self._top + self._rows()) / whole))

    def _rows(self) -> int:
        """Return how many rows fit."""
        line = int(self._box.tk.call("font", "metrics", MONO, "-linespace"))
        room = self._box.winfo_height() - 2 * self._widgets.px(4) - 2
        return max(1, room // max(1, line))

    def _within(self, top: int) -> int:
        return min(max(0, top), max(0, self._count - self._rows()))

    def _see(self, top: int) -> None:
        if self._within(top) != self._top:
            self._top = self._within(top)
            self.draw()
            self._moved()

    def _scrolled(self, how: str, amount: str, unit: str = "") -> None:
        """Take what a scrollbar says."""
        if how == "moveto":
            self._see(round(float(amount) * self._count))
        else:
            self._see(self._top + int(amount) * (self._rows() if unit == "pages" else 1))

    def _key(self, by: int, is_choosing: bool, _: object) -> str:
        self._cursor = min(max(0, self._cursor + by), max(0, self._count - 1))
        if not is_choosing:
            self._anchor = self._cursor
        if self._cursor < self._top:
            self._top = self._cursor
        elif self._cursor >= self._top + self._rows():
            self._top = self._cursor - self._rows() + 1
        self.draw()
        self._moved()
        return "break"

    def _page(self, sign: int, is_choosing: bool, event: object) -> str:
        return self._key(sign * max(1, self._rows() - 1), is_choosing, event)

    def _across(self, sign: int, _: object) -> str:
        self._box.xview_scroll(8 * sign, "units")
        return "break"

    def _clicked(self, is_choosing: bool, event: "tk.Event[tk.Text]") -> str:
        self._box.focus_set()
        number = int(self._box.index(f"@{event.x},{event.y}").partition(".")[0])
        self._cursor = min(max(0, self._top + number - 1), max(0, self._count - 1))
        if not is_choosing:
            self._anchor = self._cursor
        self.draw()
        return "break"

    def _open(self) -> str:
        if self._count:
            self._opened(self._cursor)
        return "break"

    def _choose_all(self) -> str:
        self._anchor, self._cursor = 0, max(0, self._count - 1)
        self.draw()
        return "break"

    def _copy_chosen(self) -> str:
        if self._count:
            self._copy(*sorted((self._anchor, self._cursor)))
        return "break"
