"""What a worker tells: each event is one line of the run's events.jsonl."""

from dataclasses import dataclass, field
from typing import Literal

from onetrainer.errors import EXIT_DONE, EXIT_PROGRAM, EXIT_STOPPED, EXIT_USER

PhaseName = Literal["loading", "caching", "training", "sampling", "saving"]


@dataclass(frozen=True)
class Started:
    """A worker has taken the run up. step: where it begins, 0 or a checkpoint's step."""

    pid: int
    step: int
    total_steps: int
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Phase:
    """What the worker is doing now; done of total, where total 0 means that it cannot be told."""

    name: PhaseName
    done: int = 0
    total: int = 0
    detail: str = ""


@dataclass(frozen=True)
class Progress:
    """One optimizer step has been made.

    step: how many have been made. steps_per_second: over the last steps, 0 while unknown.
    eta_seconds: until the last step, -1 while unknown. memory_bytes: of the device on a graphics
    card, of the process otherwise.
    """

    step: int
    total_steps: int
    epoch: int
    loss: float
    lr: float
    steps_per_second: float = 0.0
    eta_seconds: float = -1.0
    memory_bytes: int = 0


@dataclass(frozen=True)
class Sample:
    """A sample picture has been drawn. path: relative to the run folder. prompt_index: from 0."""

    step: int
    prompt_index: int
    path: str
    prompt: str
    seed: int


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint is complete. path: relative to the run folder."""

    step: int
    path: str


@dataclass(frozen=True)
class Warned:
    """Something a person should know; the run goes on."""

    text: str


@dataclass(frozen=True)
class Finished:
    """All steps are made. outputs: files, relative to the run folder."""

    step: int
    outputs: list[str]
    summary: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Stopped:
    """The run ended early because it was asked to; it can be resumed from its checkpoint."""

    step: int
    reason: Literal["stop", "pause"]
    outputs: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Failed:
    """The run ended with an error.

    kind: "user" for something a person can put right, "program" for a defect or a lack of memory.
    """

    kind: Literal["user", "program"]
    what: str
    expected: str = ""
    remedy: str = ""


Event = Started | Phase | Progress | Sample | Checkpoint | Warned | Finished | Stopped | Failed
ENDINGS = (Finished, Stopped, Failed)


def exit_code_of(event: Event) -> int | None:
    """The exit code of the work that this event ended; None if it ended nothing."""
    match event:
        case Finished():
            return EXIT_DONE
        case Stopped():
            return EXIT_STOPPED
        case Failed(kind=kind):
            return EXIT_USER if kind == "user" else EXIT_PROGRAM
        case _:
            return None
