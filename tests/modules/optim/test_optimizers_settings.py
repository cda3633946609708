"""Each setting of an optimizer reaches it, and what the sections tell of it is so."""

import importlib
import inspect

import pytest
import torch

from modules.interfaces import ParameterGroup
from modules.optim.build import arguments_of, build_optimizer
from modules.optim.construct import is_matrix, set_lr
from modules.optim.update import WeightUpdater
from onetrainer.config.optimizers.adafactor import Adafactor, AdafactorRelative
from onetrainer.config.optimizers.adam import (
    Adam4bit,
    Adam8bit,
    AdamW,
    AdamW4bit,
    AdamW8bit,
    PagedAdamW8bit,
    Sgd8bit,
)
from onetrainer.config.optimizers.adaptive import DAdaptLion, Prodigy, ProdigyScheduleFree
from onetrainer.config.optimizers.momentum import AdEMAMix8bit, Lion8bit, Muon
from onetrainer.errors import UserError
from tests.optimizer_steps import SECTIONS, built, make_steps, weights

name_of = pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)


def test_token_embeddings_are_no_matrix_for_muon():
    word = torch.nn.Parameter(torch.ones(2, 8))
    groups = [ParameterGroup("embeddings", {"word": word}), ParameterGroup("unet", weights())]
    optimizer = build_optimizer(Muon(other_lr_ratio=3), groups)
    groups = optimizer.param_groups
    assert [group["part"] for group in groups] == ["embeddings", "unet", "unet"]
    assert [group["use_muon"] for group in groups] == [False, True, False]
    assert [group["base_lr"] for group in groups] == pytest.approx([3e-4, 1e-4, 3e-4])


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((4, 4), True), ((4, 2, 3, 3), True), ((4,), False), ((1, 4), False), ((4, 1), False)],
)
def test_a_matrix_has_rows_and_columns(shape, expected):
    assert is_matrix(torch.nn.Parameter(torch.zeros(shape))) is expected


@name_of
def test_every_argument_is_one_of_its_class(section):
    module, name = section.target.split(":")
    known = inspect.signature(getattr(importlib.import_module(module), name)).parameters
    # Many classes swallow any argument, so that a misspelt one would go unnoticed.
    assert set(arguments_of(section())) <= set(known)


# Settings that make others count, or that need other values to be seen within twelve steps.
BESIDE = {
    (Adafactor, "eps2"): {"scale_parameter": True},
    (Prodigy, "growth_rate"): {"d0": 1e-3},
    (ProdigyScheduleFree, "beta3"): {"d0": 1e-3, "d_limiter": False},
    # Its momentum is of gradients times the found rate, beside which a new gradient is large.
    (DAdaptLion, "beta1"): {"d0": 0.5},
}
OTHER = {"d0": 1e-3, "eps2": 1.0, "ns_steps": 3, "prodigy_steps": 3, "ramp": 6, "growth_rate": 1.01}


def another(name, value):
    """Some other value that a setting may have."""
    if name in OTHER:
        return OTHER[name]
    match value:
        case bool():
            return not value
        case None:
            return 0.5
    return value / 2 if value > 0.1 else value + 0.05


def outcome(section):
    trained = weights()
    make_steps(built(section, trained), trained, range(12))
    return trained


@name_of
def test_every_setting_changes_the_outcome(section):
    plain = outcome(section())
    for name, field in section.model_fields.items():
        if name in ("kind", "fused_backward"):
            continue
        beside = BESIDE.get((section, name), {})
        before = outcome(section(**beside)) if beside else plain
        after = outcome(section(**beside, **{name: another(name, field.default)}))
        assert any(not torch.equal(before[each], after[each]) for each in before), name


@name_of
def test_a_rate_of_zero_changes_nothing_and_rates_are_scaled(section):
    trained = weights()
    own = 0.5 if section is not AdafactorRelative else None
    optimizer = built(section(), trained, lr=own)
    assert [group["part"] for group in optimizer.param_groups][-1] == "te"
    base = section.lr if section is AdafactorRelative else section().lr
    assert {group["base_lr"] for group in optimizer.param_groups} == {base, own or base}
    set_lr(optimizer, 0.25)
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    assert rates == pytest.approx([group["base_lr"] / 4 for group in optimizer.param_groups])
    set_lr(optimizer, 0.0)
    for weight in trained.values():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    is_still = all(torch.equal(trained[name], weight) for name, weight in weights().items())
    assert is_still is (section is not AdafactorRelative)


def test_a_groups_rate_is_its_own_times_its_ratio():
    trained = weights()
    groups = [
        ParameterGroup("unet", {"matrix": trained["matrix"]}, lr_ratio=16.0),
        ParameterGroup("te", {"bias": trained["bias"]}, lr=0.5, lr_ratio=2.0),
    ]
    optimizer = build_optimizer(AdamW(lr=0.01), groups)
    assert [group["base_lr"] for group in optimizer.param_groups] == [0.16, 1.0]


@pytest.mark.parametrize(
    "section",
    [AdamW8bit, PagedAdamW8bit, Adam8bit, Lion8bit, AdEMAMix8bit, Sgd8bit],
    ids=lambda section: section.__name__,
)
def test_8_bit_state_is_8_bit_from_4096_numbers_on(section):
    trained = weights()
    optimizer = built(section(), trained)
    make_steps(optimizer, trained, range(1))
    large, small = optimizer.state[trained["matrix"]], optimizer.state[trained["bias"]]
    for name in {"state1", "state2"} & set(large):
        assert large[name].dtype == torch.uint8
        assert small[name].dtype == torch.float32


@pytest.mark.parametrize("section", [AdamW4bit, Adam4bit], ids=lambda section: section.__name__)
def test_4_bit_state_takes_half_a_byte_a_number(section):
    trained = weights()
    optimizer = built(section(), trained)
    make_steps(optimizer, trained, range(1))
    large, small = optimizer.state[trained["matrix"]], optimizer.state[trained["bias"]]
    for name in ("exp_avg", "exp_avg_sq"):
        assert large[name].codes.nbytes == trained["matrix"].numel() // 2
        assert small[name].nbytes == trained["bias"].nbytes


@name_of
def test_exactly_what_updates_independently_can_fuse_the_backward_pass(section):
    assert ("fused_backward" in section.model_fields) is section.updates_independently


@pytest.mark.parametrize(
    "section",
    [section for section in SECTIONS if section.updates_independently],
    ids=lambda section: section.__name__,
)
def test_weights_updated_one_by_one_end_where_all_at_once_do(section):
    together, apart = weights(), weights()
    make_steps(built(section(), together), together, range(6))
    optimizer = built(section(), apart)
    updater = WeightUpdater(optimizer, rounding_seed=None, updates_independently=True)

    def one_by_one():
        updater.begin(0)
        for weight in reversed(updater.parameters):
            updater.update_one(weight)
        updater.finish()

    make_steps(optimizer, apart, range(6), one_by_one)
    # Muon multiplies matrices of a shape in one go, and sums in another order, in bfloat16.
    close = 1e-4 if section is Muon else 0
    for name, weight in together.items():
        torch.testing.assert_close(weight, apart[name], rtol=0, atol=close)


@pytest.mark.parametrize(
    "section",
    [section for section in SECTIONS if section.is_schedule_free],
    ids=lambda section: section.__name__,
)
def test_a_schedule_free_optimizer_has_two_forms_of_its_weights(section):
    trained = weights()
    optimizer = built(section(), trained)
    make_steps(optimizer, trained, range(6))
    training = trained["matrix"].detach().clone()
    optimizer.eval()
    assert not torch.equal(trained["matrix"], training)
    optimizer.train()
    torch.testing.assert_close(trained["matrix"], training)


def test_only_schedule_free_optimizers_have_two_forms():
    for section in SECTIONS:
        has_two = hasattr(built(section(), weights()), "eval")
        assert has_two is section.is_schedule_free, section


class _Absent(AdamW8bit):
    """An optimizer of a package that nobody has."""

    target = "no_such_package.optim:AdamW"


def test_a_missing_package_is_reported_with_the_command_that_installs_it():
    with pytest.raises(UserError, match="no_such_package") as caught:
        built(_Absent(), weights())
    assert "start-ui.py --setup-only --extra bits" in caught.value.remedy
