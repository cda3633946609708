"""The fonts of the window: how text is emphasized with the family that there is."""

import json
import tkinter.font

import pytest

from ui.__main__ import main
from ui.theme import theme
from ui.theme.theme import BODY, BOLD, HEADING, Theme


@pytest.fixture
def fonts_of(root, monkeypatch):
    """The window's fonts, as if of those it searches for only one family was installed."""

    def fonts(family):
        monkeypatch.setattr(theme.tkinter.font, "families", lambda _: (family,))
        made = Theme(root)
        names = theme._SIZES
        return made, {name: tkinter.font.Font(root, name=name, exists=True) for name in names}

    return fonts


def test_no_text_is_made_bold_of_a_family_without_a_bold_cut(fonts_of):
    _, fonts = fonts_of("Roboto")
    assert {font.cget("weight") for font in fonts.values()} == {"normal"}
    sizes = [abs(fonts[name].cget("size")) for name in (BODY, BOLD, HEADING)]
    assert sizes == sorted(set(sizes))  # each differs from the one before by being larger


def test_text_is_set_apart_by_weight_where_there_is_a_bold_cut(fonts_of):
    _, fonts = fonts_of("DejaVu Sans")
    assert fonts[BOLD].cget("weight") == "bold"
    assert fonts[BOLD].cget("size") == fonts[BODY].cget("size")


def test_the_doctor_is_told_whether_a_window_can_be_opened(root, monkeypatch, capsys):
    assert main(["--check"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert set(said) == {"tk", "size", "scale", "font", "mono", "fonts"}
    assert said["fonts"] == len(set(tkinter.font.families(root)))
    monkeypatch.setenv("DISPLAY", ":nowhere")
    assert main(["--check"]) == 0
    assert "No window can be opened here" in json.loads(capsys.readouterr().out)["problem"]
