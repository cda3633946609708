"""Texts of a memory forecast."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onetrainer.errors import UserError, sentence
from onetrainer.json_file import Document
from onetrainer.messages.durations import format_passes
from onetrainer.messages.memory import component_label, fits, phase_label
from ui.messages.problems import capitalized
from ui.progress.units import format_bytes
from ui.theme.palette import SERIES_COLORS, Role

if TYPE_CHECKING:
    from onetrainer.run.events import Forecast

# Components below a hundredth of the total cannot be seen in a bar.
_MIN_FRACTION = 0.01
REST = "others"
_PASSES = {
    "sampling": "Sampling",
    "trained": "With gradient",
    "ordinary": "Training",
    "repeated": "Recomputed",
    "backward": "Backward",
    "anchor": "Anchor",
}

# Components that are often large, and neighbors in the bar, have the most distinct colors.
_COLORS = {
    "unet": 0,
    "adapters": 1,
    "gradients": 2,
    "optimizer": 3,
    "activations": 4,
    "vae": 5,
    "text_encoders": 6,
}


@dataclass(frozen=True)
class Verdict:
    """Whether the run fits, with a tone, and the phase of the peak."""

    text: str
    tone: Role
    details: str


@dataclass(frozen=True)
class FixSummary:
    """A change that lowers the peak.

    Attributes:
        tone: "good" if it is enough, "warning" if only just, "dim" if not.
        changes: New values by path of the setting.
    """

    text: str
    details: str
    tone: Role
    changes: Mapping[str, object]


def component_title(name: str) -> str:
    """Return the capitalized label of a component: "Optimizer"."""
    return "Everything else" if name == REST else capitalized(component_label(name))


def phase_title(name: str) -> str:
    """Return the capitalized label of a phase: "Sampling"."""
    return capitalized(phase_label(name))


def verdict(forecast: "Forecast") -> Verdict:
    """Return whether a run fits into the free memory."""
    peak, free = format_bytes(forecast.peak_bytes), format_bytes(forecast.available_bytes)
    details = f"Peak: {phase_label(forecast.peak_phase)}."
    if not forecast.available_bytes:
        return Verdict(f"Needs {peak}", "text", f"{details} The free memory is unknown.")
    if fits(forecast.peak_bytes, forecast.available_bytes):
        return Verdict(f"Fits: {peak} of {free}", "good", details)
    if forecast.peak_bytes <= forecast.available_bytes:
        return Verdict(f"Only just: {peak} of {free}", "warning", details)
    return Verdict(f"Too much: {peak} of {free}", "danger", details)


def visible_components(parts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the components that are visible in a bar, followed by the sum of the rest."""
    whole = sum(parts.values())
    large = {name: size for name, size in parts.items() if size >= _MIN_FRACTION * whole > 0}
    rest = whole - sum(large.values())
    return [*large.items(), *([(REST, rest)] if rest else [])]


def colors_of(names: Iterable[str]) -> dict[str, int]:
    """Return the color index of every component: its own, or a free one if that is taken.

    Components beyond the number of colors have none.
    """
    found: dict[str, int] = {}
    for name in names:
        free = [
            color for color in range(len(SERIES_COLORS["dark"]) - 1) if color not in found.values()
        ]
        own = _COLORS.get(name, 0)
        if name != REST and free:
            found[name] = own if own in free else free[-1]
    return found


def fix_summary(fix: Document, forecast: "Forecast") -> FixSummary:
    """Return the text of a fix, with what it saves and costs."""
    peak = int(fix.get("peak_bytes", 0))
    saved, cost = forecast.peak_bytes - peak, str(fix.get("cost", ""))
    figures = (
        f"{format_bytes(peak)} instead of {format_bytes(forecast.peak_bytes)}" if saved > 0 else ""
    )
    mark, tone = _fix_verdict(peak, forecast.available_bytes)
    return FixSummary(
        capitalized(str(fix.get("message", ""))),
        " · ".join(part for part in (mark, figures, cost) if part),
        tone,
        dict(fix.get("changes", {})),
    )


_WITHOUT_MEMORY = {"cpu": "The device is the CPU", "mps": "Apple's GPU shares the computer's RAM"}


def forecast_notes(forecast: "Forecast", *, device: str) -> str:
    """Return notes about what the forecast covers; "" if there are none.

    Args:
        forecast: The forecast.
        device: The device that the settings select.
    """
    notes = []
    if any("program" in parts for parts in forecast.phases.values()):
        why = _WITHOUT_MEMORY.get(device, "No GPU was found")
        notes.append(f"{why}: the forecast is for host memory.")
    if forecast.phases and "sampling" not in forecast.phases:
        notes.append("Samples are not included: there is no prompt.")
    return " ".join(notes)


def _fix_verdict(peak: int, available: int) -> tuple[str, Role]:
    """Return whether a fix is enough, by the same rule as the verdict."""
    if not available or peak <= 0:
        return "", "dim"
    if fits(peak, available):
        return "fits", "good"
    return ("only just", "warning") if peak <= available else ("not enough alone", "dim")


def duration_text(forecast: "Forecast | None") -> str:
    """Return the expected duration of a run: "About 40 s a step, 20 min in all"; "" if unknown."""
    text = forecast.time.get("message", "") if forecast is not None else ""
    return capitalized(str(text)).rstrip(".")


def passes_title(count: float) -> str:
    """Return the title of the list of UNet passes."""
    return f"A step costs {format_passes(count)} UNet passes"


def labeled_passes(parts: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return the passes with their labels."""
    return [(_PASSES.get(name) or capitalized(name), count) for name, count in parts.items()]


def failure_text(failed: UserError) -> str:
    """Return why there is no forecast, without the log."""
    parts = (failed.what, failed.expected, failed.remedy)
    lines = (part.partition("\n")[0].rstrip(":") for part in parts if part)
    return " ".join(sentence(capitalized(line)) for line in lines)
