"""Format estimated times."""

from collections.abc import Mapping
from typing import Any

from onetrainer.messages.formatting import counted

_MINUTE, _HOUR, _DAY = 60, 3600, 86400  # s
_PARTS: Mapping[str, str] = {
    "sampling": "sampling without gradients",
    "trained": "sampling with gradients",
    "ordinary": "training",
    "repeated": "recomputed by checkpointing",
    "backward": "backward, each counted as two",
    "anchor": "comparison with the base model",
}


def format_duration(seconds: float) -> str:
    """Return an estimated time: "0.2 s", "40 s", "20 min", "3.5 h", "4 days"."""
    if seconds < 1:
        return f"{seconds:.1g} s"
    for unit, length, most in (("s", 1, 2 * _MINUTE), ("min", _MINUTE, 2 * _HOUR)):
        if seconds < most:
            return f"{_rounded(seconds / length)} {unit}"
    if seconds < 2 * _DAY:
        return f"{_rounded(seconds / _HOUR)} h"
    return f"{seconds / _DAY:.0f} days"


def format_step_time(*, step: float, run: float, where: str) -> str:
    """Return the estimated time of a step and of a run; where is such as "on this processor"."""
    return f"about {format_duration(step)} a step, {format_duration(run)} in all ({where})"


def time_lines(time: Mapping[str, Any]) -> list[str]:
    """Return lines about a forecast's time and the UNet's work; none if nothing is known."""
    each = time.get("seconds", 0.0)
    lines = [
        f"{text} = {counted(steps, 'step')}"
        + (f", about {format_duration(steps * each)}." if each else ".")
        for text, steps in time.get("lengths", {}).items()
    ]
    lines += [f"Time: {time['message']}."] if time.get("message") else []
    parts: Mapping[str, float] = time.get("parts", {})
    if set(parts) - {"ordinary", "backward", "repeated"}:
        lines.append(
            f"A step is as much work as {format_passes(time['unet_calls'])} passes of the UNet:"
        )
        lines += [f"  {format_passes(passes):>8}  {_PARTS[name]}" for name, passes in parts.items()]
    return lines


def format_passes(passes: float) -> str:
    """Return a mean number of passes: "12", "10.5"."""
    return f"{passes:.0f}" if passes >= 100 or passes == round(passes) else f"{passes:.1f}"


def _rounded(value: float) -> str:
    """Return two digits, as estimates are no more accurate."""
    return f"{value:.1f}".removesuffix(".0") if value < 10 else f"{float(f'{value:.2g}'):.0f}"
