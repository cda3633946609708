"""A whole run on the pretended card: loading, caching, steps, pictures, checkpoints, the file."""

import gc
import json

import pytest
from PIL import Image
from safetensors.torch import load_file

from modules.jobs.train import train
from onetrainer.run.events import Sample
from tests import pretend, runs, table
from tests.stepping import equal

CASE = table.Case("sd15", "lora", "plain", "fp32")
STEPS = 2


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return table.write_project(tmp_path_factory.mktemp("pretend"), CASE.family)


def run(project, device):
    """A finished run of two steps."""
    config = project / f"{device}.json"
    document = table.document_of(CASE, device)
    document["training"]["steps"] = STEPS
    document["output"] |= {"folder": f"runs-{device}", "save_every": STEPS}
    config.write_text(json.dumps(document))
    folder = runs.new_run(config)
    assert train(folder) == 0
    return folder


def images(folder):
    """The pixels of every sample."""
    return [
        Image.open(folder.path / event.path).tobytes()
        for event in runs.events_of(folder)
        if isinstance(event, Sample)
    ]


def test_a_run_on_the_card_makes_the_processors_weights_and_images(project):
    expected = run(project, "cpu")
    with pretend.accelerator() as card:
        made = run(project, "cuda")
        gc.collect()  # networks hold on to themselves; a run ends with its process
    files = [folder.output / "made.safetensors" for folder in (expected, made)]
    assert equal(load_file(files[0]), load_file(files[1]))
    assert images(made) == images(expected) != []
    assert card.peak > 0
    assert card.allocated == 0
    assert card.to_device.count > 0
