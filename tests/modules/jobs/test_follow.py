"""A run's other processes must see its folder."""

import shutil
from dataclasses import replace

import pytest

from modules.jobs.follow import visible_folder
from modules.jobs.loading import Start
from modules.training.checkpoint_record import CheckpointRecord
from modules.world.launch import Place
from modules.world.world import World
from onetrainer.errors import UserError
from onetrainer.presets.presets import resolve
from onetrainer.run.run_folder import fill_run

WORLD = World(Place(rank=2, size=4))


@pytest.fixture
def start(tmp_path):
    folder = fill_run(tmp_path / "run", config={"a": 1})
    size = folder.config.stat().st_size
    config = resolve({}, source="test")
    return Start(folder.path, size, config, {}, "", {}, None, None)


def test_the_folder_that_rank_0_has_is_taken(start):
    assert visible_folder(WORLD, start).path == start.folder


def test_another_folder_or_none_is_named_with_the_process_and_its_computer(start):
    started = replace(start, last=CheckpointRecord(3, "", 0))
    with pytest.raises(UserError, match=r"step-000003.state\.json: process 2 of 4, on "):
        visible_folder(WORLD, started)
    with pytest.raises(UserError, match=r"config\.json: .* finds another file here"):
        visible_folder(WORLD, replace(start, config_size=5))
    shutil.rmtree(start.folder)
    with pytest.raises(UserError, match=r"config\.json: .* does not find this file"):
        visible_folder(WORLD, start)
