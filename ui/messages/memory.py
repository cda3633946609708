"""A forecast of memory as a person reads it. No Tk."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from onetrainer.errors import sentence
from onetrainer.json_file import Document
from onetrainer.messages.durations import format_passes
from onetrainer.messages.memory import component_label, fits, phase_label
from onetrainer.run.events import Failed, Forecast
from ui.messages.problems import capitalized
from ui.progress.run_state import format_bytes
from ui.theme.palette import SHARES, Role

# Parts under a hundredth of the whole cannot be seen in a bar.
_LEAST_SHARE = 0.01
OTHERS = "others"
_PASSES = {
    "drawing": "Drawing",
    "trained": "With gradient",
    "ordinary": "Learning",
    "repeated": "Repeated",
    "backward": "Backward",
    "anchor": "Anchor",
}

# The part that is likely to be large, and its neighbors in the bar, are furthest apart.
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
    """Whether it fits, in a line and a tone; and when the most is needed."""

    text: str
    tone: Role
    details: str


@dataclass(frozen=True)
class FixSummary:
    """Something that lowers the peak. changes: values by the paths of settings.

    tone: "good" where it is enough, "warning" where it only just is, "dim" where it is not.
    """

    text: str
    details: str
    tone: Role
    changes: Mapping[str, object]


def component_title(name: str) -> str:
    """A part as a line of its own begins: "Optimizer"."""
    return "Everything else" if name == OTHERS else capitalized(component_label(name))


def phase_title(name: str) -> str:
    """A phase as a line of its own begins: "Drawing samples"."""
    return capitalized(phase_label(name))


def verdict(forecast: Forecast) -> Verdict:
    """Whether a run fits into what is free."""
    peak, free = format_bytes(forecast.peak_bytes), format_bytes(forecast.available_bytes)
    details = f"The highest moment is {phase_label(forecast.peak_phase)}."
    if not forecast.available_bytes:
        return Verdict(f"Needs {peak}", "text", f"{details} How much is free could not be told.")
    if fits(forecast.peak_bytes, forecast.available_bytes):
        return Verdict(f"Fits: {peak} of {free}", "good", details)
    if forecast.peak_bytes <= forecast.available_bytes:
        return Verdict(f"Only just: {peak} of {free}", "warning", details)
    return Verdict(f"Too much: {peak}, {free} are free", "danger", details)


def visible_components(parts: Mapping[str, int]) -> list[tuple[str, int]]:
    """The parts that can be seen in a bar, and the sum of the others behind them."""
    whole = sum(parts.values())
    large = {name: size for name, size in parts.items() if size >= _LEAST_SHARE * whole > 0}
    rest = whole - sum(large.values())
    return [*large.items(), *([(OTHERS, rest)] if rest else [])]


def colors_of(names: Iterable[str]) -> dict[str, int]:
    """A color's number for every part: its own one, or a free one where another part has that.

    Those that are left when all colors are used have none.
    """
    found: dict[str, int] = {}
    for name in names:
        free = [color for color in range(len(SHARES["dark"]) - 1) if color not in found.values()]
        own = _COLORS.get(name, 0)
        if name != OTHERS and free:
            found[name] = own if own in free else free[-1]
    return found


def fix_summary(fix: Document, forecast: Forecast) -> FixSummary:
    """One cure, with what it saves and costs."""
    peak = int(fix.get("peak_bytes", 0))
    saved, cost = forecast.peak_bytes - peak, str(fix.get("cost", ""))
    figures = (
        f"{format_bytes(peak)} instead of {format_bytes(forecast.peak_bytes)}" if saved > 0 else ""
    )
    mark, tone = _fix_verdict(peak, forecast.available_bytes)
    return FixSummary(
        capitalized(str(fix.get("words", ""))),
        " · ".join(part for part in (mark, figures, cost) if part),
        tone,
        dict(fix.get("changes", {})),
    )


def forecast_notes(forecast: Forecast, *, is_for_processor: bool) -> str:
    """What was counted where a person may think of something else; "" where that is plain.

    is_for_processor: whether the settings choose it, and no graphics card was looked for.
    """
    told = []
    if any("program" in parts for parts in forecast.phases.values()):
        why = "The device is the processor" if is_for_processor else "No graphics card was found"
        told.append(f"{why}: main memory is counted.")
    if forecast.phases and "drawing" not in forecast.phases:
        told.append("Samples are not counted: there is no prompt.")
    return " ".join(told)


def _fix_verdict(peak: int, available: int) -> tuple[str, Role]:
    """Whether a cure is enough, by the same measure as the verdict."""
    if not available or peak <= 0:
        return "", "dim"
    if fits(peak, available):
        return "✓ fits", "good"
    return ("only just", "warning") if peak <= available else ("not enough alone", "dim")


def duration_text(forecast: Forecast | None) -> str:
    """How long a run takes, as far as a count has told: "About 40 s a step, 20 min in all"."""
    text = forecast.time.get("words", "") if forecast is not None else ""
    return capitalized(str(text)).rstrip(".")


def passes_title(count: float) -> str:
    """What stands over a step's passes of the UNet."""
    return f"A step is as much work as {format_passes(count)} passes of the UNet"


def labeled_passes(parts: Mapping[str, float]) -> list[tuple[str, float]]:
    """Passes by what they are for, in words."""
    return [(_PASSES.get(name) or capitalized(name), count) for name, count in parts.items()]


def failure_text(failed: Failed) -> str:
    """Why nothing was counted, without the log behind it."""
    parts = (failed.what, failed.expected, failed.remedy)
    lines = (part.partition("\n")[0].rstrip(":") for part in parts if part)
    return " ".join(sentence(capitalized(line)) for line in lines)
