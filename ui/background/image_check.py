"""Check of the images, as the window shows it."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onetrainer.config.train import TrainConfig
from ui.background.apart import apart
from ui.background.background_query import BackgroundQuery, CancelToken, QueryCancelledError
from ui.background.threads import Jobs
from ui.model.draft import Draft

if TYPE_CHECKING:
    from onetrainer.checks.image_check import CheckResult
    from onetrainer.images.findings import Finding

DEPENDS_ON = ("data", "model.family", "validation", "training.seed", "objective", "method.kind")
"""Settings that the check depends on."""


def make_check(draft: Draft, jobs: Jobs) -> "BackgroundQuery[CheckResult]":
    """Create the check that all pages share which show findings; it begins on request."""
    return BackgroundQuery(draft, jobs, apart(check_images), depends_on=DEPENDS_ON)


@dataclass(frozen=True)
class FindingGroup:
    """Findings of one kind, or all of them (key "")."""

    key: str
    title: str
    count: int
    severity: str


def check_images(config: TrainConfig, token: "CancelToken[CheckResult]") -> "CheckResult":
    """Check every image of a config without changing it.

    Raises:
        UserError: If no image can be read.
        QueryCancelledError: If the query was canceled.
    """
    # Imported late to keep the start of the window fast.
    from onetrainer.cache.run_entries import cache_folder
    from onetrainer.checks.image_check import check_dataset
    from onetrainer.dataset.near_duplicates import AnalysisCancelled
    from onetrainer.images.image_index import ImageIndex

    # The check is slow, so its results are stored for the next one.
    with closing(ImageIndex(cache_folder(config))) as memory:
        try:
            return check_dataset(config, memory, token.progress, should_stop=token.is_cancelled)
        except AnalysisCancelled as stopped:
            raise QueryCancelledError from stopped


def finding_groups(findings: "Sequence[Finding]") -> list[FindingGroup]:
    """Return a group of all findings, then one group per kind, the worst first."""
    from onetrainer.images.findings import HEADLINES

    summaries = [FindingGroup("", "All", len(findings), "")]
    for key, title in HEADLINES.items():
        some = [finding for finding in findings if finding.kind == key]
        if some:
            summaries.append(FindingGroup(key, title, len(some), some[0].severity))
    return summaries


def result_text(checked: "CheckResult") -> str:
    """Return the result of a check in one line."""
    from onetrainer.images.findings import summary

    text = summary(checked.findings, checked.images)
    return text[:1].upper() + text[1:]
