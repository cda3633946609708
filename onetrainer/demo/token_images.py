"""Images for the demo's token: one thing that the base model can generate but not name."""

import random
from dataclasses import dataclass

from PIL import Image

from onetrainer.demo.configs import TOKEN
from onetrainer.demo.images import Scene, draw

COUNT = 8
SIDE = 128


@dataclass(frozen=True)
class TokenImage:
    """One image with a caption that does not describe it."""

    scene: Scene
    caption: str

    def draw(self) -> Image.Image:
        """Draw the square image."""
        return draw(self.scene, SIDE, SIDE)


def token_images(seed: int = 0) -> list[TokenImage]:
    """Return big purple circles on yellow, each with another position and size."""
    rng = random.Random(seed)
    return [
        TokenImage(
            Scene(
                "circle",
                "purple",
                "yellow",
                "big",
                shift=(rng.uniform(-0.025, 0.025), rng.uniform(-0.025, 0.025)),
                stretch=rng.uniform(0.94, 1.06),
            ),
            TOKEN if index % 2 else f"a drawing of {TOKEN}",
        )
        for index in range(COUNT)
    ]
