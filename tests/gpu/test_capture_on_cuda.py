"""Recorded steps on a real GPU: CUDA graphs in place of the tape."""

import pytest
import torch

from modules.jobs.train import train
from tests import table
from tests.modules.stepping.test_captured import BETWEEN, CASES, new_run, results

pytestmark = pytest.mark.cuda


@pytest.mark.parametrize("name", ["lora", "accumulated", "full with ema", "vae"])
def test_graphs_train_what_eager_steps_train(tmp_path, name):
    """Losses agree to 1 %: kernels that add atomically give other last bits in every run."""
    case, changes = CASES[name]
    hardware = {"precision": case.precision, "device": "cuda", "threads": 1}
    made = {}
    for captures in (False, True):
        own = {"hardware": {**hardware, "capture": captures}}
        folder = new_run(lambda family: project(tmp_path, family), case, BETWEEN, changes, own)
        assert train(folder) == 0
        made[captures] = torch.tensor([step[1] for step in results(folder)["steps", ""]])
    torch.testing.assert_close(made[True], made[False], rtol=0.01, atol=0)


def project(root, family):
    """The tiny project of a family, written once."""
    if not (root / family).exists():
        table.write_project(root / family, family)
    return root / family
