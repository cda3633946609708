"""Full fine-tuning in bf16 follows that in float32, if it rounds by chance."""

from pathlib import Path

import pytest

from onetrainer.config.run.model import Model
from onetrainer.demo.write import write_demo
from tests.benchmarks import rounding

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture(scope="module")
def curves(tmp_path_factory):
    """Loss curves of the demo's model over a few steps, by number format."""
    demo = write_demo(Path(tmp_path_factory.mktemp("curves")) / "demo").parent
    base = Model(path=str(demo / "base"))
    images = rounding.encode(base, demo / "pictures", side=64)
    # Enough for a decision: one is 4 times within the spread, and the other 19 times as far as it.
    length = rounding.Length(steps=4, every=4, evaluation_batches=3)
    return {
        name: [rounding.curve(base, section, images, seed, length) for seed in seeds]
        for name, section in rounding.FORMATS.items()
        for seeds in [rounding.SEEDS[: 1 if "nearest" in name else None]]
    }


def test_bf16_rounded_by_chance_stays_within_the_spread_of_seeds(curves):
    exact = curves["fp32"]
    assert rounding.distance(curves["bf16, stochastic"], exact) <= rounding.spread(exact)


def test_bf16_rounded_to_the_nearest_drifts_far_out_of_it(curves):
    exact, nearest = curves["fp32"], curves["bf16, nearest"]
    assert rounding.distance(nearest, exact[:1]) > 3 * rounding.spread(exact)
    assert rounding.fall(nearest) < 0.8 * rounding.fall(exact[:1])
