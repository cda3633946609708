"""What a file has lost of a change, by layer and in all, as lines for people."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from modules.formats.lora.lora_names import Layer
from onetrainer.messages.formatting import counted

_WORST = 3
_NOTHING = 1e-9
"""A smaller share of a change is the rounding of its computation."""


@dataclass(frozen=True)
class LayerLoss:
    """What one layer's change lost, in sums of squares.

    Attributes:
        rank: Of what is stored; 0 if that is no product.
        energy: Of the change in float64.
        lost: Of the difference between the change and what is stored.
        left_out: The part of it that a lower rank left out; the rest is rounding.
    """

    layer: Layer
    rank: int
    energy: float
    lost: float
    left_out: float = 0.0

    @property
    def share(self) -> float:
        """The share of the change's energy that is lost."""
        return self.lost / self.energy if self.energy else 0.0


def loss_lines(losses: Sequence[LayerLoss]) -> list[str]:
    """Return lines about ranks and losses: in all, and of the layers that lost most."""
    kept = [loss for loss in losses if loss.rank]
    if not kept:
        return ["Nothing is left: the change is zero."]
    ranks = [loss.rank for loss in kept]
    span = str(min(ranks)) if min(ranks) == max(ranks) else f"{min(ranks)} to {max(ranks)}"
    lines = [f"{counted(len(kept), 'layer')} of rank {span}."]
    if zero := len(losses) - len(kept):
        lines.append(f"{counted(zero, 'layer')} left out, whose change is zero.")
    energy, lost = sum(loss.energy for loss in losses), sum(loss.lost for loss in losses)
    if sum(loss.left_out for loss in losses) <= _NOTHING * energy:
        return [*lines, rounding_line(losses)]
    lines.append(
        f"Lost {lost / energy:.2%} of the change's energy; the difference of all weights together"
        f" is {(lost / energy) ** 0.5:.2%} as long as the change."
    )
    worst = sorted(kept, key=lambda loss: -loss.share)[:_WORST]
    places = [f"{loss.layer.component}.{loss.layer.path}" for loss in worst]
    shares = [f"{loss.share:.2%}" for loss in worst]
    return [*lines, *(f"  {s} in {place}" for s, place in zip(shares, places, strict=True))]


def rounding_line(losses: Iterable[LayerLoss]) -> str:
    """Return a line about losses that are nothing but rounding to a file's number format."""
    pairs = [(loss.energy, loss.lost) for loss in losses]
    energy, lost = (sum(each) for each in zip(*pairs, strict=True)) if pairs else (0.0, 0.0)
    if not energy:
        return "The LoRAs change nothing."
    if lost <= _NOTHING * energy:
        return "Nothing of the change was lost."
    return (
        "Nothing of the change was lost but by rounding to the file's number format: the difference"
        f" of all weights together is {(lost / energy) ** 0.5:.2%} as long as the change."
    )
