"""Opens the window with its inspection: `python -m tests.ui.inspected_window FD WORKER …`.

FD: descriptor of the inspection's socket. WORKER: module that does the work, "" for the real one.
What follows are the arguments of `python -m ui`. WINDOW_CONSTANTS in the environment: a JSON object
of constants of the program, by module and name, and what they are in this window.
"""

import importlib
import json
import os
import sys


def main(arguments: list[str], *, workers: str = "") -> int:
    """Open a window; the exit code.

    workers: address of a server that forks its workers; "" to start processes.
    """
    from onetrainer.jobs import job
    from onetrainer.run import client
    from tests.ui.window_server import ServedWorkers

    descriptor, worker, *rest = arguments
    if worker:
        client.WORKER = job.WORKER = worker
    if workers:
        client.subprocess = job.subprocess = ServedWorkers(workers)
    from tests.ui.inspection import inspect_through
    from ui.__main__ import make_parser, open_window

    for path, value in json.loads(os.environ.get("WINDOW_CONSTANTS", "{}")).items():
        module, _, name = path.rpartition(".")
        if not hasattr(importlib.import_module(module), name):
            raise LookupError(f"there is no {path}")
        setattr(importlib.import_module(module), name, value)
    app = open_window(make_parser().parse_args(rest))
    inspect_through(app, int(descriptor))
    app.run()
    return 0


if __name__ == "__main__":
    main(sys.argv[1:])
