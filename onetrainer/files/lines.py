"""Split people's texts, and what programs print, into lines: one answer everywhere."""

import re

LINE_END = re.compile(r"\r\n|\r|\n")
"""What ends a line in the files of every system, and nothing else. Python's `splitlines` also cuts
at U+2028, U+0085, form feeds and others, which stand inside of captions and prompts that were
copied from elsewhere, and which editors show as part of a line.
"""


def split_lines(text: str) -> list[str]:
    """Return the lines of a text, without their ends; an end of the last one begins no other."""
    lines = LINE_END.split(text)
    return lines if lines[-1] else lines[:-1]
