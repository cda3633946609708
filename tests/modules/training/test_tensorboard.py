"""What events become in TensorBoard: recorded, and read back by TensorBoard where it is there."""

import math

import numpy as np
import pytest
from PIL import Image

from modules.training import tensorboard
from modules.training.tensorboard import Board, open_board
from onetrainer.errors import UserError
from onetrainer.run.events import Checkpoint, Evaluated, Progress, Rewarded, Sample, Validated

STEP = Progress(3, 10, 1, loss=0.25, lr=1e-3, steps_per_second=2.5, memory_bytes=3 << 29)
REWARDED = Rewarded(
    3, 1.5, 0.5, 4, by_name={"clip": {"mean": 0.31, "spread": 0.02}}, last_steps=6.5, anchor=0.01
)


class Recorder:
    """Keeps what it is given."""

    def __init__(self):
        self.points, self.images, self.texts, self.is_closed = {}, {}, {}, False

    def add_scalar(self, tag, value, step, /):
        self.points[tag, step] = value

    def add_image(self, tag, pixels, step, /):
        self.images[tag, step] = pixels

    def add_text(self, tag, text, step, /):
        self.texts[tag, step] = text

    def close(self):
        self.is_closed = True


@pytest.fixture
def recorder():
    return Recorder()


def evaluation(folder):
    """Two prompts with two images each, 40 × 300 pixels, of which each has a color of its own."""
    (folder / "rewards" / "step-000003").mkdir(parents=True)
    images = []
    for number, prompt in enumerate(("a cat", "a dog")):
        for seed in (0, 1):
            path = f"rewards/step-000003/{number}-{seed}.png"
            color = (100 * number, 100 * seed, 200)
            Image.new("RGB", (40, 300), color).save(folder / path)
            images.append({"path": path, "prompt": prompt, "seed": seed, "rewards": {}})
    return Evaluated(
        3,
        reward=1.25,
        error=0.1,
        best_step=3,
        is_best=True,
        verdict="improving",
        message="Still improving.",
        rewards={"clip": {"mean": 0.3, "error": None}},
        drift={"diversity": 0.9},
        images=images,
    )


def test_numbers_become_curves(recorder, tmp_path):
    validated = Validated(3, 0.139, 0.002, 8, 3, True, "flat", "")
    last = Validated(3, 0.142, 0.002, 8, 3, True, "flat", "", weights="without_ema")
    for event in (STEP, REWARDED, validated, last, Checkpoint(3, "checkpoints/step-000003")):
        Board(recorder, tmp_path).take(event)
    assert recorder.points == {
        ("training/loss", 3): 0.25,
        ("training/learning rate", 3): 1e-3,
        ("training/steps per second", 3): 2.5,
        ("training/memory in GiB", 3): 1.5,
        ("reward/all", 3): 1.5,
        ("reward/spread of all", 3): 0.5,
        ("reward/steps with a gradient", 3): 6.5,
        ("reward/distance at the anchor", 3): 0.01,
        ("reward/clip", 3): 0.31,
        ("reward/spread of clip", 3): 0.02,
        ("validation/loss", 3): 0.139,
        ("validation/loss of the last weights", 3): 0.142,
    }


def test_the_gradient_norm_is_a_curve(recorder, tmp_path):
    event = Progress(3, 10, 1, loss=0.25, lr=1e-3, gradient_norm=0.5)
    Board(recorder, tmp_path).take(event)
    assert ("training/gradient norm", 3) in recorder.points


def test_unknown_values_have_no_point(recorder, tmp_path):
    Board(recorder, tmp_path).take(Progress(1, 10, 0, loss=0.5, lr=1e-3))
    Board(recorder, tmp_path).take(Rewarded(1, 0.5, 0.0, 1))
    assert sorted(tag for tag, _ in recorder.points) == [
        "reward/all",
        "reward/spread of all",
        "training/learning rate",
        "training/loss",
    ]


def test_an_evaluation_becomes_curves_a_text_and_a_row_of_thumbnails_a_prompt(recorder, tmp_path):
    Board(recorder, tmp_path).take(evaluation(tmp_path))
    assert recorder.points == {
        ("evaluation/all", 3): 1.25,
        ("evaluation/clip", 3): 0.3,
        ("drift/diversity", 3): 0.9,
    }
    assert recorder.texts == {("guard", 3): "Still improving."}
    assert [tag for tag, _ in recorder.images] == [
        "validation prompts/01 a cat",
        "validation prompts/02 a dog",
    ]
    row = recorder.images["validation prompts/02 a dog", 3]
    assert (row.shape, row.dtype) == ((3, 256, 2 * 34), np.uint8)  # 40 × 256 / 300 is 34
    assert row[:, 128, 10].tolist() == [100, 0, 200]
    assert row[:, 128, 50].tolist() == [100, 100, 200]


def test_a_sample_is_as_large_as_it_is(recorder, tmp_path):
    Image.new("RGB", (320, 300), (9, 8, 7)).save(tmp_path / "sample.png")
    Board(recorder, tmp_path).take(Sample(3, 1, "sample.png", "x" * 100, 0))
    ((tag, step),) = recorder.images
    assert (tag, step) == (f"samples/02 {'x' * 60}", 3)
    assert recorder.images[tag, step].shape == (3, 300, 320)


def test_a_full_disk_is_reported_with_a_message(recorder, tmp_path):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    recorder.add_scalar = recorder.close = refuse
    with pytest.raises(UserError, match="tensorboard"):
        Board(recorder, tmp_path).take(STEP)
    Board(recorder, tmp_path).close()  # the run has ended


def test_a_missing_package_is_reported_with_its_command(tmp_path, monkeypatch):
    monkeypatch.setattr(tensorboard.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UserError) as raised:
        open_board(tmp_path, first_step=0)
    assert "--extra tensorboard" in raised.value.remedy


def test_tensorboard_reads_what_was_written_and_hides_what_is_made_again(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    first = open_board(tmp_path, first_step=0)
    for step in range(1, 6):
        first.take(Progress(step, 10, 0, loss=0.5, lr=1e-3))
    first.take(evaluation(tmp_path))
    first.close()
    second = open_board(tmp_path, first_step=3)
    second.take(Progress(4, 10, 0, loss=math.nan, lr=1e-3))
    second.close()
    read = events.EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    losses = [(one.step, one.value) for one in read.Scalars("training/loss")]
    assert losses[:3] == [(1, 0.5), (2, 0.5), (3, 0.5)]
    assert losses[3][0] == 4
    assert math.isnan(losses[3][1])
    assert len(losses) == 4
    (image,) = read.Images("validation prompts/01 a cat")
    assert (image.width, image.height, image.step) == (68, 256, 3)
