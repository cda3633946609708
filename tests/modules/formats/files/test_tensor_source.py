import pytest
import torch
from safetensors.torch import save_file

from modules.formats.files.tensor_source import cast_lazily, combine_lazily, open_tensors
from onetrainer.errors import UserError


def random_tensors():
    generator = torch.Generator().manual_seed(0)
    return {
        "half": torch.randn(3, 4, generator=generator).half(),
        "ids": torch.arange(77)[None],
        "scalar": torch.tensor(4.5),
        "empty": torch.zeros(0),
        "small": torch.randn(5, generator=generator).to(torch.float8_e4m3fn),
    }


def assert_equal(found, expected):
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert torch.equal(found.double(), expected.double())


def test_safetensors_file_is_read_tensor_by_tensor(tmp_path):
    tensors = random_tensors()
    save_file(tensors, tmp_path / "x.safetensors", {"key": "value"})
    with open_tensors(tmp_path / "x.safetensors") as reader:
        assert reader.names == sorted(tensors)
        assert reader.metadata == {"key": "value"}
        for name, tensor in tensors.items():
            assert_equal(reader.read(name), tensor)
            assert_equal(reader.lazy(name).read(), tensor)
            assert reader.lazy(name).shape == tensor.shape


@pytest.mark.parametrize("is_zip", [True, False])
def test_pickle_is_read_like_a_safetensors_file(tmp_path, is_zip):
    tensors = random_tensors()
    whole = torch.randn(6, 4)
    tensors |= {
        "turned": whole.T,
        "column": whole[:, 2],
        "row": whole[3],
        "stretched": torch.ones(1).expand(3),
    }
    path = tmp_path / "x.ckpt"
    torch.save({"state_dict": tensors}, path, _use_new_zipfile_serialization=is_zip)
    with open_tensors(path) as reader:
        assert reader.names == sorted(tensors)
        for name, tensor in tensors.items():
            assert_equal(reader.read(name), tensor)
            assert reader.read(name).is_contiguous()


def test_shards_are_read_as_one(tmp_path):
    tensors = random_tensors()
    paths = []
    for name, tensor in tensors.items():
        paths.append(tmp_path / f"{name}.safetensors")
        save_file({name: tensor}, paths[-1])
    with open_tensors(paths) as reader:
        assert reader.names == sorted(tensors)
        for name, tensor in tensors.items():
            assert_equal(reader.read(name), tensor)


def test_tensor_outlives_the_file(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"a": torch.arange(1000.0)}, path)
    with open_tensors(path) as reader:
        found = reader.read("a")
    path.write_bytes(bytes(path.stat().st_size))
    assert torch.equal(found, torch.arange(1000.0))


def test_file_that_shrinks_while_it_is_read_is_reported(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"a": torch.arange(1000.0)}, path)
    with open_tensors(path) as reader:
        with path.open("r+b") as file:
            file.truncate(2000)
        with pytest.raises(UserError, match="ends inside the tensor a"):
            reader.read("a")


def test_conversion_leaves_integers_and_what_is_right_already():
    ids, weight = torch.arange(3), torch.ones(3)
    assert cast_lazily(ids, torch.float16, name="x").dtype == torch.int64
    assert cast_lazily(weight, None, name="x").dtype == torch.float32
    assert cast_lazily(weight, torch.float32, name="x").read() is weight
    assert_equal(cast_lazily(weight, torch.bfloat16, name="x").read(), weight.bfloat16())


def test_combination_reports_its_shape_without_data(tmp_path):
    save_file({"a": torch.ones(2, 3), "b": torch.zeros(1, 3)}, tmp_path / "x.safetensors")
    with open_tensors(tmp_path / "x.safetensors") as reader:
        both = combine_lazily(
            [reader.lazy("a"), reader.lazy("b")], lambda parts: torch.cat(list(parts))
        )
        assert both.shape == (3, 3)
        assert torch.equal(both.read(), torch.tensor([[1.0] * 3, [1.0] * 3, [0.0] * 3]))


@pytest.mark.parametrize("number", [70_000.0, -70_000.0])
def test_weight_that_a_dtype_cannot_hold_is_reported_by_its_name(number):
    weight = torch.tensor([0.0, number])
    with pytest.raises(UserError, match=r"tensor a\.weight has values from .*7e\+04"):
        cast_lazily(weight, torch.float16, name="a.weight").read()
    assert_equal(cast_lazily(weight, torch.bfloat16, name="x").read(), weight.bfloat16())


def test_infinite_weight_stays_as_it_is():
    weight = torch.tensor([1.0, float("inf"), float("nan")])
    found = cast_lazily(weight, torch.float16, name="x").read()
    assert torch.equal(found[:2], weight[:2].half())
    assert found[2].isnan()
    weight[0] = 70_000  # and what stands next to it is still checked
    with pytest.raises(UserError, match="the tensor x has"):
        cast_lazily(weight, torch.float16, name="x").read()


def test_file_that_cannot_be_read_is_reported_as_such(tmp_path):
    expected = pytest.raises(UserError, match=r"none\.safetensors: the file cannot be read")
    with expected, open_tensors(tmp_path / "none.safetensors"):
        pass
