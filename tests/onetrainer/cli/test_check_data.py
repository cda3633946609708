"""`onetrainer check-data` reports what it finds, for people and for programs."""

import json
import os

import pytest

from onetrainer.__main__ import main
from tests.each import each
from tests.onetrainer.generated_images import leaves


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pictures" / "inner").mkdir(parents=True)
    for seed, name in enumerate(["a", "inner/b"]):
        leaves(seed, 160).save(tmp_path / "pictures" / f"{name}.png")
        (tmp_path / "pictures" / f"{name}.txt").write_text("a thing")
    return tmp_path / "pictures"


def test_folder_is_checked_with_its_subfolders_and_changes_of_settings(folder, capsys):
    assert main(["check-data", str(folder)]) == 0
    printed = capsys.readouterr().out
    where = folder / "inner" / "b.png"
    assert f"{where}: 160 × 160 pixels, enlarged 3.2 times to 512 × 512." in printed
    assert printed.endswith("2 images checked: 2 warnings.\n")
    assert main(["check-data", str(folder), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["images"] == 2
    assert [one["kind"] for one in content["findings"]] == ["too-small", "too-small"]
    assert content["findings"][0]["path"] == str(folder / "a.png")
    assert main(["check-data", str(folder), "--set", "data.resolution=128"]) == 0
    assert capsys.readouterr().out == "2 images checked: no problems found.\n"
    assert sorted(path.name for path in folder.parent.iterdir()) == ["pictures"]


def test_files_are_named_as_their_folder_was_given(folder, monkeypatch, capsys):
    (folder / "inner" / "c.png").write_bytes((folder / "a.png").read_bytes())
    monkeypatch.chdir(folder / "inner")
    for given in ("..", "../inner/..", "../../pictures", str(folder)):
        assert main(["check-data", given, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["findings"]
        assert any(one["other"] for one in found)
        assert {one["path"].rpartition("/")[0] for one in found} <= {given, f"{given}/inner"}
        assert main(["check-data", given]) == 0
        printed = capsys.readouterr().out
        assert printed.count("/pictures") == (printed.count(given) if "pictures" in given else 0)


def test_all_folders_of_a_config_are_named_from_the_current_one(folder, monkeypatch, capsys):
    concepts = [{"name": "more", "folder": "pictures/inner"}]
    data = {"folder": "pictures", "concepts": concepts, "cache_folder": "cache"}
    folder.with_name("config.json").write_text(json.dumps({"data": data}))
    monkeypatch.chdir(folder.parent)
    assert main(["check-data", "config.json", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["findings"]
    assert {one["path"] for one in printed} == {"pictures/a.png", "pictures/inner/b.png"}
    assert main(["check-data", str(folder.with_name("config.json")), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["findings"]
    assert {one["path"] for one in printed} == {str(folder / "a.png"), str(folder / "inner/b.png")}


def test_config_is_checked_and_what_is_trained_is_kept_in_its_cache(folder, capsys):
    config = folder.with_name("config.json")
    config.write_text(json.dumps({"data": {"folder": "pictures", "cache_folder": "cache"}}))
    assert main(["check-data", str(config)]) == 0
    assert capsys.readouterr().out.endswith("1 image checked: 1 warning.\n")
    assert not (folder / "cache").exists()


def test_folder_without_images_is_reported(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main(["check-data", str(tmp_path / "empty"), "--json"]) == 2
    out, err = capsys.readouterr()
    assert "is empty" in err
    assert json.loads(out) == {"problem": err.strip()}


@each("name", ["a.PNG", "a.heic"])
def test_a_single_image_is_called_an_image_and_its_folder_named(tmp_path, capsys, name):
    (tmp_path / name).write_bytes(b"\x89PNG")
    assert main(["check-data", str(tmp_path / name)]) == 2
    printed = capsys.readouterr().err
    assert f"{name} is an image" in printed
    assert f'its folder, "{tmp_path}"' in printed


def test_folder_that_may_not_be_read_is_reported_as_one(folder, monkeypatch, capsys):
    plain = os.stat

    def denied(path, *args, **named):
        if os.fspath(path).endswith("config.json"):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return plain(path, *args, **named)

    def unlisted(path):
        raise PermissionError(13, "Permission denied", os.fspath(path))

    monkeypatch.setattr(os, "stat", denied)
    monkeypatch.setattr(os, "scandir", unlisted)
    assert main(["check-data", str(folder)]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"{folder}: this folder cannot be read (Permission denied).")


def test_folder_whose_name_is_no_text_is_reported(tmp_path, capsys):
    folder = tmp_path / os.fsdecode(b"b\xff")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system has no such names")
    assert main(["check-data", str(folder)]) == 2
    assert "b?: this folder's name is in no known encoding." in capsys.readouterr().err
