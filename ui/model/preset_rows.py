"""Rows of the preset picker: presets, the demos, runs and files, by what they are for."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from onetrainer.errors import UserError
from onetrainer.families.registry import FAMILIES, FAMILY_LABELS, family_spec
from onetrainer.json_file import Document, read_json
from onetrainer.messages.formatting import format_moment
from onetrainer.presets.find import Preset, find_presets, preset_name
from onetrainer.presets.forecasts import PresetForecast, settings_digest
from onetrainer.presets.presets import load_document, value_at
from onetrainer.run.history import run_folders
from ui.model.form_fields import find_setting
from ui.model.preset_origin import run_folder_of

RowKind = Literal["file", "yours", "demo", "built in", "run"]
Order = Literal["By family", "Least memory first", "Fastest first"]
ORDERS: tuple[Order, ...] = ("By family", "Least memory first", "Fastest first")
_GROUPS: Mapping[RowKind, str] = {
    "file": "Opened files",
    "yours": "Your presets",
    "demo": "Demos",
    "run": "Latest runs",
}
_MOST_RUNS = 30
# Listed first in each family.
RECOMMENDED = "lora"
_UNKNOWN = float("inf")
# The method says enough.
_PLAIN_OBJECTIVES = (None, "denoising", "reconstruction")
_ENDS = (". ", "; ", ": ")
_TITLES = "|".join(dict.fromkeys(re.escape(spec.title or spec.label) for spec in FAMILIES))
_FAMILY = re.compile(rf" (?:for|of) (?:{_TITLES})(?!'|\.\d)")
# Replacements of a family's name where something specific follows it.
_SHORTER = (
    (re.compile(rf"(?:{_TITLES}) base\b"), "the base model"),
    (re.compile(rf"(?:{_TITLES})'s"), "the"),
)


@dataclass(frozen=True)
class PresetRow:
    """A config that can be chosen.

    Attributes:
        group: The heading it is listed below: "SD 1.5", "Your presets".
        name: As it is listed: "lora-12gb".
        purpose: What it is for, in a few words.
        digest: Of its settings; "" if they cannot be read.
        problem: Why it cannot be used; "" if it can.
    """

    preset: Preset
    kind: RowKind
    group: str
    name: str
    purpose: str
    family: str = ""
    method: str = ""
    digest: str = ""
    problem: str = ""

    @property
    def path(self) -> Path:
        """Its file."""
        return self.preset.path

    def matches(self, words: Iterable[str]) -> bool:
        """Return whether it contains every word, which are in lower case."""
        preset, about = self.preset, (self.group, self.name, self.family, self.method)
        text = " ".join((*about, preset.name, preset.description, preset.notes)).lower()
        return all(word in text for word in words)


def list_rows(demo: Path, runs: Sequence[Path], files: Sequence[Path]) -> list[PresetRow]:
    """Return all rows in their order; the recommended preset of each family is its first.

    Args:
        demo: Folder of the demo, which need not exist.
        runs: Folders of runs, which need not exist.
        files: Config files that the user has opened.
    """
    found = find_presets()
    own = sorted((preset for preset in found if preset.origin == "yours"), key=_by_name)
    rows = [_row(preset, "yours") for preset in own]
    rows += _built_in(preset for preset in found if preset.origin == "built in")
    rows += [_row(preset, "demo") for preset in _demos(demo)]
    rows += [_row(preset, "run") for preset in _runs(runs)]
    known = {row.path for row in rows}
    others = [path for path in files if path not in known and path.exists()]
    return [*(_row(_file_preset(path), "file") for path in others), *rows]


def arranged(
    rows: Iterable[PresetRow], order: Order, forecasts: Mapping[str, PresetForecast]
) -> list[PresetRow]:
    """Return rows in an order; those without a forecast are last."""

    def cost(row: PresetRow) -> float:
        known = forecasts.get(row.digest)
        figure = known and (known.seconds if order == "Fastest first" else known.peak_bytes)
        return figure or _UNKNOWN

    return list(rows) if order == "By family" else sorted(rows, key=cost)


def _row(preset: Preset, kind: RowKind) -> PresetRow:
    name, purpose = preset.name, preset.description
    group = _GROUPS.get(kind, "")
    if kind == "built in":
        folder, _, name = preset.name.partition("/")
        group, purpose = FAMILY_LABELS.get(folder, folder), _without_family(purpose)
    row = PresetRow(preset, kind, group, name, _summary(purpose))
    if kind == "demo" and not preset.path.exists():
        return row  # it is created when it is chosen
    try:
        document = load_document(preset.path)
    except UserError as error:
        return replace(row, problem=str(error))
    family, method = family_text(document), method_text(document)
    return replace(row, family=family, method=method, digest=settings_digest(document))


def method_text(document: Document) -> str:
    """Return what a config trains, and for what if that is special: "LoRA · AlignProp"."""
    method, objective = _label(document, "method.kind"), _label(document, "objective.kind")
    if value_at(document, "objective.kind") not in _PLAIN_OBJECTIVES:
        method = f"{method} · {objective.partition(' (')[0]}"
    return method


def family_text(document: Document) -> str:
    """Return the label of the base model's family, without its specialization."""
    label = _label(document, "model.family")
    spec = next((spec for spec in FAMILIES if spec.label == label), None)
    return family_spec(spec.base).label if spec and spec.base else label


def _label(document: Document, path: str) -> str:
    setting = find_setting(path)
    assert setting is not None
    value = value_at(document, path)
    return setting.choice_label(setting.default if value is None else value)


def _file_preset(path: Path) -> Preset:
    run = run_folder_of(path)
    name, description, notes = run.name if run else preset_name(path), "", ""
    with suppress(UserError):
        document = read_json(path)
        description, notes = (str(document.get(key, "")) for key in ("description", "notes"))
    return Preset(name, path, description, "yours", notes)


def _built_in(presets: Iterable[Preset]) -> list[PresetRow]:
    rows = [_row(preset, "built in") for preset in presets]
    families = list(FAMILY_LABELS.values())
    return sorted(
        rows,
        key=lambda row: (
            families.index(row.group) if row.group in families else len(families),
            row.name != RECOMMENDED,
            _by_name(row.preset),
        ),
    )


def _demos(folder: Path) -> list[Preset]:
    """Return the demo, and its other configs that can be read."""
    about = "A tiny model and its images, created on this computer and ready to start."
    found = [Preset("demo", folder / "demo.json", about, "built in")]
    for path in sorted(folder.glob("demo-*.json")):
        with suppress(UserError):
            description = str(read_json(path).get("description", ""))
            found.append(Preset(path.stem, path, description, "built in"))
    return found


def _runs(folders: Sequence[Path]) -> list[Preset]:
    """Return the configs of the latest runs, the last one first."""
    found = []
    for run in run_folders(*folders):
        with suppress(OSError):  # it was deleted a moment ago
            if run.is_run():
                found.append((run.config.stat().st_mtime, run))
    found.sort(key=lambda pair: pair[0], reverse=True)
    return [
        Preset(
            run.name,
            run.config,
            f"Run of {format_moment(changed)}",
            "yours",
        )
        for changed, run in found[:_MOST_RUNS]
    ]


def _without_family(description: str) -> str:
    """Return a description without the name of the family: "LoRA at 512 px. …"."""
    for pattern, replacement in _SHORTER:
        description = pattern.sub(replacement, description)
    return _FAMILY.sub("", description, count=1)


def _summary(description: str) -> str:
    """Return the first part of a description: "LoRA for SD 1.5 at 512 px"."""
    ends = [place for place in (description.find(end) for end in _ENDS) if place > 0]
    return description[: min(ends)] if ends else description.rstrip(".")


def _by_name(preset: Preset) -> tuple[tuple[str, int], ...]:
    """Return a sort key with numeric parts as numbers: 8gb before 12gb."""
    parts = re.findall(r"(\D*)(\d*)", preset.name.casefold())
    return tuple((text, int(digits or 0)) for text, digits in parts)
