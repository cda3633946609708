"""Placeholder tokens of textual inversion: find them in captions."""

import re
from collections.abc import Collection, Iterable, Sequence


def token_key(token: str) -> str:
    """Return the form in which tokens are compared: CLIP ignores case and repeated spaces."""
    return " ".join(token.lower().split())


def missing_tokens(captions: Iterable[str], tokens: Sequence[str]) -> list[str]:
    """Return the tokens that no caption contains."""
    keys = [token_key(token) for token in tokens]
    found = {key for caption in captions for key in split_at_tokens(caption, keys)[1::2]}
    return [token for token in tokens if token_key(token) not in found]


def split_at_tokens(caption: str, tokens: Collection[str]) -> list[str]:
    """Return the caption's text and the keys of the tokens in it, alternating."""
    if not tokens:
        return [caption]
    # The longest first, as one may begin another: "cat" and "cat 2".
    keys = sorted(tokens, key=len, reverse=True)
    patterns = (r"\s+".join(map(re.escape, key.split())) for key in keys)
    spelled = "|".join(f"({pattern})" for pattern in patterns)
    parts, end = [], 0
    for match in re.finditer(rf"(?<!\w)(?:{spelled})(?!\w)", caption, flags=re.IGNORECASE):
        assert match.lastindex, "one of the groups has matched"
        parts += [caption[end : match.start()], keys[match.lastindex - 1]]
        end = match.end()
    return [*parts, caption[end:]]
