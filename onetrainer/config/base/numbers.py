"""Write numbers as people do."""

_SMALL = 1e-3
"""Smaller numbers are written as 1e-4, as learning rates are; 0.05 stays as it is."""
_DIGITS = 15
"""Digits of a number that computing with it does not change."""


def number_text(value: float) -> str:
    """Return a number as people write it: "5", "0.05", "2.2e-5" even for 2.2000000000000003e-05."""
    if value.is_integer() and abs(value) < 10**_DIGITS:
        return str(int(value))
    text = f"{value:.{_DIGITS}g}"
    if "e" not in text and abs(value) < _SMALL:
        text = f"{value:.{_DIGITS - 1}e}"
    mantissa, marker, exponent = text.partition("e")
    if not marker:
        return text
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"
