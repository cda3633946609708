"""Held-out losses on disk: exact, of this run and grid only."""

import json

import pytest

from onetrainer.errors import UserError
from onetrainer.metrics.validation_files import ValidationFiles

GRID = "a grid"
THIRD = 1 / 3
WORD = json.dumps({"grid": GRID, "noises": 1, "losses": {"shown": {"a.png": ["low"]}}})


def files(folder, grid=GRID, until=None, since=0):
    return ValidationFiles(folder, grid=grid, until=until, since=since)


@pytest.fixture
def folder(tmp_path):
    """The losses of three steps."""
    made = files(tmp_path / "validation")
    for step, loss in ((0, 0.5), (10, THIRD), (20, 0.4)):
        made.add(step, {"shown": {"a.png": [loss, 2.0]}, "last": {"a.png": [9.0, 9.0]}}, noises=2)
    return tmp_path / "validation"


def steps(made, weights="shown"):
    return [one.step for one in made.history(weights)]


def test_what_was_measured_comes_back_to_the_last_bit(folder):
    made = files(folder, until=20)
    assert steps(made) == steps(made, "last") == [0, 10, 20]
    assert made.history("shown")[1].losses == {"a.png": [THIRD, 2.0]}
    assert made.history("shown")[1].noises == 2
    assert made.best_step() == 10


def test_what_comes_after_the_resumed_step_is_deleted(folder):
    (folder / "step-000010.json.part").write_text("half")
    made = files(folder, until=15)
    assert steps(made) == [0, 10]
    assert sorted(path.name for path in folder.iterdir()) == [
        "step-000000.json",
        "step-000010.json",
    ]
    assert made.has(10, ["shown", "last"])
    assert not made.has(20, ["shown"])


def test_a_run_from_the_start_keeps_nothing(folder):
    assert steps(files(folder, until=None)) == []
    assert list(folder.iterdir()) == []


def test_measurements_of_another_grid_do_not_count(folder):
    made = files(folder, grid="another", until=20)
    assert steps(made) == []
    assert (made.incomparable, made.best_step()) == (3, None)


def test_measurements_before_the_images_were_validation_do_not_count(folder):
    made = files(folder, until=20, since=20)
    assert (steps(made), made.incomparable) == ([20], 2)
    assert len(list(folder.iterdir())) == 3


def test_a_step_that_is_measured_again_takes_the_place_of_the_old_one(folder):
    made = files(folder, until=20)
    made.add(20, {"shown": {"a.png": [0.1, 0.1]}}, noises=2)
    assert steps(made) == [0, 10, 20]
    assert made.best_step() == 20
    assert steps(files(folder, until=20), "last") == [0, 10]


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", json.dumps({"grid": GRID, "losses": 3}), WORD]
)
def test_a_damaged_file_is_told_by_its_name(folder, content):
    (folder / "step-000010.json").write_text(content)
    with pytest.raises(UserError, match=r"step-000010\.json"):
        files(folder, until=20)


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "validation").write_text("a file")
    with pytest.raises(UserError, match="cannot write"):
        files(tmp_path / "validation").add(0, {"shown": {}}, noises=1)
