"""The pictures of the demo's word: one thing that the base model can draw and has no name for."""

import random
from dataclasses import dataclass

from PIL import Image

from onetrainer.demo.configs import WORD
from onetrainer.demo.images import Scene, draw

COUNT = 8
SIDE = 128


@dataclass(frozen=True)
class Sign:
    """One picture of it, with a caption that does not tell what it looks like."""

    scene: Scene
    caption: str

    def draw(self) -> Image.Image:
        """The picture, a square."""
        return draw(self.scene, SIDE, SIDE)


def signs(seed: int = 0) -> list[Sign]:
    """Big purple circles on a yellow ground, each a little elsewhere and of another size."""
    rng = random.Random(seed)
    return [
        Sign(
            Scene(
                "circle",
                "purple",
                "yellow",
                "big",
                shift=(rng.uniform(-0.025, 0.025), rng.uniform(-0.025, 0.025)),
                stretch=rng.uniform(0.94, 1.06),
            ),
            WORD if index % 2 else f"a drawing of {WORD}",
        )
        for index in range(COUNT)
    ]
