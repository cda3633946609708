"""A worker to which something happens at a set moment, however fast or busy the machine is.

`main(RUN_FOLDER, what, steps)`, in a process of its own, as modules.worker. `what` happens after so
many steps, all of which are reported by then:

- "kill 5": SIGKILL in the middle of the sixth step;
- "kill-saving 4": SIGKILL while the checkpoint of the fourth is written, all but its last file;
- "pause 1", "stop 1": asked for, and heard of, in the middle of the second step;
- "hear 0": the model is loaded only once the worker has heard that it is to end.
"""

import os
import signal
from pathlib import Path

from modules import worker
from modules.jobs import base_model
from modules.training import checkpoints
from modules.training.engine import Engine
from modules.training.inbox import Inbox
from modules.training.reporter import Reporter
from onetrainer.run.commands import encode_command
from tests import runs


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def once_reported(steps, happen):
    """Lets something happen in the backward pass that follows so many steps."""
    reported = [0]

    def progress(self, **arguments):
        note(self, **arguments)
        self.flush()
        reported[0] = arguments["step"]

    def backward(self, *arguments):
        if reported[0] == steps:
            reported[0] = -1
            happen()
        compute(self, *arguments)

    note, compute = Reporter.progress, Engine.backward
    Reporter.progress, Engine.backward = progress, backward


def when_saving(steps, happen):
    def write(path, content):
        if path.name == checkpoints.STATE_FILE and f"step-{steps:06d}" in path.parent.name:
            happen()
        original(path, content)

    original, checkpoints.write_atomic = checkpoints.write_atomic, write


def heard():
    """The worker's inbox, as a list that it is put into as soon as there is one."""
    inboxes, make = [], Inbox.__init__

    def remember(self, path):
        make(self, path)
        inboxes.append(self)

    Inbox.__init__ = remember
    return inboxes


def main(folder: Path, what: str, steps: int) -> int:
    inboxes = heard()

    def ask():
        with (folder / "commands.jsonl").open("a") as handle:
            handle.write(encode_command(what))
        runs.wait_until(inboxes[0].is_leaving)

    def load(*arguments, **named):
        runs.wait_until(inboxes[0].is_leaving)
        return load_family(*arguments, **named)

    match what:
        case "kill":
            once_reported(steps, die)
        case "kill-saving":
            when_saving(steps, die)
        case "hear":
            load_family, base_model.load_family = base_model.load_family, load
        case _:
            once_reported(steps, ask)
    return worker.main([str(folder)])
