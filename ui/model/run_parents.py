"""The folders that runs of this computer are in."""

from contextlib import suppress
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.queue.queue import Queue
from onetrainer.run.known_folders import known_run_folders


def run_parents(output_folder: object) -> list[Path]:
    """Return the folders, each once: that of the form first, then those that are known."""
    folders = [Path(str(output_folder or "runs")).expanduser().absolute(), *known_run_folders()]
    with suppress(UserError):  # the page of the queue says it
        entries = Queue().read().entries
        folders += [Path(entry.run).parent for entry in entries if not entry.job]
    return list(dict.fromkeys(folders))
