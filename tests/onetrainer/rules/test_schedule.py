"""Rules of the EMA and of the times of validation, and checks of validation images."""

from PIL import Image

from onetrainer.checks.dataset import check_images
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


def made(steps=1000, data=None, **validation):
    document = {"training": {"steps": steps}, "data": data or {}}
    return resolve({**document, "validation": {"use": True, **validation}}, source="")


def reported(*arguments, **settings):
    return [(one.path, one.severity) for one in problems(made(*arguments, **settings))]


def images(folder, count):
    folder.mkdir()
    for number in range(count):
        Image.new("RGB", (64, 64)).save(folder / f"{number}.png")
        (folder / f"{number}.txt").write_text("a picture")
    return {"folder": str(folder), "resolution": 64}


def test_the_usual_settings_have_no_problems_and_those_of_no_validation_none_either():
    assert reported() == []
    assert reported(use=False, every=0, patience=3, at_start=False, at_end=False) == []


def test_images_that_are_validation_and_never_measured_are_refused():
    assert reported(every=0, at_start=False, at_end=False) == [("validation.every", "error")]
    assert reported(every=0, at_start=False) == []


def test_patience_needs_validations_in_between():
    assert reported(every=0, patience=1) == [("validation.patience", "error")]


@each(
    ("settings", "is_reported"),
    [
        ({"patience": 9}, False),
        ({"patience": 10}, True),
        ({"patience": 9, "at_start": False}, True),
        ({"patience": 10, "unit": "epochs"}, False),
    ],
)
def test_patience_for_longer_than_the_run_is_warned_of(settings, is_reported):
    assert reported(every=100, **settings) == [("validation.patience", "warning")] * is_reported


def test_few_validation_images_are_warned_of(tmp_path):
    data = images(tmp_path / "pictures", 12)
    (found,) = check_images(made(data=data, split=0.1))
    assert (found.path, found.severity) == ("validation.split", "warning")
    assert "only 1 image " in found.what
    assert check_images(made(data=data, split=0.34)) == []


def test_a_validation_folder_is_checked(tmp_path):
    data = images(tmp_path / "pictures", 4)
    (found,) = check_images(made(data=data, folder=str(tmp_path / "nowhere")))
    assert (found.path, found.severity) == ("validation.folder", "error")
    assert "no such folder" in found.what
    held = images(tmp_path / "held", 5)["folder"]
    (tmp_path / "held" / "broken.png").write_bytes(b"nothing")
    (found,) = check_images(made(data=data, folder=held))
    assert (found.path, found.severity) == ("validation.folder", "warning")
    assert "broken.png" in found.what


def test_holding_out_the_only_image_is_refused_before_the_start(tmp_path):
    (found,) = check_images(made(data=images(tmp_path / "pictures", 1)))
    assert (found.path, found.severity) == ("validation.use", "error")
