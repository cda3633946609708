"""Opening a model takes little more memory than the model."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from onetrainer import ROOT

TENSORS, SIDE = 24, 1500  # 24 tensors of 9 MB in float32, 4.5 MB in bfloat16

# In processes of their own, forked from one that has imported everything, because the peak of a
# process never falls.
READ = """
import os
import sys
from pathlib import Path
import torch
from modules.formats.original.layout import read_component
from modules.formats.original.recipe import Recipe
from modules.formats.files.tensor_source import open_tensors

def resident(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024

def measure(dtype):
    with open_tensors(Path(sys.argv[1])) as reader:
        found = [Recipe(name, (name,), "same") for name in reader.names]
        shapes = {name: reader.shape(name) for name in reader.names}
        before = resident("VmRSS")
        state = read_component(reader, found, shapes, dtype=dtype, device=torch.device("cpu"))
        weights = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
        return (resident("VmHWM") - before) / weights

torch.set_num_threads(1)
for dtype in (torch.float32, torch.bfloat16):
    if not (child := os.fork()):
        print(f'["{dtype}", {measure(dtype)}]', flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the peak")
def test_peak_memory_of_reading_is_at_most_1_15_of_the_weights(tmp_path):
    tensors = {f"layer.{place}": torch.full((SIDE, SIDE), place) for place in range(TENSORS)}
    path = tmp_path / "model.safetensors"
    save_file({name: tensor.float() for name, tensor in tensors.items()}, path)
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    peaks = dict(map(json.loads, done.stdout.splitlines()))
    assert peaks.keys() == {"torch.float32", "torch.bfloat16"}
    assert all(0.9 < peak < 1.15 for peak in peaks.values()), peaks
