"""Hostile or merely odd .onnx files: each ends in one message, and nothing in it is run."""

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from PIL import Image

from modules.captioning.background import Background, Normalization, normalization_of
from modules.captioning.wd_tagger import WdTagger
from onetrainer.errors import UserError
from tests.each import each
from tests.tiny_describers import save_tagger

CPU = torch.device("cpu")
SIDE = 8


def network(nodes=None, *, image=(1, 3, SIDE, SIDE), mask=(1, 1, SIDE, SIDE), **options):
    """A background network, whose mask is the mean color unless other nodes are given."""
    types = {"of_image": TensorProto.FLOAT, "of_mask": TensorProto.FLOAT} | options
    mean = helper.make_node("ReduceMean", ["image", "axis"], ["mask"], keepdims=1)
    graph = helper.make_graph(
        nodes or [mean],
        "tiny",
        [helper.make_tensor_value_info("image", types["of_image"], image)],
        [] if mask is None else [helper.make_tensor_value_info("mask", types["of_mask"], mask)],
        [helper.make_tensor("axis", TensorProto.INT64, (1,), (1,)), *types.get("tensors", ())],
    )
    version = types.get("opset", 18)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10)


def elsewhere(place):
    """A tensor whose numbers stand in another file."""
    tensor = onnx.TensorProto(name="more", data_type=TensorProto.FLOAT, dims=[1])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entries = {"location": place, "offset": "0", "length": "4"}
    tensor.external_data.extend(
        onnx.StringStringEntryProto(key=key, value=value) for key, value in entries.items()
    )
    return tensor


def node(kind, inputs=("image",), **values):
    return helper.make_node(kind, [*inputs], ["mask"], **values)


ADDED = [node("Add", ("image", "more"))]
HUGE = onnx.TensorProto(name="more", data_type=TensorProto.FLOAT, dims=[10**6, 10**6])
SOUND = network().SerializeToString()
FILES = {
    "text": b"a story",
    "empty": b"",
    "truncated": SOUND[: len(SOUND) // 2],
    "noise": bytes(range(256)) * 9,
    "unknown operator": network([node("Explode")]),
    "of a library": network([node("Run", domain="com.evil")]),
    "later operators": network(opset=999),
    "numbers in another folder": network(ADDED, tensors=[elsewhere("../secret")]),
    "numbers anywhere": network(ADDED, tensors=[elsewhere("/etc/passwd")]),
    "numbers that are missing": network(ADDED, tensors=[elsewhere("gone")]),
    "huge tensor": network(ADDED, tensors=[HUGE]),
    "no output": network(mask=None),
    "two dimensions": network(image=(SIDE, SIDE)),
    "none": network(image=(1, 3, 0, SIDE)),
    "huge image": network(image=(1, 3, 10**6, 10**6), mask=(1, 1, 10**6, 10**6)),
    "many at once": network(image=(10**6, 3, SIDE, SIDE)),
    "bytes": network([node("Identity")], of_image=TensorProto.UINT8, of_mask=TensorProto.UINT8),
    "half": network([node("Identity")], of_image=TensorProto.FLOAT16, of_mask=TensorProto.FLOAT16),
    "texts": network([node("Cast", to=TensorProto.STRING)], of_mask=TensorProto.STRING),
    "flat": network([node("Flatten")], mask=("N", "M")),
    "another size": network([node("Reshape", ("image", "axis"))], mask=("N",)),
    "fails while it runs": network([node("Gather", ("image", "index"), axis=1)], tensors=[
        helper.make_tensor("index", TensorProto.INT64, (1,), (99,))]),
    "no numbers": network([node("Div", ("image", "zero"))], mask=(1, 3, SIDE, SIDE), tensors=[
        helper.make_tensor("zero", TensorProto.FLOAT, (1,), (0.0,))]),
}  # fmt: skip


@each("case", [*FILES])
def test_an_odd_network_is_refused_with_its_name(tmp_path, case):
    (tmp_path / "secret").write_bytes(b"1234")
    file = tmp_path / "models" / "model.onnx"
    file.parent.mkdir()
    content = FILES[case]
    file.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    black = Image.new("RGB", (SIDE, SIDE))
    with pytest.raises(UserError, match=r"model\.onnx") as refused:
        pytest.fail(f"{Background(file, CPU).describe([black])}")
    assert len(str(refused.value)) < 1000


def test_a_sound_network_is_used(tmp_path):
    (tmp_path / "model.onnx").write_bytes(SOUND)
    image = Image.fromarray(np.random.default_rng(1).integers(0, 255, (9, 9, 3), np.uint8))
    (found,) = Background(tmp_path / "model.onnx", CPU).describe([image])
    assert found.mask.size == (SIDE, SIDE)


@each("lines", [[], ["1,a,0,1"], ["1,a"], ["1,a,0,1"] * 8, ['"'], ["\0"]])
def test_a_list_of_tags_of_another_length_is_refused_before_an_image_is_read(tmp_path, lines):
    save_tagger(tmp_path, SIDE)
    rows = "\n".join(["tag_id,name,category,count", *lines])
    (tmp_path / "selected_tags.csv").write_text(rows)
    with pytest.raises(UserError, match="tags"):
        WdTagger(tmp_path, CPU)


@each("text", ["[" * 9999, '{"image_mean": [0, 0], "image_std": [1, 1]}', '{"image_mean": "abc"}',
               '{"image_mean": [0, 0, 0], "image_std": [0, 1, 1]}', "[]"])  # fmt: skip
def test_settings_that_are_none_leave_the_usual_normalization(tmp_path, text):
    (tmp_path / "preprocessor_config.json").write_text(text)
    assert normalization_of(tmp_path / "u2net.onnx") == Normalization()
