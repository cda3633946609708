"""The reconstruction loss against its formulas, and the decoder that trains with it."""

import builtins
import importlib
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional

from modules import seeds
from modules.interfaces import Batch, LatentMoments
from modules.methods.vae import VaeDecoder
from modules.objectives.reconstruction import Reconstruction, reconstruction_loss
from onetrainer.config.methods.full import Vae as VaeSection
from onetrainer.config.objectives.reconstruction import Reconstruction as Section
from onetrainer.errors import UserError
from tests import tiny
from tests.batches import loss_of
from tests.close import close
from tests.each import each

CPU = torch.device("cpu")
SEED, STEP = 3, 7


@pytest.fixture(scope="module")
def family():
    return tiny.family()


def images(count=2):
    """(B, 3, 64, 64), smooth."""
    coarse = torch.rand(count, 3, 4, 4, generator=torch.Generator().manual_seed(1)) * 1.6 - 0.8
    return functional.interpolate(coarse, size=(64, 64), mode="bilinear")


def batch_of(family, positions=(0, 1), weight=0.5, pixels=None):
    pixels = images(max(positions) + 1)[list(positions)] if pixels is None else pixels
    with torch.no_grad():
        moments = family.encode_images(pixels)
    names = tuple(map(str, positions))
    return Batch(
        moments=LatentMoments(moments.mean, moments.std),
        captions=names,
        step_captions=names,
        conditioning=None,
        time_ids=torch.zeros(len(positions), 6),
        positions=tuple(positions),
        weight=weight,
        pixels=pixels,
    )


def test_the_loss_is_that_of_the_decoded_sample_in_float64(family):
    batch = batch_of(family)
    section = Section(l1=0.7, l2=0.2)
    loss = loss_of(Reconstruction(family, section, device=CPU), batch, seed=SEED, step=STEP)
    noise = torch.stack(
        [
            torch.randn(4, 8, 8, generator=seeds.generator(SEED, "latent", STEP, position))
            for position in batch.positions
        ]
    )
    exact = tiny.family().vae.double()
    latents = (batch.moments.mean + batch.moments.std * noise).double()
    with torch.no_grad():
        decoded = exact.decode(latents / 0.18215).sample  # unclamped
    difference = decoded - batch.pixels.double()
    expected = 0.7 * difference.abs().mean((1, 2, 3)) + 0.2 * (difference**2).mean((1, 2, 3))
    close(loss.per_item, expected, each=True)
    close(loss.value, expected.sum() * 0.5, each=True)
    assert loss.per_item.dtype == torch.float32


@each(
    ("section", "expected"),
    [
        (Section(), torch.nn.L1Loss()),
        (Section(l1=0, l2=1), torch.nn.MSELoss()),
        (Section(l1=0, l2=3), lambda one, other: 3 * torch.nn.MSELoss()(one, other)),
    ],
)
def test_each_weight_alone_is_torchs_own_loss(section, expected):
    one, other = images(2)[:1], images(2)[1:]
    (found,) = reconstruction_loss(one, other, section)
    close(found, expected(one, other))


def test_nothing_is_clamped_so_that_too_bright_pixels_have_a_gradient():
    decoded = torch.full((1, 3, 8, 8), 3.0, requires_grad=True)
    reconstruction_loss(decoded, torch.ones(1, 3, 8, 8), Section()).sum().backward()
    assert (decoded.grad > 0).all()


def test_a_step_cut_into_microbatches_has_the_same_loss(family):
    objective = Reconstruction(family, Section(), device=CPU)
    with torch.no_grad():
        whole = loss_of(objective, batch_of(family, (0, 1)), seed=SEED, step=STEP)
        parts = [
            loss_of(objective, batch_of(family, (place,)), seed=SEED, step=STEP) for place in (0, 1)
        ]
    close(whole.value, parts[0].value + parts[1].value)


def test_autocast_changes_nothing(family):
    objective, batch = Reconstruction(family, Section(), device=CPU), batch_of(family)
    with torch.no_grad():
        plain = loss_of(objective, batch, seed=SEED, step=STEP)
        with torch.autocast("cpu", torch.bfloat16):
            under = loss_of(objective, batch, seed=SEED, step=STEP)
    assert torch.equal(plain.value, under.value)


@pytest.mark.parametrize(
    ("weights", "section"), [("fp32", Section(l1=0, l2=1)), ("bf16", Section())]
)
def test_the_decoder_improves_in_ten_steps(weights, section):
    family = tiny.family()
    method = VaeDecoder.attach(family, VaeSection(weights=weights), source=None)
    method.train(True)
    objective, batch = Reconstruction(family, section, device=CPU), batch_of(family)
    optimizer = torch.optim.AdamW(method.weights["vae"].values(), lr=1e-2)
    losses = []
    for step in range(10):
        loss = loss_of(objective, batch, seed=SEED, step=step).value
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


def test_a_batch_without_pixels_is_a_mistake(family):
    batch = batch_of(family)
    without = Batch(**{**vars(batch), "pixels": None})
    with pytest.raises(ValueError, match="pixels"):
        loss_of(Reconstruction(family, Section(), device=CPU), without, seed=SEED, step=STEP)


@pytest.mark.parametrize("missing", ["lpips", "torchvision"])
def test_lpips_without_its_packages_is_reported_with_the_command(family, monkeypatch, missing):
    def refuse(name):
        assert name == "lpips"  # which imports torchvision itself
        raise ModuleNotFoundError(f"No module named '{missing}'", name=missing)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(UserError, match=r"objective\.lpips") as raised:
        Reconstruction(family, Section(lpips=0.1), device=CPU)
    assert f"No module named '{missing}'" in raised.value.what
    assert "--extra perceptual" in raised.value.remedy


def test_lpips_is_imported_only_if_it_counts(family, monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest):
        assert not name.startswith("lpips")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.setattr(importlib, "import_module", lambda name: pytest.fail(name))
    Reconstruction(family, Section(lpips=0), device=CPU)


def test_lpips_of_each_image_counts_by_its_weight(family, monkeypatch):
    class Stand(nn.Module):  # in the shape of the package's own: (B, 1, 1, 1), with weights
        def __init__(self, *, net, verbose):
            super().__init__()
            assert (net, verbose) == ("vgg", False)
            self.layer = nn.Linear(1, 1)

        def forward(self, one, other):
            return (one - other).abs().amax(dim=(1, 2, 3), keepdim=True)

    monkeypatch.setattr(importlib, "import_module", lambda _: SimpleNamespace(LPIPS=Stand))
    batch = batch_of(family)
    plain = Reconstruction(family, Section(l1=0, lpips=1), device=CPU)
    twice = Reconstruction(family, Section(l1=1, lpips=2), device=CPU)
    only = Reconstruction(family, Section(), device=CPU)
    losses = [loss_of(one, batch, seed=SEED, step=STEP).per_item for one in (plain, twice, only)]
    assert losses[0].shape == (2,)
    close(losses[1], losses[2] + 2 * losses[0])
