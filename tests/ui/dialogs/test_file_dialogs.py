"""Dialogs that choose a path: which program asks, where it begins, and the window's own browser."""

import json
import sys
from types import SimpleNamespace

import pytest
from PIL import Image

from tests.ui.pumping import once_asked, pump_until
from ui.background.image_cache import ImageCache
from ui.dialogs import file_browser
from ui.dialogs.file_dialogs import choose_path
from ui.model.folder_entries import describe_entry, list_entries

PROGRAM = """#!{python}
import json, sys, pathlib
pathlib.Path({log!r}).write_text(json.dumps(sys.argv[1:]))
print({answer!r})
sys.exit({code})
"""


@pytest.fixture
def files(context, home, monkeypatch, tmp_path):
    """A window's context, on a desktop without any dialogs."""
    context.window_state = SimpleNamespace(folders=[])
    context.act.save_state_soon = lambda: None
    context.images = ImageCache(context.widgets.jobs)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("XDG_CURRENT_DESKTOP", raising=False)
    return context


def add_program(tmp_path, name, answer, code=0):
    path, log = tmp_path / "bin" / name, tmp_path / f"{name}.log"
    text = PROGRAM.format(python=sys.executable, log=str(log), answer=answer, code=code)
    path.write_text(text)
    path.chmod(0o755)
    return log


def listed(files):
    """The list of the browser once its folder is read, which is described then."""
    facts = files.widgets.named["answer facts"]
    pump_until(
        files.root, lambda: files.widgets.jobs.deliver() >= 0 and facts.cget("text") != "Reading …"
    )
    return files.widgets.named["answer entries"]


def press(files, key):
    """Presses a key in the list of the browser, which has to have the keyboard for it."""
    entries = listed(files)
    entries.focus_force()
    pump_until(files.root, lambda: entries.focus_get() is entries)
    entries.event_generate(f"<{key}>")
    return entries


def test_the_desktop_asks_with_its_own_dialog(files, tmp_path, monkeypatch):
    """zenity, kdialog on KDE; a canceled one is no answer, and folders are remembered.

    What kdialog takes: kdialog.cpp of KDE/kdialog, `setFileDialogFilter` of all its versions.
    """
    chosen = tmp_path / "models" / "a.safetensors"
    chosen.parent.mkdir()
    zenity = add_program(tmp_path, "zenity", str(chosen))
    kdialog = add_program(tmp_path, "kdialog", "", code=1)
    gone = str(tmp_path / "models" / "gone.ckpt")
    assert choose_path(files, "model", gone) == str(chosen)
    asked = json.loads(zenity.read_text())
    assert f"--filename={chosen.parent}/" in asked
    assert "--file-filter=Models | *.safetensors *.ckpt *.pt *.pth *.bin" in asked
    assert files.window_state.folders == [str(chosen.parent)]
    monkeypatch.setenv("XDG_CURRENT_DESKTOP", "X:KDE")
    for nowhere in ("", "stabilityai/sdxl-base-1.0", "~nobody-here/model.ckpt"):
        assert choose_path(files, "folder", nowhere) == ""
        asked = json.loads(kdialog.read_text())
        assert asked[:2] == ["--getexistingdirectory", str(chosen.parent)]
    files.window_state.folders = [str(tmp_path / "gone")]
    choose_path(files, "folder", "")
    assert json.loads(kdialog.read_text())[1] == str(tmp_path / "home")
    add_program(tmp_path, "kdialog", str(chosen))
    assert choose_path(files, "model", str(chosen)) == str(chosen)
    number = int(files.root.tk.call("wm", "frame", files.root), 16)
    filters = "Models (*.safetensors *.ckpt *.pt *.pth *.bin)\nAll files (*)"
    assert json.loads(kdialog.read_text()) == [
        *("--getopenfilename", str(chosen.parent), filters),
        *("--title", "Select a model file", "--attach", str(number)),
    ]
    assert int(files.root.tk.call("tk", "busy", "status", files.root)) == 0


def test_the_window_asks_itself_where_the_desktop_cannot(files, root, tmp_path):
    """Also where the desktop's program fails; by keys, from a folder to a file in it."""
    add_program(tmp_path, "zenity", "cannot open display", code=255)
    (tmp_path / "models" / "old").mkdir(parents=True)
    (tmp_path / "models" / "old" / "b.ckpt").touch()
    (tmp_path / "models" / "notes.txt").touch()
    seen = []

    def answer():
        for letter in "ob":
            entries = press(files, letter)
            seen.extend(entries.get_children())
            press(files, "Return")

    once_asked(root, answer)
    wanted = tmp_path / "models" / "old" / "b.ckpt"
    assert choose_path(files, "model", str(tmp_path / "models")) == str(wanted)
    assert seen == ["..", "old", "..", "b.ckpt"]


def test_a_canceled_browser_answers_nothing(files, root, tmp_path):
    once_asked(root, lambda: press(files, "Escape"))
    assert choose_path(files, "folder", str(tmp_path)) == ""
    assert files.window_state.folders == []


def test_why_a_path_is_refused_stays_when_the_description_of_the_folder_comes_later(
    files, root, jobs, tmp_path
):
    said = []

    def answer():
        path, facts = (files.widgets.named[f"answer {name}"] for name in ("path", "facts"))
        listed(files).selection_set("bin")
        root.update()
        path.focus_force()
        pump_until(root, lambda: path.focus_get() is path)
        path.insert("end", "/nowhere")
        root.update()
        path.event_generate("<Return>")
        said.append(facts.cget("text"))
        descriptions = []  # of what was selected, and of the folder
        pump_until(root, lambda: descriptions.extend([1] * jobs.deliver()) or len(descriptions) > 1)
        said.append(facts.cget("text"))
        press(files, "Escape")

    once_asked(root, answer)
    choose_path(files, "folder", str(tmp_path))
    assert said == [f"{tmp_path}/nowhere: there is no such file or folder"] * 2


def test_a_folder_of_very_many_files_is_listed_in_part_and_typing_finds_the_others(
    files, root, tmp_path, monkeypatch
):
    """Enter takes the only one that is left; what is typed while a folder is read stays."""
    monkeypatch.setattr(file_browser, "_MOST_ROWS", 3)
    (tmp_path / "many").mkdir()
    for number in range(12):
        (tmp_path / "many" / f"file-{number:02}.ckpt").touch()
    note = "The first 3 of 12; type part of a name above to narrow down.\nNo images"
    seen = []

    def answer():
        path, facts = (files.widgets.named[f"answer {name}"] for name in ("path", "facts"))
        path.focus_force()
        pump_until(root, lambda: path.focus_get() is path)
        listed(files)
        path.delete(0, "end")
        path.insert(0, "many")
        path.event_generate("<Return>")
        path.insert("end", "/x")
        for text in ("many/x", "1", "none", ".ckpt"):
            shown = [name[5:7] for name in listed(files).get_children()[1:]]
            seen.append((path.get(), shown, facts.cget("text")))
            path.delete(0, "end")
            path.insert(0, text)
        path.insert(0, "FILE-11")
        path.event_generate("<Return>")

    once_asked(root, answer)
    assert choose_path(files, "model", str(tmp_path)) == str(tmp_path / "many" / "file-11.ckpt")
    first = ["00", "01", "02"]
    assert seen == [
        ("many/x", first, note),
        ("many/x", first, note),
        ("1", ["01", "10", "11"], "No images"),
        ("none", [], "No name here has “none” in it.\nNo images"),
    ]


def test_entries_say_what_they_are(tmp_path):
    """Folders first; pictures are shown, folders are counted, models are recognized."""
    (tmp_path / "B images").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "B images" / "2.png")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "a.CKPT").write_bytes(b"no model")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    names = [entry.path.name for entry in list_entries(tmp_path, ["*.ckpt"])]
    assert names == ["B images", "a.CKPT"]
    assert [entry.path.name for entry in list_entries(tmp_path, None)] == ["B images"]
    folder = describe_entry(tmp_path / "B images")
    assert (folder.lines, folder.image) == (("1 image",), tmp_path / "B images" / "2.png")
    assert describe_entry(folder.image).image == folder.image
    assert "a.CKPT" in describe_entry(tmp_path / "a.CKPT").lines[0]
