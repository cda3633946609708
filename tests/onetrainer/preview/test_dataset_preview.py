"""The dataset preview of a run's images, against counts by hand."""

import json
import re
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from onetrainer.config.run.validation import Validation
from onetrainer.dataset.batch_plan import BatchPlan, concept_slices
from onetrainer.dataset.buckets import Bucket
from onetrainer.dataset.dataset import read_dataset
from onetrainer.dataset.near_duplicates import near_duplicate_groups
from onetrainer.dataset.pixel_facts import PixelFacts
from onetrainer.errors import UserError
from onetrainer.images.image_index import ImageIndex
from onetrainer.messages.dataset import as_document, format_preview
from onetrainer.presets.presets import resolve
from onetrainer.preview.dataset_preview import caption_examples, preview_dataset
from tests.each import each
from tests.images import folder
from tests.onetrainer.generated_images import as_jpeg, leaves

SQUARE, WIDE = Bucket(64, 64), Bucket(88, 48)


def config(root, /, *, data=None, **sections):
    data = {"folder": str(root / "cats"), "resolution": 64} | (data or {})
    return resolve({"data": data, "output": {"folder": str(root / "runs")}, **sections}, source="")


@pytest.fixture
def root(tmp_path):
    """Five square images, two wide ones, and one that is no image."""
    folder(tmp_path / "cats", [(64, 64)] * 4 + [(128, 128)] + [(88, 48)] * 2)
    (tmp_path / "cats" / "bad.png").write_bytes(b"nothing")
    return tmp_path


def test_sizes_and_steps_are_counted(root):
    plan = preview_dataset(config(root, training={"batch_size": 2, "accumulation": 1, "steps": 9}))
    assert {one.bucket: (one.images, one.images_used, one.batches) for one in plan.buckets} == {
        SQUARE: (5, 5, 3),
        WIDE: (2, 2, 1),
    }
    assert (plan.steps_per_epoch, plan.small_steps, plan.images_per_epoch) == (4, 1, 7)
    assert plan.epochs == 2.25
    assert plan.images_used in (15, 16)  # two epochs, and a step of one or two images
    assert [one.path.name for one in plan.skipped] == ["bad.png"]


@pytest.mark.parametrize("repeats", [2, 1.25])
def test_what_is_reported_of_a_run_is_what_its_steps_show(root, repeats):
    more = {"folder": str(folder(root / "more", [(48, 88)] * 3)), "repeats": repeats}
    data = {"concepts": [more], "class_folder": str(folder(root / "class", [(64, 64)] * 5))}
    made = config(root, data=data, training={"batch_size": 3, "steps": 23})
    plan = preview_dataset(made)
    portions = concept_slices(read_dataset(made), is_cached=True)
    batches = BatchPlan(portions, batch_size=3, accumulation=1, seed=0)
    shown = [batches.at(step) for step in range(23)]
    assert plan.images_used == sum(len(step.images) for step in shown)
    assert int(plan.epochs) == batches.epoch_of(23)
    first = [step for step in shown if step.epoch == 0]
    assert plan.images_per_epoch == sum(len(step.images) for step in first)
    assert plan.steps_per_epoch == len(first)


def test_a_long_run_of_many_images_counts_few_of_its_epochs(root, monkeypatch):
    counted = []
    real = BatchPlan.bucket_counts
    monkeypatch.setattr(
        BatchPlan, "bucket_counts", lambda self, n: counted.append(n) or real(self, n)
    )
    monkeypatch.setattr("onetrainer.preview.dataset_preview.EXACT_IMAGES", 70)
    data = {"class_folder": str(folder(root / "class", [(64, 64), (88, 48), (48, 88)]))}
    plan = preview_dataset(config(root, data=data, training={"steps": 100_000}))
    assert max(counted) == 4  # five epochs, of 14 images each
    assert plan.epochs == pytest.approx(100_000 / 14, rel=1e-3)
    assert plan.images_used == pytest.approx(100_000, rel=1e-3)


def test_images_are_counted_by_folder_and_by_what_they_are_for(root):
    validation = {"folder": str(folder(root / "held", [(64, 64)] * 2)), "role": "validation"}
    kept = {"folder": str(folder(root / "kept", [(64, 64)] * 3)), "role": "prior", "images": 10}
    data = {"concepts": [validation, kept]}
    plan = preview_dataset(config(root, data=data, validation={"use": True}))
    reported = {one.name: (one.images, one.validation, one.per_epoch) for one in plan.concepts}
    assert reported == {"cats": (7, 0, 7), "held": (0, 2, 0), "kept": (3, 0, 10)}
    assert (plan.images, plan.validation) == (10, 2)


@pytest.fixture
def alike(tmp_path, monkeypatch):
    """The config of four images of three likes each, and an index for their signatures."""
    # Files this new are not relied on, which is no matter here.
    monkeypatch.setattr("onetrainer.images.header.SETTLED_NS", 0)
    (tmp_path / "cats").mkdir()
    for seed in range(4):
        for quality in (95, 80, 60):
            as_jpeg(leaves(seed, 96), quality).save(tmp_path / f"cats/{quality}-{seed}.png")
    section = {"use": True, "split": 0.4, "keep_similar": True}
    data = {"require_captions": False}
    with closing(ImageIndex(tmp_path / "cache")) as memory:
        yield config(tmp_path, data=data, validation=section), memory


def test_validation_images_are_those_of_the_run_where_all_features_are_cached(alike):
    made, memory = alike
    run = read_dataset(
        made, group_similar=lambda items: near_duplicate_groups(items, memory)
    ).validation
    plan = preview_dataset(made, PixelFacts(memory))
    assert plan.dataset.validation == run and not plan.validation_may_change
    seeds = {item.path.stem.partition("-")[2] for item in run}
    assert len(run) == 3 * len(seeds) > 0
    assert "They are not known yet" not in "\n".join(format_preview(plan))


def test_validation_may_change_where_features_of_one_image_are_not_cached(alike):
    made, memory = alike
    found = read_dataset(made)
    near_duplicate_groups([*found.items[1:], *found.validation], memory)
    plan = preview_dataset(made, PixelFacts(memory))
    assert plan.validation_may_change
    assert as_document(plan)["validation_may_change"]
    assert plan.dataset.validation == found.validation
    assert "They are not known yet" in "\n".join(format_preview(plan))


def test_images_known_to_be_damaged_are_left_out_as_the_run_leaves_them_out(alike):
    made, memory = alike
    bad = Path(made.data.folder, "60-2.png")
    bad.write_bytes(bad.read_bytes()[:2000])
    assert preview_dataset(made, PixelFacts(memory)).skipped == ()
    run = read_dataset(made, group_similar=lambda items: near_duplicate_groups(items, memory))
    plan = preview_dataset(made, PixelFacts(memory))
    # A run decodes its images after it has divided them.
    assert plan.dataset.items == tuple(item for item in run.items if item.path != bad)
    assert plan.dataset.validation == tuple(item for item in run.validation if item.path != bad)
    assert [one.path for one in plan.skipped] == [bad]
    assert "1 image left out: 60-2.png: damaged" in (reported := "\n".join(format_preview(plan)))
    assert "They are not known yet" not in reported


def test_nothing_to_train_is_reported_where_all_images_are_known_to_be_damaged(alike):
    made, memory = alike
    found = read_dataset(made)
    for item in found.items:
        item.path.write_bytes(item.path.read_bytes()[:2000])
    near_duplicate_groups([*found.items, *found.validation], memory)
    without = made.model_copy(update={"validation": Validation()})
    assert preview_dataset(without, PixelFacts(memory)).images == len(found.validation)
    for item in found.validation:
        item.path.write_bytes(item.path.read_bytes()[:2000])
    near_duplicate_groups(found.validation, memory)
    with pytest.raises(UserError, match=r"are damaged .*damaged"):
        preview_dataset(without, PixelFacts(memory))


def test_notes_name_their_folder_where_there_are_several(root):
    one, other = folder(root / "a/more", [(64, 64)]), folder(root / "b/more", [(64, 64)] * 2)
    data = {"masks": "files"}
    (note,) = preview_dataset(config(root, data=data)).notes
    assert note.startswith("none of its images has a mask, so they are trained whole. Add a mask")
    data["concepts"] = [{"folder": str(one)}, {"folder": str(other)}]
    found = [note.partition(": ")[0] for note in preview_dataset(config(root, data=data)).notes]
    assert found == ["cats", str(one), str(other)]


def test_images_without_a_caption_are_named_and_no_more_than_a_few(root):
    for number in (1, 2, 4, 6):
        (root / f"cats/{number}.txt").unlink()
    plan = preview_dataset(config(root))
    assert [path.name for path in plan.without_caption] == ["1.png", "2.png", "4.png", "6.png"]
    assert "4 images without a caption: 1.png, 2.png, 4.png …." in format_preview(plan)
    assert as_document(plan)["without_caption"] == [str(path) for path in plan.without_caption]


def test_a_very_long_caption_is_reported_by_its_beginning(root):
    (root / "cats" / "0.txt").write_text("many " * 5000)
    plan = preview_dataset(config(root))
    (reported,) = (line for line in format_preview(plan) if "many many" in line)
    assert reported.endswith("many … (5,000 words)") and len(reported) < 450
    assert len(as_document(plan)["captions"][0]["samples"][0]) > 20_000


def test_enlarged_and_cut_images_are_named_the_worst_first(root):
    Image.new("RGB", (16, 16)).save(root / "cats" / "tiny.png")
    Image.new("RGB", (32, 32)).save(root / "cats" / "small.png")
    Image.new("RGB", (700, 100)).save(root / "cats" / "long.png")
    plan = preview_dataset(config(root))
    assert [(one.path.name, one.amount) for one in plan.enlarged.most] == [
        ("tiny.png", 4.0),
        ("small.png", 2.0),
    ]
    assert [one.path.name for one in plan.cropped.most] == ["long.png"]
    # Of 7:1, a size of 4:1 shows 4/7.
    assert plan.cropped.most[0].amount == pytest.approx(1 - 4 / 7, abs=0.01)


def test_captions_are_shown_as_they_will_be_sampled(root):
    made = config(root, data={"trigger": "sks", "captions": {"shuffle": True}})
    for example in preview_dataset(made).captions:
        assert len(set(example.samples)) > 1
        for caption in example.samples:
            assert caption.startswith("sks, ")
            assert {"a cat", "red", "sitting"} <= set(caption.split(", "))
    plain = caption_examples(read_dataset(config(root)), count=3)
    assert [one.path.stem for one in plain] == ["0", "3", "6"]
    assert [one.samples for one in plain] == [(f"a cat, red, sitting, {n}",) for n in (0, 3, 6)]


def test_the_cache_takes_what_its_transforms_and_captions_take(root):
    plan = preview_dataset(config(root, hardware={"precision": "bf16"})).cache
    # Mean and deviation, four channels of float32, of 8 × 8 and of 11 × 6; seven captions and the
    # empty one, 77 tokens of 768 numbers of 16 bits.
    assert plan.image_bytes == 2 * 4 * 4 * (5 * 8 * 8 + 2 * 11 * 6)
    assert plan.caption_bytes == 8 * 77 * 768 * 2
    assert (plan.latents, plan.captions) == (7, 8)
    assert plan.pixels == 5 * 64 * 64 + 2 * 88 * 48
    assert plan.folder == root / "runs" / "cache"
    assert plan.free_bytes > 0


@each(
    ("data", "views", "captions"),
    [
        ({"cache_latents": False}, 0, 8),
        ({"cache_text": False}, 7, 0),
        ({"augmentation": {"flip": "random"}}, 14, 8),
        ({"augmentation": {"hue": 5, "variations": 3}}, 21, 8),
        ({"buckets": {"resolutions": [{"resolution": 96}]}}, 14, 8),
    ],
)
def test_the_cache_holds_what_the_settings_ask_for(root, data, views, captions):
    cache = preview_dataset(config(root, data=data)).cache
    assert (cache.latents, cache.captions) == (views, captions)


@pytest.mark.parametrize(
    ("family", "conditioning", "bytes_more", "passes"),
    [
        ("sd15", "masks", 4, 1),
        ("sd15-inpainting", "blank", 4, 1),
        ("sd15-inpainting", "masks", 4 + 4 + 16, 2),  # what is seen is encoded as well
        ("sd15-inpainting", "files", 4, 1),
    ],
)
def test_masks_and_what_inpainting_sees_take_their_room(
    root, family, conditioning, bytes_more, passes
):
    plain = preview_dataset(config(root)).cache
    Image.new("L", (64, 64)).save(root / "cats" / "0-masklabel.png")
    data = {"masks": "files", "conditioning": conditioning}
    found = preview_dataset(config(root, data=data, model={"family": family})).cache
    assert found.image_bytes - plain.image_bytes == bytes_more * 8 * 8
    assert found.pixels - plain.pixels == (passes - 1) * 64 * 64


def test_captions_that_change_are_kept_if_they_are_few(root):
    shuffled = {"captions": {"shuffle": True}}
    few = preview_dataset(config(root, data=shuffled, training={"steps": 21})).cache.captions
    assert 8 < few <= 22
    assert (
        preview_dataset(config(root, data=shuffled, training={"steps": 20_000})).cache.captions == 0
    )


def test_without_images_there_is_nothing_to_plan(root):
    assert preview_dataset(config(root, data={"folder": ""})) is None
    with pytest.raises(UserError):
        preview_dataset(config(root, data={"folder": str(root / "nowhere")}))


def test_images_of_a_size_are_found_with_their_view(root):
    more = {"buckets": {"resolutions": [{"resolution": 128}]}}
    plan = preview_dataset(config(root, data=more))
    assert {number for _, number in plan.images_of(SQUARE)} == {0}
    assert {number for _, number in plan.images_of(Bucket(128, 128))} == {1}
    assert len(plan.images_of(WIDE)) == 2


def test_all_of_it_is_reported_as_text_and_as_json(root):
    made = config(root, training={"batch_size": 2, "steps": 9}, validation={"use": True})
    plan = preview_dataset(made)
    reported = "\n".join(format_preview(plan))
    assert "Images: 6 training, 1 validation." in reported
    assert "9 steps are" in reported
    assert "64 × 64" in reported
    assert "1 image left out: bad.png" in reported
    assert "a cat, red, sitting, 0" in reported
    document = json.loads(json.dumps(as_document(plan)))
    assert document["steps_per_epoch"] == plan.steps_per_epoch
    assert sum(one["images_used"] for one in document["buckets"]) == plan.images_per_epoch
    assert document["skipped"][0]["path"].endswith("bad.png")


def test_fractions_and_few_full_steps_are_reported(root):
    more = {"folder": str(folder(root / "more", [(64, 64)] * 3)), "repeats": 0.5}
    data = {"concepts": [more], "augmentation": {"flip": "random"}}
    made = config(root, data=data, training={"batch_size": 4, "steps": 2})
    reported = "\n".join(format_preview(preview_dataset(made)))
    assert re.search(r"^  more +3 +1\.5  training$", reported, re.MULTILINE)
    # One repeat of the three squares and the five others; two wide ones: two steps of four.
    assert "An epoch has 8 images in 2 steps; 2 steps are 1 epoch with 8 images" in reported
    assert "fewer than" not in reported
    few = preview_dataset(config(root, data=data, training={"batch_size": 5, "steps": 2}))
    assert "1 step of an epoch has fewer than 5 images" in "\n".join(format_preview(few))
    assert "Cache: 20 image variations and 8 captions" in reported  # both folders say the same


def test_names_are_reported_as_no_terminal_obeys_them_and_notes_are_counted(root, monkeypatch):
    monkeypatch.setattr("onetrainer.messages.dataset._NOTES", 0)
    for name in ("a\nline", "b", "c", "d"):
        Image.new("RGB", (20, 20)).save(root / "cats" / f"{name}.png")
        (root / "cats" / f"{name}.txt").write_bytes(b"caf\xe9")
    reported = format_preview(preview_dataset(config(root)))
    assert any("a?line.png (3.2 times)" in line for line in reported)
    assert not any("\n" in line for line in reported)
    assert "And 1 note more; --json lists all." in reported


def test_too_little_room_for_the_cache_is_reported(root, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    assert "1 kB are free there, too little." in format_preview(preview_dataset(config(root)))[-1]
