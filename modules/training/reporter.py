"""Progress as events: losses stay on the device and are read a few steps late."""

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
from onetrainer.config.run.hardware import Precision
from onetrainer.metrics.loss_errors import diverged
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Phase, Progress, Rewarded

# Reading a loss waits for the device; on the CPU there is nothing to wait for.
_STEPS_PER_READ = {"cpu": 1, "cuda": 8}
_SPEED_STEPS = 20
_OLDEST_UNREAD = 0.5


@dataclass(frozen=True)
class _Pending:
    """A step that nobody has been told of.

    loss: the mean over its pictures, a scalar. scores: of each picture, (B,), by name; on any
    device.
    """

    progress: Progress
    loss: Tensor
    lr: float | Tensor
    scores: dict[str, Tensor]

    def figures(self) -> list[Tensor]:
        """What is to be read: loss, rate, and of each score the mean and the spread; scalars."""
        rate = self.lr if isinstance(self.lr, Tensor) else torch.tensor(self.lr, dtype=torch.double)
        found = [self.loss, rate]
        for score in self.scores.values():
            values = score.float()
            # One picture has no spread.
            spread = values.std() if len(values) > 1 else values.new_zeros(())
            found += [values.mean(), spread]
        return found


class Reporter:
    """Turns steps into Progress events."""

    def __init__(
        self,
        events: EventWriter,
        *,
        device: torch.device,
        total_steps: int,
        precision: Precision | None = None,
    ) -> None:
        """precision: what is computed in, for what is told of a loss that is not a number."""
        self._events = events
        self._device = device
        self._total = total_steps
        self._precision = precision
        self._every = _STEPS_PER_READ.get(device.type, 1)
        self._pending: list[_Pending] = []
        self._times: deque[float] = deque(maxlen=_SPEED_STEPS + 1)
        self._process = psutil.Process()
        self._read_at = monotonic()

    def start_clock(self, step: int) -> None:
        """Says that steps are being made from here on, and begins to measure their speed anew."""
        self._events.write(Phase("training", step, self._total))
        self._times.clear()
        self._times.append(monotonic())

    def progress(self, *, step: int, epoch: int, lr: float | Tensor, losses: list[Loss]) -> None:
        """Notes a step that has been made.

        lr: scalar, the rate by which the weights moved; that of an optimizer that finds its rate
        may be on the device. losses: each microbatch's.
        """
        self._times.append(monotonic())
        speed = self._speed()
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
            _Pending(
                progress,
                torch.cat([loss.per_item for loss in losses]).mean(),
                lr,
                {name: torch.cat(each) for name, each in scores.items()},
            )
        )
        # Slow steps are read at once: nobody is to watch a window stand still.
        if len(self._pending) >= self._every or monotonic() - self._read_at > _OLDEST_UNREAD:
            self.flush()

    def flush(self) -> None:
        """Reads the losses and tells them. Raises UserError if one is not a number."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        memory, self._read_at = self._memory(), monotonic()
        # The one place in training where the host waits for the device.
        figures = [item.figures() for item in pending]
        read = iter(read_numbers([figure for own in figures for figure in own]))
        for item, own in zip(pending, figures, strict=True):
            loss, rate, *scores = islice(read, len(own))
            if not math.isfinite(loss):
                what = f"the loss is {loss} in step {item.progress.step}"
                raise diverged(what, self._precision)
            if item.scores:
                self._events.write(_rewarded(item, scores))
            known = {"loss": loss, "lr": rate, "memory_bytes": memory}
            self._events.write(Progress(**(vars(item.progress) | known)))

    def _speed(self) -> float:
        """Steps per second over the last steps; 0 while there is none to measure."""
        if len(self._times) < 2:
            return 0.0
        return (len(self._times) - 1) / max(1e-9, self._times[-1] - self._times[0])

    def _memory(self) -> int:
        if self._device.type == "cuda":
            return torch.cuda.memory_allocated(self._device)
        return int(self._process.memory_info().rss)


def _rewarded(item: _Pending, read: Sequence[float]) -> Rewarded:
    """What the step's pictures were scored. read: of each score the mean and the spread."""
    known = dict(zip(item.scores, zip(read[::2], read[1::2], strict=True), strict=True))
    mean, spread = known[REWARD]
    return Rewarded(
        step=item.progress.step,
        reward=mean,
        spread=spread,
        images=len(item.scores[REWARD]),
        by_name={
            name.removeprefix(REWARD_PREFIX): {"mean": own, "spread": own_spread}
            for name, (own, own_spread) in known.items()
            if name.startswith(REWARD_PREFIX)
        },
        last_steps=known[LAST_STEPS][0] if LAST_STEPS in known else 0.0,
        anchor=known[ANCHOR][0] if ANCHOR in known else None,
    )
