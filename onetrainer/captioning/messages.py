"""What is said about results: what writing them would do, and what it did."""

from collections import Counter
from collections.abc import Iterator

from onetrainer.captioning.changes import Fate
from onetrainer.captioning.writing import Written
from onetrainer.errors import some_of
from onetrainer.jobs.caption_request import Makes

FATES: dict[Fate, str] = {
    "new": "New",
    "changed": "Changed",
    "same": "The same already",
    "kept": "Kept: your own",
    "empty": "Nothing found",
    "failed": "Cannot be read",
}
_MOST_NAMED = 3


def fate_texts(fates: Counter[Fate]) -> list[tuple[str, int]]:
    """Return what becomes of the images, and of how many."""
    return [(text, fates[fate]) for fate, text in FATES.items() if fates[fate]]


def written_lines(written: Written, makes: Makes) -> Iterator[str]:
    """Yield what was written, and what was not."""
    yield f"{written.files:,} {makes if written.files != 1 else makes[:-1]} written."
    if written.conflicts:
        names = some_of([path.name for path in written.conflicts], _MOST_NAMED)
        yield f"Not written, since another program changed them meanwhile: {names}."
    for reason in dict.fromkeys(reason for _, reason in written.failures):
        names = some_of([p.name for p, why in written.failures if why == reason], _MOST_NAMED)
        yield f"Not written ({reason.lower()}): {names}."


def taken_back_lines(written: Written) -> Iterator[str]:
    """Yield what was given back, and what was not."""
    noun = "file has" if written.files == 1 else "files have"
    yield f"{written.files:,} {noun} again what they held before."
    if written.conflicts:
        names = some_of([path.name for path in written.conflicts], _MOST_NAMED)
        yield f"Left as they are, since they were changed afterwards: {names}."
