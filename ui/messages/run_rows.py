"""Rows of the table of runs: texts, search, order, and what differs from the run before."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from onetrainer.config.fields import Setting
from onetrainer.files.lines import split_lines
from onetrainer.json_file import Document
from onetrainer.messages.formatting import format_moment
from onetrainer.messages.run_standing import standing_text
from onetrainer.run.known_runs import Progress, find_runs
from onetrainer.run.record import RunRecord
from ui.model.form_fields import display_text, find_setting
from ui.model.preset_changes import changes_between
from ui.model.preset_rows import family_text, method_text

STARRED, EVERYTHING = "Starred", "All runs"
TAG = "Tag: "
_NOTHING = "—"
# They differ between any two runs, or only describe one.
_IGNORED = ("version", "description", "notes", "output.name", "output.folder")
_MOST_OF_VALUE = 24


@dataclass(frozen=True)
class RunRow:
    """A run as it is listed.

    Attributes:
        base: The name that runs are compared under, without a number.
        kind: Family and method: "SD 1.5 · LoRA".
        before: The run of the same name before it, with which it is compared; None if there is
            none.
        difference: The settings that differ from it: "Learning rate 1e-4 → 3e-4".
        search: Everything that a search looks at, in lower case.
    """

    record: RunRecord
    base: str
    kind: str
    state: str
    before: str | None
    difference: str
    search: str

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.record.path

    @property
    def values(self) -> dict[str, str]:
        """The texts of the columns."""
        record, run = self.record, self.record.summary
        star = "* " if record.notes.is_starred else ""
        return {
            "name": f"{star}{record.name}",
            "kind": self.kind,
            "state": self.state,
            "length": f"{run.step:,} of {run.total_steps:,}" if run.total_steps else _NOTHING,
            "best": f"{record.best.loss:.4g}" if record.best else _NOTHING,
            "reward": f"{run.reward:.4g}" if run.reward is not None else _NOTHING,
            "when": format_moment(record.began),
            "difference": self.difference,
            "tags": ", ".join(record.notes.tags),
        }


# What a click on a heading orders by; runs without a value come last.
SORT_KEYS: Mapping[str, Callable[[RunRow], Any]] = {
    "name": lambda row: row.record.name.casefold(),
    "kind": lambda row: row.kind,
    "state": lambda row: row.state,
    "length": lambda row: -row.record.summary.step,
    "best": lambda row: row.record.best.loss if row.record.best else float("inf"),
    "reward": lambda row: -(row.record.summary.reward or float("-inf")),
    "when": lambda row: -row.record.began,
    "difference": lambda row: row.difference or "~",
    "tags": lambda row: row.record.notes.tags or ("~",),
}


def list_runs(
    parents: Sequence[Path],
    known: Mapping[Path, RunRow],
    progress: Progress = lambda *_: None,
) -> list[RunRow]:
    """Return the rows of all runs in some folders, the last one first.

    known: Rows of before; of runs that have not changed since, little is done again. progress:
    Called with how many are read, and of how many.
    """
    before_now = {path: row.record for path, row in known.items()}
    records = find_runs(*parents, known=before_now, progress=progress)
    latest: dict[tuple[Path, str], _Settings] = {}
    rows = []
    for record in reversed(records):
        row, settings = known.get(record.path), _Settings(record)
        same = row if row is not None and row.record is record else None
        group = record.path.parent, same.base if same else _base_name(settings)
        before, latest[group] = latest.get(group), settings
        is_same = same is not None and same.before == (before.record.name if before else None)
        rows.append(same if same and is_same else _row(settings, group[1], before))
    return rows[::-1]


def with_record(rows: Sequence[RunRow], changed: RunRecord) -> list[RunRow]:
    """Return the rows after a person's notes on one of the runs have changed."""
    return [
        _finished(changed, row.base, row.kind, row.before, row.difference)
        if row.path == changed.path
        else row
        for row in rows
    ]


def filtered(rows: Sequence[RunRow], text: str, choice: str) -> list[RunRow]:
    """Return the rows that contain every word; choice: STARRED, EVERYTHING, or TAG and a tag."""
    words = text.lower().split()
    return [
        row
        for row in rows
        if (choice != STARRED or row.record.notes.is_starred)
        and (not choice.startswith(TAG) or choice.removeprefix(TAG) in row.record.notes.tags)
        and all(word in row.search for word in words)
    ]


def filters(rows: Sequence[RunRow]) -> list[str]:
    """Return what rows can be filtered by."""
    tags = chain.from_iterable(row.record.notes.tags for row in rows)
    return [EVERYTHING, STARRED, *(f"{TAG}{tag}" for tag in sorted(set(tags), key=str.casefold))]


def setting_table(documents: Sequence[Document]) -> list[tuple[str, str, list[str]]]:
    """Return page, label and each config's value of the settings in which several differ.

    A value of several lines takes a row for each, the first of them with the label.
    """
    first, *others = documents
    found = [{c.path: c for c in changes_between(first, other)} for other in others]
    rows = []
    for path, change in chain.from_iterable(each.items() for each in found):
        values = [each[path].new if path in each else change.old for each in found]
        rows.append((change.page, change.label, [change.old, *values], path))
    unique = {path: (page, label, values) for page, label, values, path in rows}
    pages = list(dict.fromkeys(page for page, *_ in unique.values()))
    return [
        (page, "" if at else label, list(lines))
        for page, label, values in sorted(unique.values(), key=lambda row: pages.index(row[0]))
        for at, lines in enumerate(zip_longest(*(split_lines(v) for v in values), fillvalue=""))
    ]


class _Settings:
    """A run's settings, read when they are needed: of most runs they are not."""

    def __init__(self, record: RunRecord) -> None:
        self.record = record

    @cached_property
    def document(self) -> Document:
        return dict(self.record.settings)


def _base_name(run: _Settings) -> str:
    output = run.document.get("output")
    name = output.get("name") if isinstance(output, dict) else None
    return name if isinstance(name, str) else run.record.path.name.rpartition("-")[0]


def _row(run: _Settings, base: str, before: _Settings | None) -> RunRow:
    difference = _difference(before.document, run.document) if before else ""
    try:
        kind = f"{family_text(run.document)} · {method_text(run.document)}"
    except (TypeError, AttributeError):  # a file that is no config of ours
        kind = _NOTHING
    return _finished(run.record, base, kind, before.record.name if before else None, difference)


def _finished(
    record: RunRecord, base: str, kind: str, before: str | None, difference: str
) -> RunRow:
    notes, state = record.notes, standing_text(record.summary)
    own = (record.path.name, notes.label, notes.notes, *notes.tags)
    texts = (*own, str(record.path.parent), kind, state, difference)
    return RunRow(record, base, kind, state, before, difference, " ".join(texts).lower())


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the settings that differ, by their labels.

    Values that only one of the two has follow from a choice, which is listed.
    """
    parts = []
    for path, old, new in _changes(before, now):
        setting = _setting(path) if path not in _IGNORED else None
        if setting is not None and setting.ui.level != "hidden":
            parts.append(_change(setting, old, new))
    return "; ".join(parts) if parts or before != now else "same settings"


def _change(setting: Setting, old: object, new: object) -> str:
    if isinstance(new, list) or setting.ui.is_path:
        return f"{setting.ui.label} changed"
    texts = [display_text(value, setting)[:_MOST_OF_VALUE] or "empty" for value in (old, new)]
    return f"{setting.ui.label} {texts[1]} (was {texts[0]})"


def _changes(
    old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, object, object]]:
    """Yield path, old and new value where two documents differ; a list is one value."""
    for key, value in new.items() if old != new else ():
        before = old.get(key, value)
        if isinstance(before, dict) and isinstance(value, dict):
            yield from _changes(before, value, f"{prefix}{key}.")
        elif before != value and not isinstance(before, dict) and not isinstance(value, dict):
            yield f"{prefix}{key}", before, value


@cache
def _setting(path: str) -> Setting | None:
    return find_setting(path)
