"""A check of images finds what may spoil a training, says what to do, and changes nothing."""

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image, ImageFilter

from onetrainer.checks import image_check
from onetrainer.checks.image_check import check_dataset
from onetrainer.dataset import items
from onetrainer.dataset.near_duplicates import AnalysisCancelled
from onetrainer.errors import UserError
from onetrainer.images import image_index as image_memory
from onetrainer.images.findings import Finding, format_findings, summary
from onetrainer.images.image_index import ImageIndex
from onetrainer.presets import presets
from tests.each import each
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


def soft(side):
    return leaves(7, side).filter(ImageFilter.GaussianBlur(2))


def copied(images):
    shutil.copy(images.folder / "p1.png", images.folder / "p9.png")
    (images.folder / "p9.txt").write_text("a thing")


def damaged(images):
    whole = (images.folder / "p0.png").read_bytes()
    for name, data in (("cut off", whole[: len(whole) // 2]), ("text", b"hello")):
        (images.folder / f"{name}.png").write_bytes(data)
        (images.folder / f"{name}.txt").write_text("a thing")


def listed(images):
    rows = [f'{{"file": "{name}.png", "caption": "a cat"}}' for name in ("p0", "p1", "p2", "p7")]
    (images.folder.parent / "list.jsonl").write_text("\n".join(rows))
    images.values["data.caption_list"] = str(images.folder.parent / "list.jsonl")


def masked(images, *sizes):
    for number, size in enumerate(sizes):
        Image.linear_gradient("L").resize(size).save(images.folder / f"p{number}-masklabel.png")


def with_validation(images, image):
    images.values["validation.folder"] = str(images.folder.with_name("apart"))
    images.add("../apart/h", image)


def captions_of(words):
    return lambda images: images.add("p0", leaves(0, 256), ", ".join(["word"] * words))


VALIDATES = {"validation.use": True}


@each(
    ("prepare", "values", "findings"),
    [
        (damaged, {}, ["error unreadable cut off.png", "error unreadable text.png"]),
        # Copies, and validation images that are trained as well.
        (copied, {}, ["warning duplicate p9.png p1.png | identical to p1.png"]),
        (lambda images: images.add("again", as_jpeg(leaves(1, 256), 70)), {},
         ["note near-duplicate p1.png again.png"]),
        (lambda images: with_validation(images, as_jpeg(leaves(2, 256), 60)), VALIDATES,
         ["error leak h.png p2.png"]),
        (lambda images: with_validation(images, leaves(9, 256)), VALIDATES, []),
        # Size and detail, at the size that is trained.
        (lambda images: images.add("small", leaves(7, 128)), {},
         ["warning too-small small.png | 128 × 128 pixels, enlarged 2.0 times to 256 × 256"]),
        (lambda images: images.add("small", leaves(7, 128)),
         {"data.buckets.upscale_limit": 1.0}, []),
        (lambda images: images.add("soft", soft(256)), {}, ["warning blurred soft.png"]),
        (lambda images: images.add("soft", soft(1024)), {}, []),
        # Captions.
        (lambda images: images.add("bare", leaves(7, 256), None), {},
         ["warning caption-missing bare.png"]),
        (lambda images: images.add("bare", leaves(7, 256), None),
         {"objective.kind": "reconstruction", "method.kind": "vae"}, []),
        (lambda images: images.add("blank", leaves(8, 256), " \n"), {},
         ["warning caption-empty blank.png blank.txt"]),
        (lambda images: [path.unlink() for path in images.folder.glob("*.txt")], {},
         [f"warning caption-missing p{seed}.png" for seed in range(3)]),
        (captions_of(38), {}, []),
        (captions_of(39), {}, ["note caption-long p0.png"]),
        (lambda images: images.add("open", leaves(7, 256), "a {red|green flower"),
         {"data.captions.wildcards": True},
         ['warning caption-braces open.png | a "{" without "}" before "red|green flower"']),
        (lambda images: images.add("open", leaves(7, 256), "a {red|green flower"), {}, []),
        (listed, {"data.caption_source": "list"},
         ['note orphan list.jsonl | line 4 names "p7.png"']),
        # Masks, and files of no image.
        (lambda images: masked(images, (128, 128), (128, 100)), {"data.masks": "files"},
         ["note mask-missing p2.png", "warning mask-shape p1-masklabel.png p1.png"]),
        (lambda images: masked(images, (128, 128)), {}, ["note mask-unused pictures"]),
        (lambda images: (images.folder / "lost.txt").touch(), {}, ["note orphan lost.txt"]),
        (lambda images: Image.new("L", (9, 9)).save(images.folder / "gone-masklabel.png"), {},
         ["note orphan gone-masklabel.png"]),
    ],
)  # fmt: skip
def test_each_kind_of_problem_is_found(tmp_path, prepare, values, findings):
    images = Images(tmp_path / "pictures")
    prepare(images)
    images.values |= values
    found = images.check().findings
    names = [(one.path.name, *([one.other.name] if one.other else [])) for one in found]
    reported = [
        " ".join((one.severity, one.kind, *own)) for one, own in zip(found, names, strict=True)
    ]
    assert sorted(reported) == sorted(text.partition(" | ")[0] for text in findings)
    assert all(text.partition(" | ")[2] in "".join(map(str, found)) for text in findings)


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


@pytest.mark.parametrize("way", [Image.Resampling.NEAREST, Image.Resampling.BILINEAR])
def test_enlarged_image_is_found_with_the_size_that_it_has(images, way):
    images.add("large", leaves(7, 200).resize((600, 600), way))
    images.values["data.resolution"] = 512
    (finding,) = [f for f in images.check().findings if f.path.name == "large.png"]
    assert finding.kind == "upscaled"
    width = int(finding.what.partition("about ")[2].split()[0])
    assert 150 <= width <= 260


def test_a_folder_without_any_mask_is_reported_once(images):
    images.values["data.masks"] = "files"
    (found,) = images.check().findings
    assert (found.kind, found.path) == ("mask-missing", images.folder)
    assert "cat-masklabel.png" in found.remedy
    for name in ("p1", "p2"):
        (images.folder / f"{name}.png").unlink()
    assert images.found("mask-missing") == [("mask-missing", "p0.png")]


@pytest.mark.parametrize("is_together", [True, False])
def test_a_split_leaks_only_where_similar_images_are_not_kept_together(images, is_together):
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


def test_second_check_reads_no_unchanged_image(images, tmp_path, monkeypatch):
    now = image_memory.time.time_ns
    monkeypatch.setattr(image_memory.time, "time_ns", lambda: now() + 60_000_000_000)
    shutil.copy(images.folder / "p1.png", images.folder / "p9.png")
    with closing(ImageIndex(tmp_path / "cache")) as memory:
        first = images.check(memory)
    assert first.findings
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail("an image was read"))
    with closing(ImageIndex(tmp_path / "cache")) as memory:
        assert images.check(memory) == first


def test_progress_counts_every_image_and_checks_stop_when_asked(images, monkeypatch):
    seen = []
    images.check(progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    with pytest.raises(AnalysisCancelled):
        images.check(should_stop=lambda: True)
    monkeypatch.setattr(items, "WATCHED", 1)
    monkeypatch.setattr(image_check, "extract_features", lambda *_, **__: pytest.fail("read"))
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
    reported = format_findings(some, most=2)
    assert reported == [
        "Blurred (5)",
        "  Do it.",
        "  warning: /pictures/0.png: it is wrong.",
        "  warning: /pictures/1.png: it is wrong.",
        "  and 3 more",
    ]


def test_lines_give_each_remedy_and_nothing_that_a_terminal_obeys():
    some = [finding("orphan", "a\x1b[2J.png", "One"), finding("orphan", "b.png", "Two")]
    reported = format_findings(some)
    assert reported[1].endswith("a?[2J.png: it is wrong. One.")
    assert reported[2] == "  note: /pictures/b.png: it is wrong. Two."


def test_summary_counts_by_severity():
    some = [finding("orphan"), finding("blurred")]
    assert summary(some, 1) == "1 image checked: 1 warning, 1 note."
