"""Write captions and masks with a way back, and never over what another program has written.

Each batch of changes is in the history, and on the disk, before the first file is written, so that
it can be taken back whole or by file, also after a crash in the middle of it.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from onetrainer.edits.history import Batch, BatchId, EditHistory
from onetrainer.files.atomic import remove_leftovers, replace_file, sync_folder
from onetrainer.files.inside import open_ordinary

Progress = Callable[[int, int], None]
"""Called with (files done, total)."""
Begun = Callable[[BatchId], None]
"""Called with the batch in the history, before its first file is written."""

READ_ONLY = "it is read-only"
LEADS_OUT = "it is a link that leads out of its folder, to"
TAKE_BACK = "Take back: "


@dataclass(frozen=True)
class Change:
    """A change of one file.

    before: What it held when it was read; None if there was no such file.
    after: What it should hold; None removes it.
    """

    path: Path
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True)
class Saved:
    """What became of a batch of changes.

    Attributes:
        batch: Number of the batch in the history; None if no file was written.
        written: Files that were written or removed.
        conflicts: Changes of files that differ from what was read. None of them was written; after
            a person's consent, `save` them with `as_now`.
        failures: Files that the system refused to write, with its reason; they are as before.
    """

    batch: int | None = None
    written: tuple[Path, ...] = ()
    conflicts: tuple[Change, ...] = ()
    failures: tuple[tuple[Path, str], ...] = ()


def read_content(path: Path) -> bytes | None:
    """Return what a file holds; None if there is no such file. Raises OSError."""
    try:
        with open_ordinary(path) as file:
            return file.read()
    except FileNotFoundError:
        return None


def as_now(change: Change) -> Change:
    """Return a change that replaces what the file holds now. Raises OSError."""
    return replace(change, before=read_content(change.path))


def save(
    changes: Iterable[Change],
    about: str,
    history: EditHistory,
    *,
    progress: Progress | None = None,
    begun: Begun | None = None,
) -> Saved:
    """Write those changes whose files are as they were read.

    A change of nothing is left out. Of a link its target is written, and the link stays.

    about: What was done, for a person: "Replace cat by dog". Raises UserError if the history cannot
    be written, and then writes no file.
    """
    return _save(changes, about, history, progress=progress, begun=begun)


def take_back(
    batch: Batch,
    history: EditHistory,
    paths: Collection[Path] | None = None,
    *,
    progress: Progress | None = None,
) -> Saved:
    """Give the files of a batch the contents from before it: all of them, or some.

    Files that have changed since are conflicts. They, and those that hold it already, count as
    taken back from then on: the next taking back is about what was saved before. It is a batch of
    its own; taking that back is to redo what was done. Raises UserError as `save`.
    """
    changes, conflicts, as_before = [], [], []
    for path, before, after in history.changes(batch):
        if paths is not None and path not in paths:
            continue
        change = Change(path, after, before)
        try:
            now = read_content(path)
        except OSError:
            now = after  # writing it fails as well, which is reported
        if now == after:
            changes.append(change)
        elif now == before:
            as_before.append(path)
        else:
            conflicts.append(change)
    is_redo = batch.undoes is not None
    about = batch.about.removeprefix(TAKE_BACK) if is_redo else f"{TAKE_BACK}{batch.about}"
    passed = [*as_before, *(change.path for change in conflicts)]
    saved = _save(changes, about, history, of=batch, passed=passed, progress=progress)
    return replace(saved, conflicts=(*conflicts, *saved.conflicts))


def _save(
    changes: Iterable[Change],
    about: str,
    history: EditHistory,
    *,
    of: Batch | None = None,
    passed: Collection[Path] = (),
    progress: Progress | None = None,
    begun: Begun | None = None,
) -> Saved:
    """Write changes. passed: Files that are stepped over in taking back the batch `of`."""
    with history.locked():
        ready, conflicts, failures = _sorted_out(changes)
        if not (ready or passed):
            return Saved(None, (), tuple(conflicts), tuple(failures))
        contents = [(change.path, change.before, change.after) for change in ready]
        contents += [(path, None, None) for path in passed]
        batch = history.add(about, contents, of=of)
        if begun:
            begun(batch)
        folders = {change.path.parent for change in ready}
        for folder in folders:
            remove_leftovers(folder)
        written: list[Path] = []
        for done, change in enumerate(ready):
            if progress:
                progress(done, len(ready))
            try:
                if read_content(change.path) != change.before:
                    conflicts.append(change)
                    continue
                _write(change)
                written.append(change.path)
            except OSError as error:
                failures.append((change.path, error.strerror or str(error)))
        for folder in folders:
            with suppress(OSError):  # not on every network drive; the files are there
                sync_folder(folder)
        history.keep_only(batch.number, [*written, *passed])
        return Saved(
            batch.number if written else None, tuple(written), tuple(conflicts), tuple(failures)
        )


def _sorted_out(
    changes: Iterable[Change],
) -> tuple[list[Change], list[Change], list[tuple[Path, str]]]:
    """Return the changes that can be written, those of other contents, and refused files."""
    ready: dict[Path, Change] = {}
    conflicts: list[Change] = []
    failures: list[tuple[Path, str]] = []
    for change in changes:
        if change.before == change.after:
            continue
        path = change.path.resolve()
        if path in ready:
            raise ValueError(f"two changes of {path}")
        try:
            now = read_content(path)
            if path.parent != change.path.parent.resolve():
                failures.append((change.path, f"{LEADS_OUT} {path.parent}"))
            elif now is not None and not _is_writable(path):
                failures.append((change.path, READ_ONLY))
            elif now != change.before:
                conflicts.append(change)
            else:
                ready[path] = replace(change, path=path)
        except OSError as error:
            failures.append((change.path, error.strerror or str(error)))
    return list(ready.values()), conflicts, failures


def _is_writable(path: Path) -> bool:
    """Return whether a file may be written; to replace it needs a permission of its folder only."""
    return bool(path.stat().st_mode & 0o222)


def _write(change: Change) -> None:
    if change.after is None:
        change.path.unlink()
        return
    change.path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(change.path, change.after)
