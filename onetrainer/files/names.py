"""Names of files and folders that every system can have: runs are moved and shared."""

import os
import re
from pathlib import Path

from onetrainer.errors import UserError

_LEADS_OUT = re.compile(r"[\\:\x00]")
_RESERVED = re.compile(r'[/\\:*?"<>|\x00-\x1f]')
# Source: Microsoft, "Naming Files, Paths, and Namespaces"; also with an extension, in any case.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])", re.IGNORECASE)
_MAX_BYTES = 150
"""Of a name that is extended by numbers and extensions; file systems allow 255."""


def name_problem(name: str) -> str:
    """Return why not every system can have a file or folder of this name; "" if all can."""
    if not name.strip():
        return "it is empty"
    if found := _RESERVED.search(name):
        return f"it contains {found[0]!r}"
    if name[0].isspace() or name[-1].isspace() or name.endswith("."):
        return "it begins or ends with a space, or ends with a dot"
    if _DEVICE.fullmatch(stem := name.partition(".")[0].rstrip()):
        return f'"{stem}" is a device of Windows'
    if len(name.encode(errors="replace")) > _MAX_BYTES:
        return f"it is longer than {_MAX_BYTES} bytes"
    return ""


def is_inner_path(text: object) -> bool:
    """Return whether a text, read from a file, names something below a folder: "samples/1.png".

    Nothing that leads out of it on any system: no "..", no drive, stream or absolute path.
    """
    parts = text.split("/") if isinstance(text, str) else [""]
    return not any(part in ("", ".", "..") or _LEADS_OUT.search(part) for part in parts)


def is_plain_name(text: object) -> bool:
    """Return whether a text, read from a file, names something that is directly in a folder."""
    return isinstance(text, str) and "/" not in text and is_inner_path(text)


def require_portable(path: Path) -> None:
    """Raise UserError unless what is missing of a path can be created on every system."""
    path = Path(os.path.normpath(path.absolute()))
    for part in (path, *path.parents):
        # As a function, which finds no file of a name that is too long, where the method fails.
        if os.path.exists(part) or not part.name:  # noqa: PTH110
            return
        if problem := name_problem(part.name):
            raise UserError(
                f"{path}: not every system can have the name {part.name!r}: {problem}",
                "Expected a name that works on Windows, macOS and Linux",
                "Choose another name",
            )
