"""Embeddings' files: every form that is in use, read; ours, written."""

import pickle
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from modules.formats.embeddings.convert_embedding import convert_embedding
from modules.formats.embeddings.embedding_file import (
    Embedding,
    bundled_embeddings,
    bundled_tensors,
    read_embedding,
    read_embeddings_by_token,
    write_embedding,
)
from onetrainer.errors import UserError
from onetrainer.model_files.embedding_keys import bundled_name
from tests.each import each


def rows(count, width, dtype=torch.float32):
    return (torch.arange(count * width, dtype=torch.float32).view(count, width) / 7).to(dtype)


SD = {"te": rows(3, 768)}
XL = {"te1": rows(2, 768), "te2": rows(2, 1280)}


def bundle(embeddings):
    """The tensors of several embeddings in one file."""
    return {
        bundled_name(word, key): tensor
        for word, embedding in embeddings.items()
        for key, tensor in bundled_tensors(embedding).items()
    }


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


@each("dtype", [torch.float32, torch.float16, torch.bfloat16])
@each(
    ("vectors", "outputs", "keys"),
    [
        (SD, {}, {"emb_params"}),
        (SD, {"te": rows(3, 768)}, {"emb_params", "emp_params_out"}),
        (XL, {}, {"clip_l", "clip_g"}),
        (XL, XL, {"clip_l", "clip_g", "clip_l_out", "clip_g_out"}),
        ({}, XL, {"clip_l_out", "clip_g_out"}),
    ],
)
def test_what_is_written_is_read_again(tmp_path, dtype, vectors, outputs, keys):
    path = tmp_path / "smiley.safetensors"
    cast = [{te: v.to(dtype) for te, v in side.items()} for side in (vectors, outputs)]
    write_embedding(path, Embedding("other", *cast, {"made": "by hand"}))
    assert load_file(path).keys() == keys
    found = read_embedding(path)
    assert_same(found.vectors, cast[0])
    assert_same(found.outputs, cast[1])
    assert (found.name, found.metadata) == ("smiley", {"made": "by hand"})


@each(
    ("tensors", "vectors"),
    [
        ({"emp_params": rows(3, 768)}, SD),
        ({"clip_l": rows(3, 768)}, SD),
        ({"clip_h": rows(1, 1024)}, {"te": rows(1, 1024)}),
        ({"<smiley>": rows(3, 768)}, SD),
        ({"<smiley>": rows(1, 768)[0]}, {"te": rows(1, 768)}),
        ({"clip_g": rows(2, 1280), "clip_l": rows(2, 768)}, XL),
    ],
)
@each("suffix", [".safetensors", ".bin"])
def test_spellings_of_other_programs_are_read(tmp_path, tensors, vectors, suffix):
    path = tmp_path / f"file{suffix}"
    save_file(tensors, path) if suffix == ".safetensors" else torch.save(tensors, path)
    found = read_embedding(path)
    assert_same(found.vectors, vectors)
    assert found.name == ("<smiley>" if "<smiley>" in tensors else "file")


@each("is_zip", [True, False])
@each("wrap", [dict, nn.ParameterDict])
def test_a1111_pickles_are_read(tmp_path, wrap, is_zip):
    path = tmp_path / "renamed.pt"
    values = {"*": rows(3, 768).requires_grad_()}
    content = {
        "string_to_token": {"*": 265},
        "string_to_param": wrap(values),
        "name": "smiley",
        "step": 500,
        "sd_checkpoint": "cc6cb27103",
        "sd_checkpoint_name": "v1-5-pruned",
    }
    torch.save(content, path, _use_new_zipfile_serialization=is_zip)
    found = read_embedding(path)
    assert_same(found.vectors, SD)
    assert (found.name, found.metadata["step"]) == ("smiley", "500")


def test_tokens_of_a1111_as_a_tensor_are_not_taken_for_vectors(tmp_path):
    path = tmp_path / "x.pt"
    content = {"string_to_token": {"*": torch.tensor(265)}, "string_to_param": {"*": rows(3, 768)}}
    torch.save(content, path)
    assert_same(read_embedding(path).vectors, SD)


def test_bundled_embeddings_are_read_among_other_tensors(tmp_path):
    tensors = {
        "bundle_emb.smiley.clip_l": rows(2, 768),
        "bundle_emb.smiley.clip_g": rows(2, 1280),
        "bundle_emb.v1.5 grin.string_to_param.*": rows(3, 768),
        "bundle_emb.out.clip_l_out": rows(1, 1024),
        "lora_te_x.alpha": torch.tensor(1.0),
    }
    found = bundled_embeddings(tensors)
    assert_same(found["smiley"].vectors, XL)
    assert_same(found["v1.5 grin"].vectors, SD)
    assert_same(found["out"].outputs, {"te": rows(1, 1024)})
    assert found.keys() == {"smiley", "v1.5 grin", "out"}
    save_file(tensors, tmp_path / "lora.safetensors")
    chosen = read_embedding(tmp_path / "lora.safetensors", name="smiley")
    assert_same(chosen.vectors, XL)


def test_a_bundle_is_read_again_and_has_keys_that_other_programs_read():
    embeddings = {"a": Embedding("a", SD, SD), "b": Embedding("b", XL)}
    tensors = bundle(embeddings)
    assert {"bundle_emb.a.string_to_param.*", "bundle_emb.b.clip_l"} <= tensors.keys()
    assert {"bundle_emb.a.clip_l_out", "bundle_emb.b.clip_g"} <= tensors.keys()
    found = bundled_embeddings(tensors)
    for name, expected in embeddings.items():
        assert_same(found[name].vectors, expected.vectors)
        assert_same(found[name].outputs, expected.outputs)


def test_embeddings_are_read_by_the_token_of_the_bundle_or_the_name_of_the_file(tmp_path):
    write_embedding(tmp_path / "v1.5 cat.safetensors", Embedding("x", SD, metadata={"name": "x"}))
    assert read_embeddings_by_token(tmp_path / "v1.5 cat.safetensors").keys() == {"v1.5 cat"}
    save_file(bundle({"v1.5 cat": Embedding("a", SD)}), tmp_path / "many.safetensors")
    assert_same(read_embeddings_by_token(tmp_path / "many.safetensors")["v1.5 cat"].vectors, SD)


def test_a_lora_without_embeddings_is_no_embedding(tmp_path):
    save_file({"lora_unet_x.alpha": torch.tensor(1.0)}, tmp_path / "x.safetensors")
    with pytest.raises(UserError, match="this is a LoRA without bundled embeddings"):
        read_embedding(tmp_path / "x.safetensors", name="cat")


@each(
    ("tensors", "word"),
    [
        ({"clip_l": rows(2, 768), "clip_g": rows(3, 1280)}, "2 and 3"),
        ({"emb_params": rows(2, 768).view(1, 2, 768)}, "(1, 2, 768)"),
        ({"emb_params": torch.zeros(2, 768, dtype=torch.int64)}, "int64"),
        ({"emb_params": torch.zeros(0, 768)}, "(0, 768)"),
        ({f"lora_{n}": rows(1, 4) for n in range(9)}, "not an embedding"),
        ({"a": rows(1, 4), "b": rows(1, 4)}, "a, b"),
        ({"string_to_param.*": rows(1, 4), "string_to_param.x": rows(1, 4)}, "not an embedding"),
        ({}, "no tensors"),
        ({"bundle_emb.x.t5": rows(1, 4), "bundle_emb.x.clip_l": rows(1, 4)}, "clip_l, t5"),
        ({f"bundle_emb.{n}.clip_l": rows(1, 4) for n in "ab"}, "a, b"),
    ],
)
def test_what_is_no_embedding_is_refused(tmp_path, tensors, word):
    save_file(tensors, tmp_path / "x.safetensors")
    with pytest.raises(UserError) as refusal:
        read_embedding(tmp_path / "x.safetensors")
    assert word in str(refusal.value)


class Evil:
    def __reduce__(self):
        return exec, ("raise SystemExit",)


def test_code_in_a_pickle_is_refused_and_not_run(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"string_to_param": {"*": rows(1, 768)}, "name": Evil()}, path)
    with pytest.raises(UserError, match="code"):
        read_embedding(path)
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(UserError):
        read_embedding(path)


@each("content", [b"", b"<html>", struct.pack("<Q", 99) + b'{"a":'])
def test_damaged_files_are_refused(tmp_path, content):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(UserError):
        read_embedding(path)


@each(
    ("precision", "dtype"),
    [
        ("keep", torch.float32),
        ("fp32", torch.float32),
        ("fp16", torch.float16),
        ("bf16", torch.bfloat16),
    ],
)
def test_a_pickle_becomes_a_safetensors_file(tmp_path, precision, dtype):
    source, target = tmp_path / "old.pt", tmp_path / "smiley.safetensors"
    torch.save({"string_to_param": {"*": rows(3, 768)}, "name": "smiley"}, source)
    notes = convert_embedding(source, target, precision=precision, overwrite=False, name="")
    assert_same(load_file(target), {"emb_params": rows(3, 768).to(dtype)})
    assert notes == ['An embedding of 3 vectors for SD 1.x, named "smiley".']


def test_a_name_chooses_from_a_bundle_and_is_reported(tmp_path):
    source, target = tmp_path / "lora.safetensors", tmp_path / "x.safetensors"
    save_file(bundle({"a": Embedding("a", SD), "b": Embedding("b", XL)}), source)
    notes = convert_embedding(source, target, name="b")
    assert load_file(target).keys() == {"clip_l", "clip_g"}
    assert "SDXL" in notes[0]
    assert '"x"' in notes[1]
    assert read_embedding(target).name == "b"
    with pytest.raises(UserError, match="a, b"):
        convert_embedding(source, tmp_path / "y.safetensors", name="c")


def test_converting_keeps_what_is_there_and_writes_safetensors_only(tmp_path):
    source, target = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    write_embedding(source, Embedding("one", SD))
    write_embedding(target, Embedding("two", XL))
    with pytest.raises(UserError, match="exists"):
        convert_embedding(source, target)
    with pytest.raises(UserError, match="safetensors"):
        convert_embedding(source, tmp_path / "two.pt")
    convert_embedding(source, target, overwrite=True)
    assert read_embedding(target).vectors.keys() == {"te"}


def test_an_embedding_that_holds_no_numbers_is_refused(tmp_path):
    broken = rows(3, 768)
    broken[1, 7] = float("nan")
    save_file({"emb_params": broken}, tmp_path / "nan.safetensors")
    with pytest.raises(UserError, match="emb_params contains NaN or infinity"):
        read_embedding(tmp_path / "nan.safetensors")
