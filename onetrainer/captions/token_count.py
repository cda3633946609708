"""Count the tokens of captions as CLIP's text encoders read them, without their library."""

import json
from collections.abc import Callable
from functools import cache

from onetrainer.families.spec import CLIP_TOKENIZER

CHUNK = 75
"""Tokens that an encoder reads at once, without start and end; longer captions take several."""

_END_OF_WORD = "</w>"
_SPECIAL = ("<|startoftext|>", "<|endoftext|>")
# Source: OpenAI's CLIP, `simple_tokenizer.py`: what becomes a piece of its own.
_PIECES = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d"
    r"|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)


@cache
def token_counter() -> Callable[[str], int]:
    """Return a function that counts the tokens of a text, without start and end.

    All published text encoders of CLIP share one vocabulary. Reading it takes a third of a second.
    """
    # Imported late, as it takes a while.
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    vocabulary = json.loads((CLIP_TOKENIZER / "vocab.json").read_text("utf-8"))
    lines = (CLIP_TOKENIZER / "merges.txt").read_text("utf-8").splitlines()
    pairs = (line.partition(" ") for line in lines if line and not line.startswith("#version"))
    merges = [(first, second) for first, _, second in pairs]
    tokenizer = Tokenizer(
        models.BPE(
            vocab=vocabulary,
            merges=merges,
            end_of_word_suffix=_END_OF_WORD,
            unk_token=_SPECIAL[1],
        )
    )
    tokenizer.add_special_tokens(list(_SPECIAL))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def chunks(tokens: int) -> int:
    """Return the number of chunks that a caption of so many tokens takes, at least one."""
    return max(1, -(-tokens // CHUNK))
