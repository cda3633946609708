"""Lets a window of this process, and what its threads have found, go on until something is true."""

import time
import tkinter as tk
from collections.abc import Callable

from tests.ui.xscreen import DEADLINE
from ui.background.threads import Jobs


def pump_until(root: tk.Tk, condition: Callable[[], object]) -> None:
    """Lets a window of this process go on until something is true of it."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        root.update()
        time.sleep(0.001)


def deliver_until(jobs: Jobs, condition: Callable[[], object]) -> None:
    """Hands over what threads have found, without a window, until something is true."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        jobs.deliver()
        time.sleep(0.001)


def resize(root: tk.Tk, width: int, height: int) -> None:
    """Gives a window of this process a size, which the window manager has to agree to."""
    root.geometry(f"{width}x{height}")
    pump_until(root, lambda: (root.winfo_width(), root.winfo_height()) == (width, height))


def once_asked(root: tk.Tk, do: Callable[[], object]) -> None:
    """Does something as soon as a new dialog is on the screen and has the pointer."""
    before = root.tk.call("grab", "current", root)

    def poll() -> None:
        grab = root.tk.call("grab", "current", root)
        if grab and grab != before and root.tk.call("winfo", "viewable", grab):
            do()
        else:
            root.after(10, poll)

    root.after(10, poll)
