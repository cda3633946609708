"""What a report leaves out unless it is asked for: prompts, captions, and the names of images."""

import json
import re
from collections.abc import Iterable
from typing import Any

from onetrainer.config.fields import setting_at
from onetrainer.files.lines import split_lines
from onetrainer.files.own_json import NotOurs, parse_object
from onetrainer.model_files.hub import is_hub_name
from onetrainer.redaction import redact
from onetrainer.support.private_paths import IMAGE_SUFFIX, PrivatePaths

# Texts of the config that say how training was set up, and nothing about the images.
_SETTINGS = re.compile(
    r"output\.name|(method\.layers|hardware\.quantized_layers)\.\d+\.pattern"
    r"|data\.(concepts\.\d+\.)?captions\.\w*separator|objective\.rewards\.\d+\.(model|head)"
    r"|version|extends|(.*\.)?kind"
)
_PROMPTS = ("prompt", "prompts", "caption", "negative")
"""Keys of events whose values are prompts or captions."""
_SHORTEST = 3  # characters of a text that is replaced wherever it stands
_SUFFIX = re.compile(IMAGE_SUFFIX, re.IGNORECASE)
_NAME_ENDS = "\\/\"'“”:<>|(\n"
_LONGEST_NAME = 255
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*(?:"(\s*:)?|$)')
_OURS = re.compile(r"\s*(?:step-)?\d+(?:-\d+)*(?:-\w+)?(?:\.thumb)?\s*")


class PrivateText:
    """Replaces private texts by numbers, the same text always by the same one.

    keeps_prompts: Whether prompts, captions and names of images stay; tokens and names of users
    never do.
    """

    def __init__(self, *, keeps_prompts: bool = False) -> None:
        self._keeps = keeps_prompts
        self._paths = PrivatePaths()
        self._texts: dict[str, str] = {}
        self._images: dict[str, str] = {}

    def of_config(self, document: dict[str, Any]) -> str:
        """Return a config as JSON; its private texts are known from then on."""
        return self.of_text(_json(self._config(document, "")))

    def of_broken_config(self, text: str) -> str:
        """Return a text that was to be a config, without any text in quotes but keys."""
        return self._redacted(_QUOTED.sub(lambda found: found[0] if found[1] else '"<text>"', text))

    def of_events(self, lines: Iterable[str]) -> str:
        """Return lines of events."""
        return self.of_text("\n".join(map(self._line, lines)))

    def of_text(self, text: str) -> str:
        """Return a text without what is private in it."""
        if not self._keeps:
            known = sorted((key for key in self._texts if len(key) >= _SHORTEST), key=len)
            if known:
                words = "|".join(map(re.escape, reversed(known)))
                pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)")
                text = pattern.sub(lambda found: self._texts[found[0]], text)
            text = self._without_images(text)
        return self._redacted(text)

    def of_path(self, path: str) -> str:
        """Return a path below the run's folder, to be part of a text."""
        return self._paths.of_path(path)

    def _redacted(self, text: str) -> str:
        return self._paths.of_text(redact(text))

    def _config(self, value: object, path: str) -> object:
        match value:
            case dict():
                before = f"{path}." if path else ""
                return {key: self._config(inner, f"{before}{key}") for key, inner in value.items()}
            case list():
                return [self._config(inner, f"{path}.{at}") for at, inner in enumerate(value)]
            case str() if not self._keeps and _is_private(path):
                return self._replacement(value)
            case str() if _is_path(path) and not is_hub_name(value) and "://" not in value:
                return self._paths.of_path(redact(value))
        return value

    def _line(self, line: str) -> str:
        try:
            return json.dumps(self._event(parse_object(line, with_nan=True)), ensure_ascii=False)
        except NotOurs:
            return '{"type": "<damaged line>"}'

    def _event(self, value: object) -> object:
        match value:
            case dict():
                return {
                    key: self._prompts(inner)
                    if key in _PROMPTS and not self._keeps
                    else self._event(inner)
                    for key, inner in value.items()
                }
            case list():
                return [self._event(inner) for inner in value]
        return value

    def _prompts(self, value: object) -> object:
        match value:
            case str():
                return self._replacement(value)
            case list():
                return [self._prompts(inner) for inner in value]
        return self._event(value)

    def _replacement(self, private: str) -> str:
        if not private.strip():
            return private
        number = len(self._texts) + 1
        replacement = self._texts.setdefault(private, f"<text {number}>")
        for part in (*split_lines(private), json.dumps(private, ensure_ascii=False)[1:-1]):
            self._texts.setdefault(part.strip(), replacement)
        return replacement

    def _without_images(self, text: str) -> str:
        parts, done = [], 0
        for found in _SUFFIX.finditer(text):
            first = max(done, found.start() - _LONGEST_NAME)
            begin = max(text.rfind(end, first, found.start()) for end in _NAME_ENDS) + 1
            begin = max(begin, first)
            name = text[begin : found.start()]
            if not _OURS.fullmatch(name):
                name = self._images.setdefault(name, f"<image {len(self._images) + 1}>")
            parts += [text[done:begin], name, found[0]]
            done = found.end()
        return "".join([*parts, text[done:]])


def _is_private(path: str) -> bool:
    """Return whether a text of the config may tell something about the images."""
    setting = setting_at(path)
    is_free = setting is None or (setting.kind == "text" and not setting.ui.is_path)
    return is_free and not _SETTINGS.fullmatch(path)


def _is_path(path: str) -> bool:
    setting = setting_at(path)
    return setting is not None and setting.ui.is_path


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)
