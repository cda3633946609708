"""Weights of words in prompts, against what the two programs document."""

import pytest

from onetrainer.captions.prompt_weights import has_weights, weighted_pieces

A1111 = {
    "normal text": [("normal text", 1)],
    "an (important) word": [("an ", 1), ("important", 1.1), (" word", 1)],
    "(unbalanced": [("unbalanced", 1.1)],
    r"\(literal\]": [("(literal]", 1)],
    "(unnecessary)(parens)": [("unnecessaryparens", 1.1)],
    "a (((house:1.3)) [on] a (hill:0.5), sun, (((sky))).": [
        *[("a ", 1), ("house", 1.3 * 1.1 * 1.1), (" ", 1.1), ("on", 1), (" a ", 1.1)],
        *[("hill", 0.55), (", sun, ", 1.1), ("sky", 1.1**4), (".", 1.1)],
    ],
    "[a (b:1.2)] c": [("a ", 1 / 1.1), ("b", 1.2 / 1.1), (" c", 1)],
    "(a:-.5) [b:2] c:1.3) d] [e": [
        *[("a", -0.5), (" ", 1), ("b:2", 1 / 1.1), (" c:1.3) d] ", 1), ("e", 1 / 1.1)]
    ],
    r"(a \\(b\): 1.5 )": [("a \\", 1.1), ("b)", 1.65)],
    "": [("", 1)],
    "()": [("", 1)],
}
# By what its parser does (comfy/sd1_clip.py).
COMFYUI = {
    "an (important) word": [("an ", 1), ("important", 1.1), (" word", 1)],
    "((a)) ((b:1.3)) ((c) d:0.5)": [
        *[("a", 1.21), (" ", 1), ("b", 1.3), (" ", 1), ("c", 0.55), (" d", 0.5)]
    ],
    r"[a] \(b\) (c": [("[a] (b) ", 1), ("(c", 1)],
    "(a: 2. ) b)": [("a", 2), (" b)", 1)],
    "(word:1e1) (x:+.5)": [("word", 10), (" ", 1), ("x", 0.5)],
    "(:1.3) (a:b) (c:nan)": [*[(":1.3", 1.1), (" ", 1), ("a:b", 1.1), (" ", 1), ("c:nan", 1.1)]],
    # One that closes too much takes the group from the next one.
    "a) (b:1.3) c": [("a) (b:1.3) c", 1)],
    "a) ((b:1.3) c": [("a) (", 1), ("b", 1.3), (" c", 1)],
    # One that is never closed, with a number at the end of the text.
    "(a (b:1.3)": [("a ", 1.3), ("(b", 1.3)],
    "(a (b:1.3) c": [("(a (b:1.3) c", 1)],
    "()": [("", 1)],
    "": [("", 1)],
}


@pytest.mark.parametrize(("style", "cases"), [("a1111", A1111), ("comfyui", COMFYUI)])
def test_weights_are_read_as_the_program_documents_them(style, cases):
    for text, expected in cases.items():
        found = weighted_pieces(text, style)
        assert [piece for piece, _ in found] == [piece for piece, _ in expected], text
        assert [weight for _, weight in found] == pytest.approx([w for _, w in expected]), text


def test_parentheses_are_read_to_a_depth_that_no_prompt_has():
    for style, depth in (("a1111", 2000), ("comfyui", 100)):
        ((word, weight),) = weighted_pieces("(" * depth + "a" + ")" * depth, style)
        assert (word, weight) == ("a", pytest.approx(1.1**depth))
    ((word, weight),) = weighted_pieces("(" * 20_000 + "a" + ")" * 20_000, "comfyui")
    assert (len(word), weight) == (1 + 2 * (20_000 - 101), pytest.approx(1.1**101))


def test_without_weights_a_text_stays_as_it_is():
    assert weighted_pieces(r"(a:1.3) [b] \(c", "off") == [(r"(a:1.3) [b] \(c", 1.0)]


def test_a_number_shows_that_weights_are_meant():
    assert all(map(has_weights, ["a (very red:1.3) cat", "(a:1e1)", "(a: 1_0)", "(a:-.5 )"]))
    assert not any(map(has_weights, ["a cat (1980)", "ratio 16:9)", "(in rome: 2 cats)"]))
