"""What becomes of an image depends on the size of the batches, on nothing else in them."""

import random

import pytest
import torch

from modules.data.vae_batches import VaeBatches
from tests.close import close
from tests.each import each
from tests.modules.data.conftest import CountingFamily


def some_images(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(3, 64, 48, generator=generator) for _ in range(count)]


def encoded(family, images, size):
    with torch.no_grad():
        batches = list(VaeBatches(family.encode_images, size).encode(images))
    means = torch.cat([moments.mean for _, moments in batches])
    return torch.cat([means, torch.cat([moments.std for _, moments in batches])], dim=1)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))]
)
def test_neighbors_places_and_filling_change_no_bit(session_family, size, seed):
    images, chance = some_images(9), random.Random(seed)
    alone = [encoded(session_family, [image], size) for image in images]
    order = chance.sample(range(9), chance.randrange(1, 10))
    together = encoded(session_family, [images[one] for one in order], size)
    assert torch.equal(together, torch.cat([alone[one] for one in order]))


@each(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        MemoryError(),
    ],
)
def test_lack_of_memory_halves_the_batch_and_goes_on(session_family, error):
    def encode(pixels):
        if len(pixels) > 2:
            raise error
        return session_family.encode_images(pixels)

    batches, images = VaeBatches(encode, 8), some_images(7)
    found = list(batches.encode(images))
    assert [(size, len(moments.mean)) for size, moments in found] == [(2, 2)] * 3 + [(2, 1)]
    means = torch.cat([moments.mean for _, moments in found])
    assert torch.equal(means, encoded(session_family, images, 2)[:, :4])
    assert batches.size == 2


def test_memory_too_small_for_one_is_an_error(session_family):
    family = CountingFamily(session_family, most=0)
    with pytest.raises(torch.OutOfMemoryError):
        encoded(family, some_images(3), 4)
    assert family.batches == [4, 2, 1]


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    def encode(pixels):
        raise RuntimeError("Given groups=1, expected weight to be at least 1")

    with pytest.raises(RuntimeError, match="expected weight"):
        list(VaeBatches(encode, 4).encode(some_images(2)))


def test_what_failed_for_lack_of_memory_is_let_go_before_it_is_tried_again(session_family):
    alive = []

    class Large:
        def __del__(self):
            alive.remove(self.number)

    def encode(pixels):
        assert alive == []
        large = Large()
        large.number = len(pixels)
        alive.append(large.number)
        if len(pixels) > 1:
            raise torch.OutOfMemoryError("out of memory")
        return session_family.encode_images(pixels)

    assert len(list(VaeBatches(encode, 4).encode(some_images(2)))) == 2


def test_cache_warns_of_smaller_batches_once_and_takes_what_they_made(bench):
    bench.family.most = 2
    images = bench.encode(batch=8, with_text=False).images
    (warning,) = images.warnings
    assert warning == "not enough memory to encode 8 images at once; used 2 at a time"
    assert set(bench.family.batches) == {8, 4, 2}
    bench.family.encoded()
    again = bench.encode(batch=8, with_text=False).images
    assert bench.family.encoded() == (0, 0)
    assert again.warnings == ()
    for place in range(5):
        assert torch.equal(images.moments(place, 0).mean, again.moments(place, 0).mean)


def test_what_was_made_in_other_batches_is_made_again_exactly(bench):
    """Otherwise a run's numbers would depend on what was run before it."""
    fours = bench.encode(batch=4).images
    ones = bench.encode(batch=1).images
    bench.family.encoded()
    fresh = bench.encode(batch=1, folder=bench.folder.parent / "other").images
    assert bench.family.encoded()[0] == 5
    for place in range(5):
        assert torch.equal(ones.moments(place, 0).mean, fresh.moments(place, 0).mean)
        close(ones.moments(place, 0).mean, fours.moments(place, 0).mean)
