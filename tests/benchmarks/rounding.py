"""Full fine-tuning of the demo's model in fp32, in bf16 rounded by chance, and in bf16 rounded to
the nearest: how far the loss curves lie apart.

`python -m tests.benchmarks.rounding`. About five minutes on one core. Every number format trains on
the smileys from the same images, noise and timesteps, with three seeds. The loss of the curves is
measured every so many steps on noise and timesteps that are always the same, with the weights as
they are cast to fp32, so that nothing but the weights differs. "distance" is how far a format's
mean curve is from fp32's at most; "spread" is how far apart fp32's own seeds are (largest standard
deviation), which is what a change of seed does anyway; "trained" is the fall of the loss, as a
fraction of that of fp32.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import torch
from PIL import Image

from modules import seeds
from modules.demo.optimize import to_pixels
from modules.families.registry import load_family
from modules.families.stable_diffusion import StableDiffusion
from modules.interfaces import Batch, Conditioning, LatentMoments
from modules.methods.full import Full, component_dtypes
from modules.methods.model_source import ModelSource
from modules.objectives.denoising import Denoising
from modules.optim.build import build_optimizer
from modules.optim.update import WeightUpdater
from onetrainer.config.methods.full import Full as FullSection
from onetrainer.config.objectives.denoising import Denoising as DenoisingSection
from onetrainer.config.optimizers.adam import AdamW
from onetrainer.config.run.model import Model
from onetrainer.demo.write import write_demo
from tests.batches import loss_of
from tests.own_user import own_user

CPU = torch.device("cpu")
SEEDS, BATCH = (1, 2, 3), 4
RATE = 1e-4
EVALUATION_SEED = 99
FORMATS = {
    "fp32": FullSection(weights="fp32"),
    "bf16, stochastic": FullSection(weights="bf16"),
    "bf16, nearest": FullSection(weights="bf16", stochastic_rounding=False),
}


@dataclass(frozen=True)
class Length:
    """How many steps are made, after how many the loss is measured, and on how many batches."""

    steps: int = 150
    every: int = 50
    evaluation_batches: int = 12


@dataclass(frozen=True)
class Images:
    """All images encoded once, by the frozen parts in fp32."""

    moments: LatentMoments
    conditioning: Conditioning

    def batch(self, seed: int, step: int) -> Batch:
        """Four images that depend on seed and step."""
        generator = seeds.generator(seed, "pictures", step)
        chosen = torch.randperm(len(self.moments.mean), generator=generator)[:BATCH]
        return Batch(
            moments=LatentMoments(self.moments.mean[chosen], self.moments.std[chosen]),
            captions=(),
            step_captions=(),
            conditioning=Conditioning(self.conditioning.hidden[chosen]),
            time_ids=torch.zeros(BATCH, 6),
            positions=tuple(range(BATCH)),
            weight=1 / BATCH,
        )


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        demo = write_demo(Path(folder) / "demo").parent
        base = Model(path=str(demo / "base"))
        images = encode(base, demo / "pictures")
        curves = {
            name: [curve(base, section, images, seed, Length()) for seed in SEEDS]
            for name, section in FORMATS.items()
        }
    report(curves)


def encode(base: Model, folder: Path, side: int = 128) -> Images:
    family = load_family(base, compute_dtype=torch.float32, device=CPU)
    files = sorted(folder.glob("*.png"))
    captions = [file.with_suffix(".txt").read_text().strip() for file in files]
    with torch.no_grad():
        pixels = to_pixels([Image.open(file).resize((side, side)) for file in files])
        return Images(family.encode_images(pixels), family.encode_text(captions))


def curve(
    base: Model, section: FullSection, images: Images, seed: int, length: Length
) -> list[float]:
    """The loss before training and after every so many steps."""
    family = load_family(
        base, compute_dtype=torch.float32, device=CPU, dtypes=component_dtypes(section, "sd15")
    )
    method = Full.attach(family, section, source=ModelSource.of(base))
    optimizer = build_optimizer(AdamW(lr=RATE), method.parameter_groups())
    rounds = section.weights == "bf16" and section.stochastic_rounding
    updater = WeightUpdater(
        optimizer, rounding_seed=seed if rounds else None, updates_independently=True
    )
    objective = Denoising(family, section=DenoisingSection(), device=CPU)
    batches = [images.batch(EVALUATION_SEED, place) for place in range(length.evaluation_batches)]
    found = [evaluated(family, objective, batches)]
    for step in range(length.steps):
        loss_of(objective, images.batch(seed, step), seed=seed, step=step).value.backward()
        updater.begin(step)
        updater.update_all()
        optimizer.zero_grad(set_to_none=True)
        if (step + 1) % length.every == 0:
            found.append(evaluated(family, objective, batches))
    return found


def evaluated(family: StableDiffusion, objective: Denoising, batches: Sequence[Batch]) -> float:
    """The mean loss over the same noise and timesteps each time."""
    with torch.no_grad(), in_float32(family):
        losses = [
            loss_of(objective, batch, seed=EVALUATION_SEED, step=place).per_item.mean()
            for place, batch in enumerate(batches)
        ]
    return float(torch.stack(losses).mean())


@contextmanager
def in_float32(family: StableDiffusion) -> Iterator[None]:
    """Meanwhile the UNet computes in fp32 with the weights that it has."""
    kept = [(weight, weight.data) for weight in family.unet.parameters()]
    for weight, data in kept:
        weight.data = data.float()
    try:
        yield
    finally:
        for weight, data in kept:
            weight.data = data


def report(curves: dict[str, list[list[float]]]) -> None:
    exact = curves["fp32"]
    for name, found in curves.items():
        result = {
            "benchmark": "rounding",
            "weights": name,
            "loss": [round(value, 5) for value in means(found)],
            "distance": round(distance(found, exact), 5),
            "spread": round(spread(exact), 5),
            "trained": round(fall(found) / fall(exact), 3),
        }
        sys.stdout.write(json.dumps(result) + "\n")


def means(found: Sequence[Sequence[float]]) -> list[float]:
    """The mean curve of all seeds."""
    return [mean(values) for values in zip(*found, strict=True)]


def distance(found: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> float:
    """How far two mean curves are apart at most."""
    return max(abs(one - two) for one, two in zip(means(found), means(other), strict=True))


def spread(found: Sequence[Sequence[float]]) -> float:
    """How far apart the seeds are: the largest standard deviation along the curves."""
    return max(stdev(values) for values in zip(*found, strict=True))


def fall(found: Sequence[Sequence[float]]) -> float:
    """How much the mean loss has fallen."""
    first, *_, last = means(found)
    return first - last


if __name__ == "__main__":
    with own_user():
        main()
