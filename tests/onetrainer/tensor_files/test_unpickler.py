"""Pickles that carry code or are bombs: nothing runs, and the file is refused with a message."""

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
from onetrainer.tensor_files.pickle_names import is_safe_name
from onetrainer.tensor_files.table import read_table
from onetrainer.tensor_files.unpickler import Global, PickleError, Unpickler
from tests.each import each


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


def load(data):
    return Unpickler(io.BytesIO(data), lambda _: None).load()


@each("is_zip", [True, False])
@each(("protocol", "name"), [(2, "a.ckpt"), (4, "a.safetensors"), (4, "a.pt")])
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


FUNCTIONS = {
    "builtins.eval": (builtins.eval, "1"),
    "builtins.getattr": (builtins.getattr, 1, "real"),
    "builtins.__import__": (builtins.__import__, "os"),
    "subprocess.Popen": (subprocess.Popen, ["true"]),
    "functools.partial": (functools.partial, print),
    "shutil.rmtree": (shutil.rmtree, "/nowhere"),
    "torch.hub.load": (torch.hub.load, "a/b", "c"),
    "torch.serialization.load": (torch.load, "x"),
}


@each("name", FUNCTIONS)
def test_function_that_does_something_is_named(tmp_path, name):
    # Protocol 2 would write the names that Python 2 had for some of them.
    torch.save({"a": Caller(*FUNCTIONS[name])}, tmp_path / "a.ckpt", pickle_protocol=4)
    with pytest.raises(UserError, match=rf"this file holds code \({name}\)"):
        read_table(tmp_path / "a.ckpt")


@each(
    "description",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"(cos\nsystem\nS'true'\no.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x04\x8c\x13pytorch_lightning.x\x8c\x09os.system\x93.",
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


@each(
    "name",
    ["os anything", "sys anything", "__main__ anything", "torch anything", "numpy anything",
     "lightning_fabric.utilities.cloud_io _load", "omegaconf.resolvers oc",
     "omegaconf.resolvers.oc env", "omegaconf OmegaConf", "pytorch_lightning Trainer",
     "pytorch_lightning.callbacks.model_checkpoint os", "numpy.dtypes anything",
     "torch._utils _rebuild_x.y", "torch._utils _import_dotted_name"],
)  # fmt: skip
def test_name_that_is_not_listed_is_code(tmp_path, name):
    module, function = name.split()
    description = f"c{module}\n{function}\n(S'x'\ntR.".encode()
    with pytest.raises(UserError, match=rf"holds code \({module}\.{function}\)"):
        read_table(archive(tmp_path / "a.ckpt", description))


@each(
    "name",
    ["pytorch_lightning.callbacks.model_checkpoint ModelCheckpoint",
     "lightning.pytorch.callbacks.early_stopping EarlyStopping",
     "pytorch_lightning.utilities.parsing AttributeDict", "omegaconf.listconfig ListConfig",
     "omegaconf.dictconfig DictConfig", "omegaconf.base ContainerMetadata",
     "omegaconf.base Metadata", "omegaconf.nodes AnyNode", "numpy.core.multiarray scalar",
     "numpy._core.multiarray scalar", "numpy.dtypes Float64DType", "numpy dtype",
     "typing Any", "collections OrderedDict", "_codecs encode"],
)  # fmt: skip
def test_what_known_checkpoints_hold_is_harmless(name):
    assert is_safe_name(Global(*name.split()))


def doubled(levels, leaf=b"N"):
    """A tuple of twice a tuple of twice …: 2 ** levels long if it were written out."""
    return leaf + b"2\x86" * levels


HUGE_NUMBER = b"\x8b" + (1 << 20).to_bytes(4, "little") + b"\x01" * (1 << 20)
NESTED = 5_000  # several times as deep as Python lets functions call each other
BOMBS = {
    "memo place that has Python's machine in C take 64 GB": b"\x80\x02}r\xff\xff\xff\xff.",
    "bytes of any length": b"\x80\x02\x8e" + b"\xff" * 8 + b".",
    "a terabyte of zeros": b"\x80\x05\x96" + (1 << 40).to_bytes(8, "little") + b".",
    "frame of any length": b"\x80\x04\x95" + b"\xff" * 7 + b"\x7f}.",
    "key that takes years to hash": b"\x80\x02}" + doubled(60) + b"Ns.",
    "the same among several": b"\x80\x02}(" + doubled(60) + b"Nu.",
    "the same in a dictionary at once": b"\x80\x02(" + doubled(60) + b"Nd.",
    "the same in a set": b"\x80\x04\x8f(" + doubled(60) + b"\x90.",
    "the same in a frozen set": b"\x80\x04(" + doubled(60) + b"\x91.",
    "long number that is hashed again and again": (
        b"\x80\x02}" + HUGE_NUMBER + b"q\x000" + b"h\x00Ns" * 20_000 + b"."
    ),
    "arguments that each call would copy": (
        b"(" + b"N" * 100_000 + b"tq\x000" + b"ctorch\nSize\nh\x00R" * 5_000 + b"."
    ),
    "nested tuples": b"\x80\x02" + b"(" * NESTED + b"}" + b"t" * NESTED + b".",
    "nested lists": b"\x80\x02" + b"]" * NESTED + b"a" * (NESTED - 1) + b".",
    "marks": b"\x80\x02(" + b"(" * NESTED + b"}.",
    "nested dictionaries": b"\x80\x02" + b"}U\x01a" * NESTED + b"}" + b"s" * NESTED + b".",
    "long number in digits": b"I" + b"9" * 100_000 + b"\n.",
    "dictionary within itself": b"}q\x00S'state_dict'\nh\x00s.",
    "state within itself": b"ccollections\nOrderedDict\n)Rq\x00}S'_parameters'\nh\x00sb.",
    "function by its number": b"\x80\x02\x82\x01.",
}  # fmt: skip
RUBBISH = [b"", b".", b"t.", b"\x86.", b"}u.", b"h\x00.", b"Q.", b"b.", b"\xff.", b"\x93.", b"]Nb."]


@pytest.fixture(scope="module")
def ordinary_seconds(tmp_path_factory):
    """Processor time of reading an ordinary file, traced, as long as the longest bomb."""
    numbers = {f"a key of usual length {number:016}": number for number in range(30_000)}
    path = archive(tmp_path_factory.mktemp("ordinary") / "a.ckpt", pickle.dumps(numbers, 2))
    assert path.stat().st_size > max(map(len, BOMBS.values()))
    tracemalloc.start()
    start = time.process_time()
    read_table(path)
    tracemalloc.stop()
    return time.process_time() - start


@each("description", [*BOMBS.values(), *RUBBISH], ids=[*BOMBS, *RUBBISH])
def test_bomb_or_rubbish_costs_nothing(tmp_path, description, ordinary_seconds):
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
    assert time.process_time() - start < ordinary_seconds
    assert peak < 1 << 28


@each(
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
    long = {"a" * 2000: {"b": 1}}
    for value in (inner, long):
        torch.save({"x": value}, tmp_path / "a.pt")
        with pytest.raises(UserError, match="holds too much, or too deeply nested"):
            read_table(tmp_path / "a.pt")


def test_tensor_that_repeats_itself_beyond_measure_is_refused(tmp_path):
    torch.save({"a": torch.zeros(1).expand(1 << 20, 1 << 20)}, tmp_path / "a.pt")
    with pytest.raises(UserError, match="expanded to an implausible size"):
        read_table(tmp_path / "a.pt")


@each("protocol", range(6))
def test_plain_values_are_those_that_python_reads(protocol):
    value = {
        "none": None, "yes": True, "no": False, "small": 7, "byte": 200, "word": 40000,
        "negative": -5, "long": 1 << 40, "huge": -(1 << 300), "float": 0.1, "text": "aé\n€😀",
        "bytes": b"ab\xff" if protocol >= 3 else "old", "list": [1, [2, []]], "tuple": (),
        "tuples": ((1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), "dict": {1: {}, None: 2, 2.5: 3},
        "long text": "x" * 300, "many": list(range(2000)),
    }  # fmt: skip
    data = pickle.dumps(value, protocol)
    file = io.BytesIO(data + b"rest")
    assert Unpickler(file, lambda _: None).load() == value
    assert file.tell() == len(data)


def test_every_truncation_of_a_pickle_is_an_error_of_its_own():
    data = pickle.dumps({"a": [1, 2.5, "text", (True, None)], "b": 1 << 70}, 2)
    for end in range(len(data)):
        with pytest.raises(PickleError):
            load(data[:end])


@each("is_zip", [True, False])
def test_every_changed_byte_gives_a_table_or_a_message(tmp_path, is_zip):
    buffer = io.BytesIO()
    value = {"a": torch.ones(2), "b": {"c": 1}}
    torch.save(value, buffer, _use_new_zipfile_serialization=is_zip)
    content, path = buffer.getvalue(), tmp_path / "a.pt"
    for place in range(0, len(content), 11):
        for change in (0x28, 0xFF):
            path.write_bytes(content[:place] + bytes([change]) + content[place + 1 :])
            try:
                read_table(path)
            except UserError as error:
                assert error.what
