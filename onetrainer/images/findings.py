"""Findings of the image check: which file, what is wrong with it, what to do."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from onetrainer.errors import sentence, some_of

Severity = Literal["error", "warning", "note"]
"""An error skips the file or makes a measurement worthless, a warning makes the result worse, a
note may be intended.
"""

MAX_LISTED = 20
"""Number of findings of a kind that are listed; JSON output contains all of them."""

MAX_NAMED = 3
"""Number of files of a group that are named."""

# Headings and severities of the kinds of findings, in order of severity.
_KINDS: Mapping[str, tuple[str, Severity]] = {
    "unreadable": ("Unusable", "error"),
    "leak": ("In training and validation", "error"),
    "duplicate": ("Duplicate", "warning"),
    "near-duplicate": ("Near-duplicate", "note"),
    "too-small": ("Too small", "warning"),
    "upscaled": ("Upscaled", "warning"),
    "blurred": ("Blurred", "warning"),
    "unused-image": ("Images under other names", "warning"),
    "caption-encoding": ("Captions in another encoding", "error"),
    "caption-guess": ("Captions read as Windows text", "warning"),
    "caption-missing": ("No caption", "warning"),
    "caption-empty": ("Empty caption", "warning"),
    "caption-nothing": ("Captions that say nothing", "warning"),
    "caption-same": ("One caption for all", "note"),
    "caption-syntax": ("Syntax of prompts", "warning"),
    "caption-braces": ("Caption with unbalanced braces", "warning"),
    "caption-long": ("Long caption", "note"),
    "mask-uniform": ("Mask without a shape", "warning"),
    "mask-missing": ("No mask", "note"),
    "mask-shape": ("Mask with another aspect ratio", "warning"),
    "mask-unused": ("Masks that are not used", "note"),
    "no-image": ("Files that are no images", "note"),
    "orphan": ("Files without an image", "note"),
    "repeats": ("Repeats in names of folders", "note"),
}
SAID_OTHERWISE = ("unreadable", "caption-missing", "caption-empty")
"""Kinds that a check, a plan and a run say in words of their own, which count them."""

HEADLINES: Mapping[str, str] = {kind: head for kind, (head, _) in _KINDS.items()}


@dataclass(frozen=True)
class Finding:
    """One finding about one file: what is wrong, without its name, and what to do about it.

    kind: A key of HEADLINES. other: The second file of a comparison.
    """

    kind: str
    path: Path
    what: str
    remedy: str
    other: Path | None = None

    @property
    def severity(self) -> Severity:
        """How much a finding of this kind matters."""
        return _KINDS[self.kind][1]

    def __str__(self) -> str:
        return f"{self.path}: {sentence(self.what)} {sentence(self.remedy)}"


@dataclass(frozen=True)
class FindingGroup:
    """Findings of a kind with the same remedy, in a sentence for each of both."""

    kind: str
    what: str
    remedy: str

    @property
    def severity(self) -> Severity:
        """How much findings of this kind matter."""
        return _KINDS[self.kind][1]

    def __str__(self) -> str:
        return f"{sentence(self.what)} {self.remedy}"


def group_findings(findings: Sequence[Finding], folder: Path) -> list[FindingGroup]:
    """Return what stands in the findings of a folder, worst first, a few files being named."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in sort_findings(findings):
        groups.setdefault((finding.kind, finding.remedy), []).append(finding)
    return [
        FindingGroup(kind, printable(_summed_up(some, folder)), remedy)
        for (kind, remedy), some in groups.items()
    ]


def _summed_up(findings: Sequence[Finding], folder: Path) -> str:
    if len({finding.what for finding in findings}) == 1:
        names = [finding.path.name for finding in findings if finding.path != folder]
        place = f"{some_of(names, MAX_NAMED)}: " if names else ""
        return f"{place}{findings[0].what}"
    each = [
        f"{finding.path.name}: {finding.what}" if finding.path != folder else finding.what
        for finding in findings
    ]
    more = len(each) - MAX_NAMED
    return "; ".join(each[:MAX_NAMED]) + (f"; and {more} more" if more > 0 else "")


def sort_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings by kind, worst first, each kind in the order in which they were found."""
    kinds = list(HEADLINES)
    return sorted(findings, key=lambda finding: kinds.index(finding.kind))


def summary(findings: Sequence[Finding], images: int) -> str:
    """Return a one-line summary; images is the number of checked images."""
    checked = f"{images} image{'s' if images != 1 else ''} checked"
    if not findings:
        return f"{checked}: no problems found."
    counts = Counter(finding.severity for finding in findings)
    parts = [
        f"{counts[severity]} {severity}{'s' if counts[severity] > 1 else ''}"
        for severity in ("error", "warning", "note")
        if counts[severity]
    ]
    return f"{checked}: {', '.join(parts)}."


def format_findings(findings: Sequence[Finding], *, most: int = MAX_LISTED) -> list[str]:
    """Return the findings by kind as lines, each kind's remedy once if it is the same for all.

    most: number of findings to list for each kind; the rest is counted.
    """
    lines = []
    for kind, headline in HEADLINES.items():
        some = [finding for finding in findings if finding.kind == kind]
        if not some:
            continue
        remedies = {finding.remedy for finding in some}
        lines.append(f"{headline} ({len(some)})")
        if len(remedies) == 1:
            lines.append(f"  {sentence(some[0].remedy)}")
        for finding in some[:most]:
            own = f" {sentence(finding.remedy)}" if len(remedies) > 1 else ""
            lines.append(f"  {finding.severity}: {finding.path}: {sentence(finding.what)}{own}")
        if len(some) > most:
            lines.append(f"  and {len(some) - most} more")
    return [printable(line) for line in lines]


def printable(line: str) -> str:
    """Return a line without control characters, which file names may contain."""
    return "".join(sign if sign.isprintable() else "?" for sign in line)
