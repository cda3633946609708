"""The demo's drawings show what their captions say."""

import random

import pytest

from onetrainer.demo.captions import caption, random_caption
from onetrainer.demo.images import (
    BACKGROUNDS,
    COLORS,
    SHAPES,
    SIZES,
    Scene,
    background_rgb,
    draw,
    random_scene,
    shape_box,
    shape_rgb,
)
from onetrainer.demo.smileys import INK, smileys


def test_same_scene_gives_the_same_image():
    scene = random_scene(random.Random(3))

    assert draw(scene).tobytes() == draw(scene).tobytes()


def test_same_seed_gives_the_same_scenes():
    assert random_scene(random.Random(3)) == random_scene(random.Random(3))


@pytest.mark.parametrize("color", COLORS)
def test_shape_has_its_color_and_the_corner_its_background(color):
    image = draw(Scene("circle", color, "gray", "small"))
    x, y, _ = shape_box(Scene("circle", color, "gray", "small"), 128, 128)

    assert image.getpixel((round(x), round(y))) == shape_rgb(color)
    assert image.getpixel((0, 0)) == background_rgb("gray")[0]


@pytest.mark.parametrize("size", SIZES)
def test_shape_stays_inside_the_image(size):
    shift = (0.025, -0.025)
    scene = Scene("circle", "red", "blue", size, shift, stretch=1.06)

    for width, height in ((128, 128), (160, 104), (104, 160)):
        x, y, radius = shape_box(scene, width, height)
        assert radius <= x <= width - radius
        assert radius <= y <= height - radius


def test_caption_names_everything_but_the_defaults():
    assert caption(Scene("circle", "red", "blue")) == "a red circle on a blue background"
    assert (
        caption(Scene("star", "orange", "night", "small"))
        == "a small orange star on a night background"
    )
    assert caption(Scene("ring", "orange", "blue")).startswith("an orange ring")


def test_spoken_captions_always_name_color_and_shape():
    rng = random.Random(0)
    scenes = [random_scene(rng) for _ in range(100)]

    assert all(f"{scene.color} {scene.shape}" in random_caption(scene, rng) for scene in scenes)


def test_scenes_cover_all_words():
    rng = random.Random(0)
    scenes = [random_scene(rng) for _ in range(400)]

    assert {scene.shape for scene in scenes} == set(SHAPES)
    assert {scene.background for scene in scenes} == set(BACKGROUNDS)
    assert not any(scene.color == scene.background for scene in scenes)


def test_smileys_have_eyes_and_the_captions_tell_their_colors():
    for smiley in smileys():
        found = {color for _, color in smiley.draw().getcolors(maxcolors=1 << 16)}
        assert {INK, shape_rgb(smiley.color)} <= found
        assert f"{smiley.color} smiley on" in smiley.caption()


def test_smileys_come_in_three_forms():
    assert len({round(smiley.width / smiley.height, 1) for smiley in smileys()}) == 3
