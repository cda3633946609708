"""Names that only some systems can have are refused on all, before anything is created."""

import pytest

from onetrainer.__main__ import main
from onetrainer.errors import UserError
from onetrainer.files.names import name_problem, require_portable
from onetrainer.presets.presets import resolve
from onetrainer.rules.rules import check_rules
from onetrainer.run.run_folder import fill_run

BAD = (
    *("CON", "con", "aux.txt", "nul .x", "Lpt9", "COM¹.json", "conout$"),
    *(
        "end.",
        "end ",
        " begin",
        "..",
        ".",
        "",
        " ",
        "a:b",
        "a/b",
        "a\\b",
        "wh?t",
        "a\x07",
        "é" * 76,
    ),
)
GOOD = ("console", "auxiliary.txt", "com", "com10", "my lora v1.5", ".hidden", "日本", "é" * 75)


def test_names_that_some_system_cannot_have_are_known():
    assert [name for name in BAD if not name_problem(name)] == []
    assert [name for name in GOOD if name_problem(name)] == []


def test_a_run_a_folder_and_a_converted_file_need_a_portable_name(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    config = resolve({"output": {"name": "aux"}}, source="")
    assert [problem.path for problem in check_rules(config)].count("output.name") == 1
    with pytest.raises(UserError, match='"nul" is a device of Windows'):
        fill_run(tmp_path / "runs" / "nul" / "first", config={})
    assert main(["demo", str(tmp_path / "demo.")]) == 2
    assert main(["convert", str(tmp_path / "x"), str(tmp_path / "PRN.safetensors")]) == 2
    assert list(tmp_path.iterdir()) == []


def test_folders_that_exist_may_be_called_anything(tmp_path):
    (tmp_path / "aux ").mkdir()
    require_portable(tmp_path / "aux " / "new")
    with pytest.raises(UserError, match=r"'new\.': it begins or ends with a space, or ends with"):
        require_portable(tmp_path / "aux " / "new." / "inside")
