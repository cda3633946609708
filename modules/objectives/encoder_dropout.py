"""Caption dropout of single text encoders."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from modules.diffusion.draws import Draws
from modules.interfaces import Conditioning, Family


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

    def drawn(self, draws: Draws) -> Tensor:
        """Draw which encoders' outputs are dropped, (encoders, B), bool, on the CPU."""
        chances = [draws.chances(f"caption dropout of {name}") for name in self.widths]
        limits = torch.tensor([self.probabilities[name] for name in self.widths]).double()
        return torch.tensor(chances, dtype=torch.float64) < limits[:, None]

    def applied(self, captions: Conditioning, empty: Conditioning, dropped: Tensor) -> Conditioning:
        """Replace dropped outputs by those of the empty caption, padded to the same length.

        dropped: (encoders, B), bool, on the device of the captions.
        """
        widths = list(self.widths.values())
        blanks = torch.split(empty.hidden, widths, dim=-1)
        own = torch.split(captions.hidden, widths, dim=-1)
        hidden = list(map(_replaced, own, blanks, dropped))
        pooled = captions.pooled
        for name, is_dropped in zip(self.widths, dropped, strict=True):
            if name in self.pooled and pooled is not None and empty.pooled is not None:
                pooled = _replaced(pooled, empty.pooled, is_dropped)
        return Conditioning(torch.cat(hidden, dim=-1), pooled)


def _replaced(rows: Tensor, blank: Tensor, is_dropped: Tensor) -> Tensor:
    return torch.where(is_dropped.view(-1, *[1] * (rows.ndim - 1)), blank, rows)
