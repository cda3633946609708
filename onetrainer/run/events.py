"""Events of a worker: each one is a line of the run's events.jsonl."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from onetrainer.errors import EXIT_DONE, EXIT_PROGRAM, EXIT_STOPPED, EXIT_USER
from onetrainer.run.commands import Leaving

PhaseName = Literal[
    "waiting",
    "loading",
    "caching",
    "training",
    "validating",
    "evaluating",
    "sampling",
    "saving",
    "captioning",
]


@dataclass(frozen=True)
class Started:
    """A worker has started.

    step: The first step, 0 or the step of a checkpoint. total_steps: 0 while not known.
    """

    pid: int
    step: int
    total_steps: int
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Phase:
    """The worker's current phase; `done` of `total`, where total is 0 if unknown."""

    name: PhaseName
    done: int = 0
    total: int = 0
    detail: str = ""


@dataclass(frozen=True)
class Progress:
    """One optimizer step is done.

    step: Number of steps done. steps_per_second: Over the last steps; 0 while unknown.
    eta_seconds: Until the end, with samples and other tasks as long as so far; -1 while unknown.
    memory_bytes: Of the GPU when training on one, otherwise of the process. gradient_norm: Before
    clipping; None if it is not finite.
    """

    step: int
    total_steps: int
    epoch: int
    loss: float
    lr: float
    steps_per_second: float = 0.0
    eta_seconds: float = -1.0
    memory_bytes: int = 0
    gradient_norm: float | None = None


@dataclass(frozen=True)
class Measured:
    """What is measured every few seconds. Sent after the Progress of its step.

    images: Of the step. learning_rates: By parameter group, if there are several: its component, as
    in "unet", with a number from the component's second group on. host_bytes: Of the worker's
    process. device_bytes: That torch holds of the GPU's memory, with what it keeps for later; 0
    without a GPU. temperature, power_watts: Of the GPU, in °C and W; None where no driver tells.
    """

    step: int
    images: int
    host_bytes: int
    device_bytes: int = 0
    learning_rates: dict[str, float] = field(default_factory=dict)
    temperature: float | None = None
    power_watts: float | None = None


Cause = Literal["model", "weights", "data", "loss", "gradient"]


@dataclass(frozen=True)
class BrokenStep:
    """A step's loss or gradient was not finite, so it changed nothing. Sent after its Progress.

    images, prompts: What its images are made from, in order: their paths, or prompts. timesteps: In
    the same order; empty if unknown. losses: The same; None where it is not finite. gradient_norm:
    None if it is not finite. cause: Where the first number that is not finite was found. message:
    The cause as text, with what to do. went_back: The run went back to a checkpoint because of it,
    which removed the step's events; this one was written again.
    """

    step: int
    images: list[str]
    timesteps: list[int]
    losses: list[float | None]
    gradient_norm: float | None
    cause: Cause
    message: str
    prompts: list[str] = field(default_factory=list)
    went_back: bool = False


@dataclass(frozen=True)
class Sample:
    """A sample image was generated. path: Relative to the run folder. prompt_index: From 0."""

    step: int
    prompt_index: int
    path: str
    prompt: str
    seed: int


@dataclass(frozen=True)
class Tried:
    """An image that a person asked a running worker for, or the end of the request.

    request: Its id. place: Of the image in the request's table, row by row; -1 at the end. path:
    Of the image; at the end that of the grid, "" without one. error: Why the request ended early.
    """

    request: str
    place: int
    path: str = ""
    prompt: str = ""
    seed: int = 0
    error: str = ""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint is complete. path: Relative to the run folder."""

    step: int
    path: str


Verdict = Literal["first", "improving", "flat", "overfitting"]


@dataclass(frozen=True)
class Validated:
    """The validation loss was measured.

    loss: Mean over images. error: Half the width of its 95 % confidence band; 0 for a single image,
    which has none.
    since_start, since_best: Mean paired difference to the first validation of the run, and to the
    best one before this; negative is better; each with half the width of its 95 % band. None if
    there is nothing to compare with. best_step: Step of the lowest loss so far, which may be this
    one.
    by_concept: Means by concept, which is a folder below the image folder; "" for the image folder.
    concepts: By concept "loss", "error", "since_start", "since_start_error", "since_best" and
    "since_best_error", computed from its images alone (since its own best); None where there is
    nothing to compare with, or no band.
    by_level: Means by noise level, from low to high noise.
    weights: "sampling" for the weights that samples use, "without_ema" for those of the last step.
    verdict: The result in one word; message: the same as a sentence.
    """

    step: int
    loss: float
    error: float
    images: int
    best_step: int
    is_best: bool
    verdict: Verdict
    message: str
    since_start: float | None = None
    since_start_error: float | None = None
    since_best: float | None = None
    since_best_error: float | None = None
    by_concept: dict[str, float] = field(default_factory=dict)
    concepts: dict[str, dict[str, float | None]] = field(default_factory=dict)
    by_level: list[float] = field(default_factory=list)
    weights: Literal["sampling", "without_ema"] = "sampling"


@dataclass(frozen=True)
class Rewarded:
    """The images of a step were scored. Sent just before the step's Progress.

    reward: Mean over the step's images of the weighted sum of all trained rewards; spread: standard
    deviation over images, 0 for a single one. by_name: "mean" and "spread" of each reward in its
    own units, including those that are only monitored. last_steps: Mean number of sampling steps
    that the gradient passes through. anchor: Mean squared distance to the base model's noise
    predictions; None if not computed.
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
    """Images of the validation prompts were generated, from the same noise every time, and scored.

    reward: Mean over images of the weighted sum of all trained rewards; error: half the width of
    its 95 % band, 0 if there is none. best_step: Step of the highest `reward` among the evaluations
    without suspicion by the guard. rewards: By name "mean", "error", and the mean paired difference
    to the base's images "since_base" with "since_base_error" (None if there is nothing to compare
    with); "trained", 1 or 0; and "weight".
    drift: "diversity" of the images of one prompt, "variety" of those of different prompts,
    "contrast" and "saturation", each as a fraction of the base's; and "distance", the root mean
    square difference between the noise predictions and the base's, as a fraction of the noise. What
    was not measured is missing.
    images: One per prompt and seed, always in the same order: "path" (relative to the run folder),
    "prompt", "seed", "rewards" (by name, with the weighted sum as "").
    verdict: The result in one word; message: the same as a sentence. stops: Whether the guard ends
    the run here.
    """

    step: int
    reward: float
    error: float
    best_step: int
    is_best: bool
    verdict: RewardVerdict
    message: str
    rewards: dict[str, dict[str, float | None]] = field(default_factory=dict)
    drift: dict[str, float] = field(default_factory=dict)
    images: list[dict[str, Any]] = field(default_factory=list)
    stops: bool = False


@dataclass(frozen=True)
class Forecast:
    """The device memory that a run will take, in bytes.

    phases: By phase, the bytes of each item at that phase's peak; their sum is the peak.
    peak_phase, peak_bytes: The highest of them. available_bytes: Free memory of the device; 0 if
    unknown. fixes: Changes that lower the peak, cheapest in time first, or the closest if none is
    enough; each has "changes" (values by setting path), "message", "peak_bytes" and "cost" (the
    time it takes, as text). notes: What was counted and what was not, one sentence each.
    time: Cost of a step, if known: "unet_calls" per step, the same as "parts" by purpose, "seconds"
    per step and "run_seconds" in total (both estimates), and "message"; empty otherwise. "lengths":
    The steps of lengths in other units, by their text, as far as they are known.
    data: Facts about the images: "caching_seconds" (an estimate, if known);
    "chunk", tokens per text encoder pass; "long_caption_count", and in "long_captions" the longest
    ones, each with "path" and "tokens". Empty if there are no images.
    device: The name of the device it is for; "" for a GPU that is only planned for.
    speed: How fast that is, as `DeviceSpeed` has it; empty unless nothing else computed on it.
    """

    phases: dict[str, dict[str, int]]
    peak_phase: str
    peak_bytes: int
    available_bytes: int = 0
    fixes: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    time: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    device: str = ""
    speed: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Warned:
    """A warning for the user; the run continues."""

    text: str


@dataclass(frozen=True)
class Finished:
    """All steps are done. outputs: Files, relative to the run folder."""

    step: int
    outputs: list[str]
    summary: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Stopped:
    """The run ended early on request; it can be resumed from its newest checkpoint.

    step: Steps made; with the reason "discard", those since the newest checkpoint are lost.
    because: Why the run paused by itself; "" if a person asked for it.
    """

    step: int
    reason: Leaving
    outputs: list[str] = field(default_factory=list)
    because: str = ""


@dataclass(frozen=True)
class Failed:
    """The run ended with an error.

    kind: "user" for an error that the user can fix, "program" for a bug or lack of memory.
    failure: Its kind in the catalog `onetrainer/run/failures.py`. place: The file or folder that
    it is about. changes: Of settings, by path, that prevent it. All empty if unknown.
    """

    kind: Literal["user", "program"]
    what: str
    expected: str = ""
    remedy: str = ""
    failure: str = ""
    place: str = ""
    changes: dict[str, Any] = field(default_factory=dict)


Event = (
    Started
    | Phase
    | Progress
    | Measured
    | BrokenStep
    | Sample
    | Tried
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
Report = Callable[[Event], None]
"""Takes the events of a worker."""
ENDINGS = (Finished, Stopped, Failed)


def exit_code_for(event: Event) -> int | None:
    """Return the exit code for an ending event; None for any other event."""
    match event:
        case Finished():
            return EXIT_DONE
        case Stopped():
            return EXIT_STOPPED
        case Failed(kind=kind):
            return EXIT_USER if kind == "user" else EXIT_PROGRAM
    return None
