"""What a config's rewards are called wherever they are told apart: events, files, curves."""

from collections import Counter
from collections.abc import Sequence

from onetrainer.config.rewards.reward import Reward


def names_of(rewards: Sequence[Reward]) -> tuple[str, ...]:
    """A name for each entry, in their order: "clip", and "clip 2" for the second of a kind."""
    seen = Counter[str]()
    names = []
    for entry in rewards:
        seen[entry.reward] += 1
        number = seen[entry.reward]
        names.append(entry.reward if number == 1 else f"{entry.reward} {number}")
    return tuple(names)
