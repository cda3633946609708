"""Sizes, counts, epochs, moments, lists of names and tables as text."""

import time
from collections.abc import Iterable, Sequence

from onetrainer.config.base.amount import Amount

_NAMED = 3


def format_size(size: int) -> str:
    """Return a number of bytes with three digits, such as "721 kB"."""
    for unit, one in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= one:
            return f"{size / one:.3g} {unit}"
    return f"{size} bytes"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number of things: "1 entry", "1,200 entries"."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def counted_amount(amount: Amount) -> str:
    """Return an amount: "1 epoch", "10,000 images"."""
    return f"{amount.count:,.10g} {str(amount).partition(' ')[2]}"


def format_epochs(epochs: float) -> str:
    """Return a number of epochs: "0.67 epochs", "1 epoch", "9.5 epochs", "1,200 epochs"."""
    text = f"{epochs:.2g}" if epochs < 1 else f"{epochs:.1f}".removesuffix(".0")
    if epochs >= 100:
        text = f"{round(epochs):,}"
    return f"{text} epoch{'' if text == '1' else 's'}"


def format_moment(seconds: float, pattern: str = "%Y-%m-%d %H:%M") -> str:
    """Return a time since the epoch in this computer's time zone; "—" if no calendar has it.

    Files of others, and a wrong clock, may give any number.
    """
    try:
        return time.strftime(pattern, time.localtime(seconds))
    except (OverflowError, OSError, ValueError):
        return "—"


def some(names: Iterable[object], count: int, separator: str = ", ") -> str:
    """Return the first names of `count`: "a.png, b.png, c.png …"."""
    first = [str(name) for name in names][:_NAMED]
    return separator.join(first) + (" …" if count > len(first) else "")


def table(rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> list[str]:
    """Return rows as lines of aligned columns. left: Those with text; numbers are to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index in left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
