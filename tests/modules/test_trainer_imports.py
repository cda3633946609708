"""What importing the training loop, and the engine in a worker, loads."""

import subprocess
import sys

import pytest

MOST = 16
COUNT = """
import sys, modules.trainer
print(*sorted(m for m in sys.modules if m.split(".")[0] in ("modules", "onetrainer")))
"""


LIGHTLY = """
from modules.training.importing import importing
with importing():
    from transformers import AutoConfig, CLIPTextModel
    from transformers.models.clip import modeling_clip
import sys, types
assert CLIPTextModel is modeling_clip.CLIPTextModel
assert AutoConfig.for_model("clip").model_type == "clip"
print(type(sys.modules["transformers.models"]) is types.ModuleType)
"""


@pytest.fixture(scope="module")
def printed():
    """What one process prints that has loaded both, as each takes seconds."""
    ran = subprocess.run(
        [sys.executable, "-c", COUNT + LIGHTLY], capture_output=True, text=True, check=True
    )
    return ran.stdout.splitlines()


def test_the_training_loop_imports_few_of_our_files(printed):
    loaded = printed[0].split()
    assert "modules.trainer" in loaded
    assert len(loaded) <= MOST, loaded


def test_a_worker_loads_text_encoders_without_a_scan_of_all_models(printed):
    assert printed[1] == "True"
