"""Trusted files: the user-defined functions that the user trusts to run.

Trust is stored per user, not per run or config, since a config may come from anybody: by the path
of the function's file and a digest of its content and of what it imports from beside it. A changed
file must be trusted again. Installed packages are not checked. What a run does outside its folder
is confirmed in the same file, a line each.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib.util import decode_source
from typing import Literal

from onetrainer import program
from onetrainer.errors import Problem, UserError
from onetrainer.files.atomic import write_atomic
from onetrainer.files.lines import split_lines
from onetrainer.files.locks import locked
from onetrainer.files.own_json import read_own
from onetrainer.run.run_folder import cannot_write
from onetrainer.run.user_folder import user_folder
from onetrainer.trust.function_file import UserFunction, find_function

TrustStatus = Literal["trusted", "unknown", "changed", "missing"]
PERMISSIONS = "with your permissions: it can read, change, delete and send everything that you can"
FILE = "allowed-functions.json"  # an older name, so that what was trusted then still is
CODE_COLUMN = 6  # of the code beside its line numbers, in the preview
_LOCK_WAIT = 10.0  # seconds, for another window or terminal that trusts a file


def status(spec: str) -> TrustStatus:
    """Return the trust status of a function.

    "changed" if another version of its file was trusted; "missing" if there is no such function.
    """
    try:
        return status_of(find_function(spec))
    except UserError:
        return "missing"


def status_of(function: UserFunction) -> TrustStatus:
    """Return whether the code of a function is trusted."""
    trusted = _trusted_digests().get(str(function.file))
    if trusted is None:
        return "unknown"
    return "trusted" if trusted == _digest(function) else "changed"


def trust(function: UserFunction) -> None:
    """Trust a function's files as long as they hold the code that was read.

    Raises UserError if this cannot be stored.
    """
    _store({str(function.file): _digest(function)})


def is_confirmed(effect: str) -> bool:
    """Return whether a person has confirmed what a run does outside its folder, a line of text."""
    return _key(effect) in _trusted_digests()


def confirm(effects: Iterable[str]) -> None:
    """Remember lines that a person has confirmed. Raises UserError if this cannot be stored."""
    _store({_key(effect): "confirmed" for effect in effects})


def trusted_function(spec: str) -> UserFunction:
    """Return a trusted function, with its code.

    Running this code instead of the files leaves no time to change them in between, and ignores
    compiled files.

    Raises:
        UserError: The function does not exist or is not trusted.
    """
    function = find_function(spec)
    found = status_of(function)
    if found == "trusted":
        return function
    what = "this code is not trusted yet"
    if found == "changed":
        what = "this file has changed since you trusted it"
    place = function.modules[-1] or function.file
    raise UserError(
        f"{function.file}: {what}",
        f"{function.name} runs code of this file with your permissions",
        "Read it; then trust it in the window when you start the run, or in a terminal with:"
        f' {program()} trust "{place}:{function.name}"',
    )


def problem(spec: str, path: str) -> Problem | None:
    """Return the problem of a setting whose function cannot run; None if it can."""
    try:
        trusted_function(spec)
    except UserError as error:
        return Problem(path, error.what, error.expected, error.remedy)
    return None


def preview(function: UserFunction) -> str:
    """Return all code that would run: the function's file, then its imports and packages.

    Lines are numbered in each file; their text begins at column `CODE_COLUMN`.

    Decoded as Python reads it, without characters that could hide others.
    """
    lines: list[str] = []
    for file, content in reversed([*zip(function.files, function.contents, strict=True)]):
        if len(function.files) > 1:
            lines += [*([""] if lines else []), f"# {file}:"]
        try:
            text = decode_source(content)  # may declare another encoding than UTF-8
        except (SyntaxError, UnicodeDecodeError):  # of a parent package; it could not run
            text = content.decode("utf-8", errors="replace")
        for number, line in enumerate(split_lines(text) or [""], start=1):
            shown = "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in line)
            lines.append(f"{number:>{CODE_COLUMN - 2}}  {shown}".rstrip())
    return "\n".join(lines)


def _digest(function: UserFunction) -> str:
    """Return the SHA-256 digest of all code that would run."""
    *parents, own = function.contents
    total = hashlib.sha256()
    if function.imports:  # files that import nothing have the digest of earlier versions
        parents.append(json.dumps(function.modules).encode())
    for content in parents:
        total.update(hashlib.sha256(content).digest())
    total.update(own)
    return total.hexdigest()


def _key(effect: str) -> str:
    return f"effect {hashlib.sha256(effect.encode(errors='surrogatepass')).hexdigest()}"


def _store(entries: Mapping[str, str]) -> None:
    file = user_folder() / FILE
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with locked(file.with_name(f"{FILE}.lock"), wait=_LOCK_WAIT):
            digests = {**_trusted_digests(), **entries}
            write_atomic(file, (json.dumps(digests, indent=2) + "\n").encode())
    except OSError as error:
        raise cannot_write(file, error) from error


def _trusted_digests() -> Mapping[str, str]:
    """Return this user's trusted digests by file; empty if there are none or they are damaged."""
    return read_own(user_folder() / FILE, dict[str, str], {}, lost="the rest is not trusted")
