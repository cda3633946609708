"""Layout of the window: header, navigation, page, status line and message bar."""

import tkinter as tk
from collections import Counter
from tkinter import ttk

from ui.context import Context, Offer
from ui.model.form_fields import PagePlan, page_of
from ui.shell.drawer import Drawer
from ui.shell.finder import Finder
from ui.shell.footer import Footer
from ui.shell.geometry import height_of
from ui.shell.header import Header
from ui.shell.nav import Nav
from ui.shell.stage import Stage
from ui.widgets.placing import show
from ui.widgets.tooltip import Tooltip
from ui.widgets.widgets import focused

_MESSAGE_MS = 9000
_OFFER_MS = 30_000
_MESSAGE_MARGIN = 180
_GUIDE = "Train on my images: three questions, and all settings are filled in"
# Pages that lead on themselves: the header's Start would train what was set before.
_OWN_LEAD = ("welcome", "start")


class Shell:
    """Parts of the window that every page shares."""

    def __init__(self, context: Context, plans: tuple[PagePlan, ...]) -> None:
        self._context = context
        widgets, root, act = context.widgets, context.root, context.act
        self.header = Header(context, lambda: self.drawer.toggle())
        self.finder = Finder(widgets, root, self.header.outer, plans, context.draft, act.jump)
        self.header.finish(self.finder.entry)
        self.header.outer.pack(fill="x")
        widgets.divider(root).pack(fill="x")
        middle = widgets.frame(root, ground="window")
        height = height_of(root, context.window_state.geometry)
        self.nav = Nav(widgets, middle, context.pages, act.show_page, height)
        self._mode: ttk.Button = self._make_foot()
        self.footer = Footer(context)
        # Packed before the page, which would push it out of a low window.
        self.footer.outer.pack(fill="x", side="bottom")
        widgets.divider(root).pack(fill="x", side="bottom")
        middle.pack(fill="both", expand=True)
        right = widgets.frame(middle, ground="window")
        right.pack(side="left", fill="both", expand=True)
        self.nav.opener = self.header.pages.widget
        self.drawer = Drawer(widgets, self.nav, right, self._fold)
        self._bar, self._message, self._accept = self._make_bar(right)
        self._offer: Offer | None = None
        self._hiding = ""
        self._title = ""
        self.stage = Stage(widgets, right)
        self.stage.outer.pack(fill="both", expand=True)
        self.repaint()

    def refresh(self, *, is_checking: bool, page: str) -> None:
        """Show the state of the draft and the run. page: The one that is shown."""
        draft, session = self._context.draft, self._context.session
        self.header.refresh(
            draft,
            start_blocked_reason=self._context.act.start_blocked_reason(),
            is_checking=is_checking,
            is_main=page not in _OWN_LEAD and (page != "run" or not session.can_resume),
        )
        self.footer.show_problems(draft.problems)
        self.footer.show_run(session)
        self._mark_pages()
        self._set_title()
        if self._offer is not None and not self._offer.holds():
            self._hide_bar()

    def _fold(self, is_folded: bool) -> None:
        self.header.fold(is_folded)
        self._context.act.refresh()

    def show_message(self, text: str, offer: Offer | None = None) -> None:
        """Show a message for a while, longer if it offers an action."""
        self._show_offer(offer)
        room = self.stage.outer.winfo_width() - self._context.widgets.px(_MESSAGE_MARGIN)
        self._message.configure(text=text, wraplength=max(0, room))
        # Below the page, which is scrolled where it has no room for it: over the page, it would
        # cover a button there; above it, move the one that the user is about to click.
        show(self._bar, True, side="bottom", fill="x", before=self.stage.outer)
        if self._hiding:
            self._bar.after_cancel(self._hiding)
        shown_ms = _MESSAGE_MS if offer is None else _OFFER_MS
        lasts = offer is not None and offer.lasts
        self._hiding = "" if lasts else self._bar.after(shown_ms, self._hide_bar)

    def repaint(self) -> None:
        """Update the colors to the theme."""
        other = "Light" if self._context.widgets.theme.mode == "dark" else "Dark"
        self._mode.configure(text=other)

    def _set_title(self) -> None:
        """Show the run's progress in the window title, also for a hidden window."""
        session = self._context.session
        title = "OneTrainer"
        if session.is_running and session.folder is not None:
            title = f"{session.state.fraction:.0%} · {session.folder.name} · OneTrainer"
        if title != self._title:
            self._title = title
            self._context.root.title(title)

    def _hide_bar(self) -> None:
        if self._hiding:
            self._bar.after_cancel(self._hiding)
        self._hiding = ""
        show(self._bar, False)
        self._show_offer(None)

    def _show_offer(self, offer: Offer | None) -> None:
        widgets, before = self._context.widgets, self._offer
        if before is not None and focused(self._accept) is self._accept:
            self._context.root.focus_set()  # a hidden button must not keep the focus
        self._offer = offer
        widgets.forget(self._accept)
        show(self._accept, offer is not None, side="left", padx=(0, widgets.px(8)))
        if offer is not None:
            widgets.name(self._accept, offer.name)
            self._accept.configure(text=offer.label, command=offer.do)

    def _make_bar(self, parent: tk.Misc) -> tuple[ttk.Frame, ttk.Label, ttk.Button]:
        widgets = self._context.widgets
        bar = widgets.frame(parent, ground="raised")
        widgets.name(bar, "message bar")
        close = ttk.Button(bar, text="×", style="QuietRaised.TButton", command=self._hide_bar)
        close.configure(width=2, takefocus=0)
        close.pack(side="right", padx=widgets.px(8), pady=widgets.px(3))
        message = widgets.label(bar, ground="raised")
        message.pack(side="left", padx=(widgets.px(28), widgets.px(16)), pady=widgets.px(7))
        return bar, message, ttk.Button(bar, style="Offer.TButton")

    def _make_foot(self) -> ttk.Button:
        foot, act, widgets = self.nav.foot, self._context.act, self._context.widgets
        mode = ttk.Button(foot, style="QuietSide.TButton", command=act.switch_mode)
        keys = ttk.Button(foot, style="QuietSide.TButton", text="Help")
        keys.configure(command=lambda: act.show_page("keys"))
        guide = ttk.Button(foot, style="QuietSide.TButton", text="Guide")
        guide.configure(command=lambda: act.show_page("start"))
        Tooltip(guide, widgets.theme, lambda: _GUIDE)
        for button in (guide, mode, keys):
            button.pack(side="left", padx=(0, widgets.px(2)))
        widgets.name(guide, "guide")
        widgets.name(mode, "mode")
        widgets.name(keys, "keys")
        return mode

    def _mark_pages(self) -> None:
        draft, session = self._context.draft, self._context.session
        severities = [(page_of(problem.path), problem.severity) for problem in draft.problems]
        found = Counter(severities)
        changed = {page_of(path) for path in draft.changed()}
        for name in (page.name for page in self._context.pages):
            errors, warnings = found[name, "error"], found[name, "warning"]
            mark = ("•", "Accent") if name in changed else ("", "Dim")
            mark = (f"! {warnings}", "Warning") if warnings else mark
            self.nav.mark(name, *((f"! {errors}", "Danger") if errors else mark))
        self.nav.mark("run", f"{session.state.fraction:.0%}" if session.is_running else "", "Good")
        count = len(session.state.samples) if session.run is not None else 0
        self.nav.mark("samples", str(count) if count else "")
