"""The step in backward: the same weights as the normal step, with one gradient at a time."""

from typing import get_args

import pytest
import torch

from modules.seeds import derive
from onetrainer.config.optimizers.adam import AdamW, Sgd
from onetrainer.config.optimizers.optimizer import Optimizer, missing_package
from tests.stepping import Training, equal

SECTIONS = [
    kind()
    for kind in get_args(get_args(Optimizer)[0])
    if not missing_package(kind()) and "paged" not in kind().kind  # that is for graphics cards
]
ALONE = [section for section in SECTIONS if section.updates_independently]
SEED = derive(0, "a test")


# In bf16 all of them, which is harder, and in fp32 two; the others in long runs.
CASES = [
    pytest.param(
        section,
        rounds,
        id=f"{section.kind}-{'bf16' if rounds else 'fp32'}",
        marks=[] if rounds or isinstance(section, AdamW | Sgd) else pytest.mark.long,
    )
    for section in ALONE
    for rounds in (False, True)
]


@pytest.mark.parametrize(("section", "rounds"), CASES)
def test_it_gives_the_weights_of_the_normal_step(section, rounds):
    options = {"dtype": torch.bfloat16, "rounding_seed": SEED} if rounds else {}
    normal = Training(section, **options).run(0, 5)
    other = Training(section, **options, in_backward=True).run(0, 5)
    assert not equal(normal.snapshot(), Training(section, **options).snapshot())
    assert equal(normal.snapshot(), other.snapshot())


def test_only_one_gradient_is_there_at_a_time():
    made = Training(AdamW(), in_backward=True)
    weights = made.updater.parameters
    alive = []

    def count(*_):
        alive.append(sum(weight.grad is not None for weight in weights))

    made.optimizer.register_step_pre_hook(count)
    made.run(0, 1)
    assert alive == [1] * len(weights)
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
    section = next(section for section in ALONE if section.kind == "lion")
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
