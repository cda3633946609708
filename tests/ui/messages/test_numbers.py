"""Cards, Preview, terminal and run tell one number of one thing, whatever the images are."""

import json
import random
from contextlib import closing, suppress

import pytest
from PIL import Image

from modules.assembly.dataset import read_images
from onetrainer.dataset.batch_plan import batch_plan
from onetrainer.errors import UserError
from onetrainer.images.image_index import ImageIndex
from onetrainer.messages.dataset import format_preview
from onetrainer.messages.formatting import counted, format_epochs
from onetrainer.run.event_log import EventWriter
from tests.each import each
from tests.onetrainer.generated_images import as_jpeg, leaves
from ui.background.background_query import CancelToken
from ui.background.dataset_preview import compute_preview
from ui.messages.dataset import facts
from ui.model.draft import Draft
from ui.pages.settings.amounts import steps_in
from ui.pages.settings.summary_card import data_lines, run_lines

SIZES = ((64, 64), (88, 48), (48, 88), (128, 96), (12, 64), (600, 64))  # the last two: unusable


def write_images(folder, rng, count):
    """Images of several sizes, some alike; some whose end is missing, and one that is none."""
    folder.mkdir()
    for number in range(count):
        size = rng.choice(SIZES) if number > 2 else SIZES[0]
        image = leaves(rng.randrange(4) if rng.random() < 0.3 else 100 + number, 96).resize(size)
        path = folder / f"{number}.{rng.choice(['png', 'jpg'])}"
        as_jpeg(image, 90).save(path)
        path.with_suffix(".txt").write_text(f"leaf {number}" if rng.random() < 0.8 else "")
        if number > 2 and rng.random() < 0.2:
            path.write_bytes(path.read_bytes()[: rng.randrange(700, 900)])
    (folder / "0.txt").write_text("a leaf")
    (folder / "none.png").write_bytes(b"nothing")
    return str(folder)


def random_config(root, seed):
    rng = random.Random(seed)
    concept = {"folder": write_images(root / "more", rng, rng.randrange(4, 9))}
    concept |= {"repeats": rng.choice([1, 2, 1.5]), "images": rng.choice([0, 0, 5])}
    data = {"folder": write_images(root / "cats", rng, rng.randrange(6, 14)), "resolution": 64}
    data["concepts"] = [concept] if rng.random() < 0.6 else []
    if rng.random() < 0.3:
        data["class_folder"] = write_images(root / "class", rng, 5)
    if rng.random() < 0.5:
        data["buckets"] = {"resolutions": [{"resolution": 96}]}
    length = rng.choice([rng.randrange(1, 40), f"{rng.randrange(1, 6)} epochs", "50 images"])
    return {
        "data": data | {"require_captions": False},
        "validation": {
            "use": rng.random() < 0.6,
            "split": rng.choice([0.1, 0.3]),
            "keep_similar": rng.random() < 0.5,
        },
        "training": {
            "steps": length,
            "batch_size": rng.randrange(1, 5),
            "accumulation": rng.randrange(1, 3),
        },
        "output": {"folder": str(root / "runs")},
    }


def is_sound(item):
    with suppress(OSError, SyntaxError), Image.open(item.path) as image:
        image.load()
        return True
    return False


def run_of(config, folder):
    """The plan, steps and images of the config's run, and those it validates, by decoding all.

    None where all images that it needs for something are damaged, so that it cannot start.
    """
    folder.mkdir()
    events = EventWriter(folder / "events.jsonl")
    with closing(events), closing(ImageIndex(folder)) as index:
        dataset = read_images(config, index, events, lambda: False)
    kept = [number for number, item in enumerate(dataset.items) if is_sound(item)]
    validation = [item for item in dataset.validation or () if is_sound(item)]
    uses = [
        {item.is_prior for item in some}
        for some in ([dataset.items[n] for n in kept], dataset.items)
    ]
    if uses[0] != uses[1] or (dataset.validation and not validation):
        return None
    plan = batch_plan(config, dataset, kept=kept)
    length, steps, images = config.training.steps, [], 0
    while True:  # step by step, as a run makes them
        if isinstance(length, int):
            is_done = len(steps) == length
        elif length.unit == "epochs":
            is_done = plan.epoch_of(len(steps)) >= length.count
        else:
            is_done = images >= length.count
        if is_done:
            break
        steps.append(plan.at(len(steps)))
        images += len(steps[-1].images)
    return plan, steps, len(kept), len(validation)


@pytest.fixture
def settled(monkeypatch):
    """Files this new are not relied on, which is no matter here."""
    monkeypatch.setattr("onetrainer.images.header.SETTLED_NS", 0)


@each("seed", range(12))
def test_every_place_tells_the_numbers_of_the_steps_that_a_run_makes(tmp_path, home, settled, seed):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(random_config(tmp_path, seed)))
    draft = Draft()
    draft.load(path)
    config = draft.config()
    run = run_of(config, tmp_path / "run")
    if run is None:
        with pytest.raises(UserError, match="damaged"):
            compute_preview(config, CancelToken(lambda *_: None))
        return
    plan, steps, images, validated = run
    first: list = []
    data = compute_preview(config, CancelToken(lambda *_: None, first.append))
    preview = data.preview
    assert first[0].preview.unexamined and not preview.unexamined
    used = sum(len(step.images) for step in steps)
    epoch = [step for step in steps if step.epoch == steps[0].epoch]
    is_whole = plan.steps_per_epoch <= len(steps)
    assert (preview.images, preview.validation or 0) == (images, validated)
    assert (preview.steps, preview.images_used) == (len(steps), used)
    assert preview.steps_per_epoch == plan.steps_per_epoch
    assert not is_whole or len(epoch) == preview.steps_per_epoch
    assert int(preview.epochs) == plan.epoch_of(len(steps))
    # The same in every place.
    length, epochs = counted(len(steps), "step"), format_epochs(preview.epochs)
    told = {fact.label: fact.text for fact in facts(preview)}
    card, terminal = run_lines(draft, data), "\n".join(format_preview(preview))
    assert told["Run"] == f"{length}, {epochs}"
    assert told["Total"] == counted(used, "image")
    assert f"{epochs}, {counted(used, 'image')} seen" in card
    assert any(line == length for line in card)
    assert f"{length} {'is' if len(steps) == 1 else 'are'} {epochs} with" in terminal
    assert data_lines(data, None)[0] == told["Images"] in terminal
    assert steps_in(draft.value("training.steps"), data) == len(steps)
