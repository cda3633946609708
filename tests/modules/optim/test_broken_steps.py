"""A step whose loss or gradient is not finite changes nothing, and nothing waits for that."""

import itertools

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from modules.formats.files.optimizer_state import Packer
from modules.optim import fused_backward
from modules.optim.clipping import clip, gradient_norms
from onetrainer.config.optimizers.adam import AdamW, Sgd
from tests import pretend
from tests.each import each
from tests.stepping import INDEPENDENT, SECTIONS, Training, equal

CUDA = torch.device("cuda")
# Those of other libraries, whose kernels obey no flag, and torch's, of which only Adam's does.
ON_GPU = [
    section
    for section in INDEPENDENT
    if section.kind in ("adamw", "sgd", "lion", "adafactor", "came", "schedulefree_adamw", "muon")
]


def statistics(made):
    """The optimizer's state, without what it counts in host memory."""
    packer = Packer()
    for name, weight in made.weights.items():
        state = made.optimizer.state.get(weight, {})
        own = {key: value for key, value in state.items() if isinstance(value, torch.Tensor)}
        packer.pack(own, name)
    return {name: tensor.clone() for name, tensor in packer.tensors.items()}


def break_gradient(made, name="middle.weight"):
    """From now on this weight's gradient is NaN; returns what ends that."""
    return made.weights[name].register_hook(lambda g: g * float("nan"))


def broken_step(made, step):
    """Make a step in which one weight's gradient is NaN; return its check."""
    hook = break_gradient(made)
    made.engine.begin(step)
    made.engine.backward(made.loss(step))
    made.engine.clip_gradients()
    check = made.engine.step()
    hook.remove()
    return check


@each(("section", "clipping"), [(section, 0.0) for section in SECTIONS] + [(AdamW(), 1.0)])
def test_a_broken_step_changes_nothing(section, clipping):
    made = Training(section, clipping=clipping).run(0, 2)
    weights, state = made.snapshot(), statistics(made)
    check = broken_step(made, 2)
    assert check.broken.item() == 1
    assert equal(made.snapshot(), weights)
    assert equal(statistics(made), state)
    made.step(3)
    assert not equal(made.snapshot(), weights)


def test_a_loss_that_is_infinite_breaks_a_step_whose_gradient_is_finite():
    made = Training(AdamW(), clipping=1.0).run(0, 2)
    weights = made.snapshot()
    made.engine.begin(2)
    made.engine.backward(made.loss(2) + float("inf"))
    made.engine.clip_gradients()
    check = made.engine.step()
    assert torch.isfinite(check.norm)
    assert check.broken.item() == 1
    assert equal(made.snapshot(), weights)


@each("section", ON_GPU)
@pytest.mark.parametrize("rounds", [False, True])
def test_on_a_gpu_a_broken_step_changes_nothing_and_waits_for_nothing(section, rounds):
    options = {"dtype": torch.bfloat16, "rounding_seed": 1} if rounds else {}
    with pretend.accelerator() as gpu:
        made = Training(section, clipping=1.0, device=CUDA, **options).run(0, 3)
        weights, state = made.snapshot(), statistics(made)
        gpu.syncs.clear()
        check = broken_step(made, 3)
        assert [sync for sync in gpu.syncs if "tests" not in sync.where] == []
        assert check.broken.item() == 1
        assert equal(made.snapshot(), weights)
        assert equal(statistics(made), state)


@each(("section", "in_backward"), list(itertools.product(ON_GPU, (False, True))))
def test_on_a_gpu_a_broken_first_step_leaves_a_run_that_begins_with_the_next(section, in_backward):
    with pretend.accelerator():
        made, other = (
            Training(section, device=CUDA, in_backward=in_backward).run(0, 0) for _ in range(2)
        )
        made.engine.begin(1)
        made.engine.backward(made.loss(1) * float("nan"))
        made.engine.clip_gradients()
        made.engine.step()
        assert equal(made.snapshot(), other.snapshot())
        for step in (3, 4, 5):
            made.step(step)
            other.step(step)
        if in_backward:  # groups may have counted the step
            for name, weight in made.snapshot().items():
                torch.testing.assert_close(weight, other.snapshot()[name], rtol=0, atol=0.02)
        else:
            assert equal(made.snapshot(), other.snapshot())


@each("section", [section for section in ON_GPU if section.kind != "adamw"])
def test_flags_change_no_number_of_a_run_without_a_broken_step(section):
    with pretend.accelerator():
        gpu = Training(section, clipping=1.0, device=CUDA).run(0, 4)
        found = {name: weight.cpu() for name, weight in gpu.snapshot().items()}
    assert equal(found, Training(section, clipping=1.0).run(0, 4).snapshot())


@each("section", ON_GPU)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_in_a_fused_backward_pass_only_weights_beside_a_broken_gradient_stay(
    section, device, monkeypatch
):
    monkeypatch.setattr(fused_backward, "BUCKET_BYTES", 1)  # each weight is alone
    with pretend.accelerator() as gpu:
        made, other = (
            Training(section, in_backward=True, device=torch.device(device)).run(0, 3)
            for _ in range(2)
        )
        before = made.snapshot()["middle.weight"]
        gpu.syncs.clear()
        check = broken_step(made, 3)
        assert [sync for sync in gpu.syncs if "tests" not in sync.where] == []
        other.engine.begin(3)
        other.engine.backward(other.loss(3))
        other.engine.clip_gradients()
        other.engine.step()
        assert check.broken.item() == 1
        expected = other.snapshot() | {"middle.weight": before}
        assert equal(made.snapshot(), expected)


def test_weights_that_are_updated_together_with_a_broken_gradient_stay():
    made = Training(AdamW(), in_backward=True).run(0, 3)
    before, state = made.snapshot(), statistics(made)
    assert broken_step(made, 3).broken.item() == 1
    assert equal(made.snapshot(), before)
    assert equal(statistics(made), state)


def test_the_weights_whose_gradients_are_broken_are_known():
    made = Training(Sgd(), clipping=1.0)
    check = broken_step(made, 1)
    names = {weight: name for name, weight in made.weights.items()}
    finite = torch.isfinite(check.norms).tolist()
    broken = [names[w] for w, ok in zip(check.weights, finite, strict=True) if not ok]
    assert broken == ["middle.weight"]


def test_the_ema_takes_up_no_broken_step():
    made = Training(AdamW(), ema=True).run(0, 2)
    hook = break_gradient(made)
    for step in (2, 3):
        made.step(step)
    hook.remove()
    assert all(torch.isfinite(average).all() for average in made.ema.state_dict().values())


class Counting(TorchDispatchMode):
    """Counts operations."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


def test_checking_costs_a_step_of_adamw_a_few_operations_however_many_weights_there_are():
    # Eight weights: an operation for each of them would be noticed.
    with pretend.accelerator():
        made, other = (Training(AdamW(), clipping=1.0, device=CUDA).run(0, 2) for _ in range(2))
        for training in (made, other):
            training.engine.begin(2)
            training.engine.backward(training.loss(2))
        with Counting() as ours:
            made.engine.clip_gradients()
            made.engine.step()
        gradients = [weight.grad for weight in other.updater.parameters]
        with Counting() as bare:
            clip(gradients, torch.linalg.vector_norm(gradient_norms(gradients)), 1.0)
            other.optimizer.step()
            other.optimizer.zero_grad()
    assert ours.count - bare.count < len(gradients)
