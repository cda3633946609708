"""What a reward function imports from beside it is shown and trusted with it."""

import hashlib
import json
import sys

import pytest

from onetrainer.__main__ import main
from onetrainer.errors import EXIT_USER, UserError
from onetrainer.run.user_folder import user_folder
from onetrainer.trust import local_imports, trusted_files
from onetrainer.trust.function_file import find_function
from onetrainer.trust.trusted_files import status, trust
from tests.each import each

SCORE = "def score(images, prompts): return 0\n"


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    for name in ("XDG_CONFIG_HOME", "APPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "settings"))


def write(folder, files):
    for name, code in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(code)


@each(
    ("own", "files", "imported"),
    [
        ("import beside", {"beside.py": "", "other.py": ""}, ["beside.py"]),
        (
            "def f():\n  import a.b",
            {"a/__init__.py": "", "a/b.py": ""},
            ["a/__init__.py", "a/b.py"],
        ),
        ("from a import b, C", {"a/__init__.py": "", "a/b.py": ""}, ["a/__init__.py", "a/b.py"]),
        (
            "from a.b import C",
            {"a/b/__init__.py": "from ..c import *\nfrom . import d", "a/c.py": "", "a/b/d.py": ""},
            ["a/b/__init__.py", "a/b/d.py", "a/c.py"],
        ),
        (
            "from a import *",
            {"a/__init__.py": "__all__ = ['b']", "a/b.py": "import e", "e.py": "import beside"},
            ["a/__init__.py", "a/b.py", "e.py"],
        ),
        ("import numpy, json, torch.nn", {"json.py": "", "torch/nn.py": "", "data/x.py": ""}, []),
        ("import broken", {"broken.py": "import (", "data.bin": ""}, ["broken.py"]),
    ],
)
def test_files_that_are_imported_from_beside_it_are_part_of_a_function(
    tmp_path, own, files, imported
):
    write(tmp_path, {"own.py": f"{own}\n{SCORE}", **files})
    spec = f"{tmp_path / 'own.py'}:score"
    found = find_function(spec)
    assert [path.relative_to(tmp_path).as_posix() for path in found.files] == [*imported, "own.py"]
    trust(found)
    for name in files:
        content = (tmp_path / name).read_text()
        (tmp_path / name).write_text(f"{content}\n# changed\n")
        assert status(spec) == ("changed" if name in imported else "trusted"), name
        (tmp_path / name).write_text(content)
    if len(imported) > 1:  # as much code, at other places
        write(tmp_path, {imported[0]: "# one\n", imported[1]: "# two\n"})
        trust(find_function(spec))
        write(tmp_path, {imported[0]: "# two\n", imported[1]: "# one\n"})
        assert status(spec) == "changed"


def test_modules_of_a_local_package_are_followed_and_those_of_an_installed_one_are_not(
    tmp_path, monkeypatch
):
    code = f"from . import helper\n{SCORE}"
    write(tmp_path, {"own_local/__init__.py": "", "own_local/light.py": code})
    write(tmp_path, {"own_local/helper.py": "import beside_own_local", "beside_own_local.py": ""})
    monkeypatch.syspath_prepend(str(tmp_path))
    found = find_function("own_local.light:score")
    names = ["__init__.py", "beside_own_local.py", "helper.py", "light.py"]
    assert [path.name for path in found.files] == names
    assert "own_local" not in sys.modules
    assert len(find_function("pytest:fail").files) == 1


def test_a_file_that_imports_nothing_local_stays_trusted_from_earlier_versions(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(f"import math, torch\n{SCORE}")
    user_folder().mkdir(parents=True)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    (user_folder() / trusted_files.FILE).write_text(json.dumps({str(file): digest}))
    assert status(f"{file}:score") == "trusted"
    (tmp_path / "torch.py").touch()
    assert status(f"{file}:score") == "changed"


def test_all_of_it_is_shown_in_the_terminal(tmp_path, capsys):
    beside = "".join(f"x{number} = {number}\n" for number in range(300))
    write(tmp_path, {"own.py": f"import beside\n{SCORE}", "beside.py": beside})
    assert main(["trust", f"{tmp_path / 'own.py'}:score"]) == EXIT_USER
    shown = capsys.readouterr().out
    assert "   1  import beside\n   2  def score" in shown
    assert all(f"{number + 1:>4}  x{number} = {number}\n" in shown for number in range(300))
    assert "own.py and 1 file beside it" in shown


def test_more_code_than_can_be_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(local_imports, "MAX_FILES", 3)
    write(tmp_path, {f"m{number}.py": f"import m{number + 1}" for number in range(6)})
    write(tmp_path, {"own.py": f"import m0\n{SCORE}"})
    with pytest.raises(UserError, match="more than 3 files"):
        find_function(f"{tmp_path / 'own.py'}:score")
