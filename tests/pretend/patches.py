"""Attributes that are replaced for a while."""

from typing import Any

_MISSING = object()


class Patches:
    """Replaces attributes, and puts all of them back in the opposite order."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, object]] = []

    def set(self, owner: Any, name: str, value: object) -> None:
        """Replaces an attribute of a module or class; one that is not there is made."""
        # What is inherited is taken away again, not copied.
        self._before.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def restore(self) -> None:
        """Everything is as it was."""
        while self._before:
            owner, name, value = self._before.pop()
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
