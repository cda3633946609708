"""Opening a model takes little more memory than the model."""

import ctypes
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from modules.formats.files.tensor_source import open_tensors
from modules.formats.original.layout import read_component
from onetrainer.model_files.original.recipe import Recipe

TENSORS, SIDE = 24, 1500  # 24 tensors of 9 MB in float32, 4.5 MB in bfloat16


def resident(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024


def relative_peak(path, dtype):
    """What reading a file takes at most, in multiples of its weights."""
    with open_tensors(path) as reader:
        found = [Recipe(name, (name,), "same") for name in reader.names]
        shapes = {name: reader.shape(name) for name in reader.names}
        ctypes.CDLL(None).malloc_trim(0)  # or it may get memory that this process has kept
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins at what is resident now
        before = resident("VmRSS")
        state = read_component(reader, found, shapes, dtype=dtype, device=torch.device("cpu"))
        weights = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
        return (resident("VmHWM") - before) / weights


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the peak")
def test_peak_memory_of_reading_is_at_most_1_15_of_the_weights(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file(
        {f"layer.{place}": torch.full((SIDE, SIDE), float(place)) for place in range(TENSORS)}, path
    )
    for dtype in (torch.float32, torch.bfloat16):
        assert 0.9 < relative_peak(path, dtype) < 1.15, dtype
