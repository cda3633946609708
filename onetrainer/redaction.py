"""Removal of tokens, user names and home folders from texts.

Tokens are in no message, event or log; the rest is removed from texts that leave this computer.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Compiled when they are first needed, since every command imports them: `re` remembers them.
_TOKENS = (
    # https://user:token@host, also as a path, which has one slash, or backslashes. Of a scheme only
    # the end is looked for: no text may make a search take a time that grows with its square.
    r"(?i)([a-z0-9+.-]{2}:[\\/]{2,4})[^\\/\s\"']+(?=@)",
    r"(?i)((?:https?|s?ftp|ssh|git|s3|socks\w{0,2}):[\\/])[^\\/\s\"']+(?=@)",
    r"(?i)([?&#;][\w-]*(?:token|key|auth|password|secret|signature|sig|credential)=)[^&\s\"'#]+",
    r"(?i)(\bbearer\s+)[\w.~+/=-]{8,}",
    r"(?i)(\bauthorization[\"']?\s*[:=]\s*[\"']?(?:basic|token)\s+)[^\s\"']+",
    r"(?i)((?<![\w-])--?(?:[a-z]+-)*(?:token|password|secret|api-key)[ =])[^\s\"']{6,}",
    r"(\b[A-Z_]*(?:TOKEN|_KEY|SECRET|PASSWORD)[\"']?\s*[:=]\s*[\"']?)[^\s\"',;]{6,}",  # variables
    # Only letters and digits: a folder may be called hf_realistic_vision.
    r"()\b(?:hf_|api_org_|gh[pousr]_|github_pat_)[A-Za-z0-9]{16}\w*",
    r"()\bAKIA[0-9A-Z]{16}\b",
    r"()\b(?:glpat|sk)-(?=[\w-]{0,99}\d)[\w-]{16,}",
)
"""Each matches what precedes a secret, as a group that stays, and the secret."""
_SEPARATOR = r"[\\/]{1,8}"  # also the doubled backslashes of JSON
_END = r"(?=[\\/\s\"'“”)\]>:,;]|$)"
_WORD = r"[^\\/\s\"'<>:,;]+"
_HOMES = (
    rf"(?im)((?:{_SEPARATOR}|^|(?<=[\s\"']))(?:home|Users|media){_SEPARATOR})"
    rf"(?:{_WORD}(?: {_WORD}){{0,2}}(?=[\\/])|{_WORD})"  # names may hold spaces
)
_SHORTEST_NAME = 3


def without_tokens(text: str) -> str:
    """Return a text with access tokens and passwords replaced by `<token>`."""
    for pattern in _TOKENS:
        text = re.sub(pattern, r"\1<token>", text)
    return text


def without_tokens_inside(value: Any) -> Any:  # noqa: ANN401 # JSON
    """Return JSON whose texts have no tokens.

    Text by text, as a replacement in the JSON itself could cut an escape sequence.
    """
    match value:
        case dict():
            return {key: without_tokens_inside(inner) for key, inner in value.items()}
        case list() | tuple():
            return [without_tokens_inside(inner) for inner in value]
        case str():
            return without_tokens(value)
    return value


def redact(text: str) -> str:
    """Return a text without tokens, home folders, and the names of users and this computer."""
    text = without_tokens(text)
    for pattern, replacement in _own_names():
        text = pattern.sub(replacement, text)
    return re.sub(_HOMES, r"\1<user>", text)


def _own_names() -> Iterator[tuple[re.Pattern[str], str]]:
    import getpass  # only here: errors import this module, and are imported by every command
    import platform

    home = Path.home()
    for place in {home, home.resolve()}:
        parts = [re.escape(part.strip("\\/")) for part in place.parts]
        if len(parts) > 1:  # not the root of a disk
            yield re.compile(_SEPARATOR.join(parts) + _END, re.IGNORECASE | re.MULTILINE), "~"
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in containers
        user = ""
    if len(user) >= _SHORTEST_NAME and user != "root":
        pattern = rf"(?<=[\\/]){re.escape(user)}{_END}|\b{re.escape(user)}(?=@)"
        yield re.compile(pattern, re.IGNORECASE | re.MULTILINE), "<user>"
    computer = platform.node()
    if len(computer) >= _SHORTEST_NAME and computer != "localhost":
        yield re.compile(rf"\b{re.escape(computer)}\b", re.IGNORECASE), "<computer>"
