"""The window: creates header, pages and status line, and keeps them up to date."""

import tkinter as tk
from collections.abc import Iterator

from onetrainer.redaction import without_tokens
from ui.actions.closing import Closing
from ui.actions.dropping import Dropping, take_drops
from ui.actions.keys import bind_keys
from ui.actions.look_again import LookAgain
from ui.actions.opening import Opener, Opening
from ui.actions.preset_actions import PresetActions
from ui.actions.queue_offer import offer_queue
from ui.actions.run_actions import RunActions
from ui.actions.support_actions import SupportActions
from ui.background.collection import collect_dropped
from ui.background.current_preview import CurrentPreview
from ui.background.error_log import ErrorLog
from ui.background.forecaster import make_forecasts
from ui.background.image_cache import ImageCache
from ui.background.image_check import make_check
from ui.background.known_models import KnownModels
from ui.background.pump import Pump
from ui.background.session import Session
from ui.background.threads import Jobs
from ui.context import Actions, Context, Offer, PathKind, View
from ui.messages.problems import implied_change_message
from ui.model.form_fields import find_setting, page_of, pages
from ui.model.held_draft import HeldDraft
from ui.model.value_check import prepare_check
from ui.model.window_state import read_state, write_state
from ui.pages.preparations import Preparations
from ui.pages.registry import PAGES, PASSING_PAGES, SETTINGS_PAGES, make_view
from ui.shell.cover import Cover
from ui.shell.geometry import fitting, known_geometry, visible_geometry
from ui.shell.shell import Shell
from ui.theme.theme import Theme
from ui.widgets.kept import Kept
from ui.widgets.scroller import bind_focus, bind_wheel
from ui.widgets.typing_place import return_to, typing_place
from ui.widgets.widgets import Widgets, focused

_SIZE = (1280, 800)
_MIN_SIZE = (620, 370)
_SAVE_AFTER_MS = 1000


class App:
    """One window, whose contents follow from the draft and the session."""

    def __init__(self, root: tk.Tk, opening: Opening) -> None:
        """root: is not shown yet."""
        self.window_state = read_state()
        self.root = root
        self.error_log = ErrorLog(self.show_message)
        self.root.report_callback_exception = self.error_log.report
        self.jobs = Jobs(is_held=True)
        self._screen = f"{self.root.winfo_screenwidth()}x{self.root.winfo_screenheight()}"
        self._theme = Theme(self.root, self.window_state.scale_of(self._screen))
        self._theme.paint(self.root, bg="window")
        self.draft = HeldDraft(lambda: self._opener.finish())
        self.session = Session()
        self.plans = pages()
        self.page = ""
        self._page_before = ""
        self._save_timer = ""
        self._cover, self._kept = Cover(self._theme), Kept()
        self._is_resizing = False
        self._problem_index = -1
        self._demo = opening.demo
        self._place_window()
        self._build()
        self._bind()
        self.pump = Pump(self.root, self.jobs, self.session, self.refresh)
        self._opener = Opener(self.context, self.draft, self.presets, opening)
        self.show_page(self._opener.begin())
        self.root.deiconify()
        self.pump.start()
        offer_queue(self.context)

    def _build(self) -> None:
        """Create the widgets, and whatever holds some of them."""
        self.widgets = Widgets(self._theme, self.jobs, self._kept)
        self._theme.apply(self.window_state.mode)
        self._views: dict[str, View] = {}
        self.context = self._make_context()
        self.presets = PresetActions(self.context)
        self.runs = RunActions(self.context, lambda: self._views.get(self.page))
        self.support = SupportActions(self.context)
        self.closing = Closing(self.context, self._close)
        self.shell = Shell(self.context, self.plans)
        self.preparations = Preparations(
            self.root, self.jobs, self._theme.faces, self._drawn, self._views, self.view
        )
        self.shell.stage.outer.bind("<Map>", lambda _: self.preparations.begin())
        self.dropping = Dropping(self.context)
        files, page = self.runs.files, lambda: self._views.get(self.page)
        self.look_again = LookAgain(self.context, files, page)
        self.draft.listen(self._draft_changed)

    def run(self) -> None:
        """Show the window until it is closed."""
        # Imported late to keep the start of the window fast.
        from ui.background.notices import showing_notices

        with showing_notices(self.jobs, self.show_message):
            self.root.mainloop()

    def refresh(self) -> None:
        """Update the screen to the draft and the session."""
        if not self.page:
            return
        self.shell.refresh(is_checking=self.runs.is_checking, page=self.page)
        view = self._views.get(self.page)
        if view is not None:
            view.refresh()

    def show_page(self, name: str) -> View:
        """Show a page and return it; it is created at its first visit."""
        self.shell.drawer.close()
        if name == self.page:
            self.refresh()
            return self.view(name)
        self.commit()
        # Tk gives a page the focus once it is on the screen; the field would keep it till then.
        self.root.focus_set()
        view = self.view(name)  # the page before stays on the screen meanwhile
        if self.page and self.page not in PASSING_PAGES:
            self._page_before = self.page
        self.page = self.window_state.page = name
        self.shell.nav.show_current(name)
        self.save_state_soon()
        self.shell.stage.show(view.outer, self.refresh)
        self.look_again()
        view.take_focus()
        return view

    def view(self, name: str) -> View:
        """Return a page, creating it if necessary."""
        if name not in self._views:
            self._views[name] = make_view(self.context, self.shell.stage.outer, name)
        return self._views[name]

    def jump(self, path: str) -> None:
        """Go to a setting and focus it."""
        self.show_page(page_of(path))
        if not self.view(self.page).reveal(path):
            self._explain(path)

    def jump_to_problem(self, by: int = 1) -> None:
        """Go to the next problem, or to the previous one for -1."""
        self.commit()
        problems = [problem for problem in self.draft.problems if problem.path]
        if problems:
            self._problem_index = (self._problem_index + by) % len(problems)
            self.jump(problems[self._problem_index].path)

    def commit(self) -> bool:
        """Pass everything that is being typed to the draft.

        Returns:
            Whether the draft is what was on the screen: not if the file there was refused now.
        """
        if self.page and not self._opener.finish():
            return False
        for view in self._views.values():
            view.commit()
        return True

    def switch_mode(self) -> None:
        """Switch between dark and light."""
        self.window_state.mode = "light" if self.widgets.theme.mode == "dark" else "dark"
        self.widgets.theme.apply(self.window_state.mode)
        self.shell.repaint()
        self.refresh()
        self.save_state_soon()

    def zoom(self, by: int) -> None:
        """Make everything larger or smaller by a number of sizes; 0 follows the desktop."""
        if self._keeps_size():
            return
        state, screen = self.window_state, self._screen
        chosen = self._theme.next_scale(by, state.scale_of(screen)) if by else 0.0
        state.choose_scale(screen, chosen)
        # Keys that come together build the window once, for all of them.
        if not self._is_resizing:
            self._is_resizing = True
            self._cover.show(self._resize)

    def _keeps_size(self) -> bool:
        """Return whether something is going on that another size would end, and say so."""
        work = self.context.act.working()
        if work:
            self.show_message(f"{work} Wait for its end, or stop it, before changing the size.")
        return bool(work) or self.runs.is_checking  # a start that is being checked would be lost

    def _resize(self) -> None:
        """Build the window anew at its size; what is typed is in the draft and in `kept`."""
        self._is_resizing = False
        if self._keeps_size():  # which has begun since
            self.window_state.choose_scale(self._screen, self._theme.chosen)
            self._cover.hide()
            return
        place = typing_place(self.widgets, self.root)
        self.commit()
        self.jobs.forget()
        self.preparations.end()
        self.draft.forget_listeners()
        self.shell.drawer.end()
        self._cover.clear()
        self._theme.rescale(self.window_state.scale_of(self._screen))
        self._build()
        collect_dropped()
        self.root.minsize(*fitting(self._theme, _MIN_SIZE))
        page, self.page = self.page, ""
        self.show_page(page)
        return_to(place, self.widgets)
        self._cover.hide()
        self.show_message(self._theme.scale_text)
        self.save_state_soon()

    def help(self) -> None:
        """Explain the focused setting, or show the page of keys."""
        focus = focused(self.root)
        paths = (name for name, widget in self.widgets.named.items() if widget is focus)
        if not self._explain(next(paths, "")):
            self.show_page("keys")

    def leave_page(self) -> None:
        """Go back within a page, or from one that is not in the navigation to the one before."""
        if self.shell.drawer.close():
            return
        if not self.view(self.page).leave() and self.page in PASSING_PAGES:
            self.show_page(self._page_before or "model")

    def _explain(self, path: str) -> bool:
        """Show the help of a setting in a message; return whether the path has a setting."""
        setting = find_setting(path, self.draft.variants)
        if setting is not None:
            self.show_message(f"{setting.ui.label}: {setting.help_text}")
        return setting is not None

    def show_message(self, text: str, offer: Offer | None = None) -> None:
        """Show a short message, with a button for an offer."""
        self.shell.show_message(without_tokens(text), offer)

    def show_sample(self, prompt: int, step: int) -> None:
        """Show one sample on the page of samples."""
        self.show_page("samples").open(prompt, step)

    def save_state_soon(self) -> None:
        """Save the window's state a second after the last change."""
        if self._save_timer:
            self.root.after_cancel(self._save_timer)
        self._save_timer = self.root.after(_SAVE_AFTER_MS, self.save_state)

    def save_state(self) -> None:
        """Save the window's state."""
        self._save_timer = ""
        if not self.draft.is_held:  # a file that may be wrong would take the place of the draft
            self.window_state.store_draft(self.draft)
        if self.root.winfo_viewable():
            self.window_state.geometry = known_geometry(self.root, self._asked_geometry)
        folder = self.session.folder
        self.window_state.show_run(folder.path if folder else None)
        try:
            write_state(self.window_state)
        except OSError as error:
            self.show_message(f"The window's state could not be saved: {error}")

    def _make_context(self) -> Context:
        return Context(
            self.root,
            self.widgets,
            self.draft,
            self.session,
            make_forecasts(self.draft, self.jobs),
            CurrentPreview(self.draft, self.jobs, self.root.after),
            make_check(self.draft, self.jobs),
            ImageCache(self.jobs),
            KnownModels(self.jobs, self.window_state),
            self.window_state,
            self._make_actions(),
            PAGES,
            self._demo,
        )

    def _make_actions(self) -> Actions:
        return Actions(  # what acts on the context is made after it
            commit=self.commit,
            refresh=self.refresh,
            show_message=self.show_message,
            save_state_soon=self.save_state_soon,
            switch_mode=self.switch_mode,
            zoom=self.zoom,
            working=lambda: next((v.working for v in self._views.values() if v.working), ""),
            show_page=self.show_page,
            take_path=lambda kind, path: self.view(self.page).take_path(kind, path),
            is_on_settings=lambda: self.page in SETTINGS_PAGES,
            jump=self.jump,
            mend=lambda path: self.runs.mend(path),
            jump_to_problem=self.jump_to_problem,
            show_sample=self.show_sample,
            show_log=lambda: self.show_page("monitor").open(1),
            check_images=lambda: self.show_page("preview").open(),
            find=lambda: self.shell.finder.open(),
            help=self.help,
            leave_page=self.leave_page,
            start=lambda: self.runs.start(),
            enqueue=lambda sweeps=(): self.runs.enqueue(sweeps),
            start_blocked_reason=lambda: self.runs.start_blocked_reason(),
            send=lambda command: self.runs.send(command),
            kill=lambda: self.runs.kill(),
            resume=lambda changes=None: self.runs.resume(changes),
            fork=lambda: self.runs.fork(),
            attach=lambda folder: self.runs.attach(folder),
            open_path=lambda path: self.runs.open_path(path),
            choose_path=self._choose_path,
            examine=lambda: self.support.examine(),
            report=lambda folder: self.support.report(folder),
            choose_preset=lambda: self.presets.show_all(),
            load_file=lambda path, preset=None: self.presets.load(path, preset),
            load_demo=lambda: self.presets.load_demo(),
            show_changes=lambda: self.presets.show_changes(),
            save_preset=lambda: self.presets.save(),
            save_preset_as=lambda: self.presets.save_as(),
        )

    def _choose_path(self, kind: PathKind, current: str) -> str:
        # Imported late to keep the start of the window fast.
        from ui.dialogs.file_dialogs import choose_path

        return choose_path(self.context, kind, current)

    def _bind(self) -> None:
        """Bind events of the window once, to what is there when they come: it is built anew."""
        root = self.root
        bind_wheel(root, lambda: self.widgets)
        bind_focus(root, lambda: self.widgets)
        bind_keys(root, PAGES, lambda: self.context)
        take_drops(root, lambda: self.dropping)
        root.bind("<Button-1>", lambda event: self.shell.drawer.clicked(event))
        # Fields of the window get the event too, from each other.
        root.bind("<FocusIn>", lambda event: self.look_again() if event.widget is root else None)
        root.protocol("WM_DELETE_WINDOW", lambda: self.closing.ask())

    def _draft_changed(self) -> None:
        self.refresh()
        self.save_state_soon()
        change, self.draft.implied_change = self.draft.implied_change, None
        if change is not None:
            self.show_message(implied_change_message(change, self.draft.variants))

    def _drawn(self) -> Iterator[None]:
        """Do in pieces what the first page on the screen did not need."""
        try:
            yield from prepare_check()
            self._opener.finish()
        finally:
            self.jobs.release()

    def _place_window(self) -> None:
        root = self.root
        root.title("OneTrainer")
        root.minsize(*fitting(self._theme, _MIN_SIZE))
        state = self.window_state
        state.geometry = visible_geometry(state.geometry, root) or self._default_size()
        root.geometry(state.geometry)
        self._asked_geometry = state.geometry

    def _default_size(self) -> str:
        return "x".join(map(str, fitting(self._theme, _SIZE)))

    def _close(self) -> None:
        self.save_state()
        self.jobs.forget()
        self.preparations.end()
        self.pump.stop()
        self.root.destroy()
