"""What a step computes, counted on any computer, and how long a device takes for it.

An operator takes as long as its arithmetic, its memory traffic or its call, whichever is longest
(the roofline model: Williams et al. 2009, doi:10.1145/1498765.1498785).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

OperatorKind = Literal["product", "convolution", "attention", "other"]
FALLBACK = "float32"
"""The dtype whose rate counts where that of an operator's own is unknown."""
# Within a bin, arithmetic and traffic differ by less than this factor.
_BIN = 4


class Operation(NamedTuple):
    """Costs of an operator: floating-point operations, and the size of operands and results.

    kind: An `OperatorKind`. dtype: As torch names it: "float32".
    """

    kind: str
    dtype: str
    flops: float
    bytes_moved: float


Work = Mapping[Operation, float]
"""How often each operation is done."""


@dataclass(frozen=True)
class DeviceSpeed:
    """Speed of a device.

    Attributes:
        flops: Floating-point operations per second by kind of operator and dtype:
            "product float32".
        bytes_per_second: Memory bandwidth.
        call_seconds: Overhead of calling an operator.
    """

    flops: Mapping[str, float]
    bytes_per_second: float
    call_seconds: float

    def seconds(self, work: Work) -> float:
        """Estimate the time that operations take."""
        total = 0.0
        for (kind, dtype, flops, bytes_moved), count in work.items():
            rate = self.flops.get(f"{kind} {dtype}") or self.flops.get(f"{kind} {FALLBACK}")
            computing = flops / rate if rate else 0.0
            total += max(computing, bytes_moved / self.bytes_per_second, self.call_seconds) * count
        return total

    def document(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return asdict(self)


def combined(parts: Iterable[tuple[Work, float]]) -> dict[Operation, float]:
    """Return the sum of works, each so many times."""
    total: dict[Operation, float] = {}
    for work, times in parts:
        for operation, count in work.items() if times else ():
            total[operation] = total.get(operation, 0.0) + count * times
    return total


def encode_work(work: Work) -> str:
    """Return a short text of a work; operations that cost nearly the same are one.

    Their sums stay the same, so that only those near a limit of the device are misjudged.
    """
    bins: dict[tuple[object, ...], list[float]] = {}
    for (kind, dtype, flops, moved), count in work.items():
        key = kind, dtype, _magnitude(flops), _magnitude(moved)
        sums = bins.setdefault(key, [0.0, 0.0, 0.0])
        for place, amount in enumerate((count, flops * count, moved * count)):
            sums[place] += amount
    entries = [
        f"{kind} {dtype} {count:.4g} {flops / count:.3g} {moved / count:.3g}"
        for (kind, dtype, *_), (count, flops, moved) in bins.items()
    ]
    return "; ".join(sorted(entries))


def decode_work(text: str) -> dict[Operation, float]:
    """Return the work in a text of `encode_work`. Raises ValueError."""
    found = {}
    for entry in filter(None, text.split("; ")):
        kind, dtype, count, flops, moved = entry.split()
        found[Operation(kind, dtype, float(flops), float(moved))] = float(count)
    return found


def _magnitude(amount: float) -> int:
    return round(math.log(amount, _BIN)) if amount > 0 else -1
