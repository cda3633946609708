"""Headers of safetensors files against the safetensors library, and files that are none."""

import json
import math
import struct

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from onetrainer.errors import UserError
from onetrainer.tensor_files.table import read_table
from tests.each import each

WORDS = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
    torch.uint16: "U16", torch.uint32: "U32", torch.uint64: "U64", torch.bool: "BOOL",
}  # fmt: skip


def tensor(dtype):
    return torch.randint(0, 2, (3, 5), generator=torch.Generator().manual_seed(0)).to(dtype)


def write(path, header, size):
    """A file of zeros with a header; only the header takes room on the disk."""
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + size)
    return path


def test_offsets_and_types_are_those_the_library_wrote(tmp_path):
    tensors = {str(dtype): tensor(dtype) for dtype in WORDS} | {"empty": torch.zeros(0)}
    path = tmp_path / "a.safetensors"
    save_file(tensors, path, {"modelspec.title": "é"})
    table = read_table(path)
    content = path.read_bytes()
    assert (table.format, dict(table.metadata)) == ("safetensors", {"modelspec.title": "é"})
    assert table.entries.keys() == tensors.keys()
    for name, expected in tensors.items():
        entry = table.entries[name]
        found = content[entry.offset : entry.offset + entry.size]
        assert (entry.dtype, entry.shape) == (WORDS[expected.dtype], tuple(expected.shape))
        assert found == expected.contiguous().view(torch.uint8).numpy().tobytes()
        assert entry.strides is None


@each(
    ("shape", "words"),
    [
        ([1] * 65, "a.weight has 65 dimensions, of at most 64"),
        ([2**60] * 50_000 + [0], "50001 dimensions"),
        ([0, 2**40, 2**40], "more elements than can be counted, in 3 dimensions"),
        ([10**4000, 0], "more elements than can be counted"),
    ],
)
def test_a_shape_that_no_tensor_can_have_is_refused_with_the_name(tmp_path, shape, words):
    size = 2 * math.prod(shape[:65]) if 0 not in shape else 0
    header = {"a.weight": {"dtype": "F16", "shape": shape, "data_offsets": [0, size]}}
    with pytest.raises(UserError, match=f"x.safetensors: its table of tensors .*{words}"):
        read_table(write(tmp_path / "x.safetensors", header, size))


def test_tensors_that_share_bytes_are_refused(tmp_path):
    entry = {"dtype": "U8", "shape": [1000], "data_offsets": [0, 1000]}
    header = {str(number): entry for number in range(1000)}  # a megabyte in a kilobyte
    with pytest.raises(UserError, match="0 and 1 overlap"):
        read_table(write(tmp_path / "x.safetensors", header, 1000))


def test_of_a_file_of_7_gb_the_header_alone_is_read(tmp_path, bytes_read):
    count, each = 2500, 2_800_000
    header = {
        f"model.diffusion_model.input_blocks.{n}.attn1.to_q.weight": {
            "dtype": "F16", "shape": [each // 2], "data_offsets": [n * each, (n + 1) * each],
        }
        for n in range(count)
    }  # fmt: skip
    path = write(tmp_path / "large.safetensors", header, count * each)
    before = bytes_read()
    table = read_table(path)
    assert bytes_read() - before < 2**20
    assert len(table.entries) == count
    assert path.stat().st_size > 7e9


@each(
    "entry",
    [
        {"dtype": "F16", "shape": [3], "data_offsets": [0, 4]},
        {"dtype": "F16", "shape": [-2], "data_offsets": [0, -4]},
        {"dtype": "F16", "shape": [2], "data_offsets": [4, 0]},
        {"dtype": "F16", "shape": [2], "data_offsets": [-4, 0]},
        {"dtype": "F16", "data_offsets": [0, 4]},
        {"dtype": "F16", "shape": [2], "data_offsets": [0]},
        [],
        7,
    ],
)
def test_entry_that_makes_no_sense_is_refused(tmp_path, entry):
    with pytest.raises(UserError, match="neither a safetensors"):
        read_table(write(tmp_path / "a.safetensors", {"a": entry}, 4))


def test_marker_without_elements_is_listed(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"v_pred": torch.tensor([])}, path)
    assert read_table(path).entries["v_pred"].shape == (0,)


@each("name", ["a.ckpt", "a.pt", "a.bin", "a", "a.SAFETENSORS"])
def test_safetensors_file_of_any_name_is_read_by_its_content(tmp_path, name):
    save_file({"a": torch.arange(3.0)}, tmp_path / "x")
    path = (tmp_path / "x").rename(tmp_path / name)
    entry = read_table(path).entries["a"]
    found = np.frombuffer(path.read_bytes(), np.float32, 3, entry.offset)
    assert found.tolist() == [0, 1, 2]
