"""What the doctor finds: a fact about this computer, and the remedy if something is wrong."""

from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["good", "note", "problem"]


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's output.

    area: The part of the computer. level: "note" limits something but prevents nothing; "problem"
    prevents training or the window. remedy: What to do; "" if there is nothing to do.
    """

    area: str
    text: str
    level: Level = "good"
    remedy: str = ""

    def __str__(self) -> str:
        line = f"{self.level:<8} {self.area}: {self.text}"
        return f"{line}\n         To do: {self.remedy}" if self.remedy else line


def note(area: str, text: str, remedy: str = "") -> Finding:
    """Return a finding that limits something but prevents nothing."""
    return Finding(area, text, "note", remedy)


def problem(area: str, text: str, remedy: str) -> Finding:
    """Return a finding that prevents training or the window."""
    return Finding(area, text, "problem", remedy)


def findings_document(findings: list[Finding]) -> dict[str, object]:
    """Return the findings for a JSON file."""
    problems = sum(finding.level == "problem" for finding in findings)
    return {"problems": problems, "findings": [asdict(finding) for finding in findings]}
