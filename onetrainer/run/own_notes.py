"""What a person writes about a run: label, notes, tags and star, in one file in its folder.

The worker neither reads nor writes the file, so a run may be running meanwhile; the folder keeps
its name, so whatever refers to it still finds it.
"""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from onetrainer.files.atomic import write_atomic
from onetrainer.files.own_json import read_own, set_aside
from onetrainer.run.run_folder import RunFolder, cannot_write

MOST_CHARACTERS = 10_000
"""Of the notes; more is cut off."""
_MOST_OF_A_NAME = 100


@dataclass(frozen=True)
class OwnNotes:
    """Notes of a person's own. label: The run's name in lists; "" for that of its folder."""

    label: str = ""
    notes: str = ""
    tags: tuple[str, ...] = ()
    is_starred: bool = False


def split_tags(text: str) -> tuple[str, ...]:
    """Return the tags of a text, which are divided by commas; each once, in their order."""
    tags = (" ".join(tag.split())[:_MOST_OF_A_NAME] for tag in text.split(","))
    return tuple(dict.fromkeys(tag for tag in tags if tag))


def read_notes(folder: RunFolder) -> OwnNotes:
    """Return the notes on a run; what is sound of them; empty ones where there is no file."""
    lost = "the rest counts as not written"
    found = read_own(folder.notes, OwnNotes, OwnNotes(), lost=lost, is_of_run=True)
    return OwnNotes(
        found.label[:_MOST_OF_A_NAME],
        found.notes[:MOST_CHARACTERS],
        split_tags(",".join(found.tags)),
        found.is_starred,
    )


def change_notes(folder: RunFolder, **changes: Any) -> OwnNotes:  # noqa: ANN401 # OwnNotes' fields
    """Change some of the notes, leaving what another window has written, and return them all.

    Raises UserError if they cannot be written, or the folder is gone.
    """
    notes = replace(read_notes(folder), **changes)
    notes = replace(notes, label=" ".join(notes.label.split())[:_MOST_OF_A_NAME])
    content = json.dumps(asdict(notes), ensure_ascii=False, indent=2) + "\n"
    try:
        folder.path.stat()  # a folder that was deleted meanwhile is not made again
        set_aside(folder.notes, OwnNotes)
        write_atomic(folder.notes, content.encode())
    except OSError as error:
        raise cannot_write(folder.notes, error) from error
    return notes
