"""Edit captions: add, remove, rename and order tags, find and replace text.

Unlike `tags`, which arranges tags for one repeat, these keep what is written around the tags: a
keep separator stays where it is, and a caption whose tags do not change stays as it is.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from onetrainer.captions.patterns import pattern_errors
from onetrainer.captions.placeholder_tokens import token_key
from onetrainer.captions.tags import joining_separator, tag_separator
from onetrainer.config.data.captions import Captions
from onetrainer.errors import UserError

if TYPE_CHECKING:
    from regex import Pattern

TagOrder = Literal["alphabetical", "count"]
TagChange = Callable[[list[str]], list[str]]
"""Returns other tags for those of a caption, or of the part on one side of a keep separator."""

TIMEOUT_SECONDS = 1.0
"""Longest time that a pattern may take in one caption."""


@dataclass(frozen=True)
class TagFormat:
    """How tags are separated. mark: The keep separator, around which tags never move; or ""."""

    separator: str = ","
    joiner: str = ", "
    mark: str = ""


def tag_format(captions: Captions) -> TagFormat:
    """Return how a config separates tags."""
    return TagFormat(
        tag_separator(captions), joining_separator(captions), captions.keep_separator.strip()
    )


def tags_of(caption: str, form: TagFormat) -> list[str]:
    """Return the tags of a caption in order."""
    return [tag for part in _parts(caption, form) for tag in part]


def change_tags(caption: str, form: TagFormat, change: TagChange) -> str:
    """Return a caption with its tags changed; the same text if they stay."""
    before = _parts(caption, form)
    after = [change(list(part)) for part in before]
    return caption if after == before else _joined(after, form)


def add_tags(caption: str, form: TagFormat, tags: Sequence[str], *, is_first: bool) -> str:
    """Return a caption with tags added at its beginning or end, without those that it has."""
    parts = _parts(caption, form)
    known = {token_key(tag) for part in parts for tag in part}
    new = [tag for tag in tags if token_key(tag) not in known]
    if not new:
        return caption
    if is_first:
        parts[0] = [*new, *parts[0]]
    else:
        parts[-1] += new
    return _joined(parts, form)


def removing(tags: Iterable[str]) -> TagChange:
    """Return the change that removes tags."""
    keys = {token_key(tag) for tag in tags}
    return lambda some: [tag for tag in some if token_key(tag) not in keys]


def renaming(tags: Iterable[str], name: str) -> TagChange:
    """Return the change that gives tags another name; one caption has it only once."""
    keys = {token_key(tag) for tag in tags}

    def change(some: list[str]) -> list[str]:
        if not any(token_key(tag) in keys for tag in some):
            return some
        renamed = [name if token_key(tag) in keys else tag for tag in some]
        first = {token_key(tag): at for at, tag in reversed(list(enumerate(renamed)))}
        return [
            tag
            for at, tag in enumerate(renamed)
            if token_key(tag) != token_key(name) or first[token_key(tag)] == at
        ]

    return change


def moving_first(tags: Sequence[str]) -> TagChange:
    """Return the change that puts tags in front, in their given order, where a caption has them."""
    places = {token_key(tag): at for at, tag in enumerate(tags)}
    return lambda some: sorted(some, key=lambda tag: places.get(token_key(tag), len(places)))


def ordering(order: TagOrder, counts: Iterable[tuple[str, int]] = ()) -> TagChange:
    """Return the change that sorts tags by name, or by `count_tags`, the most frequent first."""
    number = {token_key(tag): -count for tag, count in counts}
    by_count = order == "count"
    return lambda some: sorted(
        some, key=lambda tag: (number.get(token_key(tag), 0) if by_count else 0, token_key(tag))
    )


@dataclass(frozen=True)
class TextSearch:
    """What to find in captions, and what to put there."""

    text: str
    replacement: str = ""
    matches_case: bool = False
    whole_words: bool = False
    is_pattern: bool = False


def replacing(search: TextSearch) -> Callable[[str], str]:
    r"""Return a function that replaces all matches in a text; \1 is a group of a pattern.

    Raises UserError if the pattern is invalid, and so does the function if it takes too long.
    """
    compiled = _compiled(search)
    replacement = (
        search.replacement if search.is_pattern else search.replacement.replace("\\", r"\\")
    )

    def replace(text: str) -> str:
        import regex

        try:
            return str(compiled.sub(replacement, text, timeout=TIMEOUT_SECONDS))
        except TimeoutError as error:
            raise UserError(
                f'the pattern "{search.text}" takes too long',
                "Expected one with few possible matches",
                "Use fewer of * and +",
            ) from error
        except (regex.error, IndexError) as error:
            raise _invalid(search.replacement, error) from error

    return replace


def _compiled(search: TextSearch) -> "Pattern[str]":
    import regex  # imported late, as in `patterns`

    if search.is_pattern:
        for _, _, reason in pattern_errors(search.text):
            raise _invalid(search.text, reason)
    text = search.text if search.is_pattern else regex.escape(search.text)
    if search.whole_words:
        text = rf"(?<!\w)(?:{text})(?!\w)"
    flags = regex.VERSION0 | (0 if search.matches_case else regex.IGNORECASE)
    try:
        return regex.compile(text, flags)
    except regex.error as error:
        raise _invalid(search.text, error) from error


def _invalid(text: str, error: Exception | str) -> UserError:
    return UserError(
        f'"{text}" cannot be used: {error}',
        "Expected a regular expression",
        "Correct it, or turn patterns off",
    )


def _parts(caption: str, form: TagFormat) -> list[list[str]]:
    """Return the tags in each part of a caption: without a keep separator there is one part."""
    parts = caption.split(form.mark) if form.mark else [caption]
    return [
        [tag for each in part.split(form.separator) if (tag := " ".join(each.split()))]
        for part in parts
    ]


def _joined(parts: Sequence[Sequence[str]], form: TagFormat) -> str:
    return f" {form.mark} ".join(form.joiner.join(part) for part in parts).strip()
