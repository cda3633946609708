"""Scenes in words: the caption a picture is trained with, which is also how to prompt for one."""

import random

from onetrainer.demo.images import Scene


def caption(scene: Scene) -> str:
    """For example "a small red circle on a blue background".

    The middle size is left unsaid, so the shortest prompt asks for a medium shape.
    """
    size = "" if scene.size == "medium" else f"{scene.size} "
    subject = f"{size}{scene.color} {scene.shape}"
    ground = f"{article(scene.background)} {scene.background} background"
    return f"{article(subject)} {subject} on {ground}"


def article(word: str) -> str:
    """The indefinite article before that word; in the demo its first letter decides."""
    return "an" if word[0] in "aeiou" else "a"


def spoken(scene: Scene, rng: random.Random) -> str:
    """A caption as people vary it: usually whole, sometimes terse, sometimes leaving things out."""
    color_shape = f"{scene.color} {scene.shape}"
    match rng.randrange(10):
        case 0:
            return f"{color_shape}, {scene.background} background"
        case 1:
            return f"{article(color_shape)} {color_shape}"
        case _:
            return caption(scene)
