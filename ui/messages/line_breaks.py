"""Where long names may be broken into lines, or end early. No Tk."""

import re
from collections.abc import Callable


def break_at_dots(text: str, width: int, measure: Callable[[str], int]) -> str:
    """The text with long names broken after dots, which Tk breaks anywhere: "unet.mid_block.…".

    width: what a line has room for, as `measure` counts.
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
    """As much of a text as fits, with dots where something is left out."""
    if measure(text) <= room:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(f"{text[:middle]}…") <= room else (low, middle - 1)
    return f"{text[:low].rstrip()}…"


def shorten_start(text: str, room: int, measure: Callable[[str], int]) -> str:
    """As much of the end of a text as fits, with dots before it: "… holidays 2019/IMG_1.JPG"."""
    backwards = shorten(text[::-1], room, lambda part: measure(part[::-1]))
    return backwards[::-1]


def shorten_at_word(text: str, most: int) -> str:
    """At most so many letters of a text, ended at a word's end where something is left out."""
    if len(text) <= most:
        return text
    words, space, _ = text[:most].rpartition(" ")
    return f"{(words if space else text[: most - 1]).rstrip(' ,.;:')}…"
