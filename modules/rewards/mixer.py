"""Weighted sum of several rewards, normalized and limited at their targets."""

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from modules.rewards.measures import Reward

_ROUNDING = 1e-6  # a deviation below this fraction of the mean is float32's rounding


@dataclass(frozen=True)
class NamedReward:
    """A reward with its name and weight.

    is_trained: whether it is part of the total; otherwise it is only monitored. weight: negative to
    lower the score. target: in the reward's own units, beyond which a score gains nothing; None
    means no limit. normalize: whether it is normalized by mean and standard deviation of the base
    model's images.
    """

    name: str
    reward: Reward
    is_trained: bool = True
    weight: float = 1.0
    target: float | None = None
    normalize: bool = True


@dataclass(frozen=True)
class Scores:
    """The scores of a batch's images.

    total: (B,), what is trained; with a graph if a trained reward has a gradient.
    by_name: each reward's own score, including monitored ones, (B,), detached.
    """

    total: Tensor
    by_name: Mapping[str, Tensor]


@dataclass
class Mixer:
    """All rewards of a run.

    members: with unique names, otherwise ValueError. base: by name, mean and standard deviation of
    the scores of the base model's images. Until they are known, a reward counts in its own units.
    """

    members: Sequence[NamedReward]
    base: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [member.name for member in self.members]
        if len(set(names)) < len(names):
            raise ValueError(f"two rewards have the same name: {', '.join(names)}")

    def set_base(self, base: Mapping[str, tuple[float, float]]) -> None:
        """Set the mean and standard deviation of the base model's scores, by name."""
        self.base = base

    def trained(self) -> "Mixer":
        """Return a mixer of the trained rewards only."""
        return Mixer([member for member in self.members if member.is_trained], self.base)

    def extra_modules(self) -> nn.ModuleList:
        """Return all rewards' networks, to move them."""
        return nn.ModuleList([member.reward.extra_modules() for member in self.members])

    def score(self, images: Tensor, prompts: Sequence[str]) -> Scores:
        """Score images by each reward and in total.

        The total is the sum over the trained rewards of weight * (limited score - mean) / standard
        deviation. Autocast is disabled meanwhile.

        Args:
            images: (B, 3, H, W), float32 in [0, 1].
            prompts: One per image.
        """
        total = images.new_zeros(len(images))
        by_name = {}
        # torch has no autocast for the meta device.
        is_meta = images.is_meta
        with nullcontext() if is_meta else torch.autocast(images.device.type, enabled=False):
            for member in self.members:
                # Monitored rewards would keep a graph for nothing.
                if member.is_trained and member.reward.has_gradient:
                    scores = member.reward.score(images, prompts)
                else:
                    with torch.no_grad():
                        scores = member.reward.score(images.detach(), prompts)
                by_name[member.name] = scores.detach()
                if member.is_trained:
                    total = total + self._contribution(member, scores)
        return Scores(total, by_name)

    def total(self, by_name: Mapping[str, Tensor]) -> Tensor:
        """Compute the total, (B,), from the scores of each reward, (B,)."""
        first = next(iter(by_name.values()))
        trained = [member for member in self.members if member.is_trained]
        return sum(
            (self._contribution(member, by_name[member.name]) for member in trained),
            start=torch.zeros_like(first),
        )

    def _contribution(self, member: NamedReward, scores: Tensor) -> Tensor:
        limited = scores
        if member.target is not None and member.weight < 0:
            limited = scores.clamp(min=member.target)
        elif member.target is not None:
            limited = scores.clamp(max=member.target)
        mean, deviation = self._normalization(member)
        return member.weight * (limited - mean) / deviation

    def _normalization(self, member: NamedReward) -> tuple[float, float]:
        if not member.normalize or member.name not in self.base:
            return 0.0, 1.0
        mean, deviation = self.base[member.name]
        is_usable = math.isfinite(deviation) and deviation > _ROUNDING * abs(mean)
        return mean, deviation if is_usable else 1.0
