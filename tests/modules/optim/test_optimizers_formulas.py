"""Optimizers against the formulas of their papers, written out in float64."""

import math
from collections import defaultdict

import pytest
import torch

from modules.optim.construct import set_lr
from onetrainer.config.optimizers.adafactor import Adafactor, AdafactorRelative, Came
from onetrainer.config.optimizers.adam import Adam, AdamW, Sgd
from onetrainer.config.optimizers.adaptive import (
    DAdaptAdam,
    DAdaptLion,
    DAdaptSgd,
    Prodigy,
    ScheduleFreeAdamW,
    ScheduleFreeSgd,
)
from onetrainer.config.optimizers.momentum import AdEMAMix, Adopt, Lion
from tests.optimizer_steps import built, gradient, make_steps, warm_up, weights

LR, DECAY = 0.01, 0.1
FIRST = 1e-5  # guess of the rate; small, so that ten steps do not come to where all is chaotic


def adamw(x, g, s, t, lr):
    """Loshchilov & Hutter 2017, arXiv:1711.05101, algorithm 2."""
    s["m"] = 0.9 * s["m"] + 0.1 * g
    s["v"] = 0.999 * s["v"] + 0.001 * g**2
    m, v = s["m"] / (1 - 0.9**t), s["v"] / (1 - 0.999**t)
    return x - lr * (m / (v.sqrt() + 1e-8) + DECAY * x)


def adam(x, g, s, t, lr):
    """Kingma & Ba 2014, arXiv:1412.6980, algorithm 1; decay is in the gradient."""
    g = g + DECAY * x
    s["m"] = 0.9 * s["m"] + 0.1 * g
    s["v"] = 0.999 * s["v"] + 0.001 * g**2
    m, v = s["m"] / (1 - 0.9**t), s["v"] / (1 - 0.999**t)
    return x - lr * m / (v.sqrt() + 1e-8)


def nesterov(x, g, s, t, lr):
    """Sutskever et al. 2013, in the form that looks ahead from where it stands."""
    g = g + DECAY * x
    s["b"] = 0.9 * s["b"] + g
    return x - lr * (g + 0.9 * s["b"])


def lion(x, g, s, t, lr):
    """Chen et al. 2023, arXiv:2302.06675, algorithm 2."""
    c = 0.9 * s["m"] + 0.1 * g
    s["m"] = 0.99 * s["m"] + 0.01 * g
    return x - lr * (torch.sign(c) + DECAY * x)


def adopt(x, g, s, t, lr):
    """Taniguchi et al. 2024, arXiv:2411.02853, algorithm 2 with clipping.

    The library counts the look at the first gradient as a step, where the paper begins with 0.
    """
    x = x - lr * DECAY * x
    if t == 1:
        s["v"] = g**2
        return x
    n = (g / s["v"].sqrt().clamp(min=1e-6)).clamp(-(t**0.25), t**0.25)
    s["m"] = 0.9 * s["m"] + 0.1 * n
    s["v"] = 0.9999 * s["v"] + 0.0001 * g**2
    return x - lr * s["m"]


def ademamix(x, g, s, t, lr):
    """Pagliardini et al. 2024, arXiv:2409.03137, algorithm 1, with both schedulers over 6 steps."""
    b1, b3, share = 0.9, 0.9999, min(t / 6, 1.0)
    alpha = 5.0 * share
    b3 = math.exp(math.log(b1) * math.log(b3) / ((1 - share) * math.log(b3) + share * math.log(b1)))
    s["fast"] = b1 * s["fast"] + (1 - b1) * g
    s["slow"] = b3 * s["slow"] + (1 - b3) * g
    s["v"] = 0.999 * s["v"] + 0.001 * g**2
    m, v = s["fast"] / (1 - b1**t), s["v"] / (1 - 0.999**t)
    return x - lr * ((m + alpha * s["slow"]) / (v.sqrt() + 1e-8) + DECAY * x)


def rms(x):
    return (x**2).mean().sqrt()


def factored(s, name, squares, beta):
    """Shazeer & Stern 2018, arXiv:1804.04235, section 3: rows times columns by their sum."""
    if squares.ndim < 2:
        s[name] = beta * s[name] + (1 - beta) * squares
        return s[name]
    s[f"{name} rows"] = beta * s[f"{name} rows"] + (1 - beta) * squares.sum(-1, keepdim=True)
    s[f"{name} columns"] = beta * s[f"{name} columns"] + (1 - beta) * squares.sum(-2, keepdim=True)
    rows, columns = s[f"{name} rows"], s[f"{name} columns"]
    return rows * columns / rows.sum(-2, keepdim=True)


def adafactor(x, g, s, t, lr):
    """The same, algorithm 4, with a given rate and a mean of the steps; decay as in AdamW."""
    v = factored(s, "v", g**2 + 1e-30, 1 - t**-0.8)
    u = g / v.sqrt()
    u = u / max(1.0, rms(u) / 0.5)
    s["m"] = 0.9 * s["m"] + 0.1 * lr * u
    return x - lr * DECAY * x - s["m"]


def adafactor_relative(x, g, s, t, lr):
    """The same, algorithm 4, with the relative step of its warm-up and the scale of the weights."""
    rate = max(1e-3, rms(x)) * min(1e-6 * t, 1 / math.sqrt(t))
    u = g / factored(s, "v", g**2 + 1e-30, 1 - t**-0.8).sqrt()
    return x - rate * DECAY * x - rate * u / max(1.0, rms(u))


def came(x, g, s, t, lr):
    """Luo et al. 2023, arXiv:2307.02047, algorithm 2; without confidence for what has no rows."""
    u = g / factored(s, "v", g**2 + 1e-30, 0.999).sqrt()
    u = u / max(1.0, rms(u))
    s["m"] = 0.9 * s["m"] + 0.1 * u
    step = s["m"]
    if x.ndim > 1:
        step = s["m"] / factored(s, "u", (u - s["m"]) ** 2 + 1e-16, 0.9999).sqrt()
    return x - lr * (step + DECAY * x)


ALONE = [
    (AdamW(lr=LR, weight_decay=DECAY), adamw),
    (Adam(lr=LR, weight_decay=DECAY), adam),
    (Sgd(lr=LR, weight_decay=DECAY, nesterov=True), nesterov),
    (Lion(lr=LR, weight_decay=DECAY), lion),
    (Adopt(lr=LR, weight_decay=DECAY), adopt),
    (AdEMAMix(lr=LR, weight_decay=DECAY, ramp=6), ademamix),
    (Adafactor(lr=LR, weight_decay=DECAY, beta1=0.9, clip_threshold=0.5), adafactor),
    (AdafactorRelative(weight_decay=DECAY, warmup_init=True), adafactor_relative),
    (Came(lr=LR, weight_decay=DECAY), came),
]


@pytest.mark.parametrize(("section", "formula"), ALONE, ids=lambda each: type(each).__name__)
def test_ten_steps_equal_the_papers_formula(section, formula):
    trained, expected = weights(torch.float64), dict(weights(torch.float64))
    make_steps(built(section, trained), trained, range(10))
    for name, weight in expected.items():
        value, state = weight.detach(), defaultdict(float)
        for step in range(10):
            g = gradient(name, value, step)
            value = formula(value, g, state, step + 1, LR * warm_up(step))
        # Adafactor's momentum is kept in bfloat16: ten steps of 0.005 are each off by 2^-9 of it.
        close = 5e-4 if isinstance(section, Adafactor) else 1e-9
        torch.testing.assert_close(trained[name].detach(), value, rtol=0, atol=close)


@pytest.mark.parametrize("is_adam", [True, False], ids=["adamw", "sgd"])
def test_schedule_free_steps_equal_the_papers_formula(is_adam):
    """Defazio et al. 2024, arXiv:2405.15682, equations 3 to 5, and algorithm 1 for AdamW."""
    kind = ScheduleFreeAdamW if is_adam else ScheduleFreeSgd
    trained = weights(torch.float64)
    optimizer = built(kind(lr=LR, weight_decay=DECAY), trained)
    make_steps(optimizer, trained, range(10))
    optimizer.eval()
    for name, weight in weights(torch.float64).items():
        x = y = z = weight.detach()
        v, weight_sum = torch.zeros_like(x), 0.0
        for step in range(10):
            lr, t = LR * warm_up(step), step + 1
            g = gradient(name, y, step)
            v = 0.999 * v + 0.001 * g**2
            g = g / ((v / (1 - 0.999**t)).sqrt() + 1e-8) if is_adam else g
            z = z - lr * (g + DECAY * y)
            weight_sum += lr**2
            share = lr**2 / weight_sum
            x = (1 - share) * x + share * z
            y = 0.1 * z + 0.9 * x
        # The library adds 1e-15 to v, which counts where gradients happen to be near nothing.
        torch.testing.assert_close(trained[name].detach(), x, rtol=0, atol=1e-5)
        optimizer_y = trained[name].detach().lerp(optimizer.state[trained[name]]["z"], 0.1)
        torch.testing.assert_close(optimizer_y, y, rtol=0, atol=1e-5)


def inner(one, other):
    return sum((one[name] * other[name]).sum() for name in one)


def l1(of):
    return sum(each.abs().sum() for each in of.values())


def prodigy(xs, gradients, s, lr):
    """Mishchenko & Defazio 2023, arXiv:2306.06101, algorithm 4; decay as in AdamW."""
    x0, d = s.setdefault("x0", xs), s.setdefault("d", FIRST)
    b3, result = math.sqrt(0.999), {}
    moved = {name: x0[name] - x for name, x in xs.items()}
    s["r"] = b3 * s.get("r", 0.0) + (1 - b3) * lr * d**2 * inner(gradients, moved)
    for name, x in xs.items():
        g, mine = gradients[name], s.setdefault(name, defaultdict(float))
        mine["m"] = 0.9 * mine["m"] + 0.1 * d * g
        mine["v"] = 0.999 * mine["v"] + 0.001 * d**2 * g**2
        mine["s"] = b3 * mine["s"] + (1 - b3) * lr * d**2 * g
        result[name] = x - lr * d * (mine["m"] / (mine["v"].sqrt() + d * 1e-8) + DECAY * x)
    s["d"] = max(d, float(s["r"] / l1({name: s[name]["s"] for name in xs})))
    return result


def dadapt_adam(xs, gradients, s, lr):
    """Defazio & Mishchenko 2023, arXiv:2301.07733, algorithm 5; decay as in AdamW."""
    d, b, result, product = s.setdefault("d", FIRST), math.sqrt(0.999), {}, 0.0
    for name, x in xs.items():
        g, mine = gradients[name], s.setdefault(name, defaultdict(lambda: torch.zeros(())))
        product += (g * mine["s"] / (mine["v"].sqrt() + 1e-8)).sum()
        mine["m"] = 0.9 * mine["m"] + 0.1 * lr * d * g
        mine["v"] = 0.999 * mine["v"] + 0.001 * g**2
        mine["s"] = b * mine["s"] + (1 - b) * lr * d * g
        result[name] = x - lr * d * DECAY * x - mine["m"] / (mine["v"].sqrt() + 1e-8)
    s["r"] = b * s.get("r", 0.0) + (1 - b) * lr * d * product
    s["d"] = max(d, float(s["r"] / ((1 - b) * l1({name: s[name]["s"] for name in xs}))))
    return result


def dadapt_sgd(xs, gradients, s, lr):
    """The same, algorithm 4: SGD with momentum as a mean; decay as in AdamW."""
    d, x0 = s.setdefault("d", FIRST), s.setdefault("x0", xs)
    rate = lr * d / s.setdefault("g0", math.sqrt(inner(gradients, gradients)))
    before = s.get("s", {name: torch.zeros_like(x) for name, x in xs.items()})
    s["r"] = s.get("r", 0.0) + rate * inner(gradients, before)
    s["s"] = {name: before[name] + rate * g for name, g in gradients.items()}
    s["d"] = max(d, float(2 * s["r"] / math.sqrt(inner(s["s"], s["s"]))))
    decayed = {name: x * (1 - rate * DECAY) for name, x in xs.items()}
    return {name: 0.9 * x + 0.1 * (x0[name] - s["s"][name]) for name, x in decayed.items()}


def dadapt_lion(xs, gradients, s, lr):
    """The same, with the steps of Lion (Chen et al. 2023), and momentum times the found rate."""
    d, b, result, product = s.setdefault("d", FIRST), math.sqrt(0.999), {}, 0.0
    for name, x in xs.items():
        g, mine = gradients[name], s.setdefault(name, defaultdict(float))
        update = torch.sign(0.9 * mine["m"] + 0.1 * g)
        mine["m"] = 0.999 * mine["m"] + 0.001 * lr * d * g
        product += (update * mine["s"]).sum()
        mine["s"] = b * mine["s"] + (1 - b) * lr * d * update
        result[name] = x - lr * d * (update + DECAY * x)
    s["r"] = b * s.get("r", 0.0) + (1 - b) * lr * d * product
    s["d"] = max(d, float(s["r"] / ((1 - b) * l1({name: s[name]["s"] for name in xs}))))
    return result


TOGETHER = [
    (Prodigy(d0=FIRST, weight_decay=DECAY), prodigy),
    (DAdaptAdam(d0=FIRST, weight_decay=DECAY), dadapt_adam),
    (DAdaptSgd(d0=FIRST, weight_decay=DECAY), dadapt_sgd),
    (DAdaptLion(d0=FIRST, weight_decay=DECAY), dadapt_lion),
]


@pytest.mark.parametrize(("section", "formula"), TOGETHER, ids=lambda each: type(each).__name__)
def test_ten_steps_that_find_their_rate_equal_the_papers_formula(section, formula):
    trained = weights(torch.float64)
    optimizer = built(section, trained)
    make_steps(optimizer, trained, range(10))
    values, state = {name: each.detach() for name, each in weights(torch.float64).items()}, {}
    for step in range(10):
        gradients = {name: gradient(name, value, step) for name, value in values.items()}
        values = formula(values, gradients, state, warm_up(step))
    found = optimizer.param_groups[0]["d"]
    assert found > 2 * FIRST
    # The library sums inner products in float32.
    assert found == pytest.approx(state["d"], rel=1e-4)
    for name, value in values.items():
        torch.testing.assert_close(trained[name].detach(), value, rtol=0, atol=1e-5)


def test_a_learning_rate_of_zero_keeps_the_found_rate():
    trained = weights(torch.float64)
    optimizer = built(Prodigy(d0=1e-3), trained)
    set_lr(optimizer, 0.0)
    for name, weight in trained.items():
        weight.grad = gradient(name, weight, 0)
    optimizer.step()
    assert optimizer.param_groups[0]["d"] == 1e-3
