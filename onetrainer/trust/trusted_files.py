"""Trusted files: the user-defined functions that the user has allowed to run.

Trust is stored per user, not per run or config, since a config may come from anybody: by the path
of the function's file and a digest of its content. A changed file must be trusted again. Modules
that the file imports are not checked; they run with it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import decode_source
from pathlib import Path
from typing import Literal

from onetrainer.errors import Problem, UserError
from onetrainer.run.run_folder import cannot_write, write_atomic
from onetrainer.run.user_folder import user_folder
from onetrainer.trust.function_file import UserFunction, find_function, read_bytes

TrustStatus = Literal["allowed", "unknown", "changed", "missing"]
FILE = "allowed-functions.json"


@dataclass(frozen=True)
class TrustCheck:
    """The trust status of a function, determined before any of it runs.

    Attributes:
        status: "changed" if another version of its file was trusted; "missing" if there is no such
            function.
        function: Its location; None if it is missing.
        error: The reason if it is missing.
        digest: A digest of all files that would run.
    """

    status: TrustStatus
    function: UserFunction | None = None
    error: UserError | None = None
    digest: str = ""


def check_trust(spec: str, *, store: Path | None = None) -> TrustCheck:
    """Return whether a function may run, and its location.

    Args:
        spec: "file.py:function" or "module:function".
        store: The file of trusted digests; None means the user's own.
    """
    try:
        function = find_function(spec)
        digest = _digest(_contents(function))
    except UserError as error:
        return TrustCheck("missing", error=error)
    trusted = _read(store or trust_file()).get(str(function.file))
    if trusted is None:
        return TrustCheck("unknown", function, digest=digest)
    return TrustCheck("allowed" if trusted == digest else "changed", function, digest=digest)


def status(spec: str, *, store: Path | None = None) -> TrustStatus:
    """Return a function's trust status."""
    return check_trust(spec, store=store).status


def trust_function(
    spec: str, *, expected_digest: str | None = None, store: Path | None = None
) -> bool:
    """Trust a function's files as long as they do not change.

    Args:
        spec: "file.py:function" or "module:function".
        expected_digest: The digest of the files that the user has seen; None means any.
        store: The file of trusted digests; None means the user's own.

    Returns:
        Whether the function is trusted: not if the digest differs.

    Raises:
        UserError: There is no such function, or the store cannot be written.
    """
    function = find_function(spec)
    digest = _digest(_contents(function))
    if expected_digest is not None and digest != expected_digest:
        return False
    file = store or trust_file()
    digests = {**_read(file), str(function.file): digest}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, (json.dumps(digests, indent=2) + "\n").encode())
    except OSError as error:
        raise cannot_write(file, error) from error
    return True


def trusted_code(spec: str, *, store: Path | None = None) -> tuple[UserFunction, tuple[bytes, ...]]:
    """Return a trusted function and the trusted bytes of each of its files.

    Running these bytes instead of the files leaves no time to change them in between, and ignores
    compiled files.

    Raises:
        UserError: The function is not trusted.
    """
    function = find_function(spec)
    contents = _contents(function)
    trusted = _read(store or trust_file()).get(str(function.file))
    if trusted is None or trusted != _digest(contents):
        raise _untrusted(function, "unknown" if trusted is None else "changed")
    return function, contents


def problem(spec: str, path: str, *, store: Path | None = None) -> Problem | None:
    """Return the problem of a setting whose function cannot run; None if it can."""
    checked = check_trust(spec, store=store)
    if checked.status == "allowed":
        return None
    error = checked.error
    if error is None and checked.function is not None:
        error = _untrusted(checked.function, checked.status)
    assert error is not None
    return Problem(path, error.what, error.expected, error.remedy)


def preview(spec: str, most: int = 20) -> str:
    """Return the first lines of the code that would run: the function's file, then its packages.

    Decoded as Python reads it, without characters that could hide others.

    Raises:
        UserError: There is no such function.
    """
    function = find_function(spec)
    lines = []
    for file, content in reversed([*zip(function.files, _contents(function), strict=True)]):
        lines += [f"# {file}:"] if len(function.files) > 1 else []
        lines += [_visible(line) for line in _decoded(content).splitlines()]
    left = len(lines) - most
    return "\n".join([*lines[:most], *([f"… {left} more lines"] if left > 0 else [])])


def trust_file() -> Path:
    """Return the path of this user's trusted digests."""
    return user_folder() / FILE


def _untrusted(function: UserFunction, status: TrustStatus) -> UserError:
    what = {
        "unknown": "this code is not trusted yet",
        "changed": "this file has changed since you trusted it",
    }[status]
    return UserError(
        f"{function.file}: {what}",
        f"The reward {function.name} runs code of this file with your permissions",
        "Read it; then allow it in the window when you start the run, or in a terminal with:"
        f' onetrainer allow "{function.module or function.file}:{function.name}"',
    )


def _contents(function: UserFunction) -> tuple[bytes, ...]:
    """Return the content of each file that would run."""
    return tuple(read_bytes(file) for file in function.files)


def _digest(contents: Sequence[bytes]) -> str:
    """Return the SHA-256 digest of all files that would run."""
    total = hashlib.sha256()
    for content in contents[:-1]:
        total.update(hashlib.sha256(content).digest())
    total.update(contents[-1])
    return total.hexdigest()


def _decoded(content: bytes) -> str:
    """Return source decoded as Python does, which may declare another encoding than UTF-8."""
    try:
        return decode_source(content)
    except (SyntaxError, UnicodeDecodeError):  # of a parent package; it could not run
        return content.decode("utf-8", errors="replace")


def _visible(line: str) -> str:
    """Return a line without characters that move the cursor or change the text direction."""
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in line)


def _read(file: Path) -> Mapping[str, str]:
    """Return the trusted digests; empty if the file is missing or damaged."""
    try:
        digests = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(digests, dict):
        return {}
    return {str(key): value for key, value in digests.items() if isinstance(value, str)}
