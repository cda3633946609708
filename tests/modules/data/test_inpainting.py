"""What inpainting models see: the mask of what is to be painted, and the latents of the rest."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from modules.data.batches import read_batch
from onetrainer.cache.store import cache_report
from onetrainer.config.data.augmentation import Augmentation
from onetrainer.dataset.batch_plan import ImageRepeat, StepPlan
from onetrainer.errors import UserError
from tests.close import close
from tests.modules.data.conftest import noise


@pytest.fixture
def masked(bench):
    """p0 and p1 have masks, p0 and p2 images of their own to paint from."""
    bench.add_companion("p0", "masklabel", (64, 64), seed=20)
    bench.add_companion("p1", "masklabel", (96, 48), seed=21)
    bench.add_companion("p0", "condlabel", (64, 64), seed=22)
    bench.add_companion("p2", "condlabel", (64, 64), seed=23)
    return bench


def set_up(bench, conditioning):
    bench.set(conditioning=conditioning)
    return lambda **changes: (
        bench.encode(conditioning=conditioning, with_text=False, **changes).images
    )


def as_diffusers(image, mask):
    """An image and its mask as diffusers' inpainting training prepares them, of one size.

    Source: diffusers, examples/research_projects/dreambooth_inpaint, prepare_mask_and_masked_image:
    the mask is cut at a half, the image multiplied by what is below it, and the mask brought to
    the latent's size by torch's interpolate, which takes the nearest.
    """
    pixels = torch.from_numpy(np.array(image.convert("RGB")).transpose(2, 0, 1))[None] / 127.5 - 1
    mask = torch.from_numpy(np.array(mask.convert("L"))).float()[None, None] / 255
    mask = torch.where(mask < 0.5, 0.0, 1.0)
    small = torch.nn.functional.interpolate(mask, size=(mask.shape[2] // 8, mask.shape[3] // 8))
    return small, (pixels * (mask < 0.5)).contiguous()


def inpainting_input(images, index):
    """What an inpainting model gets for an image; None where that is the same for all."""
    if not images.blanks:
        return None
    mean = images.masked_image(index, 0)
    if mean is not None and not images.is_cached:
        mean = images.encode(mean).mean
    return images.masked_input(index, 0, mean)


def blank(family, height=64, width=64):
    mean = family.encode_images(torch.zeros(1, 3, height, width)).mean
    return torch.cat([torch.ones_like(mean[:, :1]), mean], dim=1)


@pytest.mark.parametrize("keeps", [True, False])
def test_what_a_mask_leaves_is_seen_as_diffusers_shows_it(masked, keeps):
    images = set_up(masked, "masks")(caches_latents=keeps)
    image, mask = (Image.open(masked.folder / f"p0{kind}.png") for kind in ("", "-masklabel"))
    hole, rest = as_diffusers(image, mask)
    assert 0 < hole.mean() < 1
    seen = inpainting_input(images, 0)
    assert torch.equal(seen[:, :1], hole)
    expected = masked.family.inner.encode_images(rest).mean
    close(seen[:, 1:], expected)


@pytest.mark.parametrize("conditioning", ["masks", "files"])
def test_all_of_an_image_without_a_hole_is_to_be_painted(masked, conditioning):
    images = set_up(masked, conditioning)()
    assert torch.equal(inpainting_input(images, 4), blank(masked.family.inner))


@pytest.mark.parametrize("keeps", [True, False])
def test_images_of_their_own_are_seen_with_their_masks_or_whole(masked, keeps):
    images = set_up(masked, "files")(caches_latents=keeps)
    for place, has_mask in ((0, True), (2, False)):
        own = Image.open(masked.folder / f"p{place}-condlabel.png")
        _, whole = as_diffusers(own, Image.new("L", own.size, 0))
        expected = masked.family.inner.encode_images(whole).mean
        seen = inpainting_input(images, place)
        close(seen[:, 1:], expected)
        assert bool((seen[:, :1] == 1).all()) != has_mask


def test_changed_mask_encodes_what_it_leaves_and_nothing_else(masked):
    encode = set_up(masked, "masks")
    encode()
    assert masked.family.encoded() == (5 + 2 + 3, 0)  # two with a mask, three sizes of blanks
    masked.add_companion("p1", "masklabel", (96, 48), seed=31)
    before, after = encode(), encode()
    assert masked.family.encoded() == (1, 0)
    assert torch.equal(before.moments(1, 0).mean, after.moments(1, 0).mean)


def test_changed_mask_of_an_image_of_its_own_encodes_nothing(masked):
    encode = set_up(masked, "files")
    before = encode()
    masked.family.encoded()
    masked.add_companion("p0", "masklabel", (64, 64), seed=31)
    after = encode()
    assert masked.family.encoded() == (0, 0)
    assert not torch.equal(inpainting_input(before, 0)[:, :1], inpainting_input(after, 0)[:, :1])
    assert torch.equal(inpainting_input(before, 0)[:, 1:], inpainting_input(after, 0)[:, 1:])


def entries(bench):
    """How many there are in the cache, by kind."""
    return {each.kind: each.entries for each in cache_report(bench.cache).kinds}


def test_transparency_as_a_mask_leaves_latents_as_they_are(bench):
    noise((64, 64), 3).convert("RGBA").save(bench.folder / "p5.png")
    bench.encode(with_text=False)
    bench.family.encoded()
    bench.set(masks="alpha")
    images = bench.encode(with_text=False).images
    assert bench.family.encoded() == (0, 0)
    assert bool((images.mask(5, 0) == 1).all())


def test_an_image_as_its_own_mask_is_no_transparency(bench):
    """The same bytes, and two meanings."""
    image = noise((64, 64), 3).convert("RGBA")
    image.save(bench.folder / "p5.png")
    image.save(bench.folder / "p5-masklabel.png")
    by_file = bench.encode(with_text=False).images.mask(5, 0)
    bench.set(masks="alpha")
    by_alpha = bench.encode(with_text=False).images.mask(5, 0)
    assert by_file.mean() < 0.6
    assert by_alpha.mean() == 1


def test_masks_for_the_loss_are_kept_for_each_cut_and_changed_alone(masked):
    before = masked.encode(with_text=False).images
    assert [before.mask(place, 0) is None for place in range(5)] == [False, False, *[True] * 3]
    masked.family.encoded()
    assert entries(masked) == {"latents": 5, "masks": 2, "text": 0}
    masked.add_companion("p0", "masklabel", (64, 64), seed=31)
    after = masked.encode(with_text=False).images
    assert masked.family.encoded() == (0, 0)
    assert entries(masked) == {"latents": 5, "masks": 3, "text": 0}
    assert not torch.equal(before.mask(0, 0), after.mask(0, 0))
    assert torch.equal(before.mask(1, 0), after.mask(1, 0))


def test_masks_and_what_they_leave_go_through_the_same_mirror(masked):
    encode = set_up(masked, "masks")
    plain = encode()
    masked.set(augmentation=Augmentation(flip="always"))
    mirrored = encode()
    close(plain.mask(0, 0).flip(3), mirrored.mask(0, 0))
    left, right = plain.pixels(0, 0), mirrored.pixels(0, 0)
    assert torch.equal(left.flip(3), right)


def test_a_batch_holds_what_each_of_its_images_shows(masked):
    set_up(masked, "masks")
    for keeps in (True, False):
        batch_source = masked.encode(conditioning="masks", caches_latents=keeps)
        plan = StepPlan(0, 0, ((ImageRepeat(4, 0, 0), ImageRepeat(0, 0, 0)),), 0.5)
        batch = read_batch(batch_source, plan, 0)()
        expected = [
            inpainting_input(batch_source.images, 4),
            inpainting_input(batch_source.images, 0),
        ]
        assert torch.equal(batch.masked, torch.cat(expected))
        assert torch.equal(batch.masked[:1], blank(masked.family.inner))


@pytest.mark.parametrize("kind", ["masklabel", "condlabel"])
@pytest.mark.parametrize("keeps", [True, False])
def test_image_whose_mask_or_conditioning_image_cannot_be_read_is_skipped(masked, kind, keeps):
    items = set_up(masked, "files") and masked.index().items
    path = masked.folder / f"p0-{kind}.png"
    path.write_bytes(path.read_bytes()[:-200])
    images = masked.encode(
        items=items, conditioning="files", caches_latents=keeps, threads=2, with_text=False
    ).images
    (skipped,) = images.skipped
    assert skipped.path.name == "p0.png"
    assert path.name in skipped.reason
    assert [item.path.name for item in images.items] == [f"p{n}.png" for n in (1, 2, 3, 4)]


def test_mask_that_goes_away_in_the_run_is_reported(masked):
    images = masked.encode(caches_latents=False, with_text=False).images
    (masked.folder / "p0-masklabel.png").unlink()
    with pytest.raises(UserError, match=r'p0\.png: its mask "p0-masklabel\.png" cannot be read'):
        images.mask(0, 0)


def test_empty_image_that_the_vae_makes_no_numbers_of_is_reported_and_not_kept(masked):
    inner = masked.family.inner

    def encode(pixels):
        found = inner.encode_images(pixels)
        return found if pixels.any() else replace(found, mean=found.mean / 0)

    masked.family.encode_images = encode
    for _ in range(2):
        with pytest.raises(UserError, match="an empty image is not a number"):
            set_up(masked, "masks")()
