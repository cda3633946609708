"""The demo's drawings show what their captions say."""

import random

from onetrainer.demo.images import (
    BACKGROUNDS,
    COLORS,
    SHAPES,
    SIZES,
    Scene,
    caption,
    draw,
    random_caption,
    random_scene,
    shape_box,
    smileys,
)
from tests.each import each


def test_shape_has_its_color_and_the_corner_its_background():
    for color in COLORS:
        scene = Scene("circle", color, "gray", "small")
        image = draw(scene)
        x, y, _ = shape_box(scene, 128, 128)
        assert image.getpixel((round(x), round(y))) == COLORS[color]
        assert image.getpixel((0, 0)) == BACKGROUNDS["gray"][0]


@each("size", SIZES)
def test_shape_stays_inside_the_image(size):
    scene = Scene("circle", "red", "blue", size, (0.025, -0.025), stretch=1.06)
    for width, height in ((128, 128), (160, 104), (104, 160)):
        x, y, radius = shape_box(scene, width, height)
        assert radius <= x <= width - radius
        assert radius <= y <= height - radius


def test_caption_names_everything_but_the_defaults():
    assert caption(Scene("circle", "red", "blue")) == "a red circle on a blue background"
    small = Scene("star", "orange", "night", "small")
    assert caption(small) == "a small orange star on a night background"
    assert caption(Scene("ring", "orange", "blue")).startswith("an orange ring")


def test_random_scenes_are_the_same_for_a_seed_and_cover_all_shapes_and_backgrounds():
    scenes, again = ([random_scene(rng) for _ in range(400)] for rng in map(random.Random, (0, 0)))
    assert scenes == again
    assert {scene.shape for scene in scenes} == set(SHAPES)
    assert {scene.background for scene in scenes} == set(BACKGROUNDS)
    assert not any(scene.color == scene.background for scene in scenes)
    rng = random.Random(0)
    assert all(f"{scene.color} {scene.shape}" in random_caption(scene, rng) for scene in scenes)


def test_smileys_have_eyes_three_forms_and_captions_that_name_their_colors():
    found = smileys()
    assert len({round(image.width / image.height, 1) for _, image in found}) == 3
    for text, image in found:
        color = next(word for word in text.split() if word in COLORS)
        tones = {tone for _, tone in image.getcolors(maxcolors=1 << 16)}
        assert {(44, 36, 48), COLORS[color]} <= tones
        assert f"{color} smiley on" in text
