"""What presets were forecast to need: shipped for the built-in ones, remembered for the rest."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from onetrainer import ROOT
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.files.atomic import write_atomic
from onetrainer.files.own_json import NotOurs, typed
from onetrainer.json_file import Document, read_json
from onetrainer.presets.find import ABOUT
from onetrainer.presets.presets import resolve, value_at, with_value
from onetrainer.presets.step_work import DeviceSpeed, decode_work
from onetrainer.run.user_folder import user_folder

SHIPPED = ROOT / "configs" / "forecasts.json"
"""Peaks of the built-in presets on an NVIDIA GPU, and the work of a step; `make forecasts` writes
it."""
# These do not affect memory and time.
_WITHOUT_EFFECT = (*ABOUT, "version", "output", "metadata")
_MOST_REMEMBERED = 500
_DTYPE = "bfloat16"
"""What the built-in presets compute in."""


@dataclass(frozen=True)
class PresetForecast:
    """What a preset needs, with one sample prompt.

    peak_bytes: Most device memory. seconds: Time of a step; 0 if unknown. device: The name of the
    device it was forecast for; "" for any NVIDIA GPU. timed_on: That which the time is of, where it
    follows from what a step computes.
    """

    peak_bytes: int
    seconds: float = 0.0
    device: str = ""
    timed_on: str = ""


def settings_digest(document: Mapping[str, object]) -> str:
    """Return a digest of the settings of a loaded document that affect memory and time."""
    left = {key: value for key, value in document.items() if key not in _WITHOUT_EFFECT}
    return hashlib.sha256(json.dumps(left, sort_keys=True).encode()).hexdigest()[:16]


def forecast_config(document: Document, *, source: str) -> TrainConfig:
    """Return the config to forecast for a loaded preset: with one sample prompt, if it has none.

    Nearly every run has one, and the preset leaves it to the user.
    """
    if not value_at(document, "sampling.prompts") and not value_at(document, "sampling.file"):
        side = value_at(document, "data.resolution") or resolve({}, source="").data.resolution
        prompts = [{"prompt": "a cat", "width": side, "height": side}]
        document = with_value(document, "sampling.prompts", prompts)
    # Whole, since a job is given only what is set.
    whole = resolve(document, source=source).model_dump(mode="json")
    return resolve(whole, source=source)


def known_forecasts() -> dict[str, PresetForecast]:
    """Return what is known by `settings_digest`: shipped peaks, and forecasts made here.

    Those of another device than the last one that was forecast for are left out. The times of the
    shipped ones follow from the speed of this computer, if that was measured.
    """
    speed = known_speed()
    shipped = {
        str(entry.get("digest")): _shipped_forecast(entry, speed)
        for entry in _entries(SHIPPED).values()
    }
    own = {
        digest: PresetForecast(
            entry["peak_bytes"], float(entry.get("seconds", 0)), str(entry.get("device", ""))
        )
        for digest, entry in _entries(_own()).items()
    }
    device = next(reversed(own.values())).device if own else ""
    return shipped | {digest: one for digest, one in own.items() if one.device == device}


def remember_forecast(digest: str, forecast: PresetForecast) -> None:
    """Add a forecast to the user's file. Raises OSError if it cannot be written."""
    entries = _entries(_own())
    entries.pop(digest, None)  # the last one says which device this computer has now
    entries[digest] = asdict(forecast)
    kept = dict(list(entries.items())[-_MOST_REMEMBERED:])
    _own().parent.mkdir(parents=True, exist_ok=True)
    write_atomic(_own(), json.dumps(kept, indent=1).encode())


def known_speed() -> tuple[str, DeviceSpeed] | None:
    """Return the device that was measured last, and its speed; None if none was."""
    try:
        document = read_json(_speed_file())
        device = str(document.pop("device"))
        return device, typed(document, DeviceSpeed)
    except (UserError, KeyError, NotOurs):
        return None


def remember_speed(device: str, document: Document) -> None:
    """Keep the speed of this computer's device. Raises OSError if it cannot be written.

    One that was measured for other number formats than those of the presets is not kept, nor a
    slower one of the same device: what else computes meanwhile makes it slower, on a busy processor
    many times.
    """
    kind, known = f"product {_DTYPE}", known_speed()
    speed = document.get("flops", {}).get(kind, 0.0)
    best = known[1].flops.get(kind, 0.0) if known and known[0] == device else 0.0
    if speed > best:
        _speed_file().parent.mkdir(parents=True, exist_ok=True)
        write_atomic(_speed_file(), json.dumps({"device": device, **document}, indent=1).encode())


def _shipped_forecast(entry: Document, speed: tuple[str, DeviceSpeed] | None) -> PresetForecast:
    work = decode_work(str(entry.get("work", ""))) if speed else {}
    if speed is None or not work:
        return PresetForecast(entry["peak_bytes"])
    device, of_it = speed
    return PresetForecast(entry["peak_bytes"], of_it.seconds(work), timed_on=device)


def _speed_file() -> Path:
    return user_folder() / "device-speed.json"


def _own() -> Path:
    return user_folder() / "forecasts.json"


def _entries(path: Path) -> dict[str, Document]:
    """Return the entries of a file that have what is needed; none if it cannot be read."""
    try:
        document = read_json(path)
    except UserError:
        return {}
    return {
        key: entry
        for key, entry in document.items()
        if isinstance(entry, dict)
        and isinstance(entry.get("peak_bytes"), int)
        and isinstance(entry.get("seconds", 0), int | float)
    }
