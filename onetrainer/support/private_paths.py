"""The names of a person's folders, replaced by numbers wherever a path has them.

A folder is often called by a person's name. What stays says what failed: the name of a file, where
in this program or a library it is, and folders that every system or every run has.
"""

import re

_PUBLIC = (
    *("home", "users", "media", "mnt", "usr", "opt", "var", "tmp", "etc", "volumes", "run", "lib"),
    *("lib64", "bin", "srv", "dev", "proc", "sys", "root", "local", "share", "program files"),
    *("appdata", "roaming", "data", "images", "models", "pictures", "photos", "training"),
    *("dataset", "datasets", "runs", "configs", "presets", "unet", "vae", "tokenizer"),
    *("scheduler", "samples", "checkpoints", "output", "validation", "rewards", "start"),
    *("exported", "masks", "huggingface", "hub", "cache", "snapshots", "blobs"),
)
"""Folders that everybody has, and words that stand in events and settings as well."""
_OURS = re.compile(r"\.{1,2}|~|[A-Za-z]:|<[^>]*>|step-\d+(\.\w+)?|python3\.\d+|")
_CODE = re.compile(r"site-packages|dist-packages|python3\.\d+|modules|onetrainer|ui")
_FILE = re.compile(r".*\.[A-Za-z]\w{0,11}")
IMAGE_SUFFIX = r"\.(?:png|jpe?g|webp|bmp|gif|tiff?|avif|heic|jxl|txt)(?![\w.])"
"""Also of the captions beside them."""
_SEPARATOR = r"(?:\\{1,4}|/+)"
_WORD = r"[^\\/\s\"'“”<>|:*?,;()\[\]{}]+"
_NAME = (  # may hold spaces, before a separator or the suffix of an image
    rf"(?:{_WORD}(?: {_WORD}){{0,3}}(?={_SEPARATOR})|{_WORD}(?: {_WORD}){{0,7}}{IMAGE_SUFFIX}"
    rf"|{_WORD}|<[\w ]+>)"
)
_ROOT = (
    r"(?:file:/{2,3}(?:[A-Za-z]:)?|(?<![\w:])[A-Za-z]:(?=[\\/])|~(?=[\\/])"
    r"|(?<![\w:/.<>~-])(?=/)|(?<![\w\\])(?=\\{2,4}\w))"
)
_PATH = re.compile(rf"({_ROOT})((?:{_SEPARATOR}{_NAME})+{_SEPARATOR}?)")
_QUOTED = re.compile(rf"(?<=[\"'“])({_ROOT})({_SEPARATOR}[^\"'“”\n<>|*?]+)(?=[\"'”])")
_PARTS = re.compile(rf"({_SEPARATOR})")
_SHORTEST = 3  # characters of a name that is replaced wherever a path has it


class PrivatePaths:
    """Replaces names of folders, the same name always by the same number."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def of_path(self, path: str) -> str:
        """Return a path, relative or not, without the names of its folders; known from then on."""
        parts = _PARTS.split(path)
        names, last = parts[:-1:2], parts[-1]
        if not _FILE.fullmatch(last):  # a folder itself
            names, last = [*names, last], ""
        first = self._first_public(names, is_code=last.endswith((".py", ".pyi")))
        for place, name in enumerate(names):
            if place < first:
                parts[2 * place] = self._without_name(name)
        return "".join(parts)

    def of_text(self, text: str) -> str:
        """Return a text without the folders of its paths, and those that are known."""
        for pattern in (_QUOTED, _PATH):
            text = pattern.sub(lambda found: found[1] + self.of_path(found[2]), text)
        known = sorted((name for name in self._folders if len(name) >= _SHORTEST), key=len)
        if known:
            names = "|".join(map(re.escape, reversed(known)))
            # In a path, or alone in quotes, as concepts are named in events.
            place = rf"(?<=[\\/])(?:{names})(?![\w-])|(?<![\w-])(?:{names})(?=[\\/])"
            pattern = re.compile(rf"{place}|(?<=\")(?:{names})(?=\")")
            text = pattern.sub(lambda found: self._folders[found[0]], text)
        return text

    def _first_public(self, names: list[str], *, is_code: bool) -> int:
        """Return from which folder on a path is that of code, which everybody has."""
        if not is_code:
            return len(names)
        return next((at for at, name in enumerate(names) if _CODE.fullmatch(name)), len(names))

    def _without_name(self, name: str) -> str:
        if name.lower() in _PUBLIC or _OURS.fullmatch(name):
            return name
        return self._folders.setdefault(name, f"<folder {len(self._folders) + 1}>")
