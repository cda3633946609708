"""What a check of pictures finds, in words: which file, what is wrong with it, what to do."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from onetrainer.errors import sentence

FindingKind = Literal[
    "unreadable",
    "leak",
    "duplicate",
    "near-duplicate",
    "too-small",
    "upscaled",
    "blurred",
    "caption-missing",
    "caption-empty",
    "caption-long",
    "mask-missing",
    "mask-shape",
    "orphan",
]
Severity = Literal["error", "warning", "note"]

MOST_TOLD = 20
"""So many findings of a kind are told one by one; programs get all of them."""

HEADLINES: Mapping[FindingKind, str] = MappingProxyType(
    {
        "unreadable": "Cannot be used",
        "leak": "Held out and learned at once",
        "duplicate": "The same file twice",
        "near-duplicate": "Nearly the same",
        "too-small": "Too small",
        "upscaled": "Enlarged from a smaller picture",
        "blurred": "Blurred",
        "caption-missing": "Without a caption",
        "caption-empty": "With an empty caption",
        "caption-long": "With a long caption",
        "mask-missing": "Without a mask",
        "mask-shape": "With a mask of another shape",
        "orphan": "Files that belong to no picture",
    }
)
"""What the findings of a kind are called together, in the order in which they are told."""


@dataclass(frozen=True)
class Finding:
    """One thing found about one file.

    severity: an "error" is left out of training or makes a measurement worthless, a "warning" makes
    the result worse, a "note" may well be meant. path: the file; other: the second one where two
    are compared. what: what is wrong, without the file's name. remedy: what to do about it.
    """

    kind: FindingKind
    severity: Severity
    path: Path
    what: str
    remedy: str
    other: Path | None = None

    def __str__(self) -> str:
        return f"{self.path}: {sentence(self.what)} {sentence(self.remedy)}"


def sort_findings(findings: Sequence[Finding]) -> list[Finding]:
    """The findings by kind, worst first, and each kind's in the order they were found in."""
    kinds = list(HEADLINES)
    return sorted(findings, key=lambda finding: kinds.index(finding.kind))


def summary(findings: Sequence[Finding], images: int) -> str:
    """All of it in one line. pictures: how many were looked at."""
    looked = f"{images} picture{'s' if images != 1 else ''} looked at"
    if not findings:
        return f"{looked}: nothing found."
    counts = Counter(finding.severity for finding in findings)
    words = [
        f"{counts[severity]} {severity}{'s' if counts[severity] > 1 else ''}"
        for severity in ("error", "warning", "note")
        if counts[severity]
    ]
    return f"{looked}: {', '.join(words)}."


def lines(findings: Sequence[Finding], *, most: int = MOST_TOLD) -> list[str]:
    """The findings by kind, each kind's remedy once where it is the same for all.

    most: how many of a kind are told; the rest is counted.
    """
    told = []
    for kind, headline in HEADLINES.items():
        some = [finding for finding in findings if finding.kind == kind]
        if not some:
            continue
        remedies = {finding.remedy for finding in some}
        told.append(f"{headline} ({len(some)})")
        if len(remedies) == 1:
            told.append(f"  {sentence(some[0].remedy)}")
        for finding in some[:most]:
            own = f" {sentence(finding.remedy)}" if len(remedies) > 1 else ""
            told.append(f"  {finding.severity}: {finding.path}: {sentence(finding.what)}{own}")
        if len(some) > most:
            told.append(f"  and {len(some) - most} more")
    return [printable(line) for line in told]


def printable(line: str) -> str:
    """A line that no terminal takes for an order, whatever files are called."""
    return "".join(sign if sign.isprintable() else "?" for sign in line)
