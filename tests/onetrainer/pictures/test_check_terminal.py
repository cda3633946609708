"""`onetrainer check-data` tells what it finds, for people and for programs."""

import json

import pytest

from onetrainer.__main__ import main
from tests.onetrainer.drawn import leaves


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pictures" / "inner").mkdir(parents=True)
    for seed, name in enumerate(["a", "inner/b"]):
        leaves(seed, 160).save(tmp_path / "pictures" / f"{name}.png")
        (tmp_path / "pictures" / f"{name}.txt").write_text("a thing")
    return tmp_path / "pictures"


def test_folder_is_checked_with_those_in_it(folder, capsys):
    assert main(["check-data", str(folder)]) == 0
    told = capsys.readouterr().out
    assert "inner/b.png: 160 × 160 pixels, enlarged 3.2 times to 512 × 512." in told
    assert told.endswith("2 pictures looked at: 2 warnings.\n")


def test_settings_may_be_given(folder, capsys):
    assert main(["check-data", str(folder), "--set", "data.resolution=128"]) == 0
    assert capsys.readouterr().out == "2 pictures looked at: nothing found.\n"


def test_json_holds_every_finding_and_nothing_else(folder, capsys):
    assert main(["check-data", str(folder), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["pictures"] == 2
    assert [one["kind"] for one in content["findings"]] == ["too-small", "too-small"]
    assert content["findings"][0]["path"] == str(folder / "a.png")


def test_config_is_checked_and_what_is_learned_is_kept_in_its_cache(folder, capsys):
    config = folder.with_name("config.json")
    config.write_text(json.dumps({"data": {"folder": "pictures", "cache_folder": "cache"}}))
    assert main(["check-data", str(config)]) == 0
    assert capsys.readouterr().out.endswith("1 picture looked at: 1 warning.\n")
    assert not (folder / "cache").exists()


def test_mere_folder_leaves_nothing_behind(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    before = sorted(folder.parent.rglob("*"))
    assert main(["check-data", "pictures"]) == 0
    assert sorted(folder.parent.rglob("*")) == before


def test_wrong_config_is_told_as_such(folder, capsys):
    config = folder.with_name("config.json")
    config.write_text('{"data": {"resolution": 100}}')
    assert main(["check-data", str(config)]) == 2
    assert "data.resolution" in capsys.readouterr().err


def test_folder_without_pictures_is_told(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main(["check-data", str(tmp_path / "empty")]) == 2
    assert "is empty" in capsys.readouterr().err
