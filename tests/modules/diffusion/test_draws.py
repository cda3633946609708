"""Draws are those of torch's own functions with a generator of each image's own."""

import torch

from modules import seeds
from modules.diffusion.draws import Draws

SHAPES = ((4, 8, 8), (3, 1, 1))  # torch fills fewer than 16 numbers in another way


def test_each_image_draws_from_its_own_seed_whatever_else_is_drawn():
    draws = Draws(seed=3, step=7, positions=(2, 0, 5))

    def generators(purpose):
        return [seeds.generator(3, purpose, 7, position) for position in (2, 0, 5)]

    for _ in range(2):
        for shape in SHAPES:
            drawn = draws.normal("noise", torch.Size(shape))
            expected = [torch.randn(shape, generator=each) for each in generators("noise")]
            assert torch.equal(drawn, torch.stack(expected))
        expected = [torch.randint(1000, (), generator=each) for each in generators("timestep")]
        assert torch.equal(draws.integers("timestep", 1000), torch.stack(expected))
        expected = [
            torch.rand((), generator=each, dtype=torch.float64) for each in generators("chance")
        ]
        assert torch.equal(draws.fractions("chance"), torch.stack(expected))
        assert draws.chances("chance") == torch.stack(expected).tolist()
