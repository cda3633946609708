"""Comparison of two configs, setting by setting."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onetrainer.config.base.variants import selected_variants
from onetrainer.config.fields import Setting, is_available, settings
from onetrainer.config.problems import format_value
from onetrainer.config.train import TrainConfig
from onetrainer.json_file import Document
from onetrainer.presets.presets import value_at


@dataclass(frozen=True)
class Difference:
    """A setting whose value differs between two configs.

    Attributes:
        path: The setting.
        left: Its value in the first config.
        right: Its value in the second config.
        left_lacks: The variant because of which the first config has no such setting; its value is
            None then.
        right_lacks: The same for the second config.
    """

    path: str
    left: Any
    right: Any
    left_lacks: str = ""
    right_lacks: str = ""

    def text(self) -> str:
        """Return a line such as "optimizer.beta1: 0.9 → (not with adafactor)"."""
        left = f"(not with {self.left_lacks})" if self.left_lacks else format_value(self.left)
        right = f"(not with {self.right_lacks})" if self.right_lacks else format_value(self.right)
        return f"{self.path}: {left} → {right}"


def differences(left: TrainConfig, right: TrainConfig) -> list[Difference]:
    """Return the settings in which two configs differ, in the file's order, variants first."""
    return document_differences(left.model_dump(mode="json"), right.model_dump(mode="json"))


def document_differences(left: Document, right: Document) -> list[Difference]:
    """Return the same for whole documents, which may hold invalid values."""
    documents = left, right
    selected = [selected_variants(document, TrainConfig) for document in documents]
    changed = []
    for setting in settings(TrainConfig):
        first, second = (value_at(document, setting.path) for document in documents)
        if first != second:
            lacks = (_missing_because_of(setting, variants) for variants in selected)
            changed.append(Difference(setting.path, first, second, *lacks))
    return changed


def _missing_because_of(setting: Setting, selected: Mapping[str, str]) -> str:
    """Return the selected variant that has no such setting; "" if it is available."""
    if is_available(setting, selected):
        return ""
    return next(selected[path] for path, names in setting.needs if selected.get(path) not in names)
