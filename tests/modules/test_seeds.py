"""Random numbers are functions of what they are for."""

import torch

from modules import seeds


def standard_noise(*key):
    return torch.randn(4, generator=seeds.generator(*key))


def test_the_same_key_gives_the_same_numbers_after_any_other():
    first = standard_noise(1, "noise", 5, 0)
    torch.manual_seed(9)
    torch.randn(100)
    assert torch.equal(standard_noise(1, "noise", 5, 0), first)


def test_every_part_of_the_key_matters():
    keys = [(1, "noise", 5, 0), (2, "noise", 5, 0), (1, "latent", 5, 0), (1, "noise", 6, 0)]
    keys += [(1, "noise", 5, 1), (1, "noise", 50), (1, "noise", 5)]
    assert len({tuple(standard_noise(*key).tolist()) for key in keys}) == len(keys)


def test_a_derived_seed_is_the_same_in_every_version_of_this_program():
    # A changed value would break the resume of every run that people have.
    assert seeds.derive(0, "noise", 1, 2) == 7495714938645952443


def test_global_generators_are_seeded_as_torch_seeds_them():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        expected = torch.rand(5)
        seeds.seed_global_generators(7)
        assert torch.equal(torch.rand(5), expected)
