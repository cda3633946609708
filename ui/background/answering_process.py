"""The process that answers questions about very many images: no Tk, no window's state.

Reading 100,000 images takes a minute of Python, in which the window would wait for its threads
again and again, and hundreds of MB, a good part of which would stay. The process takes both away
with it.

It gets a function of this program and a config on standard input, and writes what comes of it to
standard output: both pickled, as both ends are one program.
`python -m ui.background.answering_process`.
"""

import os
import pickle
import subprocess
import sys
import threading
import traceback
from contextlib import closing, suppress
from typing import BinaryIO, Literal

from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.run.client import OWN_GROUP, environment
from ui.background.background_query import Answer, Ask, CancelToken
from ui.background.memory import give_back_now

_MODULE = "ui.background.answering_process"
_Kind = Literal["progress", "answer", "end", "failed"]


def answer_apart(ask: Ask[Answer], config: TrainConfig, token: CancelToken[Answer]) -> Answer:
    """Answer in a process of its own, which ends with the answer.

    Raises a UserError as `ask` does, and RuntimeError with the traceback of anything else.
    """
    process = token.start(_Process)
    try:
        return process.follow(ask, config, token)
    finally:
        process.close()
        give_back_now()
        token.raise_if_cancelled()


class _Process:
    """The other process, from this side."""

    def __init__(self) -> None:
        from onetrainer.images.image_index import SHARED_FACTS, recent_facts

        facts = recent_facts()
        facts.save()
        self._process = subprocess.Popen(
            [sys.executable, "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment() | {SHARED_FACTS: str(facts.folder)},
            creationflags=OWN_GROUP,
        )

    def follow(self, ask: Ask[Answer], config: TrainConfig, token: CancelToken[Answer]) -> Answer:
        """Return the answer; passes on what comes before it."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None, "they are pipes"
        with suppress(BrokenPipeError):
            pickle.dump((ask, config), stdin)
            stdin.flush()
        while True:
            try:
                kind, values = pickle.load(stdout)  # written by this program
            except (EOFError, pickle.UnpicklingError) as error:
                token.raise_if_cancelled()
                raise UserError(
                    "the images could not be read: the process that reads them has ended",
                    "",
                    "Close programs that take much memory, and try again.",
                ) from error
            match kind:
                case "progress":
                    token.progress(*values)
                case "answer":
                    token.answer(*values)
                case "failed":
                    raise values[0]
                case "end":
                    found: Answer = values[0]
                    return found

    def stop(self) -> None:
        """End it, if it has not ended yet; safe in any thread."""
        self._process.kill()

    def close(self) -> None:
        """End it, and let go of it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # of what it did not read
                    pipe.close()


def main() -> None:
    """Answer the question on standard input; end with the window, which keeps that open."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no message
    ask, config = pickle.load(sys.stdin.buffer)  # written by this program
    threading.Thread(target=_end_with_window, daemon=True).start()
    _answer(sink, ask, config)


def _end_with_window() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def _answer(sink: BinaryIO, ask: Ask[Answer], config: TrainConfig) -> None:
    from onetrainer.images.image_index import recent_facts

    token: CancelToken[Answer] = CancelToken(
        lambda *report: _send(sink, "progress", report),
        lambda answer: _send(sink, "answer", (answer,)),
    )
    kind: _Kind = "end"
    with closing(recent_facts()):  # before the end is sent, after which the window kills it
        try:
            values: tuple[object, ...] = (ask(config, token),)
        except Exception as error:  # noqa: BLE001 - raised in the window
            kind, values = "failed", (_plain(error),)
    _send(sink, kind, values)


def _plain(error: Exception) -> Exception:
    """Return what says the same and can be sent, which is not so of every exception."""
    if isinstance(error, UserError):
        return UserError(error.what, error.expected, error.remedy, failure=error.failure)
    return RuntimeError("".join(traceback.format_exception(error)))


def _send(sink: BinaryIO, kind: _Kind, values: tuple[object, ...]) -> None:
    pickle.dump((kind, values), sink, pickle.HIGHEST_PROTOCOL)
    sink.flush()


if __name__ == "__main__":
    main()
