"""Images that are encoded whenever they are asked for, because nobody keeps their latents."""

import pytest
import torch

from onetrainer.config.data.augmentation import Augmentation


def test_moments_are_those_of_the_cache_bit_for_bit(bench):
    bench.set(augmentation=Augmentation(flip="random", rotate=9))
    kept = bench.encode().images
    anew = bench.encode(caches_latents=False).images
    for place in range(len(kept.items)):
        for number in range(4):
            one, other = anew.moments(place, number), kept.moments(place, number)
            assert torch.equal(one.mean, other.mean)
            assert torch.equal(one.std, other.std)
    assert [*anew.digest_lines()] == [*kept.digest_lines()]


def test_nothing_is_encoded_before_it_is_asked_for_and_nothing_is_kept(bench):
    bench.add_beside("p0", "masklabel")
    images = bench.encode(caches_latents=False, with_text=False).images
    assert bench.family.encoded() == (0, 0)
    for _ in range(2):
        assert not images.moments(0, 0).mean.requires_grad
    assert bench.family.encoded() == (2, 0)
    assert not [*(bench.cache / "latents").iterdir(), *(bench.cache / "masks").iterdir()]


def test_every_repeat_may_be_another_variation(bench):
    bench.set(augmentation=Augmentation(rotate=20))
    images = bench.encode(caches_latents=False, with_text=False).images
    seen = {images.pixels(0, number).sum().item() for number in range(1000, 1010)}
    assert len(seen) == 10


@pytest.mark.parametrize("threads", [0, 2])
def test_an_image_that_cannot_be_decoded_is_left_out_in_every_run(bench, later, threads):
    broken = bench.folder / "broken.png"
    whole = next(bench.folder.glob("*.png")).read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])
    bench.caption("broken", "an image")
    for _ in range(2):  # the second run knows its digest
        images = bench.encode(caches_latents=False, threads=threads).images
        assert [one.path for one in images.skipped] == [broken]
