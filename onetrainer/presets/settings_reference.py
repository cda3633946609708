"""The reference of every setting as Markdown, for docs/settings.md."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from onetrainer.config.base.variants import KIND, as_section, default_kind, variants
from onetrainer.config.fields import Setting, settings
from onetrainer.config.problems import shown
from onetrainer.config.train import TrainConfig

INTRODUCTION = """\
# Settings

Every setting of a config, by its path as `--set` takes it. A preset file holds those that differ
from the defaults. Paths are relative to the file that names them. This page is made from the
program by `make docs`.

Some sections come in kinds: `optimizer.kind` chooses one, and each kind has settings of its own.
With `--set`, and in the window, another kind keeps what was set of the settings that both have.
"""
_HEAD = ("| Setting | Takes | Default | Meaning |", "|---|---|---|---|")
_KINDS_HEAD = ("| Kind | Name | What it is |", "|---|---|---|")


@dataclass(frozen=True)
class Row:
    """A setting as a line of a table. words: all of it but the default, which kinds may differ in.

    default: as it stands in the table. entries: the settings of each entry of a list.
    """

    path: str
    words: tuple[str, str]
    default: str
    entries: tuple["Row", ...] = ()


def render() -> str:
    """The whole page."""
    lines = [INTRODUCTION]
    for key, field in TrainConfig.model_fields.items():
        inner = as_section(field.annotation)
        if variants(field):
            lines += _union(key, field, depth=2)
        elif inner is not None:
            lines += _section(key, inner, depth=2)
    return "\n".join(lines)


def _section(path: str, section: type[BaseModel], *, depth: int) -> Iterator[str]:
    """A section that is always the same, and the sections in it."""
    yield from (f"{'#' * depth} {path}", "", _doc(section), "")
    yield from _table(_rows(path, section))
    yield from _inner(path, {"": section}, depth=depth)


def _union(path: str, field: FieldInfo, *, depth: int) -> Iterator[str]:
    """A section in kinds: what there is to choose, what several share, what is each one's own."""
    found = variants(field)
    words = " ".join((field.description or "").split())
    yield from (f"{'#' * depth} {path}", "", words, "")
    takes = f"Chosen by `{path}.{KIND}`; `{default_kind(field)}` if nothing is said."
    yield from (takes, "", *_KINDS_HEAD)
    chapters = {kind: _rows(path, section) for kind, section in found.items()}
    shared = _shared(list(chapters.values()))
    own = {
        kind: [row for row in rows if _key(row) not in shared] for kind, rows in chapters.items()
    }
    for kind, section in found.items():
        link = f"[`{kind}`](#{_anchor(path, kind)})"
        yield f"| {link} | {_title(kind, section)} | {_escaped(_doc(section))} |"
    yield ""
    if shared:
        yield from (f"What several kinds of {path} have:", "")
        yield from _table([_joined(rows) for rows in shared.values()])
    for kind, section in found.items():
        common = [row for row in chapters[kind] if _key(row) in shared]
        has = _has(common, is_all=not own[kind])
        yield from (f"{'#' * (depth + 1)} {path} {kind}", "", f"{_title(kind, section)} {has}", "")
        yield from _table(own[kind])
    yield from _inner(path, found, depth=depth)


def _has(common: list[Row], *, is_all: bool) -> str:
    """What a kind has of the settings that several have; the rest follows in a table."""
    defaults = (f" ({row.default})" if row.default else "" for row in common)
    names = [f"`{row.path}`{default}" for row, default in zip(common, defaults, strict=True)]
    if not names:
        return "has no settings." if is_all else "has these settings:"
    return f"has {', '.join(names)}{'.' if is_all else ', and these:'}"


def _inner(path: str, owners: Mapping[str, type[BaseModel]], *, depth: int) -> Iterator[str]:
    """The sections in the kinds of a section, each path once. owners: the kinds by their names."""
    for key in dict.fromkeys(key for owner in owners.values() for key in owner.model_fields):
        place = f"{path}.{key}"
        fields = {kind: o.model_fields[key] for kind, o in owners.items() if key in o.model_fields}
        first = next(iter(fields.values()))
        if variants(first):
            yield from _union(place, first, depth=depth + 1)
            continue
        parts = {kind: as_section(field.annotation) for kind, field in fields.items()}
        inner = {kind: part for kind, part in parts.items() if part is not None}
        if inner:
            yield from (f"{'#' * (depth + 1)} {place}", "", _doc(next(iter(inner.values()))), "")
            yield from _table(_merged({kind: _rows(place, part) for kind, part in inner.items()}))
            yield from _inner(place, inner, depth=depth + 1)


def _merged(chapters: Mapping[str, list[Row]]) -> list[Row]:
    """The rows of a section that differs a little between the kinds of the one around it."""
    having: dict[tuple[str, ...], list[str]] = {}
    rows: dict[tuple[str, ...], Row] = {}
    for kind, chapter in chapters.items():
        for row in chapter:
            rows.setdefault(_key(row), row)
            having.setdefault(_key(row), []).append(kind)
    return [
        row if len(having[key]) == len(chapters) else _only_of(row, having[key])
        for key, row in rows.items()
    ]


def _only_of(row: Row, kinds: list[str]) -> Row:
    listed = ", ".join(f"`{kind}`" for kind in kinds)
    return replace(row, words=(row.words[0], f"{row.words[1]} Only in {listed}."))


def _rows(path: str, section: type[BaseModel]) -> list[Row]:
    """The settings of a section itself."""
    inner = tuple(
        f"{path}.{key}."
        for key, field in section.model_fields.items()
        if variants(field) or as_section(field.annotation) is not None
    )
    found = settings(section, f"{path}.")
    return [_row(setting) for setting in found if not setting.path.startswith(inner)]


def _row(setting: Setting) -> Row:
    """A setting's line."""
    is_none = setting.default in ("", (), None) or setting.kind == "list"
    default = "" if is_none else f"`{shown(setting.default)}`"
    unit = f" {setting.ui.unit}" if setting.ui.unit and default else ""
    item = setting.item
    parts = settings(item, f"{setting.path}.0.") if item is not None else ()
    words = (setting.expected, setting.help + _only_with(setting))
    entries = tuple(_row(part) for part in parts)
    return Row(setting.path, words, default + unit, entries)


def _only_with(setting: Setting) -> str:
    if not setting.ui.only_with:
        return ""
    section = setting.path.rpartition(".")[0]
    pairs = (
        f"`{path if '.' in path else f'{section}.{path}'}` {_values(values)}"
        for path, values in setting.ui.only_with.items()
    )
    others = (f", or with `{path}` {_values(v)}" for path, v in setting.ui.or_with.items())
    return f" Has an effect only with {' and '.join(pairs)}{''.join(others)}."


def _values(values: tuple[str, ...]) -> str:
    return "set" if values == ("*",) else " or ".join(f"`{value}`" for value in values)


def _table(rows: list[Row]) -> Iterator[str]:
    if not rows:
        return
    yield from _HEAD
    for row in rows:
        yield _line(row)
    yield ""
    for row in rows:
        if row.entries:
            yield from (f"Each of `{row.path}`:", "", *_HEAD, *map(_line, row.entries), "")


def _line(row: Row) -> str:
    cells = (f"`{row.path}`", row.words[0], row.default, row.words[1])
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _shared(chapters: list[list[Row]]) -> dict[tuple[str, ...], list[Row]]:
    """The rows that several kinds have in the same words, by these."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in (row for rows in chapters for row in rows):
        found.setdefault(_key(row), []).append(row)
    return {key: rows for key, rows in found.items() if len(rows) > 1}


def _joined(rows: list[Row]) -> Row:
    """One line for several kinds' rows; the default only where they agree in it."""
    defaults = {row.default for row in rows}
    first = rows[0]
    default = first.default if len(defaults) == 1 else "by kind"
    return Row(first.path, first.words, default, first.entries)


def _key(row: Row) -> tuple[str, ...]:
    return (row.path, *row.words)


def _title(kind: str, section: type[BaseModel]) -> str:
    return str(getattr(section, "title", kind))


def _doc(section: type[BaseModel]) -> str:
    return " ".join((section.__doc__ or "").split())


def _anchor(path: str, kind: str) -> str:
    """The anchor that Markdown makes of the heading "optimizer.part kind"."""
    return f"{path.replace('.', '')}-{kind}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(render())
