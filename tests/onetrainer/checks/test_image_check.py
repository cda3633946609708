"""A check of images finds what may spoil a training, says what to do, and changes nothing."""

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image, ImageFilter

from onetrainer.checks.image_check import check_dataset
from onetrainer.dataset.near_duplicates import AnalysisCancelled
from onetrainer.errors import UserError
from onetrainer.images import image_index as image_memory
from onetrainer.images.findings import Finding, format_findings, summary
from onetrainer.images.image_index import ImageIndex
from onetrainer.presets import presets
from tests.onetrainer.generated_images import as_jpeg, leaves


class Images:
    """A folder of three sound images with captions, to which others are added."""

    def __init__(self, folder):
        self.folder = folder
        self.values = {"data.folder": str(folder), "data.resolution": 256}
        folder.mkdir()
        for seed in range(3):
            self.add(f"p{seed}", leaves(seed, 256))

    def add(self, name, image, caption="a thing", suffix=".png"):
        path = self.folder / f"{name}{suffix}"
        path.parent.mkdir(exist_ok=True)
        image.save(path)
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
def images(tmp_path):
    return Images(tmp_path / "pictures")


def test_nothing_is_found_about_sound_images(images):
    checked = images.check()
    assert (checked.findings, checked.images) == ((), 3)
    assert summary(checked.findings, 3) == "3 images checked: no problems found."


def test_unreadable_images_are_found_by_header_and_by_pixels(images):
    whole = (images.folder / "p0.png").read_bytes()
    (images.folder / "cut off.png").write_bytes(whole[: len(whole) // 2])
    (images.folder / "text.png").write_bytes(b"hello")
    for name in ("cut off.txt", "text.txt"):
        (images.folder / name).write_text("a thing")
    assert sorted(images.found()) == [("unreadable", "cut off.png"), ("unreadable", "text.png")]


@pytest.mark.parametrize(
    ("name", "make", "remedy"),
    [
        ("raw.heic", Path.touch, "Save it as PNG or JPEG, or remove it"),
        ("gone.png", lambda path: path.symlink_to("nowhere"), "Restore the linked file, or"),
        ("pipe.png", os.mkfifo, "Move it elsewhere, or remove it"),
        ("tiny.png", lambda path: leaves(0, 8).save(path), "Crop it, use a larger one, or"),
        ("text.png", Path.touch, "Save it again from a program that opens it, or remove it"),
    ],
)
def test_what_is_left_out_is_reported_with_what_helps(images, name, make, remedy):
    make(images.folder / name)
    (finding,) = images.check().findings
    assert (finding.kind, finding.path.name) == ("unreadable", name)
    assert finding.remedy.startswith(remedy)
    assert ";" not in finding.what


def test_file_of_two_folders_is_reported_once(images):
    (images.folder / "text.png").write_bytes(b"hello")
    (images.folder / "alone.txt").write_text("a caption")
    images.values["data.concepts"] = [{"name": "again", "folder": str(images.folder)}]
    assert images.found() == [
        ("unreadable", "text.png"), ("duplicate", "pictures"), ("orphan", "alone.txt")
    ]  # fmt: skip


def test_folder_that_is_in_another_one_as_well_is_reported(images):
    images.add("inner/x", leaves(7, 256))
    images.values["data.include_subfolders"] = True
    inner = {"name": "in it", "folder": str(images.folder / "inner"), "role": "train"}
    images.values["data.concepts"] = [inner]
    (finding,) = images.check().findings
    assert (finding.kind, finding.severity) == ("duplicate", "warning")
    assert (finding.path, finding.other) == (images.folder / "inner", images.folder)
    assert 'all of the 1 images of "in it" are also in "pictures"' in finding.what
    images.values["data.concepts"] = [inner | {"role": "validation"}]
    assert images.found() == []


def test_copy_is_the_same_file_and_the_later_one_is_reported(images):
    shutil.copy(images.folder / "p1.png", images.folder / "p9.png")
    (images.folder / "p9.txt").write_text("a thing")
    (finding,) = images.check().findings
    assert (finding.kind, finding.severity) == ("duplicate", "warning")
    assert (finding.path.name, finding.other.name) == ("p9.png", "p1.png")
    assert "p1.png" in finding.what


def test_image_saved_again_is_nearly_the_same(images):
    images.add("again", as_jpeg(leaves(1, 256), 70))
    (finding,) = images.check().findings
    assert (finding.kind, finding.severity) == ("near-duplicate", "note")
    assert {finding.path.name, finding.other.name} == {"again.png", "p1.png"}


def test_small_image_is_reported_with_its_enlargement(images):
    images.add("small", leaves(7, 128))
    (finding,) = images.check().findings
    assert (finding.kind, finding.path.name) == ("too-small", "small.png")
    assert "128 × 128 pixels, enlarged 2.0 times to 256 × 256" in finding.what


def test_limit_of_enlarging_makes_a_small_image_fit(images):
    images.add("small", leaves(7, 128))
    images.values["data.buckets.upscale_limit"] = 1.0
    assert images.found() == []


def test_blurred_image_is_found(images):
    images.add("soft", leaves(7, 256).filter(ImageFilter.GaussianBlur(2)))
    assert images.found() == [("blurred", "soft.png")]


def test_blur_does_not_matter_where_an_image_is_made_much_smaller(images):
    images.add("soft", leaves(7, 1024).filter(ImageFilter.GaussianBlur(2)))
    assert images.found() == []


@pytest.mark.parametrize("way", [Image.Resampling.NEAREST, Image.Resampling.BILINEAR])
def test_enlarged_image_is_found_with_the_size_that_it_has(images, way):
    images.add("large", leaves(7, 200).resize((600, 600), way))
    images.values["data.resolution"] = 512
    (finding,) = [f for f in images.check().findings if f.path.name == "large.png"]
    assert finding.kind == "upscaled"
    width = int(finding.what.partition("about ")[2].split()[0])
    assert 150 <= width <= 260


def test_missing_and_empty_captions_are_reported_apart(images):
    images.add("bare", leaves(7, 256), caption=None)
    images.add("blank", leaves(8, 256), caption=" \n")
    assert images.found() == [("caption-missing", "bare.png"), ("caption-empty", "blank.png")]


def test_no_caption_at_all_is_reported_of_each_image(images):
    for path in images.folder.glob("*.txt"):
        path.unlink()
    assert images.found() == [("caption-missing", f"p{seed}.png") for seed in range(3)]


@pytest.mark.parametrize(("words", "is_long"), [(38, False), (39, True)])
def test_long_caption_is_reported_by_estimated_tokens(images, words, is_long):
    images.add("p0", leaves(0, 256), caption=", ".join(["word"] * words))
    assert images.found() == [("caption-long", "p0.png")] * is_long


def test_files_of_no_image_are_reported(images):
    (images.folder / "lost.txt").write_text("a thing")
    Image.new("L", (256, 256)).save(images.folder / "gone-masklabel.png")
    assert sorted(images.found()) == [("orphan", "gone-masklabel.png"), ("orphan", "lost.txt")]


def test_lines_of_a_list_that_name_no_image_are_reported(images, tmp_path):
    rows = [f'{{"file": "{name}.png", "caption": "a cat"}}' for name in ("p0", "p1", "p2", "p7")]
    (tmp_path / "list.jsonl").write_text("\n".join(rows))
    images.values |= {"data.caption_source": "list"}
    images.values |= {"data.caption_list": str(tmp_path / "list.jsonl")}
    (found,) = images.check().findings
    assert (found.kind, found.path) == ("orphan", tmp_path / "list.jsonl")
    assert 'line 4 names "p7.png"' in found.what


def test_masks_are_missing_or_of_another_shape(images):
    images.values["data.masks"] = "files"
    Image.new("L", (128, 128), 255).save(images.folder / "p0-masklabel.png")
    Image.new("L", (128, 100), 255).save(images.folder / "p1-masklabel.png")
    assert images.found() == [("mask-missing", "p2.png"), ("mask-shape", "p1-masklabel.png")]


def test_a_folder_without_any_mask_is_reported_once(images):
    images.values["data.masks"] = "files"
    (found,) = images.check().findings
    assert (found.kind, found.path) == ("mask-missing", images.folder)
    assert "cat-masklabel.png" in found.remedy
    for name in ("p1", "p2"):
        (images.folder / f"{name}.png").unlink()
    assert images.found("mask-missing") == [("mask-missing", "p0.png")]


def validation(images, image):
    images.values |= {
        "validation.use": True,
        "validation.folder": str(images.folder.with_name("apart")),
    }
    images.add("../apart/h", image)


def test_validation_image_that_is_trained_too_is_a_leak(images):
    validation(images, as_jpeg(leaves(2, 256), 60))
    (finding,) = images.check().findings
    assert (finding.kind, finding.severity) == ("leak", "error")
    assert (finding.path.name, finding.other.name) == ("h.png", "p2.png")


def test_other_validation_image_is_no_leak(images):
    validation(images, leaves(9, 256))
    assert images.found() == []


@pytest.mark.parametrize("is_together", [True, False])
def test_share_leaks_only_where_similar_images_are_not_kept_together(images, is_together):
    for seed in range(3):
        images.add(f"twin{seed}", as_jpeg(leaves(seed, 256), 60))
    images.values |= {"validation.use": True, "validation.split": 0.34}
    images.values["validation.keep_similar"] = is_together
    assert bool(images.found("leak")) is not is_together


def test_folder_without_images_is_one_finding_next_to_others(images):
    empty = images.folder.with_name("empty")
    images.values["data.concepts"] = [{"folder": str(empty)}]
    assert images.found() == [("unreadable", "empty")]
    images.values["data.folder"] = str(empty)
    with pytest.raises(UserError, match="there is no such folder"):
        images.check()


def test_vae_needs_no_captions(images):
    images.add("bare", leaves(7, 256), caption=None)
    images.values |= {"objective.kind": "reconstruction", "method.kind": "vae"}
    assert images.found() == []


def test_second_check_reads_no_unchanged_image(images, tmp_path, monkeypatch):
    now = image_memory.time.time_ns
    monkeypatch.setattr(image_memory.time, "time_ns", lambda: now() + 60_000_000_000)
    shutil.copy(images.folder / "p1.png", images.folder / "p9.png")
    with closing(ImageIndex(tmp_path / "cache")) as memory:
        first = images.check(memory)
    assert first.findings
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail("a picture was read"))
    with closing(ImageIndex(tmp_path / "cache")) as memory:
        assert images.check(memory) == first


def test_progress_counts_every_image_and_checks_stop_when_asked(images):
    seen = []
    images.check(progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    with pytest.raises(AnalysisCancelled):
        images.check(should_stop=lambda: True)


def test_no_file_is_changed(images):
    images.values["data.masks"] = "files"
    Image.new("L", (128, 100), 255).save(images.folder / "p1-masklabel.png")
    (images.folder / "text.png").write_bytes(b"hello")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files(images)}
    assert images.check().findings
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files(images)} == before


def files(images):
    return sorted(images.folder.parent.rglob("*.*"))


def finding(kind, name="a.png", remedy="Do it"):
    return Finding(kind, Path("/pictures") / name, "it is wrong", remedy)


def test_lines_give_a_common_remedy_once_and_count_what_is_too_much():
    some = [finding("blurred", f"{number}.png") for number in range(5)]
    told = format_findings(some, most=2)
    assert told == [
        "Blurred (5)",
        "  Do it.",
        "  warning: /pictures/0.png: it is wrong.",
        "  warning: /pictures/1.png: it is wrong.",
        "  and 3 more",
    ]


def test_lines_give_each_remedy_and_nothing_that_a_terminal_obeys():
    some = [finding("orphan", "a\x1b[2J.png", "One"), finding("orphan", "b.png", "Two")]
    told = format_findings(some)
    assert told[1].endswith("a?[2J.png: it is wrong. One.")
    assert told[2] == "  note: /pictures/b.png: it is wrong. Two."


def test_summary_counts_by_severity():
    some = [finding("orphan"), finding("blurred")]
    assert summary(some, 1) == "1 image checked: 1 warning, 1 note."
