"""Writing of captions and masks, with a way back."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from onetrainer.captioning.changes import WRITTEN, Fate, Proposal
from onetrainer.captioning.own_files import notes_of, remember
from onetrainer.edits.history import Batch, BatchId, EditHistory
from onetrainer.edits.saving import Change, Saved, save, take_back
from onetrainer.files.atomic import write_atomic
from onetrainer.files.own_json import parse_json, typed
from onetrainer.run.run_folder import cannot_write

_MOST_WRITINGS = 50
_CLOCK_ERROR = 2.0  # seconds, of the times of files
_AT_ONCE = 2000
"""Files of one batch: masks are held in memory until theirs is written."""


@dataclass
class Written:
    """What became of the images: how many share each fate, and those that were not written.

    conflicts: Files that another program changed at the same moment. failures: Refused by the
    system, with its reason.
    """

    fates: Counter[Fate] = field(default_factory=Counter)
    files: int = 0
    conflicts: list[Path] = field(default_factory=list)
    failures: list[tuple[Path, str]] = field(default_factory=list)

    def add(self, saved: Saved) -> None:
        """Count a batch."""
        self.files += len(saved.written)
        self.conflicts += [change.path for change in saved.conflicts]
        self.failures += saved.failures


def write(
    proposals: Iterable[Proposal],
    images: Path,
    about: str,
    history: EditHistory,
    *,
    progress: Callable[[int], None] = lambda _: None,
) -> Written:
    """Write what is new or changed.

    Args:
        proposals: Of the images of a folder.
        images: That folder.
        about: What is done, for the history: "Captions by wd-swinv2-tagger-v3".
        history: The way back.
        progress: Called with the number of images that are done.

    Raises:
        UserError: If there can be no way back; nothing more is written then.
    """
    written, batches, waiting = Written(), list[BatchId](), iter(proposals)
    before = _batches(images, history)

    def note(batch: BatchId) -> None:  # first: what is broken off can be taken back, too
        batches.append(batch)
        _note_batches(images, [*before[-_MOST_WRITINGS:], batches])

    while chunk := list(islice(waiting, _AT_ONCE)):
        written.fates.update(proposal.fate for proposal in chunk)
        chosen = [proposal for proposal in chunk if proposal.fate in WRITTEN]
        # Before: what this leaves half done is told by its content.
        remember(images, [proposal.own for proposal in chosen if proposal.own])
        changes = [Change(each.path, each.before, each.after) for each in chosen]
        written.add(save(changes, about, history, begun=note))
        progress(written.fates.total())
    return written


def can_take_back(images: Path, history: EditHistory) -> int:
    """Return how many files of the last writing for a folder can be taken back."""
    return sum(batch.left for batch in _last(images, history))


def take_back_last(images: Path, history: EditHistory) -> Written:
    """Give the files of the last writing what they held before; those changed since stay.

    Called again, it goes on with the one before.
    """
    result = Written()
    for batch in _last(images, history):
        result.add(take_back(batch, history))
    return result


def _last(images: Path, history: EditHistory) -> list[Batch]:
    """Return the batches of the last writing that has files to take back, the newest first."""
    writings = _batches(images, history)
    noted = history.known(chain.from_iterable(writings))
    left = {batch.id: batch for batch in noted if batch.left}
    for batches in reversed(writings):
        if found := [left[each] for each in reversed(batches) if each in left]:
            return found
    return []


def _batches(images: Path, history: EditHistory) -> list[list[BatchId]]:
    """Return the batches of each writing."""
    place = notes_of(images, "batches")
    with suppress(OSError, ValueError, TypeError):
        writings = typed(parse_json(place.read_bytes()), list[list[Any]])
        numbers = [each for each in chain.from_iterable(writings) if isinstance(each, int)]
        if numbers:  # of an earlier version; a batch that is newer is another history's
            latest = place.stat().st_mtime + _CLOCK_ERROR
            known = {one.number: one.id for one in history.numbered(numbers) if one.time <= latest}
            return [[known[each] for each in batches if each in known] for batches in writings]
        return [[BatchId(int(number), float(time)) for number, time in each] for each in writings]
    return []


def _note_batches(images: Path, writings: list[list[BatchId]]) -> None:
    place = notes_of(images, "batches")
    try:
        write_atomic(place, json.dumps(writings).encode())
    except OSError as error:
        raise cannot_write(place, error) from error
