"""What fails beside the steps of a run, and how little of them is lost."""

import shutil

import pytest

from modules.jobs.train import train
from onetrainer.run.events import Checkpoint, Finished, Progress, Sample, Started, Warned
from onetrainer.run.run_folder import RunFolder
from tests import runs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return runs.write_project(tmp_path_factory.mktemp("failing"))


@pytest.fixture(scope="module")
def straight(config):
    """A run to which nothing happens."""
    folder = runs.new_run(config)
    assert train(folder) == 0
    return folder


def reported(folder, *kinds):
    return [event for event in runs.events_of(folder) if isinstance(event, kinds)]


def essence(folder):
    """The events of a run that do not depend on the time."""
    return [
        (event.step, event.loss, event.lr) if isinstance(event, Progress) else event
        for event in reported(folder, Progress, Sample, Finished)
    ]


def lora(folder):
    return (folder.output / "my-lora.safetensors").read_bytes()


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_a_run_goes_on_from_before_a_damaged_checkpoint_to_the_same_bytes(straight):
    folder = RunFolder(shutil.copytree(straight.path, straight.path.with_name("damaged")))
    flip(folder.checkpoint(6) / "weights.safetensors")
    assert train(folder) == 0
    assert [event.step for event in reported(folder, Started)] == [0, 3]
    assert [event.step for event in reported(folder, Checkpoint)] == [3, 6]
    (warning,) = reported(folder, Warned)
    assert "step-000006 is damaged (weights.safetensors" in warning.text
    assert "goes on from step 3" in warning.text
    assert lora(folder) == lora(straight)
    assert essence(folder) == essence(straight)
