"""Very many texts in one piece of memory, instead of an object for each."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

_ENCODING = "utf-8", "surrogatepass"  # names of other encodings have lone surrogates


class Texts:
    """Texts in one piece."""

    def __init__(self, texts: Iterable[str]) -> None:
        data, self._ends = bytearray(), array("I", [0])
        for text in texts:
            data += text.encode(*_ENCODING)
            self._ends.append(len(data))
        self._data = bytes(data)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __eq__(self, other: object) -> bool:
        """Return whether all texts are equal; fast."""
        return isinstance(other, Texts) and self._data == other._data and self._ends == other._ends

    def __getitem__(self, index: int) -> str:
        """Return a text by its index from 0."""
        data = self._data[self._ends[index] : self._ends[index + 1]]
        return data.decode(*_ENCODING)

    def indices_of(self, text: str) -> Iterator[int]:
        """Yield the indices of a text that is not empty; fast, as all are searched as one."""
        data, at = text.encode(*_ENCODING), -1
        while (at := self._data.find(data, at + 1)) >= 0:
            index = bisect_right(self._ends, at) - 1
            if self._ends[index] == at and self._ends[index + 1] == at + len(data):
                yield index

    def indices_with(self, part: str) -> Iterator[int]:
        """Yield the indices of the texts that have a part, which is not empty; as fast."""
        data, at = part.encode(*_ENCODING), 0
        while (at := self._data.find(data, at)) >= 0:
            index = bisect_right(self._ends, at) - 1
            if at + len(data) <= self._ends[index + 1]:
                yield index
                at = self._ends[index + 1]
            else:
                at += 1
