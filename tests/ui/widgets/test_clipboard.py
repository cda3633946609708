"""What is copied, as other programs get it."""

import base64
import subprocess
import sys

import numpy
from PIL import Image

from tests.ui.pumping import pump_until
from ui.widgets.clipboard import _command, _has_run, copy_png

READER = """
import tkinter
tk = tkinter.Tk().tk
got = "encoding convertto iso8859-1 [selection get -selection CLIPBOARD -type image/png]"
print(tk.eval(f"binary encode base64 [{got}]"), tk.eval("clipboard get"))
"""


def test_another_program_gets_the_image_and_the_path_where_it_pastes_text(root, jobs, tmp_path):
    """Of noise with zeros, which a text would end at, and longer than what X sends at once."""
    path, told = tmp_path / "noise.png", []
    noise = numpy.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype="uint8")
    Image.fromarray(noise).save(path)
    copy_png(root, jobs, path, told.append)
    assert told == [True]
    with subprocess.Popen([sys.executable, "-c", READER], stdout=subprocess.PIPE) as reader:
        pump_until(root, lambda: reader.poll() is not None)
        image, text = reader.stdout.read().decode().split()
    assert text == str(path)
    assert base64.b64decode(image) == path.read_bytes()


def test_of_an_image_that_is_gone_the_path_is_copied(root, jobs, tmp_path):
    told = []
    copy_png(root, jobs, tmp_path / "gone.png", told.append)
    assert told == [False] and root.clipboard_get() == str(tmp_path / "gone.png")


def test_powershell_gets_the_path_beside_its_script(tmp_path, monkeypatch):
    """A quote of any kind would end a text of its script."""
    program, path = tmp_path / "powershell", tmp_path / "it’s ‘$(x)‛ 'y'.png"
    program.write_text('#!/bin/sh\nprintf "%s\n" "$ONETRAINER_IMAGE" "$*" > "$0.got"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert _has_run(_command(path), path)
    got, script = (tmp_path / "powershell.got").read_text().split("\n", 1)
    assert got == str(path) and "FromFile($env:ONETRAINER_IMAGE)" in script
