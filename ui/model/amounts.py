"""Lengths and intervals of the draft as text."""

from onetrainer.config.base.amount import Amount, parse_amount
from onetrainer.messages.formatting import counted, counted_amount


def amount_of(value: object) -> object:
    """Return the amount that a value of the draft is; itself if it is none."""
    return parse_amount(value) if isinstance(value, str) else value


def amount_text(value: object) -> str:
    """Return a value of the draft as text: "1,000 steps"; "" if it is none, or 0."""
    amount = amount_of(value)
    if isinstance(amount, Amount):
        return counted_amount(amount)
    return counted(amount, "step") if isinstance(amount, int) and amount > 0 else ""
