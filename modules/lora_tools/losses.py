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
        left_out: The part of it that was left out, by a lower rank or since nothing has a place for
            it; the rest is rounding.
        is_vector: Whether it is the change of a bias or a norm, which is kept as it is.
    """

    layer: Layer
    rank: int
    energy: float
    lost: float
    left_out: float = 0.0
    is_vector: bool = False

    @property
    def share(self) -> float:
        """The share of the change's energy that is lost."""
        return self.lost / self.energy if self.energy else 0.0


def loss_lines(losses: Sequence[LayerLoss]) -> list[str]:
    """Return lines about ranks and losses: in all, and of the layers that lost most."""
    kept = [loss for loss in losses if loss.rank]
    vectors = [loss for loss in losses if loss.is_vector and loss.energy > loss.left_out]
    if not kept and not vectors:
        return ["Nothing is left: the change is zero.", *_left_out_lines(losses)]
    lines = []
    if kept:
        ranks = [loss.rank for loss in kept]
        span = str(min(ranks)) if min(ranks) == max(ranks) else f"{min(ranks)} to {max(ranks)}"
        lines.append(f"{counted(len(kept), 'layer')} of rank {span}.")
    if vectors:
        changes = counted(len(vectors), "change of a bias or norm", "changes of biases and norms")
        lines.append(f"{changes}, kept as they are.")
    if zero := sum(not loss.energy for loss in losses):
        lines.append(f"{counted(zero, 'layer')} left out, whose change is zero.")
    return [*lines, *(_left_out_lines(losses) or [rounding_line(losses)])]


def _left_out_lines(losses: Sequence[LayerLoss]) -> list[str]:
    """Return lines about what was left out, in all and of the worst layers; none for nothing."""
    energy, lost = sum(loss.energy for loss in losses), sum(loss.lost for loss in losses)
    if sum(loss.left_out for loss in losses) <= _NOTHING * energy:
        return []
    worst = sorted((loss for loss in losses if loss.lost), key=lambda loss: -loss.share)[:_WORST]
    return [
        f"Lost {lost / energy:.2%} of the change's energy; the difference of all weights together"
        f" is {(lost / energy) ** 0.5:.2%} as long as the change.",
        *(f"  {loss.share:.2%} in {loss.layer.component}.{loss.layer.path}" for loss in worst),
    ]


def rounding_line(losses: Iterable[LayerLoss]) -> str:
    """Return a line about losses that are nothing but rounding, or on what was left out."""
    losses = list(losses)
    energy, lost = sum(loss.energy for loss in losses), sum(loss.lost for loss in losses)
    if not energy:
        return "The LoRAs change nothing."
    if left_out := _left_out_lines(losses):
        return "\n".join(left_out)
    if lost <= _NOTHING * energy:
        return "Nothing of the change was lost."
    return (
        "Nothing of the change was lost but by rounding to the file's number format: the difference"
        f" of all weights together is {(lost / energy) ** 0.5:.2%} as long as the change."
    )
