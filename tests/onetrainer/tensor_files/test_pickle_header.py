"""Files of torch.save, both forms, against the tensors that were written."""

import collections
import io
import pickle
import struct
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

from onetrainer.errors import UserError
from onetrainer.tensor_files.table import read_table
from tests.each import each

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
    torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64, torch.complex128,
]  # fmt: skip
BOTH = each("is_zip", [True, False])


def save(value, path, *, is_zip=True, **options):
    torch.save(value, path, _use_new_zipfile_serialization=is_zip, **options)
    return path


def restored(path, name):
    """The tensor of a table's entry, by numpy alone; as unsigned bytes of its elements."""
    entry = read_table(path).entries[name]
    content = path.read_bytes()[entry.offset : entry.offset + entry.size]
    if not entry.count:
        return np.zeros((*entry.shape, 0), np.uint8)
    spanned = 1 + sum((n - 1) * s for n, s in zip(entry.shape, entry.strides or (), strict=False))
    width = len(content) // (spanned if entry.strides else entry.count)
    elements = np.frombuffer(content, f"V{width}")
    if entry.strides:
        steps = [step * width for step in entry.strides]
        return np.lib.stride_tricks.as_strided(elements, entry.shape, steps).copy()
    return elements.reshape(entry.shape)


def assert_same(path, name, expected):
    flat = expected.detach().contiguous().flatten().view(torch.uint8)
    assert read_table(path).entries[name].shape == tuple(expected.shape)
    assert restored(path, name).tobytes() == flat.numpy().tobytes()


@BOTH
def test_bytes_of_every_type_are_found(tmp_path, is_zip):
    tensors = {
        str(dtype): torch.randint(0, 2, (3, 5), generator=torch.Generator().manual_seed(1)).to(
            dtype
        )
        for dtype in DTYPES
    }
    path = save(tensors, tmp_path / "a.ckpt", is_zip=is_zip)
    assert read_table(path).entries.keys() == tensors.keys()
    for name, expected in tensors.items():
        assert_same(path, name, expected)


@BOTH
@each("protocol", [2, 4, 5])
def test_views_and_shared_storages_are_read_by_strides(tmp_path, is_zip, protocol):
    base = torch.arange(24.0).reshape(4, 6)
    tensors = {
        "base": base,
        "columns": base[:, 1:3],
        "transposed": base.T,
        "reversed order": base.reshape(2, 2, 6).permute(2, 0, 1),
        "every other": base.flatten()[1::2],
        "expanded": torch.arange(3.0).reshape(3, 1).expand(3, 5),
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(2, 0, 3),
        "parameter": nn.Parameter(torch.randn(2, 2)),
        "flat": torch.zeros(1, 7)[:, 2:],
        "with an attribute": torch.arange(4.0),
    }
    tensors["with an attribute"].note = "x"
    path = save(tensors, tmp_path / "a.pt", is_zip=is_zip, pickle_protocol=protocol)
    for name, expected in tensors.items():
        assert_same(path, name, expected)
    entries = read_table(path).entries
    assert entries["base"].strides is entries["scalar"].strides is entries["flat"].strides is None
    assert entries["columns"].strides == (6, 1)
    assert entries["base"].offset == entries["transposed"].offset


@BOTH
def test_lightning_checkpoint_is_unwrapped_and_its_extras_are_left_alone(tmp_path, is_zip):
    place = "pytorch_lightning.callbacks.model_checkpoint"
    stamp = type("ModelCheckpoint", (), {"__module__": place})
    import sys

    parents = ("pytorch_lightning", "pytorch_lightning.callbacks", place)
    sys.modules |= {name: type(io)(name) for name in parents}
    sys.modules[place].ModelCheckpoint = stamp
    try:
        checkpoint = {
            "state_dict": collections.OrderedDict(a=torch.ones(2), b=torch.zeros(3)),
            "epoch": 3,
            "global_step": np.int64(7),
            "loss": np.float32(0.5),
            "array": np.arange(3),
            "callbacks": {stamp: {"best": np.float64(0.1)}},
            "optimizer_states": [{"state": {0: {"exp_avg": torch.ones(2)}}}],
            "object": stamp(),
        }
        path = save(checkpoint, tmp_path / "a.ckpt", is_zip=is_zip)
    finally:
        for name in parents:
            del sys.modules[name]
    table = read_table(path)
    assert sorted(table.entries) == ["a", "b"]
    assert not table.metadata


@BOTH
@each("is_inner", [True, False])
def test_besides_the_tensors_only_known_keys_become_metadata(tmp_path, is_zip, is_inner):
    known = {"modelspec.title": "t", "ss_steps": 5, "sshs_model_hash": "abc"}
    others = {"ckpt_path": "/home/alice/x", "user": "alice", "name": "alice's", "step": 3}
    tensors = {"a": torch.ones(2)}
    value = {"state_dict": tensors} if is_inner else tensors
    path = save(value | known | others, tmp_path / "a.ckpt", is_zip=is_zip)
    assert dict(read_table(path).metadata) == {key: str(text) for key, text in known.items()}


@BOTH
@each("kind", ["dict", "ParameterDict"])
def test_embedding_of_a1111_is_listed(tmp_path, is_zip, kind):
    vectors = torch.randn(2, 768)
    parameters = {"*": vectors}
    if kind == "ParameterDict":
        parameters = nn.ParameterDict({"*": nn.Parameter(vectors)})
    embedding = {
        "string_to_token": {"*": 265}, "string_to_param": parameters, "name": "cat", "step": 100,
        "sd_checkpoint": "abc", "sd_checkpoint_name": "alice/model",
    }  # fmt: skip
    path = save(embedding, tmp_path / "cat.pt", is_zip=is_zip)
    table = read_table(path)
    assert list(table.entries) == ["string_to_param.*"]
    assert_same(path, "string_to_param.*", vectors)
    assert dict(table.metadata) == {"name": "cat", "step": "100"}


def test_nested_dictionaries_become_dotted_names(tmp_path):
    path = save({"a": {"b": {0: torch.ones(1)}}, "c": torch.ones(1)}, tmp_path / "a.pt")
    assert sorted(read_table(path).entries) == ["a.b.0", "c"]
    path = save({"state_dict": {"state_dict": {"a": torch.ones(1)}}}, tmp_path / "b.pt")
    assert list(read_table(path).entries) == ["a"]


@each("name", ["a.safetensors", "a", "a.bin"])
@BOTH
def test_file_of_torch_of_any_name_is_read_by_its_content(tmp_path, is_zip, name):
    path = save({"a": torch.ones(2)}, tmp_path / name, is_zip=is_zip)
    assert read_table(path).format == "pickle"


@BOTH
def test_of_a_large_file_the_description_alone_is_read(tmp_path, bytes_read, is_zip):
    names = (f"model.diffusion_model.input_blocks.{n}.attn1.to_q.weight" for n in range(200))
    path = save({name: torch.zeros(10_000) for name in names}, tmp_path / "a.ckpt", is_zip=is_zip)
    assert path.stat().st_size > 8e6
    before = bytes_read()
    assert len(read_table(path).entries) == 200
    assert bytes_read() - before < 4e6  # 8 KiB, Python's smallest reading, for each zip member


@BOTH
@each("kept", [0.02, 0.3, 0.7, 0.999])
def test_truncated_file_is_refused(tmp_path, is_zip, kept):
    path = save({str(n): torch.zeros(1000) for n in range(20)}, tmp_path / "a.ckpt", is_zip=is_zip)
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(UserError, match=r"a\.ckpt: .*(cut short|cannot be read)"):
        read_table(path)


def test_empty_file_is_refused(tmp_path):
    (tmp_path / "a.ckpt").touch()
    with pytest.raises(UserError, match=r"the file is empty \(0 bytes\)"):
        read_table(tmp_path / "a.ckpt")


def rewrite(path, change):
    """The zip archive with each member's content changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", change.pop("packing", zipfile.ZIP_STORED)) as archive:
        for name, content in members.items():
            key = name.partition("/")[2]
            if change.get(key, b"") is not None:
                archive.writestr(name, change.get(key, content))
    return path


@each(
    ("change", "words"),
    [
        ({"byteorder": b"big"}, "big-endian"),
        ({"packing": zipfile.ZIP_DEFLATED}, "compressed"),
        ({"data.pkl": None}, "zip archive, but not a torch model"),
        ({"data/0": None}, r"data/0 is missing"),
        ({"data/0": b"abc"}, "larger than its storage"),
        ({"data.pkl": bytes(1 << 25) + b".."}, "larger than 32 MiB"),
        ({"constants.pkl": b""}, "TorchScript"),
    ],
)
def test_unusual_archive_is_refused_with_a_message(tmp_path, change, words):
    path = save({"a": torch.zeros(1000)}, tmp_path / "a.ckpt")
    if "constants.pkl" in change:
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("a/constants.pkl", b"")
    else:
        rewrite(path, change)
    with pytest.raises(UserError, match=words):
        read_table(path)


def test_archive_of_endless_operations_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("onetrainer.tensor_files.unpickler._Operations.left", 1000)
    path = save({"a": torch.zeros(1)}, tmp_path / "a.ckpt")
    read_table(path)
    rewrite(path, {"data.pkl": b"}" * 1001})
    with pytest.raises(UserError, match="more than 2000000 operations"):
        read_table(path)


def test_sparse_tensor_is_refused_by_name_of_its_maker(tmp_path):
    path = save({"a": torch.ones(2, 2).to_sparse()}, tmp_path / "a.pt")
    with pytest.raises(UserError, match="_rebuild_sparse_tensor is not a plain one"):
        read_table(path)


def test_stream_of_a_big_endian_machine_is_refused(tmp_path):
    path = save({"a": torch.ones(2)}, tmp_path / "a.pt", is_zip=False)
    content = path.read_bytes()
    assert content.count(b"little_endianq\x02\x88") == 1
    path.write_bytes(content.replace(b"little_endianq\x02\x88", b"little_endianq\x02\x89"))
    with pytest.raises(UserError, match="big-endian"):
        read_table(path)


def test_pickle_of_something_else_is_refused(tmp_path):
    (tmp_path / "a.pt").write_bytes(pickle.dumps({"a": [1, 2]}, 2))
    with pytest.raises(UserError, match="this is a pickle, but not one of torch"):
        read_table(tmp_path / "a.pt")


def test_stream_whose_storage_says_it_is_endless_is_cut_short(tmp_path):
    path = save({"a": torch.full((2,), 1.5)}, tmp_path / "a.pt", is_zip=False)
    content = path.read_bytes()
    length = struct.pack("<q", 2)
    path.write_bytes(content[:-16] + struct.pack("<q", 1 << 60) + content[-8:])
    assert content[-16:-8] == length
    with pytest.raises(UserError, match="cut short"):
        read_table(path)
