"""The tags of captions with their counts, of which there may be very many."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from onetrainer.captions.placeholder_tokens import token_key
from onetrainer.captions.texts import Texts


class TagCounts:
    """Pairs of a tag and a number in a few large pieces of memory; one is made when asked for."""

    def __init__(self, pairs: Sequence[tuple[str, int]] = ()) -> None:
        self._tags = Texts(tag for tag, _ in pairs)
        self._keys = Texts(_search_key(tag) for tag, _ in pairs)
        self._numbers = array("I", (number for _, number in pairs))
        self._places: Sequence[int] = range(len(pairs))

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> tuple[str, int]:
        """Return a tag with its number by its index from 0."""
        place = self._places[index]
        return self._tags[place], self._numbers[place]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return map(self.__getitem__, range(len(self)))

    def having(self, text: str) -> "TagCounts":
        """Return those whose tag has a text in it, in any case; shares what this one keeps."""
        found = TagCounts()
        found._tags, found._keys, found._numbers = self._tags, self._keys, self._numbers
        found._places = array("I", self._keys.indices_with(_search_key(text)))
        return found


def count_tags(captions: Iterable[Sequence[str]]) -> TagCounts:
    """Return each tag with the number of captions that have it, the most frequent first.

    captions: The tags of each. Case and repeated blanks are ignored; the most frequent spelling
    stands for all.
    """
    spellings: Counter[str] = Counter()
    for tags in captions:
        spellings.update({token_key(tag): tag for tag in tags}.values())
    counts: Counter[str] = Counter()
    names: dict[str, str] = {}  # of those that are not spelled as they are compared
    for tag, number in spellings.most_common():
        key = token_key(tag)
        if key == tag:
            key = tag  # one object in place of two
        if key not in counts and key != tag:
            names[key] = tag
        counts[key] += number
    order = sorted(counts)
    order.sort(key=counts.__getitem__, reverse=True)  # of equal numbers by name, as before
    return TagCounts([(names.get(key, key), counts[key]) for key in order])


def _search_key(text: str) -> str:
    """Return the form in which tags are searched: unlike CLIP, which keeps ß, ß is also ss."""
    return " ".join(text.casefold().split())
