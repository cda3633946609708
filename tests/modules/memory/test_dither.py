"""Casting weights to 16 bits so that small changes are kept on average."""

import pytest
import torch

from modules.memory.dither import cast_with_dither
from tests.each import each

HALVES = (torch.bfloat16, torch.float16)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@each("dtype", HALVES)
@each("shape", [(320, 320), (64, 32, 3, 3)])
def test_a_small_change_is_kept_on_average_where_the_nearest_number_loses_it(dtype, shape):
    weight = (0.05 * normal(*shape)).to(dtype).float()
    low_rank = normal(shape[0], 4, seed=1) @ normal(4, weight[0].numel(), seed=2)
    change = (low_rank * (2e-4 if dtype == torch.bfloat16 else 3e-5) * 0.05 / 2).view(shape)

    def fraction_of(cast: torch.Tensor) -> float:
        return float(((cast.float() - weight) * change).sum() / change.square().sum())

    assert fraction_of((weight + change).to(dtype)) < 0.4
    # Measured: 0.93 to 1.06, of a few hundred numbers that move.
    assert fraction_of(cast_with_dither(weight + change, dtype)) == pytest.approx(1, abs=0.12)


@pytest.mark.parametrize("dtype", HALVES)
def test_every_number_becomes_one_of_its_neighbors(dtype):
    exact = normal(64, 96)
    step = torch.finfo(dtype).eps * exact.abs()
    assert ((cast_with_dither(exact, dtype).float() - exact).abs() <= step).all()


@each("dtype", (*HALVES, torch.float32))
def test_what_a_dtype_can_represent_stays(dtype):
    exact = torch.cat([normal(64, 96), torch.zeros(64, 1), torch.full((64, 1), torch.inf)], dim=1)
    known = exact.to(dtype)
    assert torch.equal(cast_with_dither(known.float(), dtype), known)
