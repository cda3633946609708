"""What a run reports of its steps besides the loss, as curves by step."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from onetrainer.run.events import Measured, Progress
from ui.progress.curve import Curve

GRADIENT_NORM, RATE, SPEED, IMAGES = "gradient norm", "learning rate", "speed", "images"
TENSORS, HELD, HOST = "tensors", "held", "host"
TEMPERATURE, POWER = "temperature", "power"
_OF_GROUP = f"{RATE}: "


@dataclass
class Figures:
    """Curves by name; those of parameter groups are found by `rates`."""

    _curves: dict[str, Curve] = field(default_factory=lambda: defaultdict(Curve))
    _speed: float = 0.0

    def __getitem__(self, name: str) -> Curve:
        """Return a curve, which has no points if there are none."""
        return self._curves.get(name, Curve())

    def rates(self) -> Iterator[tuple[str, Curve]]:
        """Yield the learning rate of each parameter group; of one alone as ""."""
        groups = [name for name in self._curves if name.startswith(_OF_GROUP)]
        for name in groups or [RATE]:
            yield name.removeprefix(_OF_GROUP if groups else RATE), self[name]

    def add_step(self, event: Progress) -> None:
        """Add what every step reports."""
        curves, self._speed = self._curves, event.steps_per_second
        curves[RATE].append(event.step, event.lr)
        if event.gradient_norm is not None:
            curves[GRADIENT_NORM].append(event.step, event.gradient_norm)
        if event.steps_per_second:
            curves[SPEED].append(event.step, event.steps_per_second)
        if event.memory_bytes:
            curves[TENSORS].append(event.step, event.memory_bytes)

    def add_measured(self, event: Measured) -> None:
        """Add what is measured every few seconds."""
        curves = self._curves
        if self._speed and event.images:
            curves[IMAGES].append(event.step, self._speed * event.images)
        curves[HOST].append(event.step, event.host_bytes)
        if event.device_bytes:
            curves[HELD].append(event.step, event.device_bytes)
        for name, rate in event.learning_rates.items():
            curves[_OF_GROUP + name].append(event.step, rate)
        for name, value in ((TEMPERATURE, event.temperature), (POWER, event.power_watts)):
            if value is not None:
                curves[name].append(event.step, value)
