"""Opens the window and reports what it took: `python -m tests.benchmarks.opened_window [PRESET]`.

painted: processor seconds from the start of the process until the first page is on the screen.
prepared: until all is done that is done while nobody does anything. stretch: the longest that the
window computes at a stretch from the first to the second, which a key would have to wait for.
"""

import json
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ui.app import App

_TICK_MS = 1


def open_painted(arguments: list[str]) -> "App":
    """The window of a command line, as soon as its first page is on the screen."""
    from ui.__main__ import make_parser, open_window

    app = open_window(make_parser().parse_args(arguments))
    if not app.shell.stage.outer.winfo_viewable():
        app.root.wait_visibility(app.shell.stage.outer)
    app.root.update_idletasks()
    return app


def main(arguments: list[str]) -> None:
    app = open_painted(arguments)
    painted = time.process_time()
    stretches = []

    def tick(before: float) -> None:
        stretches.append(time.thread_time() - before)
        if app.preparations.is_done:
            app.root.destroy()
        else:
            app.root.after(_TICK_MS, tick, time.thread_time())

    tick(time.thread_time())
    app.run()
    figures = {"painted": painted, "prepared": time.process_time(), "stretch": max(stretches)}
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
