"""Progress events: losses stay on the device and are read a few steps late."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from time import monotonic

import psutil
import torch
from torch import Tensor

from modules.interfaces import ANCHOR, LAST_STEPS, REWARD, REWARD_PREFIX, Loss
from modules.memory.to_device import read_numbers
from modules.optim.step_check import StepCheck
from onetrainer.config.run.hardware import Precision
from onetrainer.metrics.messages import diverged
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Phase, Progress, Rewarded

# Reading a loss waits for the GPU.
_STEPS_PER_READ = {"cpu": 1, "cuda": 8}
_SPEED_STEPS = 20
_MAX_UNREAD_SECONDS = 0.5


@dataclass(frozen=True)
class _UnreadStep:
    """A step whose loss has not been read from the device.

    Attributes:
        loss: Scalar, the mean over the step's images.
        check: Whether the step is broken, and the gradient's norm.
        scores: (B,), per image, by name; on any device.
    """

    progress: Progress
    loss: Tensor
    check: StepCheck
    lr: float | Tensor
    scores: dict[str, Tensor]

    def to_read(self) -> list[Tensor]:
        """Return the scalars to read.

        Loss, whether the step is broken, gradient norm, learning rate, and of each score its mean
        and deviation.
        """
        rate = self.lr if isinstance(self.lr, Tensor) else torch.tensor(self.lr, dtype=torch.double)
        scalars = [self.loss, self.check.broken, self.check.norm, rate]
        for score in self.scores.values():
            values = score.float()
            # One image has no standard deviation.
            spread = values.std() if len(values) > 1 else values.new_zeros(())
            scalars += [values.mean(), spread]
        return scalars


class Reporter:
    """Writes Progress and Rewarded events."""

    def __init__(
        self,
        events: EventWriter,
        *,
        device: torch.device,
        total_steps: int,
        precision: Precision | None = None,
    ) -> None:
        """Create the reporter of a run.

        precision: Compute precision, for the error message about a loss that is not finite.
        """
        self._events = events
        self._device = device
        self._total = total_steps
        self._precision = precision
        self._every = _STEPS_PER_READ.get(device.type, 1)
        self._pending: list[_UnreadStep] = []
        self._times: deque[float] = deque(maxlen=_SPEED_STEPS + 1)
        self._process = psutil.Process()
        self._read_at = monotonic()

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
        eta = (self._total - step) / speed if speed else -1.0
        progress = Progress(
            step=step,
            total_steps=self._total,
            epoch=epoch,
            loss=math.nan,
            lr=math.nan,
            steps_per_second=round(speed, 4),
            eta_seconds=round(eta, 1),
        )
        scores = {name: [loss.scores[name] for loss in losses] for name in losses[0].scores}
        self._pending.append(
            _UnreadStep(
                progress,
                torch.cat([loss.per_item for loss in losses]).mean(),
                check,
                lr,
                {name: torch.cat(parts) for name, parts in scores.items()},
            )
        )
        # Slow steps are read at once, or the window would seem to hang.
        if len(self._pending) >= self._every or monotonic() - self._read_at > _MAX_UNREAD_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Read the losses from the device and write the events.

        Raises:
            UserError: If a loss or a gradient is not finite.
        """
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        memory, self._read_at = self._memory(), monotonic()
        # The one place in training where the host waits for the device.
        to_read = [item.to_read() for item in pending]
        read = iter(read_numbers([scalar for scalars in to_read for scalar in scalars]))
        for item, scalars in zip(pending, to_read, strict=True):
            loss, is_broken, norm, rate, *scores = islice(read, len(scalars))
            if is_broken or not math.isfinite(loss):
                part, value = ("gradient's norm", norm) if math.isfinite(loss) else ("loss", loss)
                what = f"the {part} is {value} in step {item.progress.step}"
                raise diverged(what, self._precision)
            if item.scores:
                self._events.write(_rewarded(item, scores))
            values = {"loss": loss, "lr": rate, "memory_bytes": memory}
            self._events.write(Progress(**(vars(item.progress) | values)))

    def _memory(self) -> int:
        if self._device.type == "cuda":
            return torch.cuda.memory_allocated(self._device)
        return int(self._process.memory_info().rss)


def _rewarded(item: _UnreadStep, read: Sequence[float]) -> Rewarded:
    """Return the event of a step's rewards.

    read: Mean and standard deviation of each score in turn.
    """
    values = dict(zip(item.scores, zip(read[::2], read[1::2], strict=True), strict=True))
    mean, spread = values[REWARD]
    return Rewarded(
        step=item.progress.step,
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
