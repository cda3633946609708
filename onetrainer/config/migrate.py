"""Config files of earlier versions, brought up to date."""

from collections.abc import Callable

from onetrainer.config.train import VERSION
from onetrainer.errors import UserError
from onetrainer.json_file import Document

# One step a version: MIGRATIONS[n] turns a document of version n into one of version n + 1.
MIGRATIONS: dict[int, Callable[[Document], Document]] = {}


def migrate(document: Document, *, source: str) -> Document:
    """The document in today's layout; a document without a version counts as today's.

    Raises UserError for a version that is newer than this program, or is no number.
    """
    version = document.get("version", VERSION)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise UserError(
            f"{source}: version {version!r} is not a config version",
            f"Expected a whole number from 1 to {VERSION}",
            "Remove the line, or restore the file.",
        )
    if version > VERSION:
        raise UserError(
            f"{source}: this file has config version {version}",
            f"This program knows versions up to {VERSION}",
            "Update the program, or save the preset from the version you have.",
        )
    for step in range(version, VERSION):
        document = MIGRATIONS[step](document)
    return {**document, "version": VERSION}
