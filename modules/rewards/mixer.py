"""Several rewards as one: weighted, in comparable units, and enough where it is enough."""

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from modules.interfaces import Reward

_ROUNDING = 1e-6  # a spread below this share of the mean is float32's rounding, not a spread


@dataclass(frozen=True)
class Named:
    """A reward and how it counts beside the others.

    name: as it is told. is_trained: whether it counts at all; otherwise it is only watched.
    weight: below 0, less of it is wanted. target: in the reward's own units, beyond which more
    (with a weight below 0: less) gains nothing; None means never. normalize: whether it counts in
    spreads from the mean of the base's pictures.
    """

    name: str
    reward: Reward
    is_trained: bool = True
    weight: float = 1.0
    target: float | None = None
    normalize: bool = True


@dataclass(frozen=True)
class Scores:
    """What a batch's pictures are worth.

    total: (B,), what is trained; with a graph where a trained reward has a gradient.
    by_name: each reward's own score, watched ones too, (B,), detached.
    """

    total: Tensor
    by_name: Mapping[str, Tensor]


@dataclass(frozen=True)
class Mixer:
    """All rewards of a run.

    members: each with a name of its own; ValueError otherwise. base: by name, mean and standard
    deviation of the plain scores of the base's pictures. As long as they are unknown a reward
    counts in its own units.
    """

    members: Sequence[Named]
    base: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [member.name for member in self.members]
        if len(set(names)) < len(names):
            raise ValueError(f"two rewards have the same name: {', '.join(names)}")

    def with_base(self, stats: Mapping[str, tuple[float, float]]) -> "Mixer":
        """The same rewards, measured by what the base's pictures score: mean and spread by name."""
        return Mixer(self.members, dict(stats))

    def trained(self) -> "Mixer":
        """Only those that are trained."""
        return Mixer([member for member in self.members if member.is_trained], self.base)

    def own_modules(self) -> nn.ModuleList:
        """All rewards' networks, so that they can be moved."""
        return nn.ModuleList([member.reward.own_modules() for member in self.members])

    def score(self, images: Tensor, prompts: Sequence[str]) -> Scores:
        """What each picture scores, by each reward and in all.

        pictures: (B, 3, H, W), float32 in [0, 1]. The total is the sum over the trained rewards of
        weight * (hinged - mean) / spread. Autocast is off meanwhile.
        """
        total = images.new_zeros(len(images))
        by_name = {}
        with _without_autocast(images):
            for member in self.members:
                plain = _plain(member, images, prompts)
                by_name[member.name] = plain.detach()
                if member.is_trained:
                    total = total + self._worth(member, plain)
        return Scores(total, by_name)

    def total(self, by_name: Mapping[str, Tensor]) -> Tensor:
        """What pictures are worth in all, (B,), by the plain scores of each reward, (B,)."""
        first = next(iter(by_name.values()))
        trained = [member for member in self.members if member.is_trained]
        return sum(
            (self._worth(member, by_name[member.name]) for member in trained),
            start=torch.zeros_like(first),
        )

    def _worth(self, member: Named, plain: Tensor) -> Tensor:
        hinged = plain
        if member.target is not None and member.weight < 0:
            hinged = plain.clamp(min=member.target)
        elif member.target is not None:
            hinged = plain.clamp(max=member.target)
        mean, spread = self._unit(member)
        return member.weight * (hinged - mean) / spread

    def _unit(self, member: Named) -> tuple[float, float]:
        if not member.normalize or member.name not in self.base:
            return 0.0, 1.0
        mean, spread = self.base[member.name]
        is_known = math.isfinite(spread) and spread > _ROUNDING * abs(mean)
        return mean, spread if is_known else 1.0


def _without_autocast(images: Tensor) -> AbstractContextManager[object]:
    if images.is_meta:  # torch knows no autocast there
        return nullcontext()
    return torch.autocast(images.device.type, enabled=False)


def _plain(member: Named, images: Tensor, prompts: Sequence[str]) -> Tensor:
    """(B,), with a graph only where it is needed: what is watched would keep one for nothing."""
    if member.is_trained and member.reward.has_gradient:
        return member.reward.score(images, prompts)
    with torch.no_grad():
        return member.reward.score(images.detach(), prompts)
