"""Format memory forecasts for terminals and windows."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetrainer.config.base.numbers import number_text
from onetrainer.messages.durations import format_duration, time_lines
from onetrainer.messages.formatting import counted, some, table

if TYPE_CHECKING:
    from onetrainer.run.events import Forecast

GB = 1 << 30
"""Bytes of a GB as graphics cards are labeled."""
SAFE_FRACTION = 0.9
"""Forecasts are accurate to a tenth: anything below this fraction of free memory will fit."""

_PARTS: Mapping[str, str] = {
    "unet": "UNet",
    "text_encoders": "text encoders",
    "vae": "VAE",
    "rewards": "rewards",
    "adapters": "adapters and embeddings",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "ema": "EMA",
    "activations": "activations",
    "program": "the program itself",
}
_CHECKPOINTING: Mapping[str, str] = {"off": "off", "selective": "selective", "block": "full"}
_PHASES: Mapping[str, str] = {
    "loading": "loading the model",
    "caching": "caching images",
    "training": "training",
    "validation": "validation",
    "encoding": "encoding prompts",
    "sampling": "sampling",
    "decoding": "decoding samples",
    "saving": "saving",
}


def component_label(part: str) -> str:
    """Return the label of a component of a forecast."""
    return _PARTS.get(part, part.replace("_", " "))


def phase_label(phase: str) -> str:
    """Return the label of a run's phase."""
    return _PHASES.get(phase, phase)


def checkpointing_label(policy: str) -> str:
    """Return the label of a checkpointing policy, such as "full"."""
    return _CHECKPOINTING.get(policy, policy)


def format_memory(size: int) -> str:
    """Return a number of bytes as on the box of a GPU: "11.9 GB", "340 MB"."""
    if size >= GB // 10:
        return f"{size / GB:.2f} GB" if size < 10 * GB else f"{size / GB:.1f} GB"
    return f"{size / (GB >> 10):.0f} MB"


def fits(peak: int, available: int) -> bool:
    """Return whether a forecast peak is certain to fit."""
    return peak <= SAFE_FRACTION * available


def verdict(forecast: "Forecast") -> str:
    """Return a sentence that says whether a run fits into free memory."""
    peak, free = forecast.peak_bytes, forecast.available_bytes
    when = f"the peak is in {phase_label(forecast.peak_phase)}"
    if not free:
        return f"It needs {format_memory(peak)}; {when}."
    if fits(peak, free):
        return f"It fits: {format_memory(peak)} of {format_memory(free)} free; {when}."
    if peak <= free:
        return (
            f"It barely fits: {format_memory(peak)} of {format_memory(free)} free; {when}. Close"
            " other programs that use the device."
        )
    return (
        f"It does not fit: it needs {format_memory(peak)}, but {format_memory(free)} are free,"
        f" {format_memory(peak - free)} too little; {when}."
    )


def largest_parts(parts: Mapping[str, int], count: int = 3) -> str:
    """Return the largest components as text: "UNet 4.78 GB, activations 2.1 GB"."""
    ordered = sorted(parts.items(), key=lambda part: -part[1])[:count]
    return ", ".join(f"{component_label(part)} {format_memory(size)}" for part, size in ordered)


def forecast_lines(forecast: "Forecast") -> list[str]:
    """Return the phases with their components, the verdict, notes and times as lines."""
    phases = forecast.phases.values()
    names = [part for part in _PARTS if any(part in own for own in phases)]
    names += sorted({part for own in phases for part in own} - set(names))
    sizes = {component_label(name): [own.get(name, 0) for own in phases] for name in names}
    sizes["total"] = [sum(own.values()) for own in phases]
    rows = [["", *forecast.phases]]
    for label, row in sizes.items():
        rows.append([label, *(f"{size / GB:.2f}" if size else "-" for size in row)])
    lines = ["Peak memory of each phase in GB:", "", *table(rows), "", verdict(forecast)]
    time = [*time_lines(forecast.time), *data_lines(forecast.data)]
    return [*lines, *forecast.notes, *(["", *time] if time else [])]


def data_lines(data: Mapping[str, Any]) -> list[str]:
    """Return lines about a forecast's data, see `Forecast.data`; none if nothing is known."""
    lines = []
    if "caching_seconds" in data:
        time = format_duration(data["caching_seconds"])
        lines.append(f"Caching takes about {time} if nothing is cached yet.")
    if count := data.get("long_caption_count", 0):
        longest = (f"{Path(one['path']).name} ({one['tokens']})" for one in data["long_captions"])
        lines.append(
            f"{counted(count, 'caption')} longer than {data['chunk']} tokens, encoded in chunks"
            f" without truncation: {some(longest, count)}."
        )
    return lines


def fix_lines(fixes: Sequence[Mapping[str, Any]], available: int) -> list[str]:
    """Return a line and the settings to change for each fix."""
    lines = []
    for fix in fixes:
        peak = int(fix["peak_bytes"])
        mark = "fits" if fits(peak, available) else "just" if peak <= available else ""
        settings = " ".join(
            f"--set {path}={setting_value(value)}" for path, value in fix["changes"].items()
        )
        lines.append(f"  {mark:4}  {format_memory(peak):>8}  {fix['message']} ({fix['cost']})")
        lines.append(f"                  {settings}")
    return lines


def fix_section(forecast: "Forecast") -> list[str]:
    """Return fixes that lower the peak, under a heading."""
    if not forecast.fixes:
        return ["", "No known setting lowers it."]
    lines = fix_lines(forecast.fixes, forecast.available_bytes)
    is_enough = any(fix["peak_bytes"] <= forecast.available_bytes for fix in forecast.fixes)
    heading = "Settings that lower it, and their cost in time:"
    return ["", heading if is_enough else "No setting makes it fit; the closest first:", "", *lines]


def setting_value(value: object) -> str:
    """Return a setting's value as `--set` and config files write it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return number_text(value) if isinstance(value, float) else str(value)
