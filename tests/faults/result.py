"""What came of a planted fault."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """What came of a fault. problems: Empty if all was as it should be.

    part: Of the campaign. case: Which run or command. doing: What was at work, or the input.
    """

    part: str
    case: str
    fault: str
    doing: str
    problems: tuple[str, ...]
