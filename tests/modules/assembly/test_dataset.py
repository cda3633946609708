"""What a run's config makes of its folders: the batches that it asks for, and what it reports."""

import time

import pytest
import torch
from PIL import Image

from modules.assembly import dataset
from modules.assembly.dataset import Caching, digests_for, prepare_images
from modules.data.cache import CachingStopped
from onetrainer.cache.store import cache_report
from onetrainer.dataset import items
from onetrainer.presets.presets import resolve
from onetrainer.run.event_log import EventReader, EventWriter
from onetrainer.run.events import Warned
from tests import tiny
from tests.close import near


class Project:
    """Two captioned images, a model, and what a run reported when it prepared them."""

    def __init__(self, folder):
        self.folder = folder
        self.family = tiny.family()
        self.images = tiny.write_images(folder / "pictures")
        self.past_warnings = []
        self.made = []

    def prepare(self, *, should_stop=lambda: False, **sections):
        data = {"folder": str(self.images), "resolution": 64, **sections.pop("data", {})}
        document = {"data": data, "training": {"batch_size": 2}, **sections}
        events = EventWriter(self.folder / "events.jsonl")
        config = resolve(document, source="test")
        made = prepare_images(
            config,
            self.family,
            Caching(self.folder / "cache", events, should_stop),
            digests=digests_for(config, self.family),
            past_warnings=(),
        )
        self.made.append(made)
        events.close()
        read = EventReader(self.folder / "events.jsonl").read().events
        self.past_warnings = [event.text for event in read if isinstance(event, Warned)]
        (self.folder / "events.jsonl").unlink()
        return made


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path)
    yield project
    for made in project.made:
        made.batches.close()


def first(made):
    return next(made.batches.at(0))


def test_plain_images_make_plain_batches(project):
    batch = first(project.prepare())
    assert (batch.pixels, batch.mask, batch.is_prior) == (None, None, ())
    assert batch.conditioning is not None
    assert project.past_warnings == []


def test_cache_is_in_use_until_the_batches_are_closed(project):
    made = project.prepare()
    assert cache_report(project.folder / "cache").is_in_use
    made.batches.close()
    assert not cache_report(project.folder / "cache").is_in_use


def test_masks_are_given_to_batches_and_count_as_data(project):
    before = project.prepare()
    Image.new("L", (32, 32), 51).save(project.images / "picture-0-masklabel.png")
    assert project.prepare().digest == before.digest
    made = project.prepare(data={"masks": "files"})
    means = sorted(first(made).mask.mean(dim=(1, 2, 3)).tolist())
    assert means == near([0.2, 1.0])
    shape, missing = project.past_warnings
    assert shape.startswith("picture-0-masklabel.png: one gray everywhere (51 of 255)")
    assert missing.startswith("picture-1.png: no mask, so the image is trained whole")
    assert made.digest != before.digest


def test_cache_is_no_longer_in_use_when_caching_was_stopped(project):
    with pytest.raises(CachingStopped):
        project.prepare(should_stop=lambda: True)
    assert not cache_report(project.folder / "cache").is_in_use


def test_a_clock_that_is_set_back_while_caching_removes_nothing_that_is_used(project, monkeypatch):
    now, late = time.time, [0.0]

    def encode(*given, **named):
        late[0] = 3600.0
        return encode_images(*given, **named)

    encode_images = dataset.encode_images
    monkeypatch.setattr(dataset, "encode_images", encode)
    for place in (time, dataset):
        monkeypatch.setattr(place, "time", lambda: now() - late[0])
    made = project.prepare(data={"cache_limit": 1e-6})
    assert cache_report(project.folder / "cache").entries == 2 + 3  # with the empty caption
    made.batches.close()


def test_a_stop_is_obeyed_while_near_duplicates_are_searched(project, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("it went on")

    monkeypatch.setattr(dataset, "encode_images", refuse)
    with pytest.raises(CachingStopped):
        project.prepare(validation={"use": True}, should_stop=lambda: True)


def test_a_stop_is_obeyed_while_folders_are_read_whose_progress_is_reported(project, monkeypatch):
    monkeypatch.setattr(items, "WATCHED", 1)
    seen = []
    reporting = lambda _, name="": lambda *at: seen.append((name, *at))  # noqa: E731
    monkeypatch.setattr(dataset, "progress_report", reporting)
    project.prepare()
    assert (dataset.READING, 1, 2) in seen
    monkeypatch.setattr(dataset, "encode_images", lambda *_, **__: pytest.fail("it went on"))
    with pytest.raises(CachingStopped):
        project.prepare(should_stop=lambda: True)


def test_class_images_fill_half_of_an_epoch(project):
    before = project.prepare()
    folder = tiny.write_images(project.folder / "class", ("a dog", "a cat", "a cow"))
    made = project.prepare(data={"class_folder": str(folder)})
    assert made.digest != before.digest
    steps = range(made.batches.plan.steps_per_epoch)
    batches = [batch for step in steps for batch in made.batches.at(step)]
    flags = [flag for batch in batches for flag in batch.is_prior or (False,) * len(batch.captions)]
    captions = [caption for batch in batches for caption in batch.captions]
    assert sorted(flags) == [False, False, True, True]
    for caption, is_prior in zip(captions, flags, strict=True):
        assert is_prior == (caption in ("a dog", "a cat", "a cow"))


def test_class_images_that_are_validation_are_not_trained_on(project):
    folder = tiny.write_images(project.folder / "class", ("a dog", "a cat"))
    elsewhere = project.folder / "held"
    elsewhere.mkdir()
    for name in ("picture-0.png", "picture-0.txt"):
        (elsewhere / name).symlink_to(folder / name)
    validation = {"use": True, "folder": str(elsewhere)}
    made = project.prepare(data={"class_folder": str(folder)}, validation=validation)
    kept = [item.caption for item in made.batches.batch_source.images.items if item.is_prior]
    assert kept == ["a cat"]
    assert len(made.batches.trained) == 2


def test_image_that_becomes_a_class_image_counts_as_changed(project):
    before, folder = project.prepare(), project.folder / "class"
    folder.mkdir()
    for path in project.images.glob("picture-1.*"):
        path.rename(folder / path.name)
    after = project.prepare(data={"class_folder": str(folder)})
    lines = [list(made.batches.batch_source.images.digest_lines()) for made in (before, after)]
    assert lines[0] == lines[1]
    assert after.digest != before.digest


def test_data_encoded_in_another_precision_are_the_same_data_and_changed_ones_are_not(project):
    before = project.prepare()
    project.family.vae.to(torch.bfloat16)
    encoded_otherwise = project.prepare()
    assert encoded_otherwise.digest != before.digest
    otherwise = project.prepare(training={"seed": 5}, data={"augmentation": {"flip": "always"}})
    for same in (encoded_otherwise, otherwise):
        assert (same.files, same.captions) == (before.files, before.captions)
    Image.new("RGB", (64, 64)).save(project.images / "picture-1.png")
    assert project.prepare().files != before.files
    assert project.prepare().captions == before.captions


def test_unusable_class_image_is_reported(project):
    folder = tiny.write_images(project.folder / "class", ("a dog", "a cat"))
    (folder / "picture-1.png").write_bytes(b"")
    made = project.prepare(data={"class_folder": str(folder)})
    assert made.skipped == ["picture-1.png: the file is empty"]
    assert project.past_warnings == ["left out: picture-1.png: the file is empty"]


def test_reconstruction_has_pixels_and_encodes_no_caption(project, monkeypatch):
    monkeypatch.setattr(type(project.family), "encode_text", None)
    for path in project.images.glob("*.txt"):
        path.unlink()
    Image.new("L", (64, 64)).save(project.images / "picture-0-masklabel.png")
    made = project.prepare(
        data={"masks": "files", "class_folder": str(project.folder / "nothing")},
        method={"kind": "vae"},
        objective={"kind": "reconstruction"},
    )
    batch = first(made)
    assert batch.pixels.shape == (2, 3, 64, 64)
    assert (batch.conditioning, batch.mask, batch.is_prior) == (None, None, ())


@pytest.mark.parametrize("word", ["<cat>", "red"])
def test_token_that_no_caption_contains_is_reported(project, word):
    made = project.prepare(embeddings={"tokens": [{"token": word}]})
    assert first(made).conditioning is None
    assert bool(project.past_warnings) == (word == "<cat>")
    assert all(f'"{word}"' in text for text in project.past_warnings)
