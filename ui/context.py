"""What pages receive: widgets, draft, run, and actions."""

import tkinter as tk
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from onetrainer.run.commands import CommandName
from ui.background.background_query import BackgroundQuery
from ui.background.current_preview import CurrentPreview
from ui.background.forecaster import Forecasts
from ui.background.image_cache import ImageCache
from ui.background.known_models import KnownModels
from ui.background.session import Session
from ui.model.draft import Draft
from ui.model.window_state import WindowState
from ui.widgets.widgets import Widgets

if TYPE_CHECKING:
    from onetrainer.checks.image_check import CheckResult

PathKind = Literal["folder", "file", "model", "known-model", "preset"]


class Offer(NamedTuple):
    """Action that a message offers until it no longer holds.

    lasts: Whether the message stays until then, instead of for half a minute.
    """

    label: str
    name: str
    do: Callable[[], object]
    holds: Callable[[], bool]
    lasts: bool = False


class Actions(NamedTuple):
    """Actions of the whole window, for pages, buttons and keys.

    Attributes:
        commit: Passes everything that is being typed to the draft. Returns whether that is what
            was on the screen: a file that the window opened with may be refused by then.
        refresh: Updates the screen to the draft and the run.
        show_message: Shows a short message, with a button for an offer if there is one.
        save_state_soon: Saves the window's state a second after the last change.
        zoom: Makes everything larger or smaller by a number of sizes; 0 follows the desktop.
        working: Returns what a page does that would end with the window; "" for nothing.
        is_on_settings: Returns whether the current page shows settings.
        jump: Goes to the setting at a path.
        mend: Goes to the setting that a run failed from; offers to apply it and resume the run.
        jump_to_problem: Goes to the next problem, or to the previous one for -1.
        show_sample: Shows the sample of a prompt at a step.
        show_log: Shows the log of the displayed run.
        check_images: Goes to what examines images.
        help: Explains the focused setting, or shows the page of keys.
        leave_page: Goes back within a page, or from one that is not in the navigation to the page
            before it.
        start: Checks the draft and starts a run with it.
        enqueue: Checks the draft and adds a run with it to the queue, or one for each value of
            "key.path=value,value".
        start_blocked_reason: Returns why no run can be started now; "" if one can.
        resume: Resumes the displayed run, with changed settings if there are any.
        fork: Asks for a checkpoint of the displayed run, and starts a new run from there.
        attach: Shows a run of the runs folder.
        examine: Examines this computer and shows the findings.
        report: Makes a report about the run in a folder.
        open_path: Opens a folder or a file with the desktop's own program.
        choose_path: Lets the user choose a path, beginning at one; "" if canceled.
    """

    commit: Callable[[], bool]
    refresh: Callable[[], None]
    show_message: Callable[..., None]
    save_state_soon: Callable[[], None]
    switch_mode: Callable[[], None]
    zoom: Callable[[int], None]
    working: Callable[[], str]
    show_page: Callable[[str], object]
    take_path: Callable[[str, str], bool]
    is_on_settings: Callable[[], bool]
    jump: Callable[[str], None]
    mend: Callable[[str], None]
    jump_to_problem: Callable[[int], None]
    show_sample: Callable[[int, int], None]
    show_log: Callable[[], None]
    check_images: Callable[[], None]
    find: Callable[[], None]
    help: Callable[[], None]
    leave_page: Callable[[], None]
    start: Callable[[], None]
    enqueue: Callable[..., None]
    start_blocked_reason: Callable[[], str]
    send: Callable[[CommandName], None]
    kill: Callable[[], None]
    resume: Callable[..., None]
    fork: Callable[[], None]
    attach: Callable[[Path], None]
    open_path: Callable[[Path], None]
    choose_path: Callable[[PathKind, str], str]
    examine: Callable[[], None]
    report: Callable[[Path], None]
    choose_preset: Callable[[], None]
    load_file: Callable[..., object]
    load_demo: Callable[[], None]
    show_changes: Callable[[], None]
    save_preset: Callable[[], object]
    save_preset_as: Callable[[], object]


class Page(NamedTuple):
    """A page of the window, as `ui/pages/registry.py` lists it.

    make: builds the page within a parent widget. group: the heading in the navigation below which
    the page is listed; "" if it is not listed. key: the key that opens it, such as "F6".
    """

    name: str
    title: str
    make: Callable[["Context", tk.Misc], "View"]
    group: str = ""
    key: str = ""


class Context(NamedTuple):
    """Shared objects of one window's pages. demo: The folder of the demo, which may not exist."""

    root: tk.Tk
    widgets: Widgets
    draft: Draft
    session: Session
    forecasts: Forecasts
    preview: CurrentPreview
    check: "BackgroundQuery[CheckResult]"
    images: ImageCache
    models: KnownModels
    window_state: WindowState
    act: Actions
    pages: tuple[Page, ...]
    demo: Path


class View:
    """One page."""

    name: str
    outer: tk.Widget

    @property
    def working(self) -> str:
        """What it does that would end with it: "Merge is at work."; "" for nothing."""
        return ""

    @property
    def start_blocked_reason(self) -> str:
        """Why no run can be started from here, where *Start* would be misread; "" if one can."""
        return ""

    def prepare(self) -> Iterator[None]:
        """Do in pieces, while the window is idle, what the first visit would wait for."""
        yield from ()

    def refresh(self) -> None:
        """Update the page; called only while it is displayed."""

    def look_again(self) -> None:
        """Look at files again, which other programs may have changed; slow work in threads."""

    def open(self, *place: int) -> None:
        """Go to a place within the page, such as the prompt and the step of a sample."""

    def leave(self) -> bool:
        """Go back within the page on Esc; return whether there was somewhere to go back to."""
        return False

    def take_focus(self) -> None:
        """Take the keyboard when the page is opened, so that no hidden field keeps it."""
        self.outer.focus_set()

    def reveal(self, path: str) -> bool:
        """Scroll to a setting and focus it; return whether the page shows its help as well."""
        return False

    def take_path(self, kind: str, path: str) -> bool:
        """Take a dropped file, such as "images" or a "model"; return whether the page does."""
        return False

    def commit(self) -> None:
        """Write everything typed to the draft."""
