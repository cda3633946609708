"""Runs whose held-out pictures were changed when they were resumed: what then counts."""

import pytest

from onetrainer.run.events import Finished, Progress, Validated, Warned
from tests import table
from tests.modules.training.test_validate_task import change, done, new_run, scripted, told

pytestmark = pytest.mark.slow

SHARE = {"use": True, "split": 0.3, "every": 1}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return table.write_project(tmp_path_factory.mktemp("resumed"), "sd15")


def verdicts(folder, after):
    return [event.verdict for event in told(folder, Validated) if event.step > after]


def texts(folder):
    return " ".join(event.text for event in told(folder, Warned))


def test_what_was_trained_while_validation_was_off_begins_a_new_history(project, monkeypatch):
    scripted(monkeypatch, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
    folder = done(new_run(project, training={"steps": 2}, validation=SHARE))
    assert "may have been learned" not in texts(folder)
    change(folder, "validation", use=False)
    change(folder, "training", steps=3)
    done(folder)
    change(folder, "validation", use=True)
    change(folder, "training", steps=5)
    done(folder)
    assert verdicts(folder, 2) == ["first", "improving", "improving"]
    assert "validation images may have been trained on" in texts(folder)
    change(folder, "training", steps=6)
    done(folder)  # the steps before validation was off still do not count
    assert told(folder, Validated)[-1].since_start == pytest.approx(0.3 - 0.6)


def test_the_same_images_go_on_with_their_history_and_without_a_warning(project, monkeypatch):
    scripted(monkeypatch, 0.9, 0.8, 0.7, 0.6, 0.5)
    folder = done(new_run(project, training={"steps": 2}, validation=SHARE))
    change(folder, "training", steps=4)
    done(folder)
    assert told(folder, Validated)[-1].since_start == pytest.approx(0.5 - 0.9)
    assert "may have been learned" not in texts(folder)


def test_a_run_that_ended_early_goes_on_with_more_patience_only(project, monkeypatch):
    scripted(monkeypatch, 0.9, 0.5, 0.6, 0.7, 0.4, 0.3, 0.2)
    folder = done(new_run(project, training={"steps": 6}, validation={**SHARE, "patience": 2}))
    done(folder)
    again = told(folder, Finished)[-1]
    assert again.step == 3
    assert again.summary[1].startswith("Nothing was trained")
    assert [event.step for event in told(folder, Progress)] == [1, 2, 3]
    change(folder, "validation", patience=3)
    done(folder)
    assert told(folder, Finished)[-1].step == 6
    assert [event.step for event in told(folder, Progress)] == [1, 2, 3, 4, 5, 6]
    assert told(folder, Finished)[-1].summary[1].startswith("The last validation loss, 0.25,")
