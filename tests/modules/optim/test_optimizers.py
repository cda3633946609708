"""Each section builds its library's own optimizer."""

import bitsandbytes.optim
import prodigyplus
import pytest
import pytorch_optimizer
import torch
import torchao.optim

from modules.optim.construct import set_lr
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
from tests.optimizer_steps import UNET, built, gradient, make_steps, warm_up, weights

LIBRARY = {
    AdamW: (torch.optim.AdamW, {"betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    Adam: (torch.optim.Adam, {"betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    Sgd: (torch.optim.SGD, {"momentum": 0.8, "nesterov": True, "weight_decay": 0.1}),
    Adafactor: (
        pytorch_optimizer.AdaFactor,
        {
            "betas": (0.8, 0.9),
            "clip_threshold": 0.5,
            "decay_rate": -0.5,
            "eps1": 1e-4,
            "eps2": 1e-2,
            "scale_parameter": True,
            "relative_step": False,
            "weight_decay": 0.1,
        },
    ),
    AdafactorRelative: (
        pytorch_optimizer.AdaFactor,
        {
            "betas": (None, 0.9),
            "clip_threshold": 0.5,
            "decay_rate": -0.5,
            "eps1": 1e-4,
            "eps2": 1e-2,
            "scale_parameter": True,
            "relative_step": True,
            "warmup_init": True,
            "weight_decay": 0.1,
        },
    ),
    Came: (
        pytorch_optimizer.CAME,
        {
            "betas": (0.8, 0.9, 0.95),
            "clip_threshold": 0.5,
            "eps1": 1e-4,
            "eps2": 1e-5,
            "weight_decay": 0.1,
        },
    ),
    Lion: (pytorch_optimizer.Lion, {"betas": (0.8, 0.95), "weight_decay": 0.1}),
    Adopt: (
        pytorch_optimizer.ADOPT,
        {"betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1, "weight_decouple": True},
    ),
    AdEMAMix: (
        pytorch_optimizer.AdEMAMix,
        {
            "betas": (0.8, 0.9, 0.95),
            "alpha": 2.0,
            "t_alpha_beta3": 6,
            "eps": 1e-3,
            "weight_decay": 0.1,
            "weight_decouple": True,
        },
    ),
    ScheduleFreeAdamW: (
        pytorch_optimizer.ScheduleFreeAdamW,
        {
            "betas": (0.8, 0.9),
            "r": 1.0,
            "weight_lr_power": 1.0,
            "eps": 1e-3,
            "weight_decay": 0.1,
        },
    ),
    ScheduleFreeSgd: (
        pytorch_optimizer.ScheduleFreeSGD,
        {"momentum": 0.8, "r": 1.0, "weight_lr_power": 1.0, "weight_decay": 0.1},
    ),
    Prodigy: (
        pytorch_optimizer.Prodigy,
        {
            "betas": (0.8, 0.9),
            "beta3": 0.7,
            "d0": 1e-4,
            "d_coef": 0.5,
            "growth_rate": 1.5,
            "bias_correction": True,
            "safeguard_warmup": True,
            "eps": 1e-3,
            "weight_decay": 0.1,
        },
    ),
    DAdaptAdam: (
        pytorch_optimizer.DAdaptAdam,
        {
            "betas": (0.8, 0.9),
            "d0": 1e-4,
            "growth_rate": 1.5,
            "bias_correction": True,
            "eps": 1e-3,
            "weight_decay": 0.1,
            "weight_decouple": True,
        },
    ),
    DAdaptSgd: (
        pytorch_optimizer.DAdaptSGD,
        {
            "momentum": 0.8,
            "d0": 1e-4,
            "growth_rate": 1.5,
            "weight_decay": 0.1,
            "weight_decouple": True,
        },
    ),
    DAdaptLion: (
        pytorch_optimizer.DAdaptLion,
        {"betas": (0.8, 0.9), "d0": 1e-4, "weight_decay": 0.1, "weight_decouple": True},
    ),
    ProdigyScheduleFree: (
        prodigyplus.ProdigyPlusScheduleFree,
        {
            "betas": (0.8, 0.9),
            "beta3": 0.7,
            "d0": 1e-4,
            "d_coef": 0.5,
            "d_limiter": False,
            "prodigy_steps": 8,
            "split_groups": False,
            "schedulefree_c": 5.0,
            "use_stableadamw": False,
            "factored": False,
            "eps": 1e-3,
            "weight_decay": 0.1,
        },
    ),
    AdamW8bit: (
        bitsandbytes.optim.AdamW8bit,
        {"betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1},
    ),
    PagedAdamW8bit: (
        bitsandbytes.optim.AdamW8bit,  # which it is where nothing can be paged
        {"betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1},
    ),
    Adam8bit: (
        bitsandbytes.optim.Adam8bit,
        {"betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1},
    ),
    Lion8bit: (bitsandbytes.optim.Lion8bit, {"betas": (0.8, 0.95), "weight_decay": 0.1}),
    AdEMAMix8bit: (
        bitsandbytes.optim.AdEMAMix8bit,
        {
            "betas": (0.8, 0.9, 0.95),
            "alpha": 2.0,
            "t_alpha": 6,
            "t_beta3": 6,
            "eps": 1e-3,
            "weight_decay": 0.1,
        },
    ),
    Sgd8bit: (bitsandbytes.optim.SGD8bit, {"momentum": 0.8, "weight_decay": 0.1}),
    AdamW4bit: (
        torchao.optim.AdamW4bit,
        {"betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1},
    ),
    Adam4bit: (torchao.optim.Adam4bit, {"betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
}
# What the sections call otherwise; every other argument has the setting's own name.
SETTINGS_OF = {"t_alpha_beta3": "ramp", "t_alpha": "ramp", "t_beta3": "ramp"}
FIXED = {"relative_step", "weight_decouple"}
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
    return kind(**values) if kind is AdafactorRelative else kind(lr=lr, **values)


@pytest.mark.parametrize("kind", LIBRARY, ids=lambda kind: kind.__name__)
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
        close = 1e-6 if factory.__module__.startswith("torch.optim") else 0
        torch.testing.assert_close(weight, expected[name], rtol=close, atol=close)
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
        fused_backward=False,
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
    torch.testing.assert_close(trained["bias"], expected["bias"], rtol=1e-5, atol=1e-6)
    for name, weight in matrices.items():
        # Orthogonalized in bfloat16 by both, in another order: its precision, times ten steps
        # of 0.01 × 0.2 × sqrt(64) × 1/8 a number at most.
        torch.testing.assert_close(trained[name].reshape(weight.shape), weight, rtol=0, atol=1e-3)
