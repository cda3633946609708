"""What pages receive: widgets, draft, run, and actions."""

import tkinter as tk
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from onetrainer.run.commands import CommandName
from ui.background.forecaster import Forecaster
from ui.background.image_cache import ImageCache
from ui.background.session import Session
from ui.model.draft import Draft
from ui.model.window_state import WindowState
from ui.widgets.widgets import Kit


@dataclass(frozen=True)
class Offer:
    """Action that a message offers until it no longer holds."""

    label: str
    name: str
    do: Callable[[], object]
    holds: Callable[[], bool]


class Actions(Protocol):
    """Actions that every page can trigger."""

    @property
    def is_on_settings(self) -> bool:
        """Whether the current page shows settings."""

    def show_page(self, name: str) -> None:
        """Show a page."""

    def jump(self, path: str) -> None:
        """Go to a setting."""

    def start(self) -> None:
        """Check the draft and start a run with it."""

    def send(self, command: CommandName) -> None:
        """Send a command to the worker."""

    def kill(self) -> None:
        """Kill the worker."""

    def resume(self) -> None:
        """Resume the displayed run."""

    def attach(self, folder: Path) -> None:
        """Show a run of the runs folder."""

    def open_path(self, path: Path) -> None:
        """Open a folder or a file with the desktop's own program."""

    def choose_preset(self) -> None:
        """Open the preset menu."""

    def load_file(self, path: Path) -> None:
        """Load a config file."""

    def show_sample(self, prompt: int, step: int) -> None:
        """Show one sample on the page of samples."""

    def show_changes(self) -> None:
        """List the changes to the preset."""

    def save_preset(self) -> object:
        """Save the preset, or ask for a name."""

    def load_demo(self) -> None:
        """Create the demo and load it."""

    def start_blocked_reason(self) -> str:
        """Return why no run can be started now; "" if one can."""

    def commit(self) -> None:
        """Pass everything that is being typed to the draft."""

    def refresh(self) -> None:
        """Update the screen to the draft and the run."""

    def show_message(self, text: str, offer: Offer | None = None) -> None:
        """Show a short message, with a button for an offer."""

    def save_state_soon(self) -> None:
        """Save the window's state a second after the last change."""


@dataclass(frozen=True)
class Page:
    """A page of the window, as `ui/pages/registry.py` lists it.

    make: builds the page within a parent widget. group: the heading in the navigation below which
    the page is listed; "" if it is not listed. key: the key that opens it, such as "F6".
    """

    name: str
    title: str
    make: Callable[["Context", tk.Misc], "View"]
    group: str = ""
    key: str = ""


@dataclass(frozen=True)
class Context:
    """Shared objects of one window's pages."""

    root: tk.Tk
    kit: Kit
    draft: Draft
    session: Session
    forecasts: Forecaster
    images: ImageCache
    window_state: WindowState
    act: Actions
    pages: tuple[Page, ...]


class View(Protocol):
    """One page."""

    name: str
    outer: tk.Widget

    def refresh(self) -> None:
        """Update the page; called only while it is displayed."""
