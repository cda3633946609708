"""Captions of scenes, which are also the prompts for them."""

import random

from onetrainer.demo.images import Scene


def caption(scene: Scene) -> str:
    """Return a caption, for example "a small red circle on a blue background".

    The medium size is not mentioned, so the shortest prompt asks for a medium shape.
    """
    size = "" if scene.size == "medium" else f"{scene.size} "
    subject = f"{size}{scene.color} {scene.shape}"
    ground = f"{article(scene.background)} {scene.background} background"
    return f"{article(subject)} {subject} on {ground}"


def article(word: str) -> str:
    """Return the indefinite article for a word; in the demo its first letter decides."""
    return "an" if word[0] in "aeiou" else "a"


def random_caption(scene: Scene, rng: random.Random) -> str:
    """Return a varied caption: usually complete, sometimes terse or with omissions."""
    color_shape = f"{scene.color} {scene.shape}"
    match rng.randrange(10):
        case 0:
            return f"{color_shape}, {scene.background} background"
        case 1:
            return f"{article(color_shape)} {color_shape}"
        case _:
            return caption(scene)
