"""Rules of the EMA."""

from onetrainer.config.optimizers.adaptive import ScheduleFreeAdamW
from onetrainer.config.run.ema import Ema
from onetrainer.config.train import TrainConfig, Training
from onetrainer.presets.presets import resolve
from onetrainer.rules.rules import check_rules
from onetrainer.rules.schedule import problems
from tests.each import each


def found(steps=1000, optimizer=None, **ema):
    config = TrainConfig(training=Training(steps=steps), ema=Ema(use=True, **ema))
    if optimizer is not None:
        config = config.model_copy(update={"optimizer": optimizer})
    return [problem for problem in problems(config) if problem.path.startswith("ema")]


def test_ema_of_a_schedule_free_optimizer_is_refused_and_reported_once():
    [problem] = found(optimizer=ScheduleFreeAdamW())
    document = {"optimizer": {"kind": "schedulefree_adamw"}, "ema": {"use": True}}
    reported = check_rules(resolve(document, source=""))
    assert [one for one in reported if one.path == "ema.use"] == [problem]
    assert (problem.path, problem.severity, problem.fix.value) == ("ema.use", "error", False)


def test_ema_without_updates_is_refused():
    assert not found(steps=50, every=50)
    [problem] = found(steps=50, every=51)
    assert (problem.path, problem.severity) == ("ema.every", "error")


@each(("steps", "share"), [(1000, "37%"), (100, "90%")])
def test_ema_that_contains_the_start_is_warned_of(steps, share):
    [problem] = found(steps=steps, decay=0.999, ramp=False)
    assert problem.severity == "warning"
    assert share in problem.what


def test_a_ramp_a_long_run_or_a_small_decay_lets_the_start_go():
    assert not found(steps=100, decay=0.999, ramp=True)
    assert not found(steps=5000, decay=0.999, ramp=False)
    assert not found(steps=1000, decay=0.99, ramp=False)
