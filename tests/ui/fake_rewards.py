"""Made-up events of a worker in reward training: a color grows warmer, until it is overdone."""

import math
import random
from pathlib import Path

from PIL import Image, ImageEnhance

from onetrainer.run.events import Evaluated, Rewarded
from tests.ui.fake_paint import paint

PROMPTS = ("a round balloon over the sea, watercolor", "a paper tent in a field of lavender")
SEEDS = (0, 1)
SIDE = 64
# The monitored reward is best here, as a fraction of the run; from there on it falls.
TURNS_AT = 0.4


def rewarded(step: int, total: int, chance: random.Random) -> Rewarded:
    """A step's scores: a course with noise."""
    spread = 0.9 - 0.3 * step / total
    reward = 2.4 * (1 - math.exp(-3 * step / total)) + chance.gauss(0, 0.4)
    color = {"mean": 0.5 + 0.06 * reward, "spread": 0.05}
    sharp = {"mean": _sharpness(step / total), "spread": 0.02}
    return Rewarded(step, reward, spread, 8, {"color": color, "sharpness": sharp}, 9.5)


class Evaluations:
    """Evaluate on validation prompts. is_hacked: whether the guard finds fault."""

    def __init__(self, folder: Path, total: int, *, is_hacked: bool) -> None:
        self.folder = folder
        self.total = total
        self.is_hacked = is_hacked
        self.best = (0, -math.inf)
        self.bad = 0
        self.message = ""

    def summary(self, step: int) -> list[str]:
        """What is said at the end of a run that the guard stops."""
        best = f"paper-best.safetensors holds the weights of step {self.best[0]}."
        return [self.message, f"The guard stopped it after step {step}.", best]

    def evaluate(self, step: int) -> Evaluated:
        """Paint the images of a step and report them."""
        progress = step / self.total
        reward = 2.1 * (1 - math.exp(-3 * progress))
        sharp, base = _sharpness(progress), _sharpness(0.0)
        is_bad = self.is_hacked and sharp < base - 0.02
        self.bad = self.bad + 1 if is_bad else 0
        is_best = not is_bad and reward > self.best[1]
        self.best = (step, reward) if is_best else self.best
        verdict = "first" if step == 0 else "hacking" if is_bad else "improving"
        messages = {
            "first": "The first evaluation: everything after it is compared with this.",
            "improving": "The reward on validation prompts rises, and nothing monitored falls.",
            "hacking": "The color rose by 0.12, but the sharpness, which is not trained, fell by "
            "0.06: the model seems to have found a way to please the reward alone. The best "
            f"weights are those of step {self.best[0]}.",
        }
        self.message = messages[verdict]
        return Evaluated(
            step,
            reward,
            0.22,
            self.best[0],
            is_best,
            verdict,
            self.message,
            {
                "color": _known(0.5 + 0.06 * reward, 0.5, 0.01, trained=1),
                "sharpness": _known(sharp, base, 0.015, trained=0),
            },
            {
                "diversity": 1 - 0.5 * progress**2,
                "contrast": 1 + 0.2 * progress,
                "saturation": 1 + 0.7 * progress,
                "distance": 0.11 * progress**0.5,
            },
            [self._image(step, *place) for place in _places()],
            self.bad >= 2,
        )

    def _image(self, step: int, number: int, seed: int) -> dict[str, object]:
        progress = step / self.total
        path = f"rewards/step-{step:06d}/{number:02d}-{seed}.jpg"
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        image = paint(2 * number + seed, 1.0, size=SIDE)
        warm = Image.new("RGB", image.size, (255, 140, 0))
        ImageEnhance.Color(Image.blend(image, warm, 0.5 * progress)).enhance(1 + progress).save(
            self.folder / path, quality=90
        )
        color = 0.5 + 0.06 * 2.1 * progress + 0.01 * seed
        sharp = _sharpness(progress) - 0.01 * number
        rewards = {"": 2.1 * progress, "color": color, "sharpness": sharp}
        return {"path": path, "prompt": PROMPTS[number], "seed": seed, "rewards": rewards}


def _known(mean: float, base: float, error: float, *, trained: int) -> dict[str, float | None]:
    since = mean - base
    return {
        "mean": mean,
        "error": error,
        "since_base": since or None,
        "since_base_error": error / 2,
        "trained": trained,
    }


def _sharpness(progress: float) -> float:
    return 0.31 + 0.2 * TURNS_AT * progress - 0.2 * progress**2 * 1.4


def _places() -> list[tuple[int, int]]:
    return [(number, seed) for number in range(len(PROMPTS)) for seed in SEEDS]
