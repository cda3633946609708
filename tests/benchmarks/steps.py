"""Training steps of the whole program, as a fraction of a bare loop in the same run.

`python -m tests.benchmarks.steps [lora|full ...] [--steps N]`. The bare loop is what torch and
diffusers offer: the same UNet, a LoRA of two linear layers or the weights themselves, its batch
already in memory, and nothing else: no cache, no draws by position, no events, no commands. The
program is a whole run of the training job with all that belongs to one: captions, validation,
tasks, warnings, commands. The two take turns at every step, on one thread, and are timed in
processor seconds, as a busy machine slows both alike, and by the clock.

own_ms is what the run's thread computes in a step besides what the bare loop has as well, which is
prediction, loss, backward pass, clipping and update. Of that reading_ms is to read and draw what
a step needs, reporting_ms to report it. warm_own_ms is the same where the network is a single
number, so that everything stays in the processor's caches.
"""

import argparse
import json
import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median, quantiles
from time import perf_counter, process_time, thread_time
from typing import Any
from unittest import mock

import torch
from diffusers.models.attention_processor import AttnProcessor2_0

from modules.assembly.trainer import Assembled, assemble
from modules.interfaces import Loss
from modules.jobs import train as job
from modules.stepping.eager import EagerStep
from modules.trainer import Trainer
from onetrainer.errors import EXIT_DONE
from onetrainer.run.run_folder import RunFolder
from tests import runs, tiny
from tests.benchmarks.bare_lora import attach_lora
from tests.benchmarks.lines import say
from tests.own_user import own_user

RANK = 4
STEPS, WARM_UP = 160, 16
METHODS = {
    "lora": {"kind": "lora", "rank": RANK, "alpha": float(RANK), "targets": "attn"},
    "full": {"kind": "full", "weights": "fp32"},
}
BATCH_SIZES = (1, 4)
IMAGES = 20  # of which a fifth is validated: the others fill steps of 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", default=[*METHODS])
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    tiny.layers_per_block = 2  # as many operations as the real network
    for method in options.methods:
        for batch_size in BATCH_SIZES:
            with tempfile.TemporaryDirectory() as folder:
                figures = compared(Path(folder), method, batch_size, options.steps)
            say("steps", method=method, batch_size=batch_size, **figures)


def compared(folder: Path, method: str, batch_size: int, steps: int) -> dict[str, float]:
    """The figures of a method at a batch size."""
    project = runs.write_project(folder)
    project.write_text(json.dumps({**runs.SETTINGS, "method": METHODS[method]}))
    tiny.write_images(folder / "pictures", [f"picture {number}" for number in range(IMAGES)])
    bare = _Bare(method, batch_size)
    times = _Times(bare.step)
    train(_new_run(project, batch_size, steps), times)
    assert bare.trained == times.trained
    warm = _Times(lambda: None, has_network=False)
    train(_new_run(project, batch_size, steps), warm)
    return {
        "fraction_of_bare_loop": round(median(times.bare) / median(times.whole), 3),
        "fraction_at_best": round(_quick(times.bare) / _quick(times.whole), 3),
        "fraction_by_the_clock": round(median(times.bare_clock) / median(times.clock), 3),
        "bare_ms": _ms(median(times.bare)),
        # On average, since some microbatches are read, and some steps reported, at once.
        "own_ms": _ms(fmean(times.own)),
        "reading_ms": _ms(fmean(times.reading)),
        "reporting_ms": _ms(fmean(times.reporting)),
        "warm_own_ms": _ms(fmean(warm.own)),
        "warm_reading_ms": _ms(fmean(warm.reading)),
        "warm_reporting_ms": _ms(fmean(warm.reporting)),
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _quick(seconds: list[float]) -> float:
    """The tenth percentile, which a busy machine changes least."""
    return quantiles(seconds, n=10)[0]


def _new_run(project: Path, batch_size: int, steps: int) -> RunFolder:
    return runs.new_run(
        project,
        training={"steps": WARM_UP + steps, "batch_size": batch_size},
        sampling={"every": 0, "at_start": False, "at_end": False},
        validation={"use": True, "split": 0.2, "every": 0, "at_start": False, "at_end": False},
        output={"save_every": 0},
    )


@dataclass
class _Times:
    """Seconds of a run's steps, without the first ones, and of the bare loop's before each.

    whole: Of the program's; those of other threads count. clock: The same by the clock. own: What
    its thread computes besides prediction, backward pass and update.
    """

    bare_step: Callable[[], None]
    has_network: bool = True
    bare: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    bare_clock: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    reading: list[float] = field(default_factory=list)
    reporting: list[float] = field(default_factory=list)
    trained: int = 0
    computing: float = 0.0
    read: float = 0.0
    reported: float = 0.0

    def instrument(self, trainer: Trainer) -> None:
        """Time a run's steps and their parts."""
        step = trainer.compute
        assert isinstance(step, EagerStep)
        self.trained = sum(weight.numel() for weight in trainer.engine.weights)
        if not self.has_network:
            _replace_network(step)
        engine, objective = trainer.engine, step.objective
        differentiate = engine.differentiate

        def without_graph(loss: torch.Tensor) -> None:
            differentiate(loss)
            loss.detach_()  # frees the graph here, as the end of the bare loop's step does

        engine.differentiate = without_graph  # type: ignore[method-assign]
        for part, name in (
            (objective, "compute"),
            (engine, "differentiate"),
            (engine, "clip_gradients"),
            (engine, "step"),
        ):
            setattr(part, name, self._adding(getattr(part, name), "computing"))
        report = trainer.report
        report.progress = self._adding(report.progress, "reported")  # type: ignore[method-assign]
        inputs = step.accumulate.inputs
        at = inputs.at

        def timed_at(number: int) -> Iterator[Any]:
            read = self._adding(lambda: [*at(number)], "read")
            return iter(read())

        object.__setattr__(inputs, "at", timed_at)
        # From one question whether the run is to end to the next is a step.
        leaving, began = trainer.inbox.is_leaving, _Now.of(self)

        def is_leaving() -> bool:
            nonlocal began
            self._add(began)
            before, clock = thread_time(), perf_counter()
            self.bare_step()
            self.bare.append(thread_time() - before)
            self.bare_clock.append(perf_counter() - clock)
            began = _Now.of(self)
            return leaving()

        trainer.inbox.is_leaving = is_leaving  # type: ignore[method-assign]

    def _add(self, began: "_Now") -> None:
        now = _Now.of(self)
        self.whole.append(now.process - began.process)
        self.clock.append(now.clock - began.clock)
        self.own.append(now.thread - began.thread - (now.computing - began.computing))
        self.reading.append(now.read - began.read)
        self.reporting.append(now.reported - began.reported)

    def cut(self) -> None:
        """Leave out the first steps."""
        for seconds in (self.whole, self.clock, self.own, self.reading, self.reporting):
            del seconds[: WARM_UP + 1]  # the first has no step before it
        for seconds in (self.bare, self.bare_clock):
            del seconds[:WARM_UP]

    def _adding(self, work: Callable[..., Any], name: str) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            before = thread_time()
            try:
                return work(*args, **options)
            finally:
                setattr(self, name, getattr(self, name) + thread_time() - before)

        return timed


@dataclass(frozen=True)
class _Now:
    """Where all clocks stand."""

    process: float
    thread: float
    clock: float
    computing: float
    read: float
    reported: float

    @staticmethod
    def of(times: _Times) -> "_Now":
        own = (times.computing, times.read, times.reported)
        return _Now(process_time(), thread_time(), perf_counter(), *own)


def _replace_network(step: EagerStep) -> None:
    """Let a step compute its loss from the first trained weight alone."""
    weight = step.engine.weights[0]

    def compute(inputs: Any) -> Loss:
        value = weight.square().sum()
        return Loss(value, value.detach().expand(len(inputs.latents)))

    step.objective.compute = compute  # type: ignore[method-assign]


@contextmanager
def _instrumented(times: _Times) -> Iterator[None]:
    def assembled(*args: Any) -> Assembled:
        made = assemble(*args)
        times.instrument(made.trainer)
        return made

    with mock.patch.object(job, "assemble", assembled):
        yield


def train(folder: RunFolder, times: _Times) -> None:
    """Make a whole run in this process."""
    with _instrumented(times):
        assert job.train(folder) == EXIT_DONE
    times.cut()


class _Bare:
    def __init__(self, method: str, batch_size: int) -> None:
        self.family = tiny.family()
        unet = self.family.unet
        unet.set_attn_processor(AttnProcessor2_0())
        if method == "lora":
            attach_lora(unet, RANK)
        else:
            unet.requires_grad_(True)
        self.weights = [weight for weight in unet.parameters() if weight.requires_grad]
        self.trained = sum(weight.numel() for weight in self.weights)
        self.optimizer = torch.optim.AdamW(self.weights, fused=True)
        self.latents = torch.randn(batch_size, 4, 8, 8)
        with torch.no_grad():
            self.hidden = self.family.encode_text(["a red square"] * batch_size).hidden
        unet.train()

    def step(self) -> None:
        noise = torch.randn_like(self.latents)
        timesteps = torch.randint(0, 1000, (len(noise),))
        noisy = self.family.process.levels.add_noise(self.latents, noise, timesteps)
        predicted = self.family.unet(noisy, timesteps, self.hidden).sample
        torch.nn.functional.mse_loss(predicted, noise).backward()
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()


if __name__ == "__main__":
    with own_user():
        main()
