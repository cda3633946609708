"""Command line of the window: `python -m ui [PRESET] [--demo]`."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from onetrainer import ROOT

if TYPE_CHECKING:
    from ui.app import App

EXIT_USER = 2
DEMO_FOLDER = ROOT / "demo"


def main(arguments: list[str] | None = None) -> int:
    """Open the window, wait until it is closed and return the exit code."""
    options = make_parser().parse_args(arguments)
    missing = _missing_requirement()
    if missing:
        sys.stderr.write(f"{missing}\n")
        return EXIT_USER
    open_window(options).run()
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Build the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m ui", description="The window of OneTrainer, a trainer for Stable Diffusion."
    )
    parser.add_argument("preset", nargs="?", default="", help="preset name or config file")
    parser.add_argument(
        "--demo",
        nargs="?",
        const="",
        metavar="FOLDER",
        help="create the demo and load it: at the first start, or at every start with a FOLDER",
    )
    return parser


def open_window(options: argparse.Namespace) -> "App":
    """Build the window from the parsed command line."""
    from ui.app import App, Opening

    return App(
        Opening(
            options.preset,
            Path(options.demo or DEMO_FOLDER),
            with_demo=options.demo is not None,
            is_demo_named=bool(options.demo),
        )
    )


def _missing_requirement() -> str:
    """Return why no window can be opened, in one line; "" if it can."""
    try:
        import tkinter
    except ImportError:
        return (
            "The window needs tkinter, which this Python lacks. Install it (on Debian and Ubuntu: "
            "apt install python3-tk), or train without a window: onetrainer train CONFIG"
        )
    try:
        import customtkinter  # noqa: F401
    except ImportError:
        return "The window needs customtkinter. Run: python3 start-ui.py"
    try:
        root = tkinter.Tk()
    except tkinter.TclError as error:
        return f"No window can be opened here ({error}). Without one: onetrainer train CONFIG"
    root.destroy()
    return ""


if __name__ == "__main__":
    raise SystemExit(main())
