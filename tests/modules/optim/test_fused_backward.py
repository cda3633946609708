"""The fused backward pass: the weights of the normal step, with one gradient at a time.

With the loss scale of fp16 what is right moves, and what overflows stays.
"""

import itertools

import pytest
import torch

from modules.formats.files.optimizer_state import Packer
from modules.optim import fused_backward
from modules.seeds import derive
from onetrainer.config.optimizers.adam import AdamW, Sgd
from tests import pretend
from tests.each import each, few_each
from tests.stepping import INDEPENDENT, SECTIONS, Training, equal

SEED = derive(0, "a test")


# In bf16 all of them, which is harder, and in fp32 two; the others in long runs.
CASES = list(itertools.product(INDEPENDENT, (False, True)))
FEW = [case for case in CASES if case[1] or isinstance(case[0], AdamW | Sgd)]


@few_each(("section", "rounds"), CASES, FEW)
def test_it_gives_the_weights_of_the_normal_step(section, rounds):
    options = {"dtype": torch.bfloat16, "rounding_seed": SEED} if rounds else {}
    normal = Training(section, **options).run(0, 5)
    other = Training(section, **options, in_backward=True).run(0, 5)
    assert not equal(normal.snapshot(), Training(section, **options).snapshot())
    assert equal(normal.snapshot(), other.snapshot())


@each("size", [1, 1000, 1 << 26])
def test_no_more_gradients_wait_than_a_bucket_holds(size, monkeypatch):
    monkeypatch.setattr(fused_backward, "BUCKET_BYTES", size)
    made = Training(AdamW(), in_backward=True)
    weights = made.updater.parameters
    alive = []

    def note(*_):
        alive.append([weight.nbytes for weight in weights if weight.grad is not None])

    made.optimizer.register_step_pre_hook(note)
    made.run(0, 1)
    assert all(sum(sizes) - max(sizes) < size for sizes in alive)
    assert (len(alive) == len(weights)) == (size == 1)
    assert all(weight.grad is None for weight in weights)


def test_a_group_that_is_replaced_after_the_hooks_is_found():
    # What torch's own `load_state_dict` does to groups.
    made = Training(Sgd(lr=0.1), in_backward=True).run(0, 1)
    made.optimizer.load_state_dict(made.optimizer.state_dict())
    before = made.snapshot()
    made.step(5)
    assert not equal(made.snapshot(), before)


def test_weights_without_a_gradient_count_like_those_of_the_normal_step():
    # Of Lion the step's number is the group's.
    section = next(section for section in INDEPENDENT if section.kind == "lion")
    results = []
    for way in (False, True):
        made = Training(section, in_backward=way).run(0, 2)
        made.net.last.requires_grad_(False)
        made.step(2)
        made.net.last.requires_grad_(True)
        made.step(3)
        results.append(
            (made.snapshot(), [group.get("step") for group in made.optimizer.param_groups])
        )
    assert results[0][1] == results[1][1]
    assert equal(results[0][0], results[1][0])


def test_an_optimizer_whose_groups_depend_on_all_weights_is_found_out():
    section = next(section for section in SECTIONS if section.kind == "prodigy")
    made = Training(section)
    made.updater.updates_independently = True
    made.engine.enable_fused_backward()
    with pytest.raises(AssertionError):
        made.run(1, 3)


def test_what_needs_all_gradients_is_refused():
    with pytest.raises(AssertionError):
        Training(AdamW(), in_backward=True, clipping=1.0).run(0, 1)
    made = Training(AdamW(), in_backward=True).run(0, 1)
    made.engine.begin(1)
    made.engine.backward(made.loss(1))
    with pytest.raises(AssertionError):
        made.engine.backward(made.loss(1))


INFINITE = float("inf")


def overflow_in(made, *names):
    """From now on the gradients of these weights overflow; returns what ends that."""
    return [made.weights[name].register_hook(lambda g: g * INFINITE) for name in names]


def statistics(made, name):
    """A copy of what the optimizer knows of a weight, taken apart into JSON and plain tensors."""
    packer = Packer()
    document = packer.pack(dict(made.optimizer.state.get(made.weights[name], {})), "state")
    return document, {key: tensor.clone() for key, tensor in packer.tensors.items()}


def same(one, other):
    return one[0] == other[0] and equal(one[1], other[1])


# After some steps all of them, and at first, when there is no state yet, three.
FP16_CASES = list(itertools.product(INDEPENDENT, (0, 3)))
FP16_FEW = [
    (section, earlier)
    for section, earlier in FP16_CASES
    if earlier or section.kind in ("adamw", "adamw8bit", "adafactor")
]


@few_each(("section", "earlier"), FP16_CASES, FP16_FEW)
def test_only_the_weight_that_overflows_stays_with_all_its_state(section, earlier):
    made, other = (
        Training(section, precision="fp16", in_backward=True).run(0, earlier) for _ in range(2)
    )
    name, before = "middle.weight", made.snapshot()
    known, scale = statistics(made, name), made.engine.state_dict()["scale"]
    overflow_in(made, name)
    for run in (made, other):
        run.step(earlier + 5)
    # Its own gradient is changed alone, so that the others move as without the overflow.
    assert equal(made.snapshot(), other.snapshot() | {name: before[name]})
    assert same(statistics(made, name), known)
    assert not same(statistics(other, name), known)
    assert made.engine.state_dict()["scale"] == scale / 2


# Those that count steps in their groups, and one that does not.
COUNTING = ("adamw", "lion", "schedulefree_adamw", "muon")


@each("section", [section for section in INDEPENDENT if section.kind in COUNTING])
def test_an_overflow_of_everything_is_a_step_that_never_was(section):
    # As the normal step: also what groups count, which bias corrections depend on.
    results = []
    for in_backward in (False, True):
        made = Training(section, precision="fp16", in_backward=in_backward).run(0, 2)
        ends = overflow_in(made, *made.weights)
        made.step(2)
        for end in ends:
            end.remove()
        for step in (3, 4):
            made.step(step)
        results.append((made.snapshot(), made.engine.state_dict()))
    assert equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


def test_a_group_counts_a_step_in_which_any_of_its_weights_changed():
    section = next(section for section in INDEPENDENT if section.kind == "lion")
    made = Training(section, precision="fp16", in_backward=True).run(0, 2)
    overflow_in(made, "middle.weight", *(name for name in made.weights if name.startswith("last")))
    made.step(2)
    assert [group["step"] for group in made.optimizer.param_groups] == [3, 2]


@pytest.mark.parametrize("fused", [True, False], ids=["counted on the GPU", "counted by the host"])
def test_a_step_reads_from_the_gpu_once_and_counts_right_wherever_it_counts(fused):
    # torch's AdamW keeps its count of steps in host memory, unless it is fused.
    with pretend.accelerator() as gpu:
        made = Training(AdamW(), precision="fp16", in_backward=True, device=torch.device("cuda"))
        for group in made.optimizer.param_groups:
            group["fused"] = fused
        made.run(0, 2)
        known = statistics(made, "first.weight")
        overflow_in(made, "first.weight")
        gpu.syncs.clear()
        made.step(3)
        # Not what this test's own images wait for on their way to the GPU.
        assert [sync.where.split(":")[0] for sync in gpu.syncs if "tests" not in sync.where] == [
            "modules/optim/fused_backward.py"
        ]
        counts = {n: float(made.optimizer.state[w]["step"]) for n, w in made.weights.items()}
        assert counts == {n: 2.0 if n == "first.weight" else 3.0 for n in made.weights}
        assert same(statistics(made, "first.weight"), known)
