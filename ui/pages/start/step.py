"""What the page of the guided start asks of each of its steps."""

import tkinter as tk
from collections.abc import Sequence
from tkinter import ttk
from typing import Protocol


class Step(Protocol):
    """One step. outer: to be placed."""

    outer: tk.Widget

    @property
    def entries(self) -> Sequence[ttk.Entry]:
        """Fields in which Enter goes on."""

    @property
    def is_working(self) -> bool:
        """Whether what blocks the next step is still being found out."""

    def refresh(self) -> None:
        """Show what is known now."""

    def commit(self) -> None:
        """Take what is being typed."""

    def blocked_reason(self) -> str:
        """Return why the next step cannot be shown yet; "" if it can."""

    def take_focus(self) -> None:
        """Take the keyboard."""
