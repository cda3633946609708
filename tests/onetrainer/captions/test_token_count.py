"""Tokens are counted as the tokenizer of transformers does."""

from random import Random

from transformers import CLIPTokenizer

from onetrainer.captions import token_count
from onetrainer.captions.token_count import chunks, token_counter
from onetrainer.families.spec import CLIP_TOKENIZER

TEXTS = (
    *("", "a cat", "A  CAT,\n on the sofa's edge!!", "1girl, 1980s, 4k", "naïve Käse — “x”"),
    *(
        "日本語のテキスト",
        "🙂🙃",
        "<|endoftext|> x",
        "masterpiece, (best quality:1.2), [bad]",
        "it's we'll they're",
    ),
    *("supercalifragilisticexpialidocious" * 3, "a\u0308 e\u0301", "word " * 100),
    *("<|ENDOFTEXT|>!! <|startoftext|>s", "ΟΔΟΣ İstanbul ǅ ﬁ ½ Ⅷ", "'''s 'LL"),
)
PARTS = (*"abcdefgSTUVWΣςİé’'<|>.,!?()0123½日\u0301\u200d🙂 \t", *("'s", "<|endoftext|>", "the"))


def test_counts_are_those_of_the_tokenizer_that_trains():
    tokenizer = CLIPTokenizer.from_pretrained(CLIP_TOKENIZER)
    count = token_counter()
    random = Random(0)
    texts = [*TEXTS, *("".join(random.choices(PARTS, k=40)) for _ in range(1000))]
    expected = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    for text, ids in zip(texts, expected, strict=True):
        assert count(text) == len(ids), text


def test_chunks_are_of_75_tokens():
    assert [chunks(tokens) for tokens in (0, 1, 75, 76, 150, 151)] == [1, 1, 1, 2, 2, 3]


def test_a_long_piece_of_text_takes_as_many_looks_as_it_has_bytes(monkeypatch):
    merges, looks = token_count._Merges(), []
    rank = merges.rank
    monkeypatch.setattr(merges, "rank", lambda *pair: looks.append(pair) or rank(*pair))
    word = "日本語の文" * 100
    assert 1 < merges.count(word) < len(word.encode())
    assert len(looks) < 5 * len(word.encode())
