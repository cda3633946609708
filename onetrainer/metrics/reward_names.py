"""The names of a config's rewards in events, files and charts."""

from collections import Counter
from collections.abc import Sequence

from onetrainer.config.rewards.reward import Reward


def names_of(rewards: Sequence[Reward]) -> tuple[str, ...]:
    """Return a name for each reward, in order: "clip", and "clip 2" for the second of its type."""
    counts = Counter[str]()
    names = []
    for entry in rewards:
        counts[entry.reward] += 1
        number = counts[entry.reward]
        names.append(entry.reward if number == 1 else f"{entry.reward} {number}")
    return tuple(names)
