"""Folders that are no image folders, and links that lead everywhere."""

import pytest

from onetrainer.concepts import folder_listing
from onetrainer.concepts.folder_listing import list_folder
from onetrainer.errors import UserError


def images(folder, *names, captions=False):
    for name in names:
        path = folder / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        if captions:
            path.with_suffix(".txt").touch()


def test_links_add_no_image_twice_and_nothing_from_above(tmp_path):
    folder, apart = tmp_path / "images", tmp_path / "apart"
    images(folder, *(f"{letter}/1" for letter in "abcdef"))
    images(apart, "y", "sub/z")
    images(tmp_path, "stranger")
    for letter in "abcdef":  # each leads to all others, again and again
        (folder / letter / "all").symlink_to(folder)
        (folder / letter / "up").symlink_to(tmp_path)
        for other in "abcdef":
            (folder / letter / f"to {other}").symlink_to(folder / other)
    (folder / "0").symlink_to(apart / "sub")
    (folder / "g").symlink_to(apart)
    found = [each.name for each in list_folder(folder, recursive=True).images]
    assert found == ["0/z.png", *(f"{letter}/1.png" for letter in "abcdef"), "g/y.png"]


def test_a_disk_is_no_image_folder_and_soon_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_listing, "MAX_OTHERS", 20)
    monkeypatch.setattr(folder_listing, "MAX_IMAGES", 30)
    images(tmp_path / "images", *map(str, range(30)), captions=True)  # which do not count
    assert len(list_folder(tmp_path, recursive=True).images) == 30
    for number in range(30):
        (tmp_path / "images" / f"{number}.mp3").touch()
        (tmp_path / f"{number}.mp3").touch()
    with pytest.raises(UserError, match="more than 20 files in it are no images"):
        list_folder(tmp_path, recursive=True)
    images(tmp_path / "images", "31")
    with pytest.raises(UserError, match="more than 30 images are in it"):
        list_folder(tmp_path / "images", recursive=False)


def test_images_are_in_order_however_many_are_sorted_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_listing, "_SORTED_AT_ONCE", 3)
    for number in range(25):
        (tmp_path / f"{'aB'[number % 2]}{number}.png").touch()
    found = [image.name for image in list_folder(tmp_path, recursive=False).images]
    assert found == [f"a{n}.png" for n in range(0, 25, 2)] + [f"B{n}.png" for n in range(1, 25, 2)]
