"""What people choose by mistake, and how fast a large file answers."""

import struct

import pytest
import torch
from safetensors.torch import save_file

from onetrainer.errors import UserError
from onetrainer.model_files.inspection import inspect_model, inspect_table
from onetrainer.tensor_files.table import read_table
from tests import headers, tiny
from tests.each import each


@each(
    ("name", "content", "message"),
    [
        ("a.safetensors", b"", r"a\.safetensors: the file is empty"),
        ("a.ckpt", b"", r"a\.ckpt: the file is empty"),
        ("a.ckpt", b"anything", r"a\.ckpt: this is neither a safetensors nor a torch file"),
        ("renamed.safetensors", b"PK\x03\x04" + b"\xff" * 50, "cut short"),
        ("old.safetensors", b"\x80\x02ccollections\n" + b"\xff" * 50, "table of tensors cannot"),
        ("a.safetensors", b"<!DOCTYPE html><html>Sign in</html>", "a web page, not"),
        ("a.ckpt", b"<!DOCTYPE html><html>Sign in</html>", "a web page, not"),
        ("a.safetensors", b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        ("photo.png", b"\x89PNG\r\n\x1a\n" + bytes(50), "neither a safetensors"),
        ("a.safetensors", b"abc", "neither a safetensors"),
        ("a.safetensors", struct.pack("<Q", 4) + b"{{{{", "neither a safetensors"),
        ("a.safetensors", struct.pack("<Q", 2) + b"[]", "neither a safetensors"),
        ("a.safetensors", struct.pack("<Q", 10) + b'{"a":1}   ', "neither a safetensors"),
        ("a.safetensors", struct.pack("<Q", 5000) + b'{"a": ', "cut short: it ends inside"),
        ("a.safetensors", b"\x80\x02" + bytes(6) + b"{" + bytes(700), "neither a safetensors"),
    ],
)
def test_what_is_no_model_file_is_named_for_what_it_is(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        inspect_model(tmp_path / name)
    assert caught.value.remedy


def test_truncated_and_overlong_files_are_refused(tmp_path):
    path = tiny.write_single_file(tmp_path / "a.safetensors")
    content = path.read_bytes()
    path.write_bytes(content[:-10])
    with pytest.raises(UserError, match=f"it has {len(content) - 10} of {len(content)} bytes"):
        inspect_model(path)
    path.write_bytes(content + b"abc")
    with pytest.raises(UserError, match="3 bytes more than its header says"):
        inspect_model(path)


def test_missing_path_is_reported(tmp_path):
    with pytest.raises(UserError, match="no such file or folder"):
        inspect_model(tmp_path / "nothing")


@each("is_zip", [True, False], ids=["zip", "stream"])
@each("name", ["m.ckpt", "m.safetensors"])
def test_checkpoint_is_recognized_as_the_safetensors_file_is(tmp_path, is_zip, name):
    shapes = {n: (1,) * len(s) for n, s in headers.full_size("sd15").items()}
    shapes["model.diffusion_model.input_blocks.0.0.weight"] = (1, 9, 1, 1)
    tensors = {n: torch.zeros(s, dtype=torch.bfloat16) for n, s in shapes.items()}
    checkpoint = {"state_dict": tensors, "global_step": 5}
    torch.save(checkpoint, tmp_path / name, _use_new_zipfile_serialization=is_zip)
    save_file(tensors, tmp_path / "other.safetensors")
    found, expected = (
        inspect_table(read_table(tmp_path / file)) for file in (name, "other.safetensors")
    )
    assert (found.kind, found.missing, found.precision) == ("sd15-inpainting", (), "bf16")
    assert found.unet_channels == expected.unet_channels == 9
    assert expected.kind == found.kind


def test_of_an_sdxl_file_of_7_gb_the_header_alone_is_read(tmp_path, bytes_read):
    path = headers.write(tmp_path / "xl.safetensors", headers.full_size("sdxl"))
    assert path.stat().st_size > 6.9e9
    inspect_model(path)  # what Python itself loads at the first call does not count
    before = bytes_read()
    assert inspect_model(path).kind == "sdxl"
    assert bytes_read() - before < 2**20


@pytest.mark.parametrize("channels", [4, 9])
def test_unet_that_is_there_as_ema_only_is_recognized_by_it(tmp_path, channels):
    start, entrance = "model.diffusion_model.", "input_blocks.0.0.weight"
    shapes = {}
    for name, shape in headers.full_size("sd15").items():
        old, size = name, (shape[0], channels, *shape[2:]) if name == start + entrance else shape
        if name.startswith(start):
            old = "model_ema." + name.removeprefix("model.").replace(".", "")
        shapes[old] = size
    model = inspect_model(headers.write(tmp_path / "m.safetensors", shapes))
    assert model.kind == ("sd15" if channels == 4 else "sd15-inpainting")
    assert (model.missing, model.has_ema, model.unet_channels) == (("UNet",), True, channels)


def test_counters_of_an_average_are_no_weights(tmp_path):
    counters = {"model_ema.decay": (), "model_ema.num_updates": ()}
    path = headers.write(tmp_path / "m.safetensors", headers.full_size("sd15") | counters)
    assert not inspect_model(path).has_ema


@each(
    ("dtype", "other", "precision"),
    [("F32", "F32", "fp32"), ("BF16", "BF16", "bf16"), ("F16", "F32", "mixed"),
     ("F8_E4M3", "F8_E4M3", "fp8"), ("F16", "I64", "fp16"), ("I64", "I64", "")],
)  # fmt: skip
def test_precision_is_that_of_nearly_all_weights(tmp_path, dtype, other, precision):
    shapes = {"a": (500, 500), "b": (500, 500), "c": (10,)}
    dtypes = {"b": other} | ({"c": "F32"} if precision else {})
    path = headers.write(tmp_path / "m.safetensors", shapes, dtype=dtype, dtypes=dtypes)
    assert inspect_model(path).precision == precision
