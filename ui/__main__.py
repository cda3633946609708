"""Opens the window: `python -m ui [PRESET] [--demo]`."""

import argparse
import sys
from pathlib import Path

from onetrainer import ROOT

EXIT_USER = 2
DEMO_FOLDER = ROOT / "demo"


def main(arguments: list[str] | None = None) -> int:
    """Opens the window and waits until it is closed; the exit code."""
    options = _parser().parse_args(arguments)
    missing = _what_is_missing()
    if missing:
        sys.stderr.write(f"{missing}\n")
        return EXIT_USER
    from onetrainer.run import client
    from ui.app import App, Opening

    if options.worker:
        client.WORKER = options.worker
    opening = Opening(
        options.preset,
        Path(options.demo or DEMO_FOLDER),
        with_demo=options.demo is not None,
        is_demo_named=bool(options.demo),
    )
    app = App(opening)
    if options.inspect_fd is not None:
        from ui.inspection import inspect_through

        inspect_through(app, options.inspect_fd)
    app.run()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ui", description="The window of OneTrainer, a trainer for Stable Diffusion."
    )
    parser.add_argument("preset", nargs="?", default="", help="a preset's name, or a config file")
    parser.add_argument(
        "--demo",
        nargs="?",
        const="",
        metavar="FOLDER",
        help="at the first start make the demo and load it; at any start if a FOLDER is named",
    )
    # For tests: who does the work, and a socket through which they may ask what is on the screen.
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    parser.add_argument("--inspect-fd", type=int, default=None, help=argparse.SUPPRESS)
    return parser


def _what_is_missing() -> str:
    """Why no window can be opened here, in one line; "" if one can."""
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
