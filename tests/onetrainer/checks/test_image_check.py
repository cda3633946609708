"""A check of pictures finds what may spoil a training, says what to do, and changes nothing."""

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image, ImageFilter

from onetrainer.checks.image_check import check_dataset
from onetrainer.dataset.near_duplicates import LookingStopped
from onetrainer.errors import UserError
from onetrainer.images import image_index as picture_memory
from onetrainer.images.findings import HEADLINES, Finding, in_order, lines, summary
from onetrainer.images.image_index import PictureMemory
from onetrainer.presets import presets
from tests.onetrainer.drawn import as_jpeg, leaves


class Pictures:
    """A folder of three sound pictures with captions, to which others are added."""

    def __init__(self, folder):
        self.folder = folder
        self.values = {"data.folder": str(folder), "data.resolution": 256}
        folder.mkdir()
        for seed in range(3):
            self.add(f"p{seed}", leaves(seed, 256))

    def add(self, name, picture, caption="a thing", suffix=".png"):
        path = self.folder / f"{name}{suffix}"
        path.parent.mkdir(exist_ok=True)
        picture.save(path)
        if caption is not None:
            path.with_suffix(".txt").write_text(caption)
        return path

    def check(self, memory=None, **named):
        document = {}
        for path, value in self.values.items():
            document = presets.with_value(document, path, value)
        return check_dataset(presets.resolve(document, source=""), memory, **named)

    def found(self, *kinds):
        """The findings, of some kinds only if they are given, as (kind, name of the file)."""
        findings = self.check().findings
        return [(f.kind, f.path.name) for f in findings if not kinds or f.kind in kinds]


@pytest.fixture
def pictures(tmp_path):
    return Pictures(tmp_path / "pictures")


def test_nothing_is_found_about_sound_pictures(pictures):
    checked = pictures.check()
    assert (checked.findings, checked.pictures) == ((), 3)
    assert summary(checked.findings, 3) == "3 pictures looked at: nothing found."


def test_unreadable_pictures_are_found_by_header_and_by_pixels(pictures):
    whole = (pictures.folder / "p0.png").read_bytes()
    (pictures.folder / "cut off.png").write_bytes(whole[: len(whole) // 2])
    (pictures.folder / "text.png").write_bytes(b"hello")
    for name in ("cut off.txt", "text.txt"):
        (pictures.folder / name).write_text("a thing")
    assert sorted(pictures.found()) == [("unreadable", "cut off.png"), ("unreadable", "text.png")]


@pytest.mark.parametrize(
    ("name", "make", "remedy"),
    [
        ("raw.heic", Path.touch, "Save it as PNG or JPEG, or remove it"),
        ("gone.png", lambda path: path.symlink_to("nowhere"), "Put back what it leads to, or"),
        ("pipe.png", os.mkfifo, "Move it elsewhere, or remove it"),
        ("tiny.png", lambda path: leaves(0, 8).save(path), "Cut it, take a larger one, or"),
        ("text.png", Path.touch, "Save it anew from a program that opens it, or remove it"),
    ],
)
def test_what_is_left_out_is_told_with_what_helps(pictures, name, make, remedy):
    make(pictures.folder / name)
    (finding,) = pictures.check().findings
    assert (finding.kind, finding.path.name) == ("unreadable", name)
    assert finding.remedy.startswith(remedy)
    assert ";" not in finding.what


def test_file_of_two_folders_is_told_once(pictures):
    (pictures.folder / "text.png").write_bytes(b"hello")
    (pictures.folder / "alone.txt").write_text("a caption")
    pictures.values["data.concepts"] = [{"name": "again", "folder": str(pictures.folder)}]
    assert pictures.found() == [
        ("unreadable", "text.png"), ("duplicate", "pictures"), ("orphan", "alone.txt")
    ]  # fmt: skip


def test_folder_that_is_in_another_one_as_well_is_told(pictures):
    pictures.add("inner/x", leaves(7, 256))
    pictures.values["data.include_subfolders"] = True
    inner = {"name": "in it", "folder": str(pictures.folder / "inner"), "role": "train"}
    pictures.values["data.concepts"] = [inner]
    (finding,) = pictures.check().findings
    assert (finding.kind, finding.severity) == ("duplicate", "warning")
    assert (finding.path, finding.other) == (pictures.folder / "inner", pictures.folder)
    assert 'all of the 1 pictures of "in it" belong to "pictures" as well' in finding.what
    pictures.values["data.concepts"] = [inner | {"role": "validation"}]
    assert pictures.found() == []


def test_copy_is_the_same_file_and_the_later_one_is_told(pictures):
    shutil.copy(pictures.folder / "p1.png", pictures.folder / "p9.png")
    (pictures.folder / "p9.txt").write_text("a thing")
    (finding,) = pictures.check().findings
    assert (finding.kind, finding.severity) == ("duplicate", "warning")
    assert (finding.path.name, finding.other.name) == ("p9.png", "p1.png")
    assert "p1.png" in finding.what


def test_picture_saved_again_is_nearly_the_same(pictures):
    pictures.add("again", as_jpeg(leaves(1, 256), 70))
    (finding,) = pictures.check().findings
    assert (finding.kind, finding.severity) == ("near-duplicate", "note")
    assert {finding.path.name, finding.other.name} == {"again.png", "p1.png"}


def test_small_picture_is_told_with_its_enlargement(pictures):
    pictures.add("small", leaves(7, 128))
    (finding,) = pictures.check().findings
    assert (finding.kind, finding.path.name) == ("too-small", "small.png")
    assert "128 × 128 pixels, enlarged 2.0 times to 256 × 256" in finding.what


def test_limit_of_enlarging_makes_a_small_picture_fit(pictures):
    pictures.add("small", leaves(7, 128))
    pictures.values["data.buckets.upscale_limit"] = 1.0
    assert pictures.found() == []


def test_blurred_picture_is_found(pictures):
    pictures.add("soft", leaves(7, 256).filter(ImageFilter.GaussianBlur(2)))
    assert pictures.found() == [("blurred", "soft.png")]


def test_blur_does_not_matter_where_a_picture_is_made_much_smaller(pictures):
    pictures.add("soft", leaves(7, 1024).filter(ImageFilter.GaussianBlur(2)))
    assert pictures.found() == []


@pytest.mark.parametrize("way", [Image.Resampling.NEAREST, Image.Resampling.BILINEAR])
def test_enlarged_picture_is_found_with_the_size_that_it_has(pictures, way):
    pictures.add("large", leaves(7, 200).resize((600, 600), way))
    pictures.values["data.resolution"] = 512
    (finding,) = [f for f in pictures.check().findings if f.path.name == "large.png"]
    assert finding.kind == "upscaled"
    width = int(finding.what.partition("about ")[2].split()[0])
    assert 150 <= width <= 260


def test_missing_and_empty_captions_are_told_apart(pictures):
    pictures.add("bare", leaves(7, 256), caption=None)
    pictures.add("blank", leaves(8, 256), caption=" \n")
    assert pictures.found() == [("caption-missing", "bare.png"), ("caption-empty", "blank.png")]


def test_no_caption_at_all_is_told_of_each_picture(pictures):
    for path in pictures.folder.glob("*.txt"):
        path.unlink()
    assert pictures.found() == [("caption-missing", f"p{seed}.png") for seed in range(3)]


def test_caption_of_another_source_needs_no_file(pictures):
    for path in pictures.folder.glob("*.txt"):
        path.unlink()
    pictures.values["data.caption_source"] = "names"
    assert pictures.found() == []


@pytest.mark.parametrize(("words", "is_long"), [(38, False), (39, True)])
def test_long_caption_is_told_counting_words_and_signs(pictures, words, is_long):
    pictures.add("p0", leaves(0, 256), caption=", ".join(["word"] * words))
    assert pictures.found() == [("caption-long", "p0.png")] * is_long


def test_files_of_no_picture_are_told(pictures):
    (pictures.folder / "lost.txt").write_text("a thing")
    Image.new("L", (256, 256)).save(pictures.folder / "gone-masklabel.png")
    assert sorted(pictures.found()) == [("orphan", "gone-masklabel.png"), ("orphan", "lost.txt")]


def test_lines_of_a_list_that_name_no_picture_are_told(pictures, tmp_path):
    rows = [f'{{"file": "{name}.png", "caption": "a cat"}}' for name in ("p0", "p1", "p2", "p7")]
    (tmp_path / "list.jsonl").write_text("\n".join(rows))
    pictures.values |= {"data.caption_source": "list"}
    pictures.values |= {"data.caption_list": str(tmp_path / "list.jsonl")}
    (found,) = pictures.check().findings
    assert (found.kind, found.path) == ("orphan", tmp_path / "list.jsonl")
    assert 'line 4 is about "p7.png"' in found.what


def test_masks_are_missing_or_of_another_shape(pictures):
    pictures.values["data.masks"] = "files"
    Image.new("L", (128, 128), 255).save(pictures.folder / "p0-masklabel.png")
    Image.new("L", (128, 100), 255).save(pictures.folder / "p1-masklabel.png")
    assert pictures.found() == [("mask-missing", "p2.png"), ("mask-shape", "p1-masklabel.png")]


def test_a_folder_without_any_mask_is_told_once(pictures):
    pictures.values["data.masks"] = "files"
    (found,) = pictures.check().findings
    assert (found.kind, found.path) == ("mask-missing", pictures.folder)
    assert "cat-masklabel.png" in found.remedy
    for name in ("p1", "p2"):
        (pictures.folder / f"{name}.png").unlink()
    assert pictures.found("mask-missing") == [("mask-missing", "p0.png")]


def held_out(pictures, picture):
    pictures.values |= {
        "validation.use": True,
        "validation.folder": str(pictures.folder.with_name("apart")),
    }
    pictures.add("../apart/h", picture)


def test_held_out_picture_that_is_learned_too_is_a_leak(pictures):
    held_out(pictures, as_jpeg(leaves(2, 256), 60))
    (finding,) = pictures.check().findings
    assert (finding.kind, finding.severity) == ("leak", "error")
    assert (finding.path.name, finding.other.name) == ("h.png", "p2.png")


def test_other_held_out_picture_is_no_leak(pictures):
    held_out(pictures, leaves(9, 256))
    assert pictures.found() == []


@pytest.mark.parametrize("is_together", [True, False])
def test_share_leaks_only_where_similar_pictures_are_not_kept_together(pictures, is_together):
    for seed in range(3):
        pictures.add(f"twin{seed}", as_jpeg(leaves(seed, 256), 60))
    pictures.values |= {"validation.use": True, "validation.share": 0.34}
    pictures.values["validation.keep_similar"] = is_together
    assert bool(pictures.found("leak")) is not is_together


def test_every_folder_is_checked(pictures):
    pictures.add("../more/small", leaves(7, 128))
    pictures.values["data.concepts"] = [{"folder": str(pictures.folder.with_name("more"))}]
    assert pictures.found() == [("too-small", "small.png")]


def test_folder_without_pictures_is_one_finding_beside_others(pictures):
    empty = pictures.folder.with_name("empty")
    pictures.values["data.concepts"] = [{"folder": str(empty)}]
    assert pictures.found() == [("unreadable", "empty")]
    pictures.values["data.folder"] = str(empty)
    with pytest.raises(UserError, match="there is no such folder"):
        pictures.check()


def test_vae_needs_no_captions(pictures):
    pictures.add("bare", leaves(7, 256), caption=None)
    pictures.values |= {"objective.kind": "reconstruction", "method.kind": "vae"}
    assert pictures.found() == []


def test_second_check_reads_no_unchanged_picture(pictures, tmp_path, monkeypatch):
    now = picture_memory.time.time_ns
    monkeypatch.setattr(picture_memory.time, "time_ns", lambda: now() + 60_000_000_000)
    shutil.copy(pictures.folder / "p1.png", pictures.folder / "p9.png")
    with closing(PictureMemory(tmp_path / "cache")) as memory:
        first = pictures.check(memory)
    assert first.findings
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail("a picture was read"))
    with closing(PictureMemory(tmp_path / "cache")) as memory:
        assert pictures.check(memory) == first


def test_progress_counts_every_picture_and_checks_stop_when_asked(pictures):
    seen = []
    pictures.check(progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    with pytest.raises(LookingStopped):
        pictures.check(should_stop=lambda: True)


def test_no_file_is_changed(pictures):
    pictures.values["data.masks"] = "files"
    Image.new("L", (128, 100), 255).save(pictures.folder / "p1-masklabel.png")
    (pictures.folder / "text.png").write_bytes(b"hello")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files(pictures)}
    assert pictures.check().findings
    assert {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files(pictures)
    } == before


def files(pictures):
    return sorted(pictures.folder.parent.rglob("*.*"))


def finding(kind, name="a.png", remedy="Do it"):
    return Finding(kind, "note", Path("/pictures") / name, "it is wrong", remedy)


def test_worst_kinds_come_first():
    every = [finding(kind) for kind in reversed(HEADLINES)]
    assert [one.kind for one in in_order(every)] == list(HEADLINES)


def test_lines_tell_a_common_remedy_once_and_count_what_is_too_much():
    some = [finding("blurred", f"{number}.png") for number in range(5)]
    told = lines(some, most=2)
    assert told == [
        "Blurred (5)",
        "  Do it.",
        "  note: /pictures/0.png: it is wrong.",
        "  note: /pictures/1.png: it is wrong.",
        "  and 3 more",
    ]


def test_lines_tell_each_remedy_and_nothing_that_a_terminal_obeys():
    some = [finding("orphan", "a\x1b[2J.png", "One"), finding("orphan", "b.png", "Two")]
    told = lines(some)
    assert told[1].endswith("a?[2J.png: it is wrong. One.")
    assert told[2] == "  note: /pictures/b.png: it is wrong. Two."


def test_summary_counts_by_severity():
    some = [finding("orphan"), finding("blurred")]
    assert summary(some, 1) == "1 picture looked at: 2 notes."
