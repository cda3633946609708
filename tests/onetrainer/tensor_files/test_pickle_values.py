"""Pickles that carry code or are bombs: nothing runs, and the file is refused in words."""

import builtins
import functools
import io
import os
import pickle
import shutil
import subprocess
import time
import tracemalloc
import zipfile

import pytest
import torch

from onetrainer.errors import UserError
from onetrainer.tensor_files import read_table
from onetrainer.tensor_files.pickle_names import is_safe_name
from onetrainer.tensor_files.pickle_values import Global, PickleError, read_pickle


class Caller:
    """Has a function called when it is unpickled by Python."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def archive(path, description):
    """A file of torch.save with a description of our own."""
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("a/data.pkl", description)
        made.writestr("a/data/0", bytes(16))
    return path


def harmless(_):
    """Every name is welcome."""


@pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "stream"])
@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("name", ["a.ckpt", "a.safetensors", "a.pt"])
def test_nothing_in_a_file_is_run(tmp_path, is_zip, protocol, name):
    witness = tmp_path / "witness"
    value = {"state_dict": {"a": torch.ones(2)}, "b": Caller(os.system, f"touch {witness}")}
    torch.save(
        value, tmp_path / name, pickle_protocol=protocol, _use_new_zipfile_serialization=is_zip
    )
    with pytest.raises(UserError) as caught:
        read_table(tmp_path / name)
    assert caught.value.what.startswith(f"{name}: this file holds code ({os.name}.system)")
    assert caught.value.remedy
    assert not witness.exists()


@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (builtins.eval, ("1",), "builtins.eval"),
        (builtins.exec, ("1",), "builtins.exec"),
        (builtins.getattr, (1, "real"), "builtins.getattr"),
        (builtins.__import__, ("os",), "builtins.__import__"),
        (subprocess.Popen, (["true"],), "subprocess.Popen"),
        (functools.partial, (print,), "functools.partial"),
        (shutil.rmtree, ("/nowhere",), "shutil.rmtree"),
        (torch.hub.load, ("a/b", "c"), "torch.hub.load"),
        (torch.load, ("x",), "torch.serialization.load"),
    ],
)
def test_function_that_does_something_is_named(tmp_path, function, arguments, name):
    # Protocol 2 would write the names that Python 2 had for some of them.
    torch.save({"a": Caller(function, *arguments)}, tmp_path / "a.ckpt", pickle_protocol=4)
    with pytest.raises(UserError, match=rf"this file holds code \({name}\)"):
        read_table(tmp_path / "a.ckpt")


@pytest.mark.parametrize(
    "description",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"(cos\nsystem\nS'true'\no.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x04\x8c\x12pytorch_lightning.x\x8c\x09os.system\x93.".replace(b"\x12", b"\x13"),
        b"comegaconf\nos.system\n.",
        b"ctorch._utils\nos.system\n.",
        b"cnumpy.testing._private.utils\nrunstring\n.",
    ],
)
def test_every_way_to_name_a_function_is_seen(tmp_path, description):
    with pytest.raises(UserError, match=r"this file holds code \(.*(system|runstring)\)"):
        read_table(archive(tmp_path / "a.ckpt", description))


def test_bare_pickle_with_code_is_named_by_its_suffix_alone(tmp_path):
    (tmp_path / "a.pt").write_bytes(b"cposix\nsystem\n(S'true'\ntR.")
    with pytest.raises(UserError, match=r"this file holds code \(posix\.system\)"):
        read_table(tmp_path / "a.pt")


def test_name_is_made_fit_to_be_shown(tmp_path):
    name = b"\x1b[31m" + b"x" * 100_000
    with pytest.raises(UserError) as caught:
        read_table(archive(tmp_path / "a.ckpt", b"cos\n" + name + b"\n."))
    assert caught.value.what.isprintable()
    assert len(caught.value.what) < 300


def test_extension_codes_are_refused(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_table(archive(tmp_path / "a.ckpt", b"\x80\x02\x82\x01."))


@pytest.mark.parametrize(
    "module",
    ["os", "nt", "posix", "sys", "subprocess", "runpy", "__main__", "torch", "importlib", "pickle",
     "ctypes", "webbrowser", "lightningrod", "numpy"],
)  # fmt: skip
def test_unknown_names_are_not_harmless(module):
    assert not is_safe_name(Global(module, "anything"))


@pytest.mark.parametrize(
    "name",
    ["lightning_fabric.utilities.cloud_io _load", "lightning_utilities.core.rank_zero log",
     "omegaconf.resolvers oc", "omegaconf.resolvers.oc env", "omegaconf OmegaConf",
     "pytorch_lightning.callbacks.model_checkpoint os", "pytorch_lightning Trainer",
     "lightning.pytorch.callbacks.model_checkpoint _is_dir", "numpy.dtypes anything",
     "torch._utils _rebuild_x.y", "torch._utils _import_dotted_name"],
)  # fmt: skip
def test_libraries_of_known_checkpoints_are_no_free_room(tmp_path, name):
    module, function = name.split()
    assert not is_safe_name(Global(module, function))
    description = f"c{module}\n{function}\n(S'x'\ntR.".encode()
    with pytest.raises(UserError, match=rf"holds code \({module}\.{function}\)"):
        read_table(archive(tmp_path / "a.ckpt", description))


@pytest.mark.parametrize(
    "name",
    ["pytorch_lightning.callbacks.model_checkpoint ModelCheckpoint",
     "pytorch_lightning.callbacks.early_stopping EarlyStopping",
     "lightning.pytorch.callbacks.model_checkpoint ModelCheckpoint",
     "pytorch_lightning.utilities.parsing AttributeDict",
     "lightning.fabric.utilities.data AttributeDict", "omegaconf.listconfig ListConfig",
     "omegaconf.dictconfig DictConfig", "omegaconf.base ContainerMetadata",
     "omegaconf.base Metadata", "omegaconf.nodes AnyNode", "numpy.core.multiarray scalar",
     "numpy._core.multiarray scalar", "numpy.dtypes Float64DType", "numpy dtype",
     "typing Any", "collections OrderedDict", "_codecs encode"],
)  # fmt: skip
def test_what_known_checkpoints_hold_is_harmless(name):
    assert is_safe_name(Global(*name.split()))


def doubled(levels, leaf=b"}"):
    """A tuple of twice a tuple of twice …: 2 ** levels long if it were written out."""
    return leaf + b"2\x86" * levels


@pytest.mark.parametrize(
    "description",
    [
        b"\x80\x02r\xff\xff\xff\xff}.",  # a memo place that has Python's machine take 64 GB
        b"\x80\x02}r\xff\xff\xff\xff.",
        b"\x80\x02\x8e" + b"\xff" * 8 + b".",  # bytes of any length
        b"\x80\x04\x95" + b"\xff" * 7 + b"\x7f}.",
        b"\x80\x02}" + doubled(60) + b"Ns.",  # hashing this would take years
        b"\x80\x02" + b"(" * 20_000 + b"}" + b"t" * 20_000 + b".",  # and this overflow the stack
        b"\x80\x02" + b"]" * 20_000 + b"a" * 19_999 + b".",
        b"\x80\x02(" + b"(" * 20_000 + b"}.",
        b"\x80\x02" + b"}U\x01a" * 20_000 + b"}" + b"s" * 20_000 + b".",
        b"I" + b"9" * 100_000 + b"\n.",
        b"",
        b".",
        b"t.",
        b"\x86.",
        b"}u.",
        b"h\x00.",
        b"Q.",
        b"b.",
        b"\xff.",
        b"\x93.",
    ],
    ids=range(20),
)
def test_bomb_or_rubbish_costs_nothing(tmp_path, description):
    path = archive(tmp_path / "a.ckpt", description)
    tracemalloc.start()
    start = time.process_time()
    try:
        # Some are harmless to us and hold no tensors.
        assert not read_table(path).entries
    except UserError as error:
        assert "cannot be read" in error.what
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert time.process_time() - start < 5
    assert peak < 1 << 28


@pytest.mark.parametrize(
    ("key", "maker"),
    [(doubled(60), b"ctorch._utils\n_rebuild_tensor_v2\n"), (b"X\x01\0\0\x000", doubled(60))],
)
def test_names_that_are_endless_are_never_written_down(tmp_path, key, maker):
    storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\n" + key + b"X\x03\0\0\0cpuK\x04tQ"
    tensor = maker + b"(" + storage + b"K\x00K\x04\x85K\x01\x85tR"
    outer = b"ctorch._utils\n_rebuild_parameter\n(" + tensor + b"\x89NtR"
    with pytest.raises(UserError, match=r"has no name|something unnamed"):
        read_table(archive(tmp_path / "a.ckpt", b"\x80\x02}X\x01\0\0\0a" + outer + b"s."))


def test_dictionary_in_many_places_is_not_walked_for_ever(tmp_path):
    inner = {"a": 1}
    for _ in range(60):
        inner = {"a": inner, "b": inner}
    torch.save({"x": inner}, tmp_path / "a.pt")
    with pytest.raises(UserError, match="holds too much, or too deeply nested"):
        read_table(tmp_path / "a.pt")


def test_tensor_that_repeats_itself_beyond_measure_is_refused(tmp_path):
    torch.save({"a": torch.zeros(1).expand(1 << 20, 1 << 20)}, tmp_path / "a.pt")
    with pytest.raises(UserError, match="repeats its elements"):
        read_table(tmp_path / "a.pt")


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_are_those_that_python_reads(protocol):
    value = {
        "none": None, "yes": True, "no": False, "small": 7, "byte": 200, "word": 40000,
        "negative": -5, "long": 1 << 40, "huge": -(1 << 300), "float": 0.1, "text": "aé\n€😀",
        "bytes": b"ab\xff" if protocol >= 3 else "old", "list": [1, [2, []]], "tuple": (),
        "tuples": ((1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), "dict": {1: {}, None: 2, 2.5: 3},
        "long text": "x" * 300, "many": list(range(2000)),
    }  # fmt: skip
    data = b"xx" + pickle.dumps(value, protocol)
    found = read_pickle(data + b"rest", 2, harmless)
    assert found.value == value
    assert found.end == len(data)


def test_every_truncation_of_a_pickle_is_an_error_of_its_own():
    data = pickle.dumps({"a": [1, 2.5, "text", (True, None)], "b": 1 << 70}, 2)
    for end in range(len(data)):
        with pytest.raises(PickleError):
            read_pickle(data[:end], 0, harmless)


def test_every_changed_byte_gives_a_table_or_a_message(tmp_path):
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(2), "b": {"c": 1}}, buffer, _use_new_zipfile_serialization=False)
    content, path = buffer.getvalue(), tmp_path / "a.pt"
    for place in range(0, len(content), 7):
        for change in (0x00, 0x28, 0x7F, 0xFF):
            path.write_bytes(content[:place] + bytes([change]) + content[place + 1 :])
            try:
                read_table(path)
            except UserError as error:
                assert error.what
