"""The judge of the base model is right about drawn pictures, whose content is known."""

import random

from PIL import Image

from onetrainer.demo.images import Scene, draw, draw_background, random_scene
from tests.demo_check import recognize


def test_drawn_images_are_recognized():
    rng = random.Random(5)
    scenes = [random_scene(rng) for _ in range(100)]

    assert all(recognize(draw(scene)).matches(scene) for scene in scenes)


def test_wrong_color_shape_or_background_disagrees():
    recognition = recognize(draw(Scene("circle", "red", "blue")))

    assert not recognition.matches(Scene("circle", "green", "blue"))
    assert not recognition.matches(Scene("square", "red", "blue"))
    assert not recognition.matches(Scene("circle", "red", "gray"))


def test_empty_image_has_no_shape():
    assert recognize(draw_background("night", 128, 128)).shape is None


def test_blurred_image_is_still_recognized():
    scene = Scene("heart", "pink", "white")
    blurred = draw(scene).resize((64, 64)).resize((128, 128), Image.Resampling.BILINEAR)

    assert recognize(blurred).matches(scene)
