"""Changes of many captions: planned, shown as a difference, and only then written."""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from onetrainer.captions.caption_file import CaptionError
from onetrainer.captions.caption_text import CaptionText, caption_change, read_caption_text
from onetrainer.edits.saving import Change, read_content
from ui.editing.image_list import ImageList
from ui.editing.image_rows import ImageRow

Edit = Callable[[str, ImageRow], str]
"""Returns another text for a caption of an image."""

PartKind = Literal["same", "removed", "added"]


@dataclass(frozen=True)
class PlannedChange:
    """One caption file that would change; name is that of its image."""

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    change: Change


@dataclass(frozen=True)
class BatchPlan:
    """What a batch would write. skipped: Names of images with the reason why they stay."""

    changes: tuple[PlannedChange, ...]
    skipped: tuple[tuple[str, str], ...] = ()


def plan_batch(
    images: ImageList,
    indices: Sequence[int],
    edit: Edit,
    read: Callable[[Path], bytes | None] = read_content,
) -> BatchPlan:
    """Return what a change of the captions of some images would write; reads their files anew.

    read: Returns what a file holds; may know of what is yet to be written.

    Raises UserError if the edit does.
    """
    changes: dict[Path, PlannedChange] = {}
    skipped: list[tuple[str, str]] = []
    for index in indices:
        row = images.rows[index]
        path = row.caption_path
        if path in changes:  # of two images of one name the file is the same
            continue
        if locked := images.caption_locked(row):
            skipped.append((row.name, locked))
            continue
        try:
            text = read_caption_text(path, read)
        except CaptionError as error:
            skipped.append((row.name, error.reason))
            continue
        before = caption_lines(images, row, text)
        after = tuple(line for each in before or ("",) if (line := edit(each, row).strip()))
        change = caption_change(text, after) if after != before else None
        if change is not None and change.before != change.after:
            changes[path] = PlannedChange(row.name, before, after, change)
    return BatchPlan(tuple(changes.values()), tuple(skipped))


def caption_lines(images: ImageList, row: ImageRow, text: CaptionText) -> tuple[str, ...]:
    """Return the captions of a file, which is one over several lines where these are joined."""
    if images.concept_of(row).captions.lines == "joined" and len(text.lines) > 1:
        return (" ".join(text.lines),)
    return text.lines


def differences(before: str, after: str) -> list[tuple[PartKind, str]]:
    """Return the parts of a text that stay, go and come, by words."""
    old, new = before.split(), after.split()
    parts: list[tuple[PartKind, str]] = []
    for tag, i, j, k, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            parts.append(("same", " ".join(old[i:j])))
            continue
        if i < j:
            parts.append(("removed", " ".join(old[i:j])))
        if k < end:
            parts.append(("added", " ".join(new[k:end])))
    return parts
