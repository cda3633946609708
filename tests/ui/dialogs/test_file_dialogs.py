"""The system's own dialogs: where they begin and what they offer. They are Tk's, not ours."""

from fnmatch import fnmatch
from pathlib import Path

import pytest

from ui.dialogs import file_dialogs
from ui.dialogs.file_dialogs import choose_model


@pytest.fixture
def asked(monkeypatch, home):
    """What the dialog was opened with."""
    options = {}

    def ask(**given):
        options.update(given)
        return ()  # what Tk gives where nothing was chosen

    monkeypatch.setattr(file_dialogs.filedialog, "askopenfilename", ask)
    return options


@pytest.mark.parametrize("name", ["a.safetensors", "a.ckpt", "a.pt", "a.pth", "a.bin"])
def test_every_variant_of_model_file_is_offered(asked, name):
    assert choose_model("") == ""
    _, patterns = asked["filetypes"][0]
    assert any(fnmatch(name, pattern) for pattern in patterns)


def test_the_dialog_begins_where_the_model_is(asked, tmp_path):
    (tmp_path / "models").mkdir()
    choose_model(str(tmp_path / "models" / "gone.ckpt"))
    assert asked["initialdir"] == str(tmp_path / "models")


@pytest.mark.parametrize("now", ["", "stabilityai/sdxl-base-1.0", "~nobody-here/model.ckpt"])
def test_the_dialog_begins_at_home_where_no_folder_is_named(asked, home, now):
    choose_model(now)
    assert Path(asked["initialdir"]) == home
