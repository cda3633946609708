"""What a worker tells: each event is one line of the run's events.jsonl."""

from dataclasses import dataclass, field
from typing import Any, Literal

from onetrainer.errors import EXIT_DONE, EXIT_PROGRAM, EXIT_STOPPED, EXIT_USER

PhaseName = Literal[
    "loading", "caching", "training", "validating", "evaluating", "sampling", "saving"
]


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


Verdict = Literal["first", "improving", "flat", "overfitting"]


@dataclass(frozen=True)
class Validated:
    """The loss on held-out pictures has been measured.

    loss: the mean over pictures. error: half the width of its 95 % band; 0 for a single picture,
    which has none.
    since_start, since_best: the mean paired difference to the first validation of the run, and to
    the best one before this; negative is better; each with half the width of its 95 % band. None
    where there is nothing to compare with. best_step: with the lowest loss so far, also this one.
    by_concept: means by concept, which is a folder below that of the pictures, "" for that itself.
    concepts: by concept "loss", "error", "since_start", "since_start_error", "since_best" and
    "since_best_error", which are the same of its pictures alone (so since its own best); None where
    there is nothing to compare with, or no band.
    by_level: means by noise level, from little noise to much.
    weights: "shown" are those that samples show, "last" those of the last step beside them.
    verdict: what that amounts to; words: the same as a sentence.
    """

    step: int
    loss: float
    error: float
    images: int
    best_step: int
    is_best: bool
    verdict: Verdict
    words: str
    since_start: float | None = None
    since_start_error: float | None = None
    since_best: float | None = None
    since_best_error: float | None = None
    by_concept: dict[str, float] = field(default_factory=dict)
    concepts: dict[str, dict[str, float | None]] = field(default_factory=dict)
    by_level: list[float] = field(default_factory=list)
    weights: Literal["shown", "last"] = "shown"


@dataclass(frozen=True)
class Rewarded:
    """The pictures of a step have been scored. Told just before the step's Progress.

    reward: the mean over the step's pictures of all trained rewards together, as they are weighed;
    spread: the standard deviation over pictures, 0 of a single one. by_name: each reward's own
    "mean" and "spread" in its own units, also of those that are only watched. last_steps: through
    how many steps of the drawing the gradient went, on average. anchor: the mean squared
    distance to the base model's noise predictions; None where it was not computed.
    """

    step: int
    reward: float
    spread: float
    images: int
    by_name: dict[str, dict[str, float]] = field(default_factory=dict)
    last_steps: float = 0.0
    anchor: float | None = None


RewardVerdict = Literal["first", "improving", "flat", "hacking"]


@dataclass(frozen=True)
class Evaluated:
    """The held-out prompts have been drawn and scored, with the same noise as ever.

    reward: the mean over pictures of all trained rewards together; error: half the width of its
    95 % band, 0 where there is none. best_step: where `reward` was highest among looks in which the
    guard saw nothing wrong. rewards: by name "mean", "error", and, None where there is nothing to
    compare with, the mean paired difference to the base's pictures "since_base" with
    "since_base_error"; "trained", 1 or 0; and "weight".
    drift: "diversity" of the pictures of a prompt, "variety" of those of different prompts,
    "contrast" and "saturation", each as a share of the base's; and "distance", the root mean square
    of the difference between the noise predictions and the base's, as a share of the noise. What
    was not measured is missing.
    pictures: one for each prompt and seed, in the same order every time: "path" (relative to the
    run folder), "prompt", "seed", "rewards" (by name, with all together as "").
    verdict: what that amounts to, words: the same as a sentence. stops: whether the guard ends the
    run here.
    """

    step: int
    reward: float
    error: float
    best_step: int
    is_best: bool
    verdict: RewardVerdict
    words: str
    rewards: dict[str, dict[str, float | None]] = field(default_factory=dict)
    drift: dict[str, float] = field(default_factory=dict)
    images: list[dict[str, Any]] = field(default_factory=list)
    stops: bool = False


@dataclass(frozen=True)
class Forecast:
    """How much of the device's memory a run is going to take, in bytes.

    phases: by phase, how much each part takes at that phase's peak; a phase's sum is its peak.
    peak_phase, peak_bytes: the highest of them. available_bytes: what the device has free; 0 where
    that is not known. cures: what lowers the peak, the cheapest in time first, or the nearest where
    none is enough; each has "changes" (values by the paths of settings), "words", "peak_bytes" and
    "cost" (of time, in words). notes: what was counted and what was not, a sentence each.
    time: what a step costs, where that is known: "unet_calls" a step, the same in "parts" by what
    they are for, "seconds" a step and "run_seconds" for all, about, and "words"; empty otherwise.
    data: what only the model can tell of the pictures: "caching_seconds", about, where it is known;
    "chunk", how many tokens are read at once; "long_caption_count", and of "long_captions" the
    longest, each with "path" and "tokens". Empty where there are no pictures.
    """

    phases: dict[str, dict[str, int]]
    peak_phase: str
    peak_bytes: int
    available_bytes: int = 0
    fixes: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    time: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)


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


Event = (
    Started
    | Phase
    | Progress
    | Sample
    | Checkpoint
    | Validated
    | Rewarded
    | Evaluated
    | Forecast
    | Warned
    | Finished
    | Stopped
    | Failed
)
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
