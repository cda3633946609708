"""Count the tokens of captions as CLIP's text encoders read them, in 2 MB.

The library that trains reads them with, `tokenizers`, takes 30 MB of the window for the same
numbers: they were compared for every character, and differ only at code points that are newer than
one library's tables of letters.
"""

import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Callable
from functools import cache, lru_cache
from heapq import heapify, heappop, heappush
from itertools import pairwise

import regex

from onetrainer.captions.texts import Texts
from onetrainer.families.spec import CLIP_TOKENIZER
from onetrainer.files.lines import split_lines

CHUNK = 75
"""Tokens that an encoder reads at once, without start and end; longer captions take several."""

_END_OF_WORD = "</w>"
_SPECIAL = regex.compile(r"<\|startoftext\|>|<\|endoftext\|>")
# Source: OpenAI's CLIP, `simple_tokenizer.py`: what becomes a piece of its own.
_PIECES = regex.compile(
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d"
    r"|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
)
# Source: OpenAI's GPT-2, `bytes_to_unicode`: each byte is a character, and none of them a space.
_PRINTABLE = (*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHERS = tuple(byte for byte in range(256) if byte not in _PRINTABLE)
_CHARACTERS = {byte: chr(byte) for byte in _PRINTABLE} | {
    byte: chr(256 + number) for number, byte in enumerate(_OTHERS)
}
_WORDS_KEPT = 2000


class _Merges:
    """Pairs of symbols that become one, by rank: the lower is merged first."""

    def __init__(self) -> None:
        lines = split_lines((CLIP_TOKENIZER / "merges.txt").read_text("utf-8"))
        pairs = [line for line in lines if line and not line.startswith("#version")]
        self._ranks = array("I", sorted(range(len(pairs)), key=pairs.__getitem__))
        self._pairs = Texts(pairs[rank] for rank in self._ranks)
        self._unmerged = len(pairs)

    def rank(self, first: str, second: str) -> int:
        """Return the rank of a pair; the number of all if it stays two."""
        pair = f"{first} {second}"
        at = bisect_left(self._pairs, pair)
        is_found = at < len(self._pairs) and self._pairs[at] == pair
        return self._ranks[at] if is_found else self._unmerged

    def count(self, word: str) -> int:
        """Return the number of tokens of a piece of text."""
        characters = [_CHARACTERS[byte] for byte in word.encode("utf-8", "surrogatepass")]
        symbols = [*characters[:-1], characters[-1] + _END_OF_WORD]
        end = len(symbols)
        before, after = list(range(-1, end - 1)), list(range(1, end + 1))
        merges = [(self.rank(*pair), at) for at, pair in enumerate(pairwise(symbols))]
        heapify(merges)
        while merges:
            rank, at = heappop(merges)
            following = after[at]
            if rank == self._unmerged:
                break
            if following == end or self.rank(symbols[at], symbols[following]) != rank:
                continue  # one of the two has become part of another symbol
            symbols[at], symbols[following] = symbols[at] + symbols[following], ""
            after[at] = after[following]
            if after[at] < end:
                before[after[at]] = at
            for first in (before[at], at):
                if first >= 0 and after[first] < end:
                    pair = symbols[first], symbols[after[first]]
                    heappush(merges, (self.rank(*pair), first))
        return sum(map(bool, symbols))


@cache
def token_counter() -> Callable[[str], int]:
    """Return a function that counts the tokens of a text, without start and end.

    All published text encoders of CLIP share one vocabulary. Reading it takes a tenth of a second.
    """
    tokens = lru_cache(_WORDS_KEPT)(_Merges().count)

    def count(text: str) -> int:
        total = len(_SPECIAL.findall(text))
        for part in _SPECIAL.split(text):
            # One by one: as part of a word, a final sigma would become another letter.
            plain = "".join(map(str.lower, unicodedata.normalize("NFC", part)))
            for piece in _PIECES.findall(plain):
                is_special = _SPECIAL.match(piece)
                words = (piece[:2], piece[2:-2], piece[-2:]) if is_special else (piece,)
                total += sum(map(tokens, words))
        return total

    return count


def chunks(tokens: int) -> int:
    """Return the number of chunks that a caption of so many tokens takes, at least one."""
    return max(1, -(-tokens // CHUNK))
