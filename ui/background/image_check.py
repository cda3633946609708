"""The check of the pictures, as the window shows it. No Tk."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onetrainer.config.train import TrainConfig
from ui.background.background_query import GivenUpError, Watch

if TYPE_CHECKING:
    from onetrainer.checks.image_check import Checked
    from onetrainer.images.findings import Finding

COUNTS = ("data", "model.family", "validation", "training.seed", "objective", "method.kind")
"""What the answer depends on."""


@dataclass(frozen=True)
class Kind:
    """One kind of finding, or all of them (key ""). count: how many there are."""

    key: str
    title: str
    count: int
    severity: str


def check_images(config: TrainConfig, watch: Watch) -> "Checked":
    """Looks at every picture of a config; changes none.

    Raises UserError if no picture can be read, and GivenUpError if nobody waits any more.
    """
    # Loaded late: a window that only opens needs nothing of it.
    from onetrainer.cache.run_entries import cache_folder
    from onetrainer.checks.image_check import check_dataset
    from onetrainer.dataset.near_duplicates import LookingStopped
    from onetrainer.images.image_index import ImageMemory

    # A check takes its time, so what it learns is kept for the next one.
    with closing(ImageMemory(cache_folder(config))) as memory:
        try:
            return check_dataset(config, memory, watch.progress, should_stop=watch.is_given_up)
        except LookingStopped as stopped:
            raise GivenUpError from stopped


def kinds_of(findings: "Sequence[Finding]") -> list[Kind]:
    """All of them first, then the kinds that there are, the worst first."""
    from onetrainer.images.findings import HEADLINES

    found = [Kind("", "All", len(findings), "")]
    for key, title in HEADLINES.items():
        some = [finding for finding in findings if finding.kind == key]
        if some:
            found.append(Kind(key, title, len(some), some[0].severity))
    return found


def of_kind(findings: "Sequence[Finding]", key: str) -> "list[Finding]":
    """The findings of a kind; "" takes all."""
    return [finding for finding in findings if key in ("", finding.kind)]


def title_of(finding: "Finding") -> str:
    """What kind of finding it is."""
    from onetrainer.images.findings import HEADLINES

    return HEADLINES[finding.kind]


def result_words(checked: "Checked") -> str:
    """All of it in one line."""
    from onetrainer.images.findings import summary

    words = summary(checked.findings, checked.images)
    return words[:1].upper() + words[1:]
