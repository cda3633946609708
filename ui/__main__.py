"""Command line of the window, which `onetrainer window` passes on: `python -m ui [PRESET]`."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from onetrainer import program

if TYPE_CHECKING:
    import tkinter as tk

    from ui.app import App

EXIT_USER = 2
_SWITCH_S = 0.0005
DEMO_FOLDER = Path("demo")  # in the current folder, as the runs; start-ui.py goes to the project


class NoWindowError(Exception):
    """No window can be opened here; why, in one line."""


def main(arguments: list[str] | None = None) -> int:
    """Open the window, wait until it is closed and return the exit code."""
    options = make_parser().parse_args(arguments)
    try:
        if options.check:
            sys.stdout.write(json.dumps(_describe(_make_root())) + "\n")
            return 0
        app = open_window(options)
    except NoWindowError as error:
        if options.check:
            sys.stdout.write(json.dumps({"problem": str(error)}) + "\n")
            return 0
        sys.stderr.write(f"{error}\n")
        return EXIT_USER
    app.run()
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Build the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="onetrainer window",
        description="The window of OneTrainer, a trainer for Stable Diffusion.",
    )
    parser.add_argument("preset", nargs="?", default="", help="preset name or config file")
    parser.add_argument(
        "--demo",
        nargs="?",
        const="",
        metavar="FOLDER",
        help="create the demo and load it: at the first start, or at every start with a FOLDER",
    )
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # for the doctor
    return parser


def open_window(options: argparse.Namespace) -> "App":
    """Build the window from the parsed command line.

    Raises:
        NoWindowError: There can be none.
    """
    from ui.background.collection import collect_in_this_thread, without_collection
    from ui.background.memory import give_back_memory

    give_back_memory()
    collect_in_this_thread()
    # A thread that computes would make the window's wait 5 ms each time that it has called Tk.
    sys.setswitchinterval(_SWITCH_S)
    with without_collection():
        root = _make_root()
        from ui.actions.opening import Opening
        from ui.app import App

        return App(
            root,
            Opening(
                options.preset,
                Path(options.demo or DEMO_FOLDER).absolute(),
                with_demo=options.demo is not None,
                is_demo_named=bool(options.demo),
            ),
        )


def _make_root() -> "tk.Tk":
    """Create the window, which is not shown yet."""
    try:
        import tkinter
    except ImportError:
        raise NoWindowError(
            "The window needs tkinter, which this Python lacks. Install it (on Debian and Ubuntu: "
            f"apt install python3-tk), or train without a window: {program()} train CONFIG"
        ) from None
    from ui.theme.desktop import use_real_pixels

    use_real_pixels()
    try:
        root = tkinter.Tk(className="OneTrainer")
    except tkinter.TclError as error:
        raise NoWindowError(
            f"No window can be opened here ({error}). Without one: {program()} train CONFIG"
        ) from None
    root.withdraw()
    return root


def _describe(root: "tk.Tk") -> dict[str, object]:
    """Return Tk's version, the screen, and the fonts of a window, and close it."""
    import tkinter.font

    from ui.theme.theme import Theme

    theme = Theme(root)
    described = {
        "tk": str(root.tk.call("info", "patchlevel")),
        "size": f"{root.winfo_screenwidth()} × {root.winfo_screenheight()}",
        "scale": theme.scale,
        "font": theme.family,
        "mono": theme.mono,
        "fonts": len(set(tkinter.font.families(root))),
    }
    root.destroy()
    return described


if __name__ == "__main__":
    raise SystemExit(main())
