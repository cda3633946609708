"""Which of a person's own functions may be run: those whose very code they have said yes to.

Consent is kept by user, not by run or config, since a config may come from anybody: by the path of
the function's file, and by what the file held. A file that has changed asks again. What the file
imports is not looked at; it runs with it.
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
from onetrainer.trust.function_file import OwnFunction, find_function, read_bytes

Standing = Literal["allowed", "unknown", "changed", "missing"]
FILE = "allowed-functions.json"


@dataclass(frozen=True)
class Asked:
    """What is known of a function before any of it is run.

    standing: "changed" where another version of its file was allowed; "missing" where there is no
    such function, and then error tells why and function is None. digest: of all that would run.
    """

    standing: Standing
    function: OwnFunction | None = None
    error: UserError | None = None
    digest: str = ""


def ask(spec: str, *, store: Path | None = None) -> Asked:
    """Whether a function may be run, and where it is. store: the file of consents; None: the
    user's own.
    """
    try:
        function = find_function(spec)
        digest = _digest(_contents(function))
    except UserError as error:
        return Asked("missing", error=error)
    kept = _read(store or consent_file()).get(str(function.file))
    if kept is None:
        return Asked("unknown", function, digest=digest)
    return Asked("allowed" if kept == digest else "changed", function, digest=digest)


def status(spec: str, *, store: Path | None = None) -> Standing:
    """Whether a function may be run."""
    return ask(spec, store=store).standing


def allow(spec: str, *, seen: str | None = None, store: Path | None = None) -> bool:
    """Lets a function be run from now on, as long as its files stay what they are.

    seen: the digest of what was shown; of other files than those nothing is allowed. None for
    whatever is there. Gives whether it is allowed. Raises UserError where there is no such
    function, or the consent cannot be written.
    """
    function = find_function(spec)
    digest = _digest(_contents(function))
    if seen is not None and digest != seen:
        return False
    file = store or consent_file()
    consents = {**_read(file), str(function.file): digest}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, (json.dumps(consents, indent=2) + "\n").encode())
    except OSError as error:
        raise cannot_write(file, error) from error
    return True


def allowed_code(spec: str, *, store: Path | None = None) -> tuple[OwnFunction, tuple[bytes, ...]]:
    """A function that may be run, and the very bytes of each of its files that were allowed.

    Raises UserError where it may not. To run those bytes, not the files, leaves nobody time to
    change them in between, and passes by whatever Python has compiled of them before.
    """
    function = find_function(spec)
    contents = _contents(function)
    kept = _read(store or consent_file()).get(str(function.file))
    if kept is None or kept != _digest(contents):
        raise _refusal(function, "unknown" if kept is None else "changed")
    return function, contents


def problem(spec: str, path: str, *, store: Path | None = None) -> Problem | None:
    """Why a function cannot be run, as a config's problem; None where it can. path: its setting."""
    asked = ask(spec, store=store)
    if asked.standing == "allowed":
        return None
    error = asked.error
    if error is None and asked.function is not None:
        error = _refusal(asked.function, asked.standing)
    assert error is not None
    return Problem(path, error.what, error.expected, error.remedy)


def preview(spec: str, most: int = 20) -> str:
    """The first lines of what would run, to be shown to whoever is asked; UserError if none.

    The function's own file first, then the packages around it. As Python reads them, and without
    characters that would hide others.
    """
    function = find_function(spec)
    lines = []
    for file, content in reversed([*zip(function.files, _contents(function), strict=True)]):
        lines += [f"# {file}:"] if len(function.files) > 1 else []
        lines += [_visible(line) for line in _decoded(content).splitlines()]
    left = len(lines) - most
    return "\n".join([*lines[:most], *([f"… {left} more lines"] if left > 0 else [])])


def consent_file() -> Path:
    """Where this user's consents are kept."""
    return user_folder() / FILE


def _refusal(function: OwnFunction, standing: Standing) -> UserError:
    what = {
        "unknown": "you have not said yet that this code may be run",
        "changed": "this file has changed since you allowed it to be run",
    }[standing]
    return UserError(
        f"{function.file}: {what}",
        f"The reward {function.name} runs code of this file, with all of your rights",
        "Read it; then allow it where the window asks at the start, or in a terminal with:"
        f' onetrainer allow "{function.module or function.file}:{function.name}"',
    )


def _contents(function: OwnFunction) -> tuple[bytes, ...]:
    """What the files that would run hold."""
    return tuple(read_bytes(file) for file in function.files)


def _digest(contents: Sequence[bytes]) -> str:
    """SHA-256 over all that would run."""
    total = hashlib.sha256()
    for content in contents[:-1]:
        total.update(hashlib.sha256(content).digest())
    total.update(contents[-1])
    return total.hexdigest()


def _decoded(content: bytes) -> str:
    """Source as Python reads it, which may be told by its first lines to be no UTF-8."""
    try:
        return decode_source(content)
    except (SyntaxError, UnicodeDecodeError):  # of a package around it; it could not be run either
        return content.decode("utf-8", errors="replace")


def _visible(line: str) -> str:
    """A line in which no character moves the cursor, or turns the direction of what follows."""
    return "".join(one if one.isprintable() or one == "\t" else "\ufffd" for one in line)


def _read(file: Path) -> Mapping[str, str]:
    """The consents; none where the file is missing or damaged, so that it is asked again."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(key): value for key, value in found.items() if isinstance(value, str)}
