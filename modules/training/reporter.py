"""Progress events: losses leave the device while it computes, and are read when they are here."""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

import psutil
import torch
from torch import Tensor

from modules.broken_steps.cause import StepFacts
from modules.interfaces import ANCHOR, LAST_STEPS, REWARD, REWARD_PREFIX, Loss
from modules.memory.to_device import LateNumbers
from modules.optim.step_check import StepCheck
from modules.training.gpu_health import GpuHealthReader
from modules.training.time_left import TaskTimes, seconds_left
from onetrainer.metrics.watch import Watch
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Measured, Phase, Progress, Rewarded

# The host waits for the GPU if more steps are queued than this.
_MAX_UNREAD_STEPS = 8
_SPEED_STEPS = 20
_MAX_UNREAD_SECONDS = 0.5
# Steps that are faster are reported some at once: the first after a step takes thrice as long as
# the next ones, as nothing of it is in the processor's caches.
_REPORT_SECONDS = 0.2
# Between two Measured: at least so many, and a part of the run's time so far, so that a day of
# training makes some thousands of them.
_MEASURE_SECONDS, _MEASURE_PART = 5.0, 1 / 500
_MEMORY_SECONDS = 2.0
"""To ask the system for the process's memory takes as long as to report a step."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A step that is over.

    Attributes:
        speed, seconds_left: At its end, as of `Progress`.
        lr: Scalar, on the device if the optimizer estimates it.
        losses: Of each microbatch, (B,), per image.
        scores: Of each microbatch, by name, (B,), per image; on any device.
        check: Whether the step is broken, and the gradient's norm.
        rates: Learning rates of several parameter groups; None if nothing else is measured of it.
    """

    step: int
    epoch: int
    speed: float
    seconds_left: float
    lr: float | Tensor
    losses: list[Tensor]
    scores: list[Mapping[str, Tensor]]
    check: StepCheck
    rates: Mapping[str, float | Tensor] | None


@dataclass(frozen=True)
class _UnreadStep:
    """A step whose numbers leave the device, and have not been read.

    Attributes:
        losses: (n,), of the step's images.
        scores: The same, by name.
        numbers: Those of `_scalars`, then the step's rates.
    """

    made: _Step
    losses: Tensor
    scores: dict[str, Tensor]
    numbers: LateNumbers

    @staticmethod
    def of(made: _Step) -> "_UnreadStep":
        """Queue the copies of what is read of a step."""
        names = made.scores[0]
        scores = {name: torch.cat([each[name] for each in made.scores]) for name in names}
        losses = torch.cat(made.losses)
        scalars = _scalars(losses, made.check, made.lr, scores)
        return _UnreadStep(
            made, losses, scores, LateNumbers([*scalars, *(made.rates or {}).values()])
        )

    def facts(self) -> StepFacts:
        """Read what is known of a broken step."""
        check = self.made.check
        return StepFacts(
            self.made.step,
            self.losses.tolist(),
            check.norm.item(),
            list(zip(check.weights, check.norms.tolist(), strict=True)),
        )


def _scalars(
    losses: Tensor, check: StepCheck, lr: float | Tensor, scores: Mapping[str, Tensor]
) -> list[Tensor | float]:
    """Return what is read of a step.

    Loss, whether the step is broken, gradient norm, learning rate, the fraction of an update that
    is lost (NaN if it was not measured), and of each score its mean and deviation.
    """
    lost = math.nan if check.unchanged is None else check.unchanged
    scalars: list[Tensor | float] = [losses.mean(), check.broken, check.norm, lr, lost]
    for score in scores.values():
        values = score.float()
        # One image has no standard deviation.
        spread = values.std() if len(values) > 1 else values.new_zeros(())
        scalars += [values.mean(), spread]
    return scalars


class Reporter:
    """Writes Progress, Measured and Rewarded events."""

    def __init__(
        self,
        events: EventWriter,
        *,
        device: torch.device,
        total_steps: int,
        on_broken: Callable[[StepFacts], None],
        watch: Watch | None = None,
        task_times: Sequence[TaskTimes] = (),
        rates: Callable[[], Mapping[str, float | Tensor]] = dict,
    ) -> None:
        """Create the reporter of a run.

        on_broken: Called for each broken step once it has been read; may raise.
        watch: Looks at the other steps.
        task_times: What the run does between steps, for the time that is left.
        rates: Returns the learning rates of several parameter groups; called in few steps.
        """
        self._events = events
        self._device = device
        self._total = total_steps
        self._on_broken = on_broken
        self._watch = watch
        self._task_times = task_times
        self._rates = rates
        self._made: list[_Step] = []
        self._pending: deque[_UnreadStep] = deque()
        self._times: deque[float] = deque(maxlen=_SPEED_STEPS + 1)
        self._process = psutil.Process()
        self._memory_read = -math.inf, 0
        self._read_at = self._began_at = self._measure_at = monotonic()
        self._health = GpuHealthReader(device)

    def start_clock(self, step: int) -> None:
        """Report that training goes on, and restart the measurement of its speed."""
        self._events.write(Phase("training", step, self._total))
        self._times.clear()
        self._times.append(monotonic())

    def progress(
        self,
        *,
        step: int,
        epoch: int,
        lr: float | Tensor,
        losses: list[Loss],
        check: StepCheck,
    ) -> None:
        """Record a step.

        lr: Scalar, the learning rate of the step; on the device if the optimizer estimates it.
        losses: One per microbatch.
        """
        self._times.append(monotonic())
        # Over the last steps; 0 before the first one since the clock was started.
        seconds = max(1e-9, self._times[-1] - self._times[0])
        speed = (len(self._times) - 1) / seconds if len(self._times) > 1 else 0.0
        self._made.append(
            _Step(
                step,
                epoch,
                speed,
                seconds_left(step, self._total, speed, self._task_times),
                lr,
                [loss.per_item for loss in losses],
                [loss.scores for loss in losses],
                check,
                self._rates() if self._is_measured(self._times[-1]) else None,
            )
        )
        if self._is_due(check):
            self._queue()
            self._report(self._arrived())
        # Slow steps are read at once, or the window would seem to hang.
        if monotonic() - self._read_at > _MAX_UNREAD_SECONDS:
            self.flush()

    def _is_due(self, check: StepCheck) -> bool:
        """Return whether steps are reported now: after some, or some time, or a broken one."""
        if len(self._made) + len(self._pending) >= _MAX_UNREAD_STEPS:
            return True
        if self._times[-1] - self._read_at > _REPORT_SECONDS:
            return True
        # Where reading waits for nothing, a step is judged before the next one is made.
        return self._device.type == "cpu" and bool(check.broken)

    def _queue(self) -> None:
        """Queue the copies of what is read of the steps so far."""
        self._pending += map(_UnreadStep.of, self._made)
        self._made.clear()

    def _is_measured(self, now: float) -> bool:
        """Return whether more is measured of the step that is over now."""
        if now < self._measure_at:
            return False
        self._measure_at = now + max(_MEASURE_SECONDS, _MEASURE_PART * (now - self._began_at))
        return True

    def flush(self) -> None:
        """Read the losses from the device and write the events; raise what `on_broken` raises."""
        self._queue()
        self._report(self._all())

    def _arrived(self) -> Iterator[_UnreadStep]:
        """Take the steps that can be read without waiting, and those beyond the most unread."""
        while self._pending and (
            len(self._pending) > _MAX_UNREAD_STEPS or self._pending[0].numbers.have_arrived()
        ):
            yield self._pending.popleft()

    def _all(self) -> Iterator[_UnreadStep]:
        """Take all steps, after waiting for the last one."""
        if self._pending:
            self._pending[-1].numbers.read()
        while self._pending:
            yield self._pending.popleft()

    def _report(self, steps: Iterable[_UnreadStep]) -> None:
        broken = [step for step in steps if self._write(step)]
        if broken:
            # What follows may end the run, so nothing is left unread.
            broken += [step for step in self._all() if self._write(step)]
        for step in broken:
            self._on_broken(step.facts())

    def _write(self, step: _UnreadStep) -> bool:
        """Read a step and write its events; return whether it is broken."""
        # The one place in training where the host may wait for the device.
        loss, is_broken, norm, rate, lost, *more = step.numbers.read()
        self._read_at = monotonic()
        scores, rates = more[: 2 * len(step.scores)], more[2 * len(step.scores) :]
        made = step.made
        if step.scores:
            self._events.write(_rewarded(step, scores))
        progress = Progress(
            step=made.step,
            total_steps=self._total,
            epoch=made.epoch,
            loss=loss,
            lr=rate,
            steps_per_second=round(made.speed, 4),
            eta_seconds=round(made.seconds_left, 1),
            memory_bytes=self._memory(),
            gradient_norm=norm if math.isfinite(norm) else None,
        )
        self._events.write(progress)
        if made.rates is not None:
            self._events.write(self._measured(step, dict(zip(made.rates, rates, strict=True))))
        if is_broken or not math.isfinite(loss):
            return True
        if self._watch is not None:
            self._watch.take(progress, unchanged=None if math.isnan(lost) else lost)
        return False

    def _measured(self, step: _UnreadStep, rates: dict[str, float]) -> Measured:
        health, held = self._health.newest(), 0
        if self._device.type == "cuda":
            held = torch.cuda.memory_reserved(self._device)
        elif self._device.type == "mps":
            held = torch.mps.driver_allocated_memory()
        return Measured(
            step=step.made.step,
            images=len(step.losses),
            host_bytes=self._host_memory(),
            device_bytes=held,
            learning_rates=rates,
            temperature=health.temperature,
            power_watts=health.power_watts,
        )

    def _memory(self) -> int:
        if self._device.type == "cuda":
            return torch.cuda.memory_allocated(self._device)
        if self._device.type == "mps":
            return torch.mps.current_allocated_memory()
        return self._host_memory()

    def _host_memory(self) -> int:
        """Return the process's memory, read not long ago."""
        now, (read_at, size) = monotonic(), self._memory_read
        if now - read_at > _MEMORY_SECONDS:
            size = int(self._process.memory_info().rss)
            self._memory_read = now, size
        return size


def _rewarded(item: _UnreadStep, read: Sequence[float]) -> Rewarded:
    """Return the event of a step's rewards.

    read: Mean and standard deviation of each score in turn.
    """
    values = dict(zip(item.scores, zip(read[::2], read[1::2], strict=True), strict=True))
    mean, spread = values[REWARD]
    return Rewarded(
        step=item.made.step,
        reward=mean,
        spread=spread,
        images=len(item.scores[REWARD]),
        by_name={
            name.removeprefix(REWARD_PREFIX): {"mean": own_mean, "spread": own_spread}
            for name, (own_mean, own_spread) in values.items()
            if name.startswith(REWARD_PREFIX)
        },
        last_steps=values[LAST_STEPS][0] if LAST_STEPS in values else 0.0,
        anchor=values[ANCHOR][0] if ANCHOR in values else None,
    )
