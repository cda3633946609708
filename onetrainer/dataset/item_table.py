"""Very many items in a few large pieces of memory, instead of a dozen small objects for each.

100,000 items take some 15 MB so, and 100 MB as tuples of `Item`; they also go from one process to
another in a moment.
"""

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import overload

from onetrainer.captions.texts import Texts
from onetrainer.config.data.concept import Role
from onetrainer.dataset.items import Item

_MOST_IN_TWO = 65_535
_BETWEEN = "\0"  # captions, which never have it


class Paths:
    """Paths, of which many are in the same folders; each may be None."""

    def __init__(self, paths: Iterable[Path | None]) -> None:
        numbers: dict[str, int] = {}
        places = array("I")

        def names() -> Iterator[str]:
            for path in paths:
                folder, name = os.path.split(path or "")
                places.append(numbers.setdefault(folder, len(numbers)))
                yield name

        self.names = Texts(names())
        self._folders = tuple(numbers)
        self._places = in_few_bytes(places)
        if self._folders == ("",) and not any(self.names[index] for index in range(len(places))):
            self.names, self._places = Texts(()), in_few_bytes(())  # as of masks, where none is

    def __eq__(self, other: object) -> bool:
        """Return whether all paths are equal; fast."""
        return (
            isinstance(other, Paths)
            and self.names == other.names
            and (self._folders, self._places) == (other._folders, other._places)
        )

    def __getitem__(self, index: int) -> Path | None:
        """Return a path by its index from 0."""
        if not self._places:
            return None
        name = self.names[index]
        return Path(self._folders[self._places[index]], name) if name else None

    def path(self, index: int) -> Path:
        """Return a path that is there."""
        found = self[index]
        assert found is not None, "it is there"
        return found


class ItemTable(Sequence[Item]):
    """Items, each of which is made when it is asked for."""

    def __init__(self, items: Sequence[Item]) -> None:
        kinds: dict[tuple[Role, int, str], int] = {}
        self._paths = Paths(item.path for item in items)
        self._masks = Paths(item.mask for item in items)
        self._conditioning = Paths(item.conditioning for item in items)
        self._captions = Texts(_BETWEEN.join(item.captions) for item in items)
        self._sizes = in_few_bytes(side for item in items for side in (item.width, item.height))
        self._kinds = in_few_bytes(
            kinds.setdefault((item.role, item.concept, item.group), len(kinds)) for item in items
        )
        self._each_kind = tuple(kinds)
        self._names = {
            index: item.name
            for index, item in enumerate(items)
            if item.name != _name(item.group, item.path.name)
        }
        self._focus = {index: item.focus for index, item in enumerate(items) if item.focus}

    def __len__(self) -> int:
        return len(self._kinds)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Item, ...]: ...
    def __getitem__(self, index: int | slice) -> Item | tuple[Item, ...]:
        """Return an item, or some."""
        found = range(len(self))[index]
        return self._item(found) if isinstance(found, int) else tuple(map(self._item, found))

    def captions(self, index: int) -> tuple[str, ...]:
        """Return the captions of an item by its index from 0, without making the item."""
        return tuple(self._captions[index].split(_BETWEEN))

    def _item(self, index: int) -> Item:
        role, concept, group = self._each_kind[self._kinds[index]]
        name = self._names.get(index)
        return Item(
            path=self._paths.path(index),
            captions=self.captions(index),
            width=self._sizes[2 * index],
            height=self._sizes[2 * index + 1],
            mask=self._masks[index],
            conditioning=self._conditioning[index],
            role=role,
            concept=concept,
            group=group,
            name=_name(group, self._paths.names[index]) if name is None else name,
            focus=self._focus.get(index),
        )


def in_few_bytes(numbers: Iterable[int]) -> "array[int]":
    """Return numbers from 0, each in as many bytes as the largest of them needs."""
    found = array("I", numbers)
    largest = max(found, default=0)
    return found if largest > _MOST_IN_TWO else array("B" if largest < 256 else "H", found)


def _name(group: str, file: str) -> str:
    return f"{group}/{file}" if group else file
