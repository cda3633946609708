"""Opening a model takes little more memory than the model."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from onetrainer import ROOT

TENSORS, SIDE = 40, 1500  # 40 tensors of 9 MB in float32, 4.5 MB in bfloat16

# In a process of its own, because the peak of a process never falls.
READ = """
import sys
from pathlib import Path
import torch
from modules.formats.original.layout import read_component
from modules.formats.original.recipe import Recipe
from modules.formats.files.tensor_source import open_tensors

def resident(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024

torch.set_num_threads(1)
with open_tensors(Path(sys.argv[1])) as reader:
    found = [Recipe(name, (name,), "same") for name in reader.names]
    shapes = {name: reader.shape(name) for name in reader.names}
    before = resident("VmRSS")
    dtype = getattr(torch, sys.argv[2])
    state = read_component(reader, found, shapes, dtype=dtype, device=torch.device("cpu"))
    weights = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
    print((resident("VmHWM") - before) / weights)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_peak_memory_of_reading_is_at_most_1_15_of_the_weights(tmp_path, dtype):
    generator = torch.Generator().manual_seed(0)
    names = [f"layer.{place}" for place in range(TENSORS)]
    save_file(
        {name: torch.rand(SIDE, SIDE, generator=generator) for name in names},
        tmp_path / "model.safetensors",
    )
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / "model.safetensors"), dtype],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert 0.9 < float(done.stdout) < 1.15
