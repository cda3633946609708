"""In which settings two configs differ, in words that tell what a kind of section has not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onetrainer.config.base.variants import kinds_of
from onetrainer.config.fields import Setting, is_there, settings
from onetrainer.config.problems import shown
from onetrainer.config.train import TrainConfig
from onetrainer.presets.presets import value_at


@dataclass(frozen=True)
class Difference:
    """One setting that two configs hold different values of.

    left_lacks, right_lacks: the kind by which a config has no such setting; its value is None then.
    """

    path: str
    left: Any
    right: Any
    left_lacks: str = ""
    right_lacks: str = ""

    def words(self) -> str:
        """For example "optimizer.beta1: 0.9 → (not with adafactor)"."""
        left = f"(not with {self.left_lacks})" if self.left_lacks else shown(self.left)
        right = f"(not with {self.right_lacks})" if self.right_lacks else shown(self.right)
        return f"{self.path}: {left} → {right}"


def differences(left: TrainConfig, right: TrainConfig) -> list[Difference]:
    """The settings in which two configs differ, in the file's order, a section's kind first."""
    one, other = left.model_dump(mode="json"), right.model_dump(mode="json")
    kinds, others = kinds_of(one, TrainConfig), kinds_of(other, TrainConfig)
    found = []
    for setting in settings(TrainConfig):
        own, theirs = value_at(one, setting.path), value_at(other, setting.path)
        if own != theirs:
            lacks = _lacks(setting, kinds), _lacks(setting, others)
            found.append(Difference(setting.path, own, theirs, *lacks))
    return found


def _lacks(setting: Setting, kinds: Mapping[str, str]) -> str:
    """The kind of section that has no such setting; "" if it is there."""
    if is_there(setting, kinds):
        return ""
    return next(kinds[path] for path, wanted in setting.needs if kinds.get(path) not in wanted)
