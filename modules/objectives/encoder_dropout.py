"""Caption dropout of single text encoders."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from modules.diffusion.draws import Draws
from modules.interfaces import Conditioning, Family
from modules.memory.to_device import to_device


@dataclass(frozen=True)
class EncoderDropout:
    """Text encoders that read an empty caption in place of an image's, each by itself.

    Attributes:
        probabilities: By encoder, in the order in which their outputs are concatenated.
        widths: Of the encoders' outputs.
        pooled: The encoders that give the pooled vector.
    """

    probabilities: Mapping[str, float]
    widths: Mapping[str, int]
    pooled: frozenset[str]

    @staticmethod
    def of(family: Family, probabilities: Mapping[str, float]) -> "EncoderDropout | None":
        """Return the dropout of a family's encoders; None if none has any."""
        if not any(probabilities.values()):
            return None
        widths = {each: v.shape[1] for each, v in family.vocabulary.token_vectors("").items()}
        pooled = frozenset(each.name for each in family.spec.encoders if each.has_projection)
        return EncoderDropout({name: probabilities[name] for name in widths}, widths, pooled)

    def applied(self, captions: Conditioning, empty: Conditioning, draws: Draws) -> Conditioning:
        """Replace dropped encoders' outputs by those of the empty caption, padded to the same."""
        widths = list(self.widths.values())
        blanks = dict(zip(self.widths, torch.split(empty.hidden, widths, dim=-1), strict=True))
        hidden, pooled = [], captions.pooled
        for name, own in zip(
            self.widths, torch.split(captions.hidden, widths, dim=-1), strict=True
        ):
            chances = draws.chances(f"caption dropout of {name}")
            is_dropped = torch.tensor([each < self.probabilities[name] for each in chances])
            is_dropped = to_device(is_dropped, own.device)
            hidden.append(_replaced(own, blanks[name], is_dropped))
            if name in self.pooled and pooled is not None and empty.pooled is not None:
                pooled = _replaced(pooled, empty.pooled, is_dropped)
        return Conditioning(torch.cat(hidden, dim=-1), pooled)


def _replaced(rows: Tensor, blank: Tensor, is_dropped: Tensor) -> Tensor:
    return torch.where(is_dropped.view(-1, *[1] * (rows.ndim - 1)), blank, rows)
