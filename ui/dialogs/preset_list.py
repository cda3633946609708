"""Preset menu on the screen: a short list with submenus."""

import tkinter as tk
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from onetrainer.presets.find import Preset, find_presets
from ui.context import Context
from ui.dialogs.preset_menu import family_groups, menu_line, other_demos, own_presets

_GAP = 4
_CURRENT = "  •  "
# Longer lists would not fit on a screen of 800 pixels.
MAX_LINES = 20
# The first list has other lines as well.
_MAX_OWN = 8


class PresetMenu:
    """Preset menu; filled each time it opens, because files come and go."""

    def __init__(self, context: Context, demo: Path) -> None:
        self._context = context
        self._demo = demo
        self.menu = tk.Menu(context.root, tearoff=False)
        self._inner: list[tk.Menu] = []

    def show(self, anchor: tk.Misc) -> None:
        """Open the menu below a widget."""
        self.fill()
        top = anchor.winfo_rooty() + anchor.winfo_height() + self._context.widgets.px(2)
        self.menu.tk_popup(anchor.winfo_rootx(), top)

    def fill(self) -> None:
        """Fill the menu."""
        self.menu.delete(0, "end")
        for inner in self._inner:
            inner.destroy()
        self._inner = []
        self._paint(self.menu)
        self._add_file_lines()
        found = find_presets()
        own = own_presets(found)
        if own:
            self._add_heading("Your presets")
            self._add_presets(self.menu, own, most=_MAX_OWN)
        self._add_heading("Demos")
        demo = self._demo / "demo.json"
        load_demo = self._context.act.load_demo
        self._add_preset(self.menu, ("The demo", ""), load_demo, is_current=self._is_open(demo))
        self._add_list(self.menu, "Other demos", other_demos(self._demo))
        self._add_heading("Built-in presets")
        for group in family_groups(found):
            self._add_list(self.menu, group.title, group.presets)

    def _add_file_lines(self) -> None:
        draft, act = self._context.draft, self._context.act
        name = draft.origin.name
        self._add("  Open a file…", act.open_preset, keys="Ctrl+O")
        self._add("  Save", act.save_preset, keys="Ctrl+S", is_possible=draft.is_dirty)
        self._add("  Save as…", act.save_preset_as, keys="Ctrl+Shift+S")
        back = f"  Reset to “{name}”" if name else "  Reset to the defaults"
        self._add(back, act.reset_preset, is_possible=bool(draft.changed()))

    def _paint(self, menu: tk.Menu) -> None:
        menu.configure(font="OneTrainerBody", borderwidth=1, relief="solid", activeborderwidth=0)
        self._context.widgets.theme.paint(
            menu,
            bg="card",
            fg="text",
            activebackground="fill",
            activeforeground="on_fill",
            # Only headings are disabled; an unavailable action explains itself when chosen.
            disabledforeground="accent",
        )

    def _add(
        self, label: str, do: Callable[[], object], *, keys: str = "", is_possible: bool = True
    ) -> None:
        self.menu.add_command(label=label, accelerator=f"{keys}  ", command=do)
        if not is_possible:
            palette = self._context.widgets.theme.palette
            self.menu.entryconfigure(
                "end",
                foreground=palette["dim"],
                activeforeground=palette["dim"],
                activebackground=palette["card"],
                command=partial(self._context.act.show_message, "There are no changes."),
            )

    def _add_heading(self, title: str) -> None:
        # Tk's own separator is a relief that stands out more than the text.
        self.menu.add_command(state="disabled", font=(self._context.widgets.theme.family, _GAP))
        self.menu.add_command(label=f"  {title}", state="disabled", font="OneTrainerSmall")

    def _add_list(self, menu: tk.Menu, title: str, presets: Sequence[Preset]) -> None:
        """Add a submenu of presets; nothing if there are none."""
        if not presets:
            return
        inner = tk.Menu(menu, tearoff=False)
        self._inner.append(inner)
        self._paint(inner)
        self._add_presets(inner, presets, most=MAX_LINES)
        is_current = any(self._is_open(preset.path) for preset in presets)
        menu.add_cascade(label=f"{self._mark(is_current=is_current)}{title}", menu=inner)

    def _add_presets(self, menu: tk.Menu, presets: Sequence[Preset], *, most: int) -> None:
        shown = presets if len(presets) <= most else presets[: most - 1]
        for preset in shown:
            load = partial(self._context.act.load_file, preset.path, preset)
            is_current = self._is_open(preset.path)
            self._add_preset(menu, menu_line(preset), load, is_current=is_current)
        self._add_list(menu, "More", presets[len(shown) :])

    def _add_preset(
        self, menu: tk.Menu, line: tuple[str, str], load: Callable[[], object], *, is_current: bool
    ) -> None:
        label = f"{self._mark(is_current=is_current)}{line[0]}"
        menu.add_command(label=label, accelerator=f"{line[1]}  ", command=load)

    def _is_open(self, path: Path) -> bool:
        return path == self._context.draft.origin.path

    def _mark(self, *, is_current: bool) -> str:
        """Return a check mark or an equally wide space, so that all lines are aligned."""
        theme = self._context.widgets.theme
        spaces = " " * round(theme.measure(_CURRENT) / theme.measure(" "))
        return _CURRENT if is_current else spaces
