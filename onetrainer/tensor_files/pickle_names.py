"""The names that a harmless checkpoint may mention; a file with any other is refused as code."""

from collections.abc import Mapping, Set

from onetrainer.tensor_files.unpickler import Global

# Storages by the class that old files name them by, types as torch names them; both in
# safetensors' words.
STORAGES = {
    "DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16",
    "LongStorage": "I64", "IntStorage": "I32", "ShortStorage": "I16", "CharStorage": "I8",
    "ByteStorage": "U8", "BoolStorage": "BOOL", "ComplexFloatStorage": "C64",
    "ComplexDoubleStorage": "C128", "UntypedStorage": "U8",
}  # fmt: skip
DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64",
    "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32",
    "uint16": "U16", "uint8": "U8", "bool": "BOOL", "complex64": "C64", "complex128": "C128",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
}  # fmt: skip

_NUMPY = {"scalar", "_reconstruct"}
_BUILT_IN = {
    "set", "frozenset", "list", "dict", "tuple", "int", "long", "float", "complex", "bool",
    "bytes", "bytearray", "str", "unicode", "slice", "range", "xrange", "object",
}  # fmt: skip
_NAMES: Mapping[str, Set[str]] = {
    "torch": {
        *STORAGES, *DTYPES, "Size", "Tensor", "device", "contiguous_format", "preserve_format",
        "channels_last", "strided",
    },
    "torch.cuda": set(STORAGES),
    "torch.storage": {*STORAGES, "TypedStorage"},
    "torch.nn.parameter": {"Parameter", "Buffer"},
    "torch.nn.modules.container": {"ParameterDict", "ParameterList"},
    "torch._tensor": {"_rebuild_from_type_v2"},
    "torch.serialization": {"_get_layout"},
    "torch._C._nn": {"Parameter"},
    "collections": {"OrderedDict", "defaultdict", "deque", "Counter"},
    "copy_reg": {"_reconstructor"},
    "copyreg": {"_reconstructor", "__newobj__"},
    "_codecs": {"encode"},
    "argparse": {"Namespace"},
    "datetime": {"datetime", "date", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"},
    "uuid": {"UUID"},
    "typing": {"Any", "Union", "Optional", "List", "Dict", "Tuple"},
    "pathlib": {"Path", "PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"},
    "pathlib._local": {"PosixPath", "WindowsPath"},
    "types": {"SimpleNamespace"},
    "numpy": {
        "dtype", "ndarray", "bool_", "float16", "float32", "float64", "int8", "int16", "int32",
        "int64", "uint8", "uint16", "uint32", "uint64", "str_", "longdouble",
    },
    "numpy.core.multiarray": _NUMPY,
    "numpy._core.multiarray": _NUMPY,
    "numpy.core.numeric": {"_frombuffer"},
    "numpy._core.numeric": {"_frombuffer"},
    "builtins": _BUILT_IN,
    "__builtin__": _BUILT_IN,
    # Counters and settings that training programs saved with known checkpoints. Never all of such
    # a library: it has functions that download, read the environment or run commands.
    "pytorch_lightning.callbacks.model_checkpoint": {"ModelCheckpoint"},
    "pytorch_lightning.callbacks.early_stopping": {"EarlyStopping"},
    "pytorch_lightning.callbacks.timer": {"Timer"},
    "lightning.pytorch.callbacks.model_checkpoint": {"ModelCheckpoint"},
    "lightning.pytorch.callbacks.early_stopping": {"EarlyStopping"},
    "lightning.pytorch.callbacks.timer": {"Timer"},
    "pytorch_lightning.utilities.parsing": {"AttributeDict"},
    "lightning.pytorch.utilities.parsing": {"AttributeDict"},
    "lightning.fabric.utilities.data": {"AttributeDict"},
    "lightning_fabric.utilities.data": {"AttributeDict"},
    "omegaconf.base": {"ContainerMetadata", "Metadata"},
    "omegaconf.dictconfig": {"DictConfig"},
    "omegaconf.listconfig": {"ListConfig"},
    "omegaconf.nodes": {
        "AnyNode", "BooleanNode", "BytesNode", "EnumNode", "FloatNode", "IntegerNode", "PathNode",
        "StringNode",
    },
    "numpy.dtypes": {
        "BoolDType", "Float16DType", "Float32DType", "Float64DType", "Int8DType", "Int16DType",
        "Int32DType", "Int64DType", "StrDType", "UInt8DType", "UInt16DType", "UInt32DType",
        "UInt64DType",
    },
}  # fmt: skip


def is_safe_name(named: Global) -> bool:
    """Return whether a file that mentions this name may still be a checkpoint, not a program."""
    if named.module == "torch._utils":
        # A dotted name could reach the module's imports.
        return named.name.startswith("_rebuild_") and "." not in named.name
    return named.name in _NAMES.get(named.module, ())
