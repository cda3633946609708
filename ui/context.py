"""What every page is given: the widgets' maker, the draft, the run, and what can be done."""

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
    """What a short message offers to do; it is withdrawn once it does not hold any more."""

    label: str
    name: str
    do: Callable[[], object]
    holds: Callable[[], bool]


class Actions(Protocol):
    """What a person can have done from any page."""

    @property
    def is_on_settings(self) -> bool:
        """Whether the page on the screen is one of settings."""

    def show_page(self, name: str) -> None:
        """Goes to a page."""

    def jump(self, path: str) -> None:
        """Goes to a setting."""

    def start(self) -> None:
        """Checks the draft and starts a run with it."""

    def send(self, command: CommandName) -> None:
        """Asks the worker for something."""

    def kill(self) -> None:
        """Ends the worker at once."""

    def resume(self) -> None:
        """Takes the shown run up again."""

    def attach(self, folder: Path) -> None:
        """Shows a run of the runs folder."""

    def open_path(self, path: Path) -> None:
        """Opens a folder or a file with the desktop's own program."""

    def choose_preset(self) -> None:
        """Lets a person choose a preset."""

    def load_file(self, path: Path) -> None:
        """Takes the settings of a config file over."""

    def show_sample(self, prompt: int, step: int) -> None:
        """Goes to the page of samples and shows one."""

    def show_changes(self) -> None:
        """Lists what differs from the preset."""

    def save_preset(self) -> object:
        """Saves the preset, or asks for a name."""

    def load_demo(self) -> None:
        """Makes the demo and loads it."""

    def start_blocked_reason(self) -> str:
        """Why no run can be started now; "" if one can."""

    def commit(self) -> None:
        """Hands everything that is being typed to the draft."""

    def refresh(self) -> None:
        """Brings what is on the screen in step with the draft and the run."""

    def show_message(self, text: str, offer: Offer | None = None) -> None:
        """Shows a short message in a quiet bar, with a button for what it offers."""

    def save_state_soon(self) -> None:
        """Keeps what the window remembers, a second after the last change."""


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
    """The parts of one window that its pages share."""

    root: tk.Tk
    kit: Kit
    draft: Draft
    session: Session
    forecasts: Forecaster
    images: ImageCache
    remembered: WindowState
    act: Actions
    pages: tuple[Page, ...]


class View(Protocol):
    """One page. refresh: shows what is true now; called only while the page is on the screen."""

    name: str
    outer: tk.Widget

    def refresh(self) -> None:
        """Shows what is true now."""
