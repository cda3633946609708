"""The check of the pictures, as the window shows it. No Tk."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onetrainer.config.train import TrainConfig
from ui.background.background_query import CancelToken, QueryCancelledError

if TYPE_CHECKING:
    from onetrainer.checks.image_check import CheckResult
    from onetrainer.images.findings import Finding

DEPENDS_ON = ("data", "model.family", "validation", "training.seed", "objective", "method.kind")
"""What the answer depends on."""


@dataclass(frozen=True)
class FindingGroup:
    """One kind of finding, or all of them (key ""). count: how many there are."""

    key: str
    title: str
    count: int
    severity: str


def check_images(config: TrainConfig, token: CancelToken) -> "CheckResult":
    """Looks at every picture of a config; changes none.

    Raises UserError if no picture can be read, and GivenUpError if nobody waits any more.
    """
    # Loaded late: a window that only opens needs nothing of it.
    from onetrainer.cache.run_entries import cache_folder
    from onetrainer.checks.image_check import check_dataset
    from onetrainer.dataset.near_duplicates import AnalysisCancelled
    from onetrainer.images.image_index import ImageIndex

    # A check takes its time, so what it learns is kept for the next one.
    with closing(ImageIndex(cache_folder(config))) as memory:
        try:
            return check_dataset(config, memory, token.progress, should_stop=token.is_cancelled)
        except AnalysisCancelled as stopped:
            raise QueryCancelledError from stopped


def finding_groups(findings: "Sequence[Finding]") -> list[FindingGroup]:
    """All of them first, then the kinds that there are, the worst first."""
    from onetrainer.images.findings import HEADLINES

    summaries = [FindingGroup("", "All", len(findings), "")]
    for key, title in HEADLINES.items():
        some = [finding for finding in findings if finding.kind == key]
        if some:
            summaries.append(FindingGroup(key, title, len(some), some[0].severity))
    return summaries


def findings_in(findings: "Sequence[Finding]", key: str) -> "list[Finding]":
    """The findings of a kind; "" takes all."""
    return [finding for finding in findings if key in ("", finding.kind)]


def finding_title(finding: "Finding") -> str:
    """What kind of finding it is."""
    from onetrainer.images.findings import HEADLINES

    return HEADLINES[finding.kind]


def result_text(checked: "CheckResult") -> str:
    """All of it in one line."""
    from onetrainer.images.findings import summary

    words = summary(checked.findings, checked.images)
    return words[:1].upper() + words[1:]
