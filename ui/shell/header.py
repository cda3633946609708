"""Header with the preset, its changes, the search box and Start."""

from collections.abc import Callable
from tkinter import ttk

from onetrainer.messages.formatting import counted
from ui.context import Context
from ui.model.draft import Draft
from ui.shell.nav import WIDTH
from ui.widgets.placing import show

_MAX_NAME_LENGTH = 34
_MARGIN = 28
_SEARCH = 24
_START_WIDTH = 90
# In a window that has no room for more.
_COMPACT_NAME_LENGTH, _COMPACT_SEARCH, _COMPACT_CORNER = 14, 12, 92
_START = "Check the settings and start training (F5)"
_NOT_YET = "Something is to be filled in or put right first; a click lists it (F5)"


class Header:
    """Shows the name of the preset and the number of changes."""

    def __init__(self, context: Context, open_pages: Callable[[], None]) -> None:
        """open_pages: shows the navigation where it is folded."""
        widgets, act = context.widgets, context.act
        self.outer = widgets.frame(context.root, ground="side")
        px = widgets.px
        # As wide as the navigation, so that the preset is aligned with the page.
        corner = widgets.frame(self.outer, ground="side")
        corner.configure(width=px(WIDTH + _MARGIN), height=px(48))
        corner.pack_propagate(False)
        corner.pack(side="left")
        logo = ttk.Button(corner, text="OneTrainer", style="Logo.TButton", takefocus=0)
        logo.configure(command=lambda: act.show_page("welcome"))
        logo.pack(side="left", padx=px(9))
        widgets.name(logo, "home")
        self.pages = widgets.button(corner, "Pages", open_pages, name="pages", ground="side")
        self.pages.describe("All pages")
        self._corner, self._logo, self._is_compact = corner, logo, False
        self.presets = widgets.button(
            self.outer, "No preset …", act.choose_preset, name="presets", ground="side"
        )
        self.presets.describe("Open, save or reset a preset (Ctrl+O)")
        self.presets.widget.pack(side="left")
        self._changes = ttk.Button(
            self.outer, style="Changes.QuietSide.TButton", command=act.show_changes
        )
        widgets.name(self._changes, "changes")
        self._gap = px(4)
        self.save = widgets.button(
            self.outer, "Save", act.save_preset, name="save preset", ground="side"
        )
        self.save.describe("Save the preset (Ctrl+S)")
        self.save.widget.pack(side="left", padx=(px(6), 0))
        self.start = widgets.button(
            self.outer,
            "Start",
            act.start,
            name="start",
            kind="primary",
            ground="side",
            width=_START_WIDTH,
        )
        self._px, self._right = px, px(16)

    def finish(self, search: ttk.Entry) -> None:
        """Place the search box before Start, in the tab order."""
        self._search = search
        self.start.widget.pack(side="right", padx=(0, self._right))
        search.pack(side="right", padx=(0, self._right))
        self.start.widget.lift()

    def fold(self, is_compact: bool) -> None:
        """Take less room, with a button for the folded navigation, or as much as is usual."""
        self._is_compact = is_compact
        px = self._px
        self._corner.configure(width=px(_COMPACT_CORNER if is_compact else WIDTH + _MARGIN))
        show(self._logo, not is_compact, side="left", padx=px(9))
        show(self.pages.widget, is_compact, side="left", padx=px(12))
        self._search.configure(width=_COMPACT_SEARCH if is_compact else _SEARCH)

    def refresh(
        self, draft: Draft, *, start_blocked_reason: str, is_checking: bool, is_main: bool
    ) -> None:
        """Show the name and changes of the draft, and whether Start is enabled.

        is_main: Whether it is what most people want next, and not to resume the displayed run.
        """
        name = draft.origin.name or "No preset"
        longest = _COMPACT_NAME_LENGTH if self._is_compact else _MAX_NAME_LENGTH
        if len(name) > longest:
            name = "…" + name[-longest:]
        self.presets.set_text(f"{name} …")
        changes = len(draft.changed())
        self._changes.configure(
            text=f"• {changes if self._is_compact else counted(changes, 'change')}"
        )
        pad = (self._gap, 0)
        show(self._changes, bool(changes), side="left", padx=pad, before=self.save.widget)
        is_saved = bool(draft.origin.name) and not draft.is_dirty
        self.save.enable("There are no changes." if is_saved else "")
        is_ready = draft.is_startable
        self.start.set_kind("primary" if is_main and is_ready else "plain")
        self.start.describe(_START if is_ready else _NOT_YET)
        self.start.set_text("Checking…" if is_checking else "Start")
        self.start.enable(
            "The settings are being checked." if is_checking else start_blocked_reason
        )
