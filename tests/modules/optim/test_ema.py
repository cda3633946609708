"""The running average against its formula and diffusers', and that it never is the weights."""

import pytest
import torch
from diffusers.training_utils import EMAModel
from torch import nn

from modules.optim.ema import Ema
from modules.training.checkpoint_record import find_restore_point
from modules.training.checkpoints import EMA_FILE
from onetrainer.config.optimizers.adam import AdamW
from onetrainer.run.run_folder import create_run
from tests.close import close, near
from tests.each import each
from tests.stepping import Training, equal

PLACES = each("location", ["device", "host"])


def weight_of(*values, dtype=torch.float32):
    return nn.Parameter(torch.tensor(values, dtype=dtype))


def ema_of(weight, *, decay=0.9, ramp=False, every=1, location="device"):
    return Ema({"w": weight}, decay=decay, ramp=ramp, every=every, location=location)


def move(weight, by):
    with torch.no_grad():
        weight += by


@PLACES
@each("ramp", [False, True])
def test_it_equals_diffusers_ema(location, ramp):
    weight = nn.Parameter(torch.randn(5, 3, generator=torch.Generator().manual_seed(0)))
    ours = ema_of(weight, decay=0.7, ramp=ramp, location=location)
    # Its counter runs two behind ours, and without its ramp it still begins with decay 0.
    theirs = EMAModel([weight], decay=0.7, min_decay=0.0 if ramp else 0.7, update_after_step=-1)
    for step in range(1, 21):
        move(weight, torch.randn(5, 3, generator=torch.Generator().manual_seed(step)))
        ours.update(step)
        theirs.step([weight])
    close(ours.state_dict()["w"], theirs.shadow_params[0])


def test_every_n_steps_the_decay_counts_for_each_of_them():
    # Of weights that stay where they are after one move, every n steps is as good as every step.
    weight = weight_of(0.0)
    often, seldom = ema_of(weight), ema_of(weight, every=4)
    move(weight, 1.0)
    for step in range(1, 9):
        often.update(step)
        seldom.update(step)
    assert float(often.state_dict()["w"]) == near(1 - 0.9**8)
    assert float(seldom.state_dict()["w"]) == near(1 - 0.9**8)


@PLACES
@each("dtype", [torch.float32, torch.bfloat16])
def test_the_weights_come_back_exactly_and_are_never_the_ema(location, dtype):
    weight = weight_of(1.0, 2.0, dtype=dtype)
    ema = ema_of(weight, location=location)
    assert ema.state_dict()["w"].untyped_storage().data_ptr() != weight.untyped_storage().data_ptr()
    move(weight, 1.0)
    ema.update(1)
    kept, average = weight.detach().clone(), ema.state_dict()["w"].clone()
    with ema.applied():
        assert torch.equal(weight.detach(), average.to(dtype))
        assert not torch.equal(weight.detach(), kept)
    assert torch.equal(weight.detach(), kept)
    # Training goes on from the weights, and does not reach into the average.
    move(weight, 5.0)
    assert torch.equal(ema.state_dict()["w"], average)


@PLACES
def test_as_the_weights_data_the_ema_is_neither_copied_nor_rounded(location):
    weight = weight_of(1.0, 2.0, dtype=torch.bfloat16)
    messages = []
    weight.register_post_accumulate_grad_hook(lambda moved: messages.append(moved.dtype))
    ema = ema_of(weight, decay=0.999, location=location)
    move(weight, 2.0**-6)
    ema.update(1)
    own, kept, average = weight.data_ptr(), weight.detach().clone(), ema.state_dict()["w"].clone()
    with pytest.raises(ZeroDivisionError), ema.applied_float32():
        assert torch.equal(weight.detach(), average)
        assert not torch.equal(average, average.bfloat16().float())
        assert weight.data_ptr() == ema.state_dict()["w"].data_ptr()
        raise ZeroDivisionError
    assert weight.data_ptr() == own
    assert torch.equal(weight.detach(), kept)
    # Training goes on as before, with what hangs on the weight.
    (weight * 2).sum().backward()
    assert messages == [torch.bfloat16]
    assert weight.grad.dtype == torch.bfloat16


def test_the_ema_of_bf16_weights_keeps_what_they_cannot():
    weight = weight_of(1.0, dtype=torch.bfloat16)
    ema = ema_of(weight, decay=0.999)
    move(weight, 2.0**-7)
    ema.update(1)
    assert float(ema.state_dict()["w"]) == near(1 + 0.001 * 2**-7, roundings=1)


def test_training_with_samples_from_the_ema_is_training_without():
    plain, sampled = (Training(AdamW(lr=0.01), ema=True) for _ in range(2))
    for step in range(8):
        plain.step(step)
        sampled.step(step)
        with sampled.ema.applied():
            assert not equal(sampled.snapshot(), plain.snapshot()) or step < 1
    assert equal(sampled.snapshot(), plain.snapshot())
    assert equal(sampled.ema.state_dict(), plain.ema.state_dict())


def test_switched_on_later_it_begins_with_the_weights_and_says_so(tmp_path):
    folder = create_run(tmp_path, name="run", config={})
    Training(AdamW(lr=0.01)).run(0, 3).save(folder, 3)
    made = Training(AdamW(lr=0.01), ema=True, seed=1)
    messages = made.checkpoints(folder).restore(find_restore_point(folder).record)
    assert "EMA" in messages[0]
    assert equal(made.ema.state_dict(), made.snapshot())


def test_switched_off_later_it_is_left_alone(tmp_path):
    folder = create_run(tmp_path, name="run", config={})
    Training(AdamW(lr=0.01), ema=True).run(0, 3).save(folder, 3)
    assert (folder.checkpoint(3) / EMA_FILE).is_file()
    assert Training(AdamW()).checkpoints(folder).restore(find_restore_point(folder).record) == []


def test_an_ema_of_other_weights_is_refused():
    ema = ema_of(weight_of(1.0, 2.0))
    for state in ({}, {"w": torch.zeros(3)}, {"w": torch.zeros(2), "x": torch.zeros(1)}):
        with pytest.raises(ValueError):
            ema.load_state_dict(state)
