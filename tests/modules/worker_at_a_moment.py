"""A worker to which something happens at a set moment, however fast or busy the machine is.

`main(RUN_FOLDER, what, steps)`, in a process of its own, as modules.worker. `what` happens after so
many steps, all of which are reported by then:

- "kill 5": SIGKILL in the middle of the sixth step;
- "kill-saving 4": SIGKILL while the checkpoint of the fourth is written, all but its last file;
- "pause 1", "stop 1", "discard 1": asked for, and heard of, in the middle of the second step;
- "asked 1": waits in the middle of the second step until somebody asks it to leave;
- "log-out 1": what systemd sends at log-out, in the middle of the second step;
- "load 0": loading the model takes longer than anybody waits;
- "import 0": and so does loading the engine;
- "verify 0": or reading a checkpoint.
"""

import os
import signal
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from modules import worker
from modules.jobs import base_model
from modules.training import checkpoint_record, checkpoints
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

    def remember(self, *arguments, **named):
        make(self, *arguments, **named)
        inboxes.append(self)

    Inbox.__init__ = remember
    return inboxes


def main(folder: Path, what: str, steps: int) -> int:
    inboxes = heard()

    def ask():
        command = "" if what == "asked" else encode_command(what)
        with (folder / "commands.jsonl").open("a") as handle:
            handle.write(command)
        runs.wait_until(inboxes[0].is_leaving)

    def log_out():
        for number in (signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        runs.wait_until(inboxes[0].is_leaving)

    def load(*_, **__):
        (folder / "loading").touch()
        Event().wait(runs.DEADLINE)

    @contextmanager
    def importing():
        yield load()

    match what:
        case "kill":
            once_reported(steps, die)
        case "kill-saving":
            when_saving(steps, die)
        case "load":
            base_model.load_family = load
        case "verify":
            checkpoint_record.verify = load
        case "import":
            worker.importing = importing
        case "log-out":
            once_reported(steps, log_out)
        case _:
            once_reported(steps, ask)
    return worker.main([str(folder)])
