"""A forecast of memory in words, for terminals and windows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from onetrainer.messages.caching import data_lines
from onetrainer.messages.durations import time_lines
from onetrainer.run.events import Forecast

GB = 1 << 30
"""Bytes of what makers of graphics cards call a GB."""
SURE_SHARE = 0.9
"""A forecast is right within a tenth: what takes less than this share of what is free will fit."""

_PARTS: Mapping[str, str] = MappingProxyType(
    {
        "unet": "UNet",
        "text_encoders": "text encoders",
        "vae": "VAE",
        "rewards": "rewards",
        "adapters": "adapters and words",
        "gradients": "gradients",
        "optimizer": "optimizer",
        "average": "average of the weights",
        "activations": "activations",
        "program": "the program itself",
    }
)
_CHECKPOINTING: Mapping[str, str] = MappingProxyType(
    {"off": "off", "selective": "cheap operations", "block": "whole blocks"}
)
_PHASES: Mapping[str, str] = MappingProxyType(
    {
        "loading": "loading the model",
        "caching": "encoding pictures",
        "training": "training",
        "validation": "validation",
        "encoding": "reading prompts",
        "drawing": "drawing samples",
        "decoding": "decoding samples",
        "saving": "saving",
    }
)


def component_label(part: str) -> str:
    """A part of a forecast as people call it."""
    return _PARTS.get(part, part.replace("_", " "))


def phase_label(phase: str) -> str:
    """What a run does in a phase."""
    return _PHASES.get(phase, phase)


def checkpointing_label(policy: str) -> str:
    """What checkpointing computes again: "whole blocks"."""
    return _CHECKPOINTING.get(policy, policy)


def notes(
    *, draws: bool, lacks_card: bool, missing_model: str | None, family: str, chosen: str = ""
) -> list[str]:
    """What a forecast counts and what it does not, a sentence each.

    draws: whether there are prompts. lacks_card: whether main memory is counted since there is
    no card. missing_model: the path or the hub's name of a model that is not here; None if it is
    here. family: what the model's family is called. chosen: what automatic checkpointing takes.
    """
    found = []
    if lacks_card:
        found.append(
            "No graphics card was found: main memory is counted; --memory GB plans for a card."
        )
    if missing_model is not None:
        what = f"{missing_model} is not there" if missing_model else "No base model is chosen"
        found.append(f"{what}: {family}'s published sizes are counted.")
    if chosen:
        found.append(f"Automatic checkpointing would take: {checkpointing_label(chosen)}.")
    if not draws:
        found.append("Samples are not counted, because there is no prompt.")
    return found


def format_memory(size: int) -> str:
    """So many bytes, as on a graphics card's box: "11.9 GB", "340 MB"."""
    if size >= GB // 10:
        return f"{size / GB:.2f} GB" if size < 10 * GB else f"{size / GB:.1f} GB"
    return f"{size / (GB >> 10):.0f} MB"


def fits(peak: int, available: int) -> bool:
    """Whether a forecast peak is sure to fit."""
    return peak <= SURE_SHARE * available


def verdict(forecast: Forecast) -> str:
    """Whether a run fits into what is free, in a sentence."""
    peak, free = forecast.peak_bytes, forecast.available_bytes
    when = f"the highest moment is {phase_label(forecast.peak_phase)}"
    if not free:
        return f"It takes {format_memory(peak)}; {when}."
    if fits(peak, free):
        return f"It fits: {format_memory(peak)} of {format_memory(free)} that are free; {when}."
    if peak <= free:
        return (
            f"It fits only just: {format_memory(peak)} of {format_memory(free)} that are free; {when}. Close"
            " what else uses the device."
        )
    return (
        f"It does not fit: {format_memory(peak)} are needed and {format_memory(free)} are free,"
        f" {format_memory(peak - free)} too little; {when}."
    )


def largest_parts(parts: Mapping[str, int], count: int = 3) -> str:
    """What takes most, in a row: "UNet 4.78 GB, activations 2.1 GB"."""
    ordered = sorted(parts.items(), key=lambda part: -part[1])[:count]
    return ", ".join(f"{component_label(part)} {format_memory(size)}" for part, size in ordered)


def forecast_lines(forecast: Forecast) -> list[str]:
    """The phases with their parts, the verdict, what was counted, and the time."""
    names = [part for part in _PARTS if any(part in own for own in forecast.phases.values())]
    names += sorted({part for own in forecast.phases.values() for part in own} - set(names))
    rows = [["", *forecast.phases]]
    rows += [
        [component_label(name), *(_cell(own.get(name, 0)) for own in forecast.phases.values())]
        for name in names
    ]
    rows.append(["together", *(_cell(sum(own.values())) for own in forecast.phases.values())])
    time = [*time_lines(forecast.time), *data_lines(forecast.data)]
    return [*_table(rows), "", verdict(forecast), *forecast.notes, *(["", *time] if time else [])]


def fix_lines(fixes: Sequence[Mapping[str, Any]], available: int) -> list[str]:
    """What lowers the peak, a line each, with the settings to change."""
    lines = []
    for fix in fixes:
        peak = int(fix["peak_bytes"])
        mark = "fits" if fits(peak, available) else "just" if peak <= available else ""
        settings = " ".join(
            f"--set {path}={setting_value(value)}" for path, value in fix["changes"].items()
        )
        lines.append(f"  {mark:4}  {format_memory(peak):>8}  {fix['words']} ({fix['cost']})")
        lines.append(f"                  {settings}")
    return lines


@dataclass
class Report:
    """What a terminal shows of forecasts: the first one at once, then its cures; or all as JSON.

    is_json: whether nothing but the last forecast is to be shown, as JSON. data: what is told of
    the pictures there, before what the forecast itself tells of them.
    """

    is_json: bool
    data: Mapping[str, Any] = field(default_factory=dict)
    _last: Forecast | None = None

    def lines(self, forecast: Forecast) -> list[str]:
        """What is new with a forecast."""
        before, self._last = self._last, forecast
        if self.is_json:
            return []
        if before is None:
            return forecast_lines(forecast)
        return fix_section(forecast)

    def last_lines(self) -> list[str]:
        """What is left to be shown when nothing more comes."""
        if self.is_json and self._last is not None:
            document = asdict(self._last)
            document["data"] = {**self.data, **document["data"]}
            return json.dumps(document, indent=2, ensure_ascii=False).splitlines()
        return []


def fix_section(forecast: Forecast) -> list[str]:
    """What would lower the peak, under a heading."""
    if not forecast.fixes:
        return ["", "No setting that is known here lowers it."]
    lines = fix_lines(forecast.fixes, forecast.available_bytes)
    is_enough = any(fix["peak_bytes"] <= forecast.available_bytes for fix in forecast.fixes)
    heading = "What lowers it, and what that costs in time:"
    return ["", heading if is_enough else "Nothing here makes it fit; nearest first:", "", *lines]


def _cell(size: int) -> str:
    return f"{size / GB:.2f}" if size else "-"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]
    return ["Memory in GB, at the highest moment of each phase:", "", *lines]


def setting_value(value: object) -> str:
    """A setting's value as `--set` and config files have it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
