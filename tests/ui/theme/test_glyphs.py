"""Every character of the window is in the font that the program brings along."""

import ast
from collections.abc import Iterator
from functools import cache

from PIL import ImageFont

from onetrainer import ROOT
from ui.theme.fonts import font_file

# Texts of the terminal alone, whose font is the terminal's; patterns that read what others wrote.
OTHERS = ("onetrainer/cli/", "onetrainer/presets/differences.py", "onetrainer/captions/tags.py")
READ_ONLY = (
    *("onetrainer/files/names.py", "onetrainer/concepts/folder_listing.py"),
    *("onetrainer/captions/encodings.py", "onetrainer/captions/prompt_weights.py"),
)
_NOWHERE = "\ue123"


@cache
def font(cut: str) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(font_file(cut)), 20)


@cache
def is_drawn(character: str) -> bool:
    """Whether both cuts have the character; others give the same box for all."""
    if character.isspace():
        return True
    masks = [
        tuple(bytes(font(cut).getmask(sign)) for sign in (character, _NOWHERE))
        for cut in ("Regular", "Medium")
    ]
    return all(own != box for own, box in masks)


def shown_texts(tree: ast.Module, *, with_docstrings: bool) -> Iterator[ast.Constant]:
    """String literals that may be shown; docstrings are help in the config alone."""
    lines = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and (with_docstrings or id(node) not in lines):
            yield node


def missing_in(source: str, *, with_docstrings: bool = True) -> list[tuple[int, str]]:
    """Line and character of everything that the font lacks."""
    return [
        (node.lineno, sign)
        for node in shown_texts(ast.parse(source), with_docstrings=with_docstrings)
        for sign in sorted(set(str(node.value)))
        if not is_drawn(sign)
    ]


def test_every_character_of_the_window_is_in_its_font():
    files = [*(ROOT / "ui").rglob("*.py"), *(ROOT / "onetrainer").rglob("*.py")]
    found = []
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith((*OTHERS, *READ_ONLY)):
            is_help = name.startswith("onetrainer/config/")
            missing = missing_in(path.read_text("utf-8"), with_docstrings=is_help)
            found += [f"{name}:{line}: {sign}" for line, sign in missing]
    assert found == []


def test_a_character_that_the_font_lacks_is_found():
    assert missing_in('label = "\uff0b Add …"\n') == [(1, "\uff0b")]
    assert missing_in('f"{count} \u26a0"') == [(1, "\u26a0")]
    assert not missing_in('"""A \u25b6."""\nlabel = "A ≤ B"', with_docstrings=False)
