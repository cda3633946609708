"""The worker's entry: `python -m modules.worker RUN_FOLDER`.

It takes the run folder's lock, runs the job, and turns whatever goes wrong into one event, a
message in worker.log and an exit code.
"""

import faulthandler
import os
import sys
import traceback
from pathlib import Path
from time import strftime

from onetrainer.errors import EXIT_PROGRAM, EXIT_USER, UserError
from onetrainer.event_log import EventWriter
from onetrainer.events import Failed
from onetrainer.run_folder import RunFolder, open_run


def main(arguments: list[str]) -> int:
    """Works on a run folder; returns the exit code."""
    if len(arguments) != 1:
        return _say("usage: python -m modules.worker RUN_FOLDER", EXIT_USER)
    # No library may try the network: everything a run needs is on this disk.
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    faulthandler.enable()  # a crash in a library leaves its place in worker.log
    try:
        folder = open_run(Path(arguments[0]))
        with folder.locked():
            return _work(folder)
    except UserError as error:
        return _say(str(error), EXIT_USER)


def _work(folder: RunFolder) -> int:
    _say(f"worker {os.getpid()} begins at {strftime('%Y-%m-%d %H:%M:%S')}", 0)
    try:
        from modules.jobs.train import train

        return train(folder)
    except UserError as error:
        _tell(folder, Failed("user", error.what, error.expected, error.remedy))
        return _say(str(error), EXIT_USER)  # last: whoever cannot read events reads this
    except Exception as error:  # noqa: BLE001 - the edge: nothing may leave without a word
        traceback.print_exc()
        _tell(folder, _translate(error, folder))
        return EXIT_PROGRAM


def _translate(error: Exception, folder: RunFolder) -> Failed:
    """An unforeseen error in words; the traceback is in the log."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError) or "out of memory" in text.lower():
        return Failed(
            "program",
            "there is not enough memory for this run",
            "The device ran out of memory",
            "Turn on gradient checkpointing, or lower the batch size or the resolution.",
        )
    return Failed(
        "program",
        f"the program failed: {text.splitlines()[0][:300]}",
        "",
        f"Everything up to the last checkpoint is safe. The whole story is in {folder.log}",
    )


def _tell(folder: RunFolder, event: Failed) -> None:
    try:
        events = EventWriter(folder.events)
        events.write(event)
        events.close()
    except (OSError, UserError) as error:
        _say(f"{folder.events}: cannot be written ({error})", EXIT_PROGRAM)


def _say(text: str, code: int) -> int:
    sys.stderr.write(text + "\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
