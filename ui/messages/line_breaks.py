"""Line breaks and shortening of long names."""

import re
from collections.abc import Callable


def break_at_dots(text: str, width: int, measure: Callable[[str], int]) -> str:
    """Break long names after dots, because Tk would break them anywhere: "unet.mid_block.…".

    Args:
        text: May contain several names.
        width: Width of a line, in the unit of `measure`.
        measure: Returns the width of a text.
    """

    def broken(found: "re.Match[str]") -> str:
        lines = [""]
        for part in re.findall(r"[^.]*\.+|[^.]+", found[0]):
            if lines[-1] and measure(lines[-1] + part) > width:
                lines.append("")
            lines[-1] += part
        return "\n".join(lines)

    return re.sub(r"\S+\.\S+", lambda m: broken(m) if measure(m[0]) > width else m[0], text)


def shorten(text: str, room: int, measure: Callable[[str], int]) -> str:
    """Return as much of a text as fits, ending in "…" if it was shortened."""
    if measure(text) <= room:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(f"{text[:middle]}…") <= room else (low, middle - 1)
    return f"{text[:low].rstrip()}…"


def shorten_start(text: str, room: int, measure: Callable[[str], int]) -> str:
    """Return as much of the end of a text as fits: "… holidays 2019/IMG_1.JPG"."""
    backwards = shorten(text[::-1], room, lambda part: measure(part[::-1]))
    return backwards[::-1]


def shorten_at_word(text: str, most: int) -> str:
    """Return at most `most` characters of a text, shortened at the end of a word."""
    if len(text) <= most:
        return text
    words, space, _ = text[:most].rpartition(" ")
    return f"{(words if space else text[: most - 1]).rstrip(' ,.;:')}…"
