"""Dropout of single text encoders' captions."""

from dataclasses import replace

import torch

from modules.assembly.method import Attached, objective_of
from modules.diffusion.draws import Draws
from modules.methods.joint import Joint
from modules.objectives.denoising import Denoising
from modules.objectives.encoder_dropout import EncoderDropout
from onetrainer.presets.presets import resolve
from tests import tiny
from tests.batches import SEED, STEP, batch_of, distance, loss_of
from tests.close import close

METHOD = Joint(None, None)  # unused without a base model's predictions
LENGTHS = tiny.WIDTHS["sdxl"]


def loss(family, batch, **encoder_dropout):
    config = resolve({"model": {"family": "sdxl"}, "method": {"text_encoders": {
        name: {"caption_dropout": chance} for name, chance in encoder_dropout.items()
    }}}, source="test")  # fmt: skip
    objective = objective_of(config, Attached(family, METHOD), device=tiny.CPU)
    assert isinstance(objective, Denoising)
    return loss_of(objective, batch, seed=SEED, step=STEP).per_item


def test_the_dropped_encoders_alone_give_the_output_of_an_empty_caption():
    family = tiny.family("sdxl")
    with torch.no_grad():
        own = family.encode_text(["a cat", "a dog", "a cow", "a bee"])
        empty = family.encode_text([""])
    dropout = EncoderDropout.of(family, {"te1": 0.0, "te2": 0.5})
    mixed = dropout.applied(own, empty, dropout.drawn(Draws(SEED, STEP, (0, 1, 2, 3))))
    (first, second), (_, blank) = own.hidden.split(LENGTHS, -1), empty.hidden.split(LENGTHS, -1)
    assert torch.equal(mixed.hidden[..., : LENGTHS[0]], first)
    dropped = [
        not torch.equal(row, mine) for row, mine in zip(mixed.pooled, own.pooled, strict=True)
    ]
    assert 0 < sum(dropped) < 4
    for row, is_dropped in enumerate(dropped):
        expected = blank[0] if is_dropped else second[row]
        assert torch.equal(mixed.hidden[row, :, LENGTHS[0] :], expected)
        assert torch.equal(mixed.pooled[row], empty.pooled[0] if is_dropped else own.pooled[row])


def test_dropping_all_encoders_is_training_on_empty_captions_cached_or_not():
    family = tiny.family("sdxl")
    with torch.no_grad():
        empty = family.encode_text([""])
    batch = batch_of(family, empty=empty)
    live = replace(batch, conditioning=None, empty=None)
    all_empty = replace(live, captions=("",) * 4, step_captions=("",) * 4)
    expected = loss(family, all_empty)
    for each in (batch, live):
        close(loss(family, each, te1=1, te2=1), expected)
        assert distance([loss(family, each)], [expected]) > 1e-4
    # The same encoders of the same images are dropped, whether captions are cached or not.
    close(loss(family, batch, te1=0.5), loss(family, live, te1=0.5))
    rows = batch_of(family, (2, 3), empty=empty)
    close(loss(family, rows, te1=0.5), loss(family, batch, te1=0.5)[2:])
