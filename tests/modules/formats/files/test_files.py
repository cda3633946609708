import hashlib
import shutil
import struct
from collections import namedtuple

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save

from modules.formats.files.files import write_safetensors
from modules.formats.files.tensor_source import DTYPES, LazyTensor, cast_lazily
from onetrainer.errors import UserError
from tests.each import each

Usage = namedtuple("Usage", "total used free")


def tensors_of_every_dtype():
    generator = torch.Generator().manual_seed(0)
    made = {
        f"one.{word}": torch.randint(0, 2, (3, 5), generator=generator).to(dtype)
        for word, dtype in DTYPES.items()
    }
    return made | {"v_pred": torch.zeros(0), "scale": torch.tensor(4.6, dtype=torch.float16)}


def body(data):
    return data[8 + struct.unpack("<Q", data[:8])[0] :]


def metadata_of(path):
    with safe_open(path, framework="pt") as file:
        return file.metadata()


def test_every_dtype_is_read_back_by_the_library(tmp_path):
    tensors = tensors_of_every_dtype()
    write_safetensors(tmp_path / "x.safetensors", tensors, {})
    found = load_file(tmp_path / "x.safetensors")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(found[name].double(), tensor.double())


def test_tensors_bytes_are_those_of_the_library(tmp_path):
    tensors = tensors_of_every_dtype()
    write_safetensors(tmp_path / "x.safetensors", tensors, {"a": "b"})
    assert body((tmp_path / "x.safetensors").read_bytes()) == body(save(tensors, {"a": "b"}))


def test_bytes_do_not_depend_on_the_order_of_what_is_given(tmp_path):
    tensors, metadata = tensors_of_every_dtype(), {"ss_b": "1", "a": "ü", "c": "3"}
    turned = (dict(reversed(tensors.items())), dict(reversed(metadata.items())))
    write_safetensors(tmp_path / "one", tensors, metadata, hashes=True)
    write_safetensors(tmp_path / "two", *turned, hashes=True)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_lazy_and_strided_tensors_are_written_as_they_are(tmp_path):
    whole = torch.randn(6, 4)
    source = LazyTensor(torch.float32, torch.Size((4, 6)), lambda: whole.T)
    lazy = cast_lazily(source, torch.bfloat16, name="lazy")
    write_safetensors(tmp_path / "x", {"lazy": lazy, "column": whole[:, 1]}, {})
    found = load_file(tmp_path / "x")
    assert torch.equal(found["lazy"], whole.T.to(torch.bfloat16))
    assert torch.equal(found["column"], whole[:, 1])


def test_hashes_are_those_of_the_documents(tmp_path):
    # Over 0x110000 bytes, so that the window of the legacy hash is full.
    tensors = {"a": torch.randn(200_000), "b": torch.randn(120_000)}
    shown = {"ss_steps": "7", "ss_words": "é"}
    write_safetensors(tmp_path / "x", tensors, {**shown, "modelspec.title": "t"}, hashes=True)
    found = metadata_of(tmp_path / "x")
    digest = hashlib.sha256(body((tmp_path / "x").read_bytes())).hexdigest()
    assert found["sshs_model_hash"] == digest
    assert found["modelspec.hash_sha256"] == "0x" + digest
    write_safetensors(tmp_path / "plain", tensors, shown)
    window = (tmp_path / "plain").read_bytes()[0x100000:0x110000]
    assert len(window) == 0x10000
    assert found["sshs_legacy_hash"] == hashlib.sha256(window).hexdigest()[:8]
    assert found["modelspec.title"] == "t"


@each("size", [10, 262_144, 270_000])
def test_legacy_hash_of_a_file_that_ends_before_or_inside_its_window(tmp_path, size):
    tensors = {"a": torch.randn(size)}
    write_safetensors(tmp_path / "x", tensors, {}, hashes=True)
    write_safetensors(tmp_path / "plain", tensors, {})
    window = (tmp_path / "plain").read_bytes()[0x100000:0x110000]
    expected = hashlib.sha256(window).hexdigest()[:8]
    assert metadata_of(tmp_path / "x")["sshs_legacy_hash"] == expected


def test_existing_file_is_refused_or_replaced(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(b"mine")
    with pytest.raises(UserError, match=r"x\.safetensors: this file already exists"):
        write_safetensors(path, {"a": torch.zeros(2)}, {}, overwrite=False)
    assert path.read_bytes() == b"mine"
    write_safetensors(path, {"a": torch.zeros(2)}, {}, overwrite=True)
    assert load_file(path)["a"].tolist() == [0, 0]


def test_full_disk_refuses_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10, 10, 2**30))
    huge = LazyTensor(torch.float32, torch.Size((2**30,)), lambda: pytest.fail("read"))
    with pytest.raises(UserError, match=r"4\.29 GB are needed, and the disk has 1\.07 GB free"):
        write_safetensors(tmp_path / "new" / "x.safetensors", {"a": huge}, {})
    assert not list(tmp_path.iterdir())


def test_interrupted_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    path = tmp_path / "x.safetensors"
    path.write_bytes(b"mine")
    tensors = {
        "a": torch.zeros(4, dtype=torch.float64),  # written first
        "b": LazyTensor(torch.float32, torch.Size((2,)), interrupt),
    }
    with pytest.raises(KeyboardInterrupt):
        write_safetensors(path, tensors, {})
    assert path.read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [path]


def test_folder_is_never_replaced_by_a_file_and_reported_before_anything_is_read(tmp_path):
    (tmp_path / "x.safetensors").mkdir()
    lazy = LazyTensor(torch.float32, torch.Size((2,)), lambda: pytest.fail("read"))
    with pytest.raises(UserError, match="this is a folder"):
        write_safetensors(tmp_path / "x.safetensors", {"a": lazy}, {}, overwrite=True)
