"""Optimizers and schedules of the user's own: trusted code with arguments, exact on resume."""

import math

import pytest
import torch

from modules.optim.custom import lr_curve
from onetrainer.checks.user_code import check_user_code
from onetrainer.config.optimizers.adam import AdamW
from onetrainer.config.optimizers.custom import CustomOptimizer
from onetrainer.config.run.schedule import Cosine, CustomSchedule
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.run.run_folder import create_run
from onetrainer.trust.function_file import find_function
from onetrainer.trust.trusted_files import trust
from tests.close import FLOAT64, near
from tests.modules.optim.test_optimizer_state import resumed
from tests.stepping import Training, equal

SIGN = """
import torch
class Sign(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum=0.5, shape=(1, 1)):
        super().__init__(params, {"lr": lr, "momentum": momentum, "shape": shape})
        self.calls = 0
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["count"] = group.get("count", 0) + 1
            for p in group["params"]:
                if p.grad is None: continue
                mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                mean.lerp_(p.grad, 1 - group["momentum"])
                p.add_(mean.sign(), alpha=-group["lr"] / group["count"])
class Counting(Sign):
    def step(self, closure=None):
        super().step()
        self.calls += 1
class Odd(Sign):
    def step(self, closure=None):
        super().step()
        for state in self.state.values(): state["odd"] = {1, 2}
class Broken(Sign):
    def step(self, closure=None):
        raise RuntimeError("out of ideas")
class Other: pass
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Makes the spec of a name in some code, which is trusted."""
    for name in ("XDG_CONFIG_HOME", "APPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "settings"))

    def made(name, code=SIGN):
        (tmp_path / "own.py").write_text(code)
        spec = f"{tmp_path / 'own.py'}:{name}"
        trust(find_function(spec))
        return spec

    return made


def test_a_class_of_a_package_trains_as_the_section_of_the_same_class(own):
    trust(find_function("torch.optim.AdamW"))
    for spec in ("torch.optim.AdamW", "torch.optim:AdamW"):
        arguments = "weight_decay = 0.1\n\nbetas = [0.8, 0.95]\nfused = true"
        custom = CustomOptimizer(function=spec, lr=0.01, arguments=arguments)
        known = AdamW(lr=0.01, weight_decay=0.1, beta1=0.8, beta2=0.95)
        made = Training(custom).run(0, 4).snapshot()
        expected = Training(known).run(0, 4).snapshot()
        assert all(torch.equal(made[key], expected[key]) for key in expected)


def test_own_class_resumes_exactly(own, tmp_path):
    custom = CustomOptimizer(function=own("Sign"), lr=0.01, arguments="momentum = 0.9")
    folder = create_run(tmp_path, name="run", config={})
    whole = Training(custom).run(0, 5)
    whole.save(folder, 5)
    whole.run(5, 10)
    other, warned = resumed(folder, custom)
    other.run(5, 10)
    assert (equal(other.snapshot(), whole.snapshot()), warned) == (True, [])
    group = other.optimizer.param_groups[0]
    assert (group["count"], group["momentum"]) == (10, 0.9)


def test_what_is_no_optimizer_or_cannot_be_resumed_is_refused(own):
    for name, arguments, words in (
        ("Other", "", "own.py: Other: this is not an optimizer"),
        ("Sign", "speed = 1", "TypeError: .*speed"),
        ("Counting", "", 'its steps change "calls"'),
        ("Odd", "", "a checkpoint cannot hold a set"),
        ("Broken", "", "line 26: RuntimeError: out of ideas"),
    ):
        with pytest.raises(UserError, match=words):
            Training(CustomOptimizer(function=own(name), arguments=arguments)).run(0, 1)


def test_untrusted_and_missing_code_is_reported_before_a_run(own, tmp_path):
    spec = own("Sign")
    for function, words in (
        (spec, ""),
        (f"{tmp_path / 'new.py'}:Sign", "there is no such file"),
        ("no_such_package.Sign", "no such module"),
        ("torch.optim.NoSuch", "NoSuch"),
        ("Sign", '"Sign" does not name'),
    ):
        config = TrainConfig(
            optimizer=CustomOptimizer(function=function), schedule=CustomSchedule(function=function)
        )
        problems = check_user_code(config)
        paths = ["optimizer.function", "schedule.function"] if words else []
        assert [problem.path for problem in problems] == paths
        assert all(words in problem.what for problem in problems)
    (tmp_path / "own.py").write_text(SIGN + "\n")
    config = TrainConfig(optimizer=CustomOptimizer(function=spec))
    assert "has changed since you trusted it" in check_user_code(config)[0].what


def curve(function, arguments="", steps=20):
    made = lr_curve(CustomSchedule(function=function, arguments=arguments), steps=steps, lr=0.5)
    return [made(step) for step in range(steps)]


def test_own_function_and_schedulers_of_torch_give_their_curves(own):
    half = own("half", "def half(step, steps, low=0): return max(low, 1 - step / steps)\n")
    assert curve(half, "low = 0.25") == [max(0.25, 1 - step / 20) for step in range(20)]
    for name in ("CosineAnnealingLR", "OneCycleLR", "StepLR"):
        trust(find_function(f"torch.optim.lr_scheduler.{name}"))
    cosine = curve("torch.optim.lr_scheduler.CosineAnnealingLR", 'T_max = "{steps}"')
    closed = [0.5 * (1 + math.cos(math.pi * step / 20)) for step in range(20)]
    assert cosine == near(closed, eps=FLOAT64)  # torch computes it recursively
    known = lr_curve(Cosine(), steps=20, lr=0.5)
    assert cosine == near([known(step) for step in range(20)], eps=FLOAT64)
    steps = curve("torch.optim.lr_scheduler.StepLR", "step_size = 5\ngamma = 0.5")
    assert steps == near([0.5 ** (step // 5) for step in range(20)], eps=FLOAT64)
    cycle = curve("torch.optim.lr_scheduler.OneCycleLR", 'max_lr = 0.5\ntotal_steps = "{steps}"')
    assert max(cycle) == near(1.0)


def test_what_is_no_schedule_is_refused(own):
    for result, words in (
        ("'high'", "it returned a str for step 0"),
        ("-1", "it returned -1 for step 0"),
        ("1 if step < 3 else float('nan')", "nan for step 3"),
        ("0", "the learning rate is always 0"),
        ("1 / (step - 4)", "own.py, line 1: ZeroDivisionError|-0.25"),
    ):
        with pytest.raises(UserError, match=words):
            curve(own("f", f"def f(step, steps): return {result}\n"))
    trust(find_function("torch.optim.lr_scheduler.ReduceLROnPlateau"))
    with pytest.raises(UserError, match="metrics"):
        curve("torch.optim.lr_scheduler.ReduceLROnPlateau")
