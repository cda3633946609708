"""Each section builds its library's own optimizer, and every setting reaches it."""

import importlib
import inspect
import math

import bitsandbytes.optim
import prodigyplus
import pytest
import pytorch_optimizer as library
import torch
import torchao.optim
from torch import nn

from modules.interfaces import ParameterGroup
from modules.optim.build import arguments_of, build_optimizer, is_matrix
from modules.optim.exported_weights import enter_training_form
from modules.optim.learning_rate import set_lr
from onetrainer.config.optimizers.adafactor import Adafactor, AdafactorRelative, Came
from onetrainer.config.optimizers.adam import (
    Adam,
    Adam4bit,
    Adam8bit,
    AdamW,
    AdamW4bit,
    AdamW8bit,
    PagedAdamW8bit,
    Sgd,
    Sgd8bit,
)
from onetrainer.config.optimizers.adaptive import (
    DAdaptAdam,
    DAdaptLion,
    DAdaptSgd,
    Prodigy,
    ProdigyScheduleFree,
    ScheduleFreeAdamW,
    ScheduleFreeSgd,
)
from onetrainer.config.optimizers.momentum import (
    AdEMAMix,
    AdEMAMix8bit,
    Adopt,
    Lion,
    Lion8bit,
    Muon,
)
from onetrainer.errors import UserError
from tests.close import ROUNDINGS, close, near
from tests.each import each
from tests.optimizer_steps import (
    SECTIONS,
    UNET,
    built,
    gradient,
    make_steps,
    warm_up,
    weights,
)

DECAY = {"weight_decay": 0.1}
ADAM = {"betas": (0.8, 0.9), "eps": 1e-3, **DECAY}
DECOUPLED = {"weight_decouple": True}
FACTORED = {"clip_threshold": 0.5, "decay_rate": -0.5, "eps1": 1e-4, "eps2": 1e-2, **DECAY}
EXACT = {"momentum_dtype": torch.float32}
FREE = {"r": 1.0, "weight_lr_power": 1.0, **DECAY}
RATE = {"d0": 1e-4, "d_coef": 0.5, "beta3": 0.7}
D_RATE = {"d0": 1e-4, "growth_rate": 1.5}
MEANS = {**ADAM, "betas": (0.8, 0.9, 0.95), "alpha": 2.0}
# The class that each section stands for, with other values than its defaults for every setting.
LIBRARY = {
    AdamW: (torch.optim.AdamW, ADAM),
    Adam: (torch.optim.Adam, ADAM),
    Sgd: (torch.optim.SGD, {"momentum": 0.8, "nesterov": True, **DECAY}),
    Adafactor: (
        library.AdaFactor,
        {**FACTORED, **EXACT, "betas": (0.8, 0.9), "scale_parameter": True, "relative_step": False},
    ),
    AdafactorRelative: (
        library.AdaFactor,
        {**FACTORED, **EXACT, "betas": (0.7, 0.9), "scale_parameter": False, "relative_step": True}
        | {"warmup_init": True},
    ),
    Came: (
        library.CAME,
        {"betas": (0.8, 0.9, 0.95), "clip_threshold": 0.5, "eps1": 1e-4, "eps2": 1e-5, **DECAY},
    ),
    Lion: (library.Lion, {"betas": (0.8, 0.95), **DECAY}),
    Adopt: (library.ADOPT, ADAM | DECOUPLED),
    AdEMAMix: (library.AdEMAMix, {**MEANS, "t_alpha_beta3": 6} | DECOUPLED),
    ScheduleFreeAdamW: (library.ScheduleFreeAdamW, ADAM | FREE),
    ScheduleFreeSgd: (library.ScheduleFreeSGD, {"momentum": 0.8, **FREE}),
    Prodigy: (
        library.Prodigy,
        ADAM | RATE | {"growth_rate": 1.5, "bias_correction": True, "safeguard_warmup": True},
    ),
    DAdaptAdam: (library.DAdaptAdam, ADAM | D_RATE | {"bias_correction": True} | DECOUPLED),
    DAdaptSgd: (library.DAdaptSGD, {"momentum": 0.8, **DECAY} | D_RATE | DECOUPLED),
    DAdaptLion: (library.DAdaptLion, {"betas": (0.8, 0.9), "d0": 1e-4, **DECAY} | DECOUPLED),
    ProdigyScheduleFree: (
        prodigyplus.ProdigyPlusScheduleFree,
        ADAM
        | RATE
        | {"d_limiter": False, "prodigy_steps": 8, "split_groups": False}
        | {"schedulefree_c": 5.0, "use_stableadamw": False, "factored": False},
    ),
    AdamW8bit: (bitsandbytes.optim.AdamW8bit, ADAM),
    PagedAdamW8bit: (bitsandbytes.optim.AdamW8bit, ADAM),  # where nothing can be paged
    Adam8bit: (bitsandbytes.optim.Adam8bit, ADAM),
    Lion8bit: (bitsandbytes.optim.Lion8bit, {"betas": (0.8, 0.95), **DECAY}),
    AdEMAMix8bit: (bitsandbytes.optim.AdEMAMix8bit, {**MEANS, "t_alpha": 6, "t_beta3": 6}),
    Sgd8bit: (bitsandbytes.optim.SGD8bit, {"momentum": 0.8, **DECAY}),
    AdamW4bit: (torchao.optim.AdamW4bit, ADAM),
    Adam4bit: (torchao.optim.Adam4bit, ADAM),
}
# What the sections call otherwise; every other argument has the setting's own name.
SETTINGS_OF = {"t_alpha_beta3": "ramp", "t_alpha": "ramp", "t_beta3": "ramp"}
FIXED = {"relative_step", "weight_decouple", "momentum_dtype"}
OWN = {"kind", "lr", "fused_backward"}
# Rates that let ten steps move the weights by something like their size.
RATES = {AdafactorRelative: 1e-2, Sgd: 0.05, Sgd8bit: 0.05, Lion: 0.01, Lion8bit: 0.01}


def with_arguments(kind, arguments, lr):
    """A section with the settings that stand for a library's arguments."""
    values = {
        SETTINGS_OF.get(name, name): value
        for name, value in arguments.items()
        if name not in FIXED and name != "betas"
    }
    values |= {f"beta{place + 1}": beta for place, beta in enumerate(arguments.get("betas", ()))}
    fields = {name: field.default for name, field in kind.model_fields.items()}
    assert {name for name, value in fields.items() if values.get(name, value) == value} <= OWN
    return kind(**values) if kind is AdafactorRelative else kind(lr=lr, **values)


@each("kind", LIBRARY, ids=lambda kind: kind.__name__)
def test_ten_steps_equal_the_librarys_own_class(kind):
    factory, arguments = LIBRARY[kind]
    lr = 1.0 if kind.is_adaptive else RATES.get(kind, 1e-2)
    own = None if kind.has_one_rate or kind is AdafactorRelative else lr / 2
    trained, expected = weights(), weights()
    make_steps(built(with_arguments(kind, arguments, lr), trained, lr=own), trained, range(10))
    groups = [
        {"params": [expected[name] for name in UNET], "lr": lr, "base_lr": lr},
        {"params": [expected["second"]], "lr": own or lr, "base_lr": own or lr},
    ]
    with torch.compiler.set_stance("force_eager"):
        make_steps(factory(groups, lr=lr, **arguments), expected, range(10))
    for name, weight in trained.items():
        # torch's fused kernels multiply in another order.
        exact = not factory.__module__.startswith("torch.optim")
        close(weight, expected[name], roundings=0 if exact else ROUNDINGS)
        assert not torch.equal(weight, weights()[name])


def test_muon_equals_torchs_for_matrices_and_adamw_for_the_rest():
    section = Muon(
        lr=0.01,
        other_lr_ratio=0.5,
        weight_decay=0.1,
        momentum=0.9,
        ns_steps=4,
        beta1=0.8,
        beta2=0.9,
        eps=1e-3,
    )
    trained, expected = weights(), weights()
    make_steps(built(section, trained), trained, range(10))
    flat = torch.nn.Parameter(expected["kernel"].detach().reshape(8, -1))
    matrices = {"matrix": expected["matrix"], "second": expected["second"], "kernel": flat}
    muon = torch.optim.Muon(
        [{"params": list(matrices.values()), "base_lr": 0.01}],
        weight_decay=0.1,
        momentum=0.9,
        ns_steps=4,
        adjust_lr_fn="match_rms_adamw",
    )
    rest = torch.optim.AdamW(
        [{"params": [expected["bias"]], "base_lr": 0.005}],
        betas=(0.8, 0.9),
        eps=1e-3,
        weight_decay=0.1,
    )
    for step in range(10):
        for optimizer in (muon, rest):
            set_lr(optimizer, warm_up(step))
        for name, weight in matrices.items():
            weight.grad = gradient(name, weight, step)
        flat.grad = gradient("kernel", flat.reshape(8, 16, 3, 3), step).reshape(8, -1)
        expected["bias"].grad = gradient("bias", expected["bias"], step)
        muon.step()
        rest.step()
    close(trained["bias"], expected["bias"])
    for name, weight in matrices.items():
        # Orthogonalized in bfloat16 by both, in another order: its precision, times ten steps
        # of 0.01 × 0.2 × sqrt(64) × 1/8 a number at most.
        torch.testing.assert_close(trained[name].reshape(weight.shape), weight, rtol=0, atol=1e-3)


def test_token_embeddings_are_no_matrix_for_muon():
    word = torch.nn.Parameter(torch.ones(2, 8))
    groups = [ParameterGroup("embeddings", {"word": word}), ParameterGroup("unet", weights())]
    optimizer = build_optimizer(Muon(other_lr_ratio=3), groups)
    groups = optimizer.param_groups
    assert [group["part"] for group in groups] == ["embeddings", "unet", "unet"]
    assert [group["use_muon"] for group in groups] == [False, True, False]
    assert [group["base_lr"] for group in groups] == near([3e-4, 1e-4, 3e-4])
    shapes = {(4, 4): True, (4, 2, 3, 3): True, (4,): False, (1, 4): False, (4, 1): False}
    assert {shape: is_matrix(torch.nn.Parameter(torch.zeros(shape))) for shape in shapes} == shapes


@each("section", SECTIONS, ids=lambda section: section.__name__)
def test_every_argument_is_one_of_its_class(section):
    module, name = section.target.split(":")
    known = inspect.signature(getattr(importlib.import_module(module), name)).parameters
    # Many classes swallow any argument, so that a misspelt one would go unnoticed.
    assert set(arguments_of(section())) <= set(known)


# What no setting and no option names, by the value that the library gives it.
LEFT_TO_LIBRARIES = {
    # Variants that the published optimizer of the section's name does not have.
    **dict.fromkeys(("amsgrad", "ams_bound", "maximize", "fixed_decay", "differentiable"), False),
    **dict.fromkeys(("decoupled_weight_decay", "split_groups_mean", "use_bias_correction"), False),
    **dict.fromkeys(("use_speed", "use_cautious", "use_grams", "use_adopt"), False),
    **dict.fromkeys(("use_orthograd", "use_focus", "capturable"), False),
    **dict.fromkeys(("dampening", "warmup_steps", "decoupling_c"), 0),
    # Which kernels compute the same; nothing in 8 bits below 4096 numbers; blocks of 4 bits.
    **{"foreach": None, "min_8bit_size": 4096, "block_size": 128, "args": None},
    # Read by none of their classes: the name says the bits, and what is paged.
    **{"optim_bits": 32, "is_paged": False},
    # As published: weight decay times the rate, means in float32, Newton-Schulz as of Muon.
    **{"weight_decay_by_lr": True, "factored_fp32": True, "use_schedulefree": True},
    **{"ns_coeffs": "original", "ns_method": "newton_schulz", "ns_reset_steps": (2,)},
    # Each group has a rate; the program rounds and updates in the backward pass itself.
    **{"adamw_lr": 3e-4, "bf16_stochastic_round": False, "fused_back_pass": False},
    # Empty settings: the published value; the schedule-free SGD divides by nothing.
    **{"beta3": None, "growth_rate": math.inf, "t_alpha_beta3": None, "t_alpha": None},
    **{"t_beta3": None, "eps": 1e-8, "clip_lambda": "step^0.25", "nesterov": False},
}


@each("section", SECTIONS, ids=lambda section: section.__name__)
def test_no_default_of_a_library_decides_what_no_setting_names(section):
    module, name = section.target.split(":")
    known = inspect.signature(getattr(importlib.import_module(module), name)).parameters
    given = {"params", "lr", "kwargs", *arguments_of(section())}
    left = {each: known[each].default for each in known.keys() - given}
    if "clip_lambda" in left:
        assert left["clip_lambda"](16) == 2
        left["clip_lambda"] = "step^0.25"
    assert left == {each: LEFT_TO_LIBRARIES.get(each, "not looked at") for each in left}


def test_adafactors_mean_of_updates_is_that_of_the_paper_in_float64():
    trained = {"weight": nn.Parameter(torch.randn(96, generator=torch.Generator().manual_seed(0)))}
    start = trained["weight"].detach().double()
    section = Adafactor(lr=1e-3, beta1=0.9)
    optimizer = build_optimizer(section, [ParameterGroup("unet", trained)])
    set_lr(optimizer, 1.0)
    mean, square, expected = torch.zeros_like(start), torch.zeros_like(start), start
    for step in range(1, 101):
        trained["weight"].grad = gradient("weight", start.float(), step)
        exact = trained["weight"].grad.double()
        optimizer.step()
        decay = min(1 - step**-0.8, section.beta2)
        square = decay * square + (1 - decay) * (exact**2 + section.eps1)
        update = exact / square.sqrt()
        update /= max(1.0, float(update.square().mean().sqrt()))
        mean = 0.9 * mean + 0.1 * 1e-3 * update
        expected = expected - mean
    way = (expected - start).norm()
    # In bfloat16 it is 2e-3 of the way.
    assert (trained["weight"].detach() - expected).norm() / way < 1e-4


@each("section", SECTIONS, ids=lambda section: section.__name__)
def test_a_rate_of_zero_changes_nothing_and_rates_are_scaled(section):
    trained = weights()
    own = 0.5 if section is not AdafactorRelative else None
    optimizer = built(section(), trained, lr=own)
    assert [group["part"] for group in optimizer.param_groups][-1] == "te"
    base = section.lr if section is AdafactorRelative else section().lr
    assert {group["base_lr"] for group in optimizer.param_groups} == {base, own or base}
    set_lr(optimizer, 0.25)
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    assert rates == near([group["base_lr"] / 4 for group in optimizer.param_groups])
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


@each(
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


def test_only_schedule_free_optimizers_have_two_forms():
    for section in SECTIONS:
        has_two = hasattr(built(section(), weights()), "eval")
        assert has_two is section.is_schedule_free, section


def test_a_missing_package_is_reported_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    with pytest.raises(UserError, match="bitsandbytes") as caught:
        built(AdamW8bit(), weights())
    assert "start-ui.py --setup-only --extra bits" in caught.value.remedy


@each("section", [section for section in SECTIONS if section.updates_elementwise])
def test_optimizers_of_single_numbers_update_rows_as_in_the_whole_weight(section):
    assert rows_differ(section) == []


def test_optimizers_of_whole_weights_do_not():
    assert "matrix" in rows_differ(Adafactor)


def rows_differ(section):
    """The weights whose last rows become others where they are trained alone."""
    whole = weights()
    rows = {name: nn.Parameter(w[len(w) // 3 :].detach().clone()) for name, w in whole.items()}
    for trained in (whole, rows):
        optimizer = built(section(), trained)
        enter_training_form(optimizer)
        for step in range(4):
            set_lr(optimizer, warm_up(step))
            for name, weight in trained.items():
                weight.grad = gradient(name, weights()[name], step)[-len(weight) :]
            optimizer.step()
    return [n for n, weight in rows.items() if not torch.equal(weight, whole[n][-len(weight) :])]
