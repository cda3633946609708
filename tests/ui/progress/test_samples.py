"""Samples without a window: what is seen of them, what is known of them, and their grid."""

import json
from functools import partial

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from onetrainer.run.events import Evaluated, Sample
from onetrainer.run.run_folder import RunFolder
from tests.close import FLOAT64, near
from tests.each import each
from ui.progress.rewards import Rewards
from ui.progress.sample_facts import sample_rewards, sample_settings, weights_note
from ui.progress.sample_grid import GridPlan, grid_plan, save_grid
from ui.progress.samples import SampleBook
from ui.progress.sight import MOST_ZOOM, Sight
from ui.theme.palette import DARK

ROOM = (600, 400)


def sample(step, prompt=0, text="a cat"):
    return Sample(step, prompt, f"samples/{step}-{prompt}.png", text, 7 + prompt)


@each("size", [(512, 512), (64, 300), (2000, 700)])
def test_what_is_under_the_pointer_stays_there_while_zooming_in_images_of_any_size(size):
    at, sight = (0.55, 0.48), Sight()
    for _ in range(12):
        before, sight = sight, sight.zoomed(1.25, at, size, ROOM)
        (left, top, right, bottom), shown = sight.crop(size, ROOM)
        assert 0 <= left < right <= size[0] and 0 <= top < bottom <= size[1]
        assert shown[0] <= ROOM[0] and shown[1] <= ROOM[1]
        # Pixels stay squares.
        assert (right - left) / shown[0] == pytest.approx((bottom - top) / shown[1], rel=0.01)
        if before.crop(size, ROOM)[1] == ROOM:  # else it stays in the middle
            place = before.place(at, size, ROOM)
            assert sight.place(at, size, ROOM) == near(place, eps=FLOAT64)
    assert sight.zoomed(1e9, at, size, ROOM).zoom == MOST_ZOOM
    assert sight.zoomed(1e-9, at, size, ROOM) == Sight()


def test_an_image_that_just_fits_is_seen_whole_and_one_that_is_moved_ends_at_its_edge():
    assert Sight().crop((512, 512), ROOM) == ((0, 0, 512, 512), (400, 400))
    sight = Sight(zoom=4).moved((99, -99), (512, 512), ROOM)
    (_, top, right, _), shown = sight.crop((512, 512), ROOM)
    assert (right, top) == pytest.approx((512, 0)) and shown == ROOM
    # The same part of an image of another size.
    box, _ = sight.crop((1024, 1024), ROOM)
    assert [side / 2 for side in box] == pytest.approx(sight.crop((512, 512), ROOM)[0])


def test_the_nearest_sample_is_found_among_thousands_of_steps():
    book = SampleBook.of([sample(step, prompt) for step in range(0, 5000, 10) for prompt in (3, 1)])
    assert book.prompts == [1, 3] and len(book.steps) == 500
    nearest = {wanted: book.nearest(3, wanted).step for wanted in (-5, 14, 16, 4991, 9999)}
    assert nearest == {-5: 0, 14: 10, 16: 20, 4991: 4990, 9999: 4990}
    assert book.nearest(2, 10) is None


def test_the_settings_of_a_sample_are_those_in_its_file(tmp_path):
    info = PngInfo()
    parameters = "a cat\nSteps: 20, Sampler: DPM++ 2M, Schedule type: Karras, CFG scale: 7.5"
    info.add_text("parameters", parameters)
    known = {"steps": 20, "guidance": 7.5, "negative": "blurry,\nwatermark", "strength": 0.5}
    info.add_text("onetrainer", json.dumps(known))
    Image.new("RGB", (64, 48)).save(tmp_path / "a.png", pnginfo=info)
    assert sample_settings(tmp_path / "a.png") == (
        "64 × 48  ·  DPM++ 2M, Karras  ·  20 sampling steps  ·  guidance 7.5  ·  strength 0.5\n"
        "Negative: blurry, watermark"
    )
    Image.new("RGB", (64, 48)).save(tmp_path / "b.png")
    assert sample_settings(tmp_path / "b.png") == "64 × 48"
    assert sample_settings(tmp_path / "none.png") == ""


def test_a_sample_that_would_fill_the_memory_or_leads_elsewhere_is_a_gap(tmp_path):
    (tmp_path / "samples").mkdir()
    Image.new("RGB", (300, 300)).save(tmp_path / "other.png")
    (tmp_path / "samples" / "2-0.png").symlink_to(tmp_path / "other.png")
    bomb = tmp_path / "samples" / "1-0.png"
    Image.new("1", (30_000, 20_000)).save(bomb)
    for name in ("1-0", "2-0"):
        assert sample_settings(tmp_path / "samples" / f"{name}.png") == ""
    plan = grid_plan(SampleBook.of([sample(1), sample(2)]), [0])
    save_grid(plan, tmp_path, tmp_path / "grid.png", DARK)
    with Image.open(tmp_path / "grid.png") as grid:
        assert {color for _, color in grid.getcolors(1 << 16)}.isdisjoint({(0, 0, 0)})


def test_the_rewards_of_a_sample_are_those_of_its_prompt_seed_and_step():
    rewards, images = (
        Rewards(),
        [{"prompt": "a cat", "seed": 7, "rewards": {"color": 0.5, "": 0.4}}],
    )
    rewards.add_evaluation(Evaluated(10, 0.3, 0.01, 10, True, "first", "", images=images))
    assert sample_rewards(rewards, sample(10)) == "Rewards: color 0.500  ·  all 0.400"
    other = sample_rewards(rewards, sample(10, prompt=1))
    assert other.startswith("Reward of the validation prompts at this step: 0.300")
    assert sample_rewards(rewards, sample(20)) == ""


def test_a_grid_has_the_first_and_last_of_many_steps_and_every_image_at_its_place(tmp_path):
    book = SampleBook.of([sample(step) for step in range(0, 5000, 10)])
    plan = grid_plan(book, [0])
    assert (plan.steps[0], plan.steps[-1], len(plan.steps)) == (0, 4990, 24)
    assert plan.left_out == 476
    (tmp_path / "samples").mkdir()
    colors = {(1, 0): "#ff0000", (2, 0): "#00ff00", (2, 1): "#0000ff"}
    for (step, prompt), color in colors.items():
        Image.new("RGB", (300, 300), color).save(tmp_path / f"samples/{step}-{prompt}.png")
    long = sample(2, 1, "word " * 200)
    plan = GridPlan((1, 2), ((sample(1), sample(2)), (sample(9, 9), long)))
    save_grid(plan, tmp_path, tmp_path / "grid.png", DARK)
    with Image.open(tmp_path / "grid.png") as grid:
        pixels = {grid.getpixel((x, y)) for x in (60, 400) for y in (180, grid.height - 60)}
    # The image of the second row's first column is gone.
    wanted = {(255, 0, 0), (0, 255, 0), (0, 0, 255), tuple(bytes.fromhex(DARK["card"][1:]))}
    assert pixels == wanted


def test_what_is_left_of_a_steps_weights_is_said(tmp_path):
    folder = RunFolder(tmp_path)
    assert weights_note(folder, 0, is_running=True) == ""
    assert "first checkpoint is still to come" in weights_note(folder, 10, is_running=True)
    assert weights_note(folder, 10, is_running=False) == "No weights of this run are kept."
    folder.checkpoint(30).mkdir(parents=True)
    (folder.checkpoint(30) / "state.json").touch()
    folder.config.write_text('{"output": {"name": "paper"}}')
    folder.output.mkdir()
    (folder.output / "paper-000020.safetensors").touch()
    (folder.output / "paper-000040-token.safetensors").touch()  # an embedding
    note = partial(weights_note, folder, is_running=False)
    assert note(20) == note(30) == ""
    assert note(60).endswith("the nearest are those of step 30.")
