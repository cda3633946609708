"""Optimizers that find their own rate do not count a step whose rate is 0."""

import math

import torch
from torch import nn

from modules.interfaces import ParameterGroup
from modules.optim.build import build_optimizer
from modules.optim.learning_rate import set_lr
from modules.optim.update import WeightUpdater
from modules.training.checkpoint_record import find_restore_point
from onetrainer.config.optimizers.adaptive import Prodigy
from onetrainer.run.run_folder import create_run
from tests.each import each
from tests.stepping import SECTIONS, Training, equal

SKIPPING = [section for section in SECTIONS if section.skips_zero_rates]
CURVES = torch.tensor([3.0, 1.0, 0.3, 0.1, 2.0], dtype=torch.float64)
START = torch.tensor([1.0, -2.0, 3.0, 0.5, -1.0], dtype=torch.float64)
TARGET = torch.tensor([0.5, 1.0, -1.0, 2.0, 0.0], dtype=torch.float64)


def published_prodigy(w, rates, gradient, *, d=1e-3, decay=0.01, beta1=0.9, beta2=0.999):
    """Algorithm 3 of Mishchenko & Defazio 2023, arXiv:2306.06101, which waits at a rate of 0."""
    start, first, beta3 = w, d, math.sqrt(beta2)
    m = v = s = torch.zeros_like(w)
    r = 0.0
    for rate in rates:
        if rate == 0:
            continue
        g, before = gradient(w), d
        r = beta3 * r + d / first * d * rate * torch.dot(g, start - w)
        s = beta3 * s + d / first * d * rate * g
        m = beta1 * m + (1 - beta1) * d * g
        v = beta2 * v + (1 - beta2) * d**2 * g**2
        d = max(d, float(r / s.abs().sum()))
        w = w - before * rate * (m / (v.sqrt() + d * 1e-8) + decay * w)
    return w


@each("warmup", [0, 1, 10])
def test_prodigy_is_the_published_one_with_and_without_a_warm_up(warmup):
    rates = [min(1.0, step / warmup) if warmup else 1.0 for step in range(100)]
    weight = nn.Parameter(START.clone())
    section = Prodigy(d0=1e-3)
    optimizer = build_optimizer(section, [ParameterGroup("unet", {"w": weight}, lr=1.0)])
    updater = WeightUpdater(
        optimizer, rounding_seed=None, updates_independently=False, skips_zero_rates=True
    )
    for step, rate in enumerate(rates):
        set_lr(optimizer, rate)
        updater.begin(step)
        weight.grad = CURVES * (weight.detach() - TARGET)
        updater.update_all()
    expected = published_prodigy(START, rates, lambda w: CURVES * (w - TARGET))
    moved = (expected - START).norm()
    assert moved > 0.1
    # The library keeps a sum in float32.
    assert (weight.detach() - expected).norm() < 1e-4 * moved


@each("section", SKIPPING)
def test_a_run_is_as_if_it_began_after_the_step_without_a_rate(section):
    whole, later = Training(section).run(0, 6), Training(section).run(1, 6)
    assert equal(whole.snapshot(), later.snapshot())


def test_a_run_resumes_after_the_step_without_a_rate(tmp_path):
    section = SKIPPING[0]
    folder = create_run(tmp_path, name="run", config={})
    first = Training(section).run(0, 1)
    assert not first.optimizer.state
    first.save(folder, 1)
    other = Training(section, seed=1)
    other.checkpoints(folder).restore(find_restore_point(folder).record)
    assert equal(other.run(1, 6).snapshot(), first.run(1, 6).snapshot())


def test_every_other_optimizer_is_left_alone():
    kinds = {section.kind for section in SKIPPING}
    assert kinds == {"prodigy", "dadapt_adam", "dadapt_sgd", "dadapt_lion"}
