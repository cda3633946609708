"""Prompts from the command line and from files, and what in them would be misread."""

import re
from collections.abc import Iterable
from pathlib import Path

from onetrainer.errors import UserError

MAX_TEXT = 4000  # characters
# How AUTOMATIC1111's web UI calls up LoRAs from within a prompt.
_CALL = re.compile(r"<(?:lora|lyco):(?P<name>[^:<>]+)(?::(?P<strength>[^:<>]*))?[^<>]*>")


def read_prompts(path: Path, *, place: str = "--prompts") -> list[str]:
    """One prompt a line, without empty lines and comments.

    place: the option or setting that names the file. Raises UserError where it cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError as error:
        raise _unreadable(path, place, "there is no such file") from error
    except IsADirectoryError as error:
        raise _unreadable(path, place, "this is a folder") from error
    except OSError as error:
        raise _unreadable(
            path, place, f"this cannot be read ({error.strerror or error})"
        ) from error
    except ValueError as error:
        raise _unreadable(path, place, "this is not a text file in UTF-8") from error
    stripped = [line.strip() for line in lines]
    found = [line for line in stripped if line and not line.startswith("#")]
    if "\0" in "".join(found):
        raise _unreadable(path, place, "this is not a text file")
    return found


def require_prompts(place: str, texts: Iterable[str]) -> None:
    """Raises UserError for texts too long, and for LoRAs called up by their words."""
    for text in texts:
        if len(text) > MAX_TEXT:
            raise UserError(
                f"{place}: a text of {len(text):,} characters is not allowed here",
                f"Expected at most {MAX_TEXT:,}",
                "Shorten it",
            )
        if call := _CALL.search(text):
            strength = f":{call['strength']}" if call["strength"] else ""
            raise UserError(
                f"{place}: {call[0]} would be read as plain words",
                "LoRAs are named beside the prompt, by their files",
                f"Take it out of the prompt and use --lora {call['name']}.safetensors{strength}",
            )


def _unreadable(path: Path, place: str, what: str) -> UserError:
    return UserError(
        f"{path}: {what}",
        "A text file in UTF-8 with a prompt on each line was expected",
        f"Choose another file as {place}",
    )
