"""Lines of people's texts: the same ones for training, the editor, prompts and lists."""

from onetrainer.captions.caption_file import read_captions
from onetrainer.captions.caption_text import caption_change, read_caption_text
from onetrainer.captions.patterns import is_listed, pattern_errors
from onetrainer.captions.prompt_file import numbered_lines
from onetrainer.config.base.arguments import parse_arguments
from onetrainer.files.lines import split_lines
from tests.each import each

INSIDE = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"]
"""What `str.splitlines` cuts at, though no editor begins a line there."""


@each(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\r\nb\rc\n\nd", ["a", "b", "c", "", "d"]),
        ("\n", [""]),
        *((f"a{inside}b\n", [f"a{inside}b"]) for inside in INSIDE),
    ],
)
def test_a_line_ends_at_the_ends_of_three_systems_alone(text, lines):
    assert split_lines(text) == lines


@each("inside", INSIDE)
def test_training_and_the_editor_read_the_same_captions(tmp_path, inside):
    file = tmp_path / "a.txt"
    file.write_bytes(f"red  hat{inside}blue shoes\r\ngreen".encode())
    trained = read_captions(file, lines="each")
    text = read_caption_text(file)
    assert text.lines == trained == ("red hat blue shoes", "green")
    change = caption_change(text, list(text.lines))
    assert change.after == change.before


def test_a_prompt_a_tag_and_an_argument_stay_one_line_with_any_sign_inside():
    for inside in INSIDE:
        assert numbered_lines(f"a cat{inside}on a sofa\nb") == [
            (1, f"a cat{inside}on a sofa"),
            (2, "b"),
        ]
        assert not is_listed("hat", f"red{inside}hat", patterns=False)
        assert [number for number, *_ in pattern_errors(f"a{inside}b\n(")] == [2]
        assert parse_arguments(f'mode = "a"{inside}\nb = 1') == {"mode": "a", "b": 1}
