"""Pictures that are encoded whenever they are asked for, because nobody keeps their latents."""

import pytest
import torch

from onetrainer.errors import UserError


def test_moments_are_those_of_the_cache_bit_for_bit(bench):
    kept = bench.encode()
    anew = bench.encode(with_latents=False)
    for index in range(len(kept.items)):
        assert torch.equal(anew.moments(index).mean, kept.moments(index).mean)
        assert torch.equal(anew.moments(index).std, kept.moments(index).std)
    assert anew.latent_keys == kept.latent_keys


def test_nothing_is_encoded_before_it_is_asked_for_and_nothing_is_kept(bench):
    dataset = bench.encode(with_latents=False, with_text=False)
    assert bench.family.encoded() == (0, 0)
    for _ in range(2):
        assert not dataset.moments(0).mean.requires_grad
    assert bench.family.encoded() == (2, 0)
    assert not list(bench.cache.rglob("latents/*"))


def test_a_picture_that_cannot_be_decoded_is_left_out_in_every_run(bench):
    broken = bench.folder / "broken.png"
    whole = next(bench.folder.glob("*.png")).read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])
    bench.caption("broken", "a picture")
    for _ in range(2):  # the second run knows its digest
        dataset = bench.encode(items=bench.index().items, with_latents=False)
        assert [one.path for one in dataset.skipped] == [broken]


def test_a_picture_that_is_taken_away_meanwhile_is_told(bench):
    dataset = bench.encode(with_latents=False)
    dataset.items[0].path.unlink()
    with pytest.raises(UserError, match="must be left alone"):
        dataset.moments(0)
