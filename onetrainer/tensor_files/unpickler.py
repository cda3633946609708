"""A pickle reader that never calls or imports what a file names.

It is the standard library's, in its Python form, whose operations can be replaced. The form in C
can be made to allocate 64 GB (by a place in its memo), to copy arguments without end (by calls) or
to hash for years (by a key that holds another twice, which holds another twice, and so on). Here
calls are only recorded, keys are plain or left out, and the operations are counted.
"""

import io
import pickle
import struct
from collections.abc import Callable
from mmap import mmap
from typing import Any, ClassVar, NamedTuple

MAX_OPERATIONS = 2_000_000
"""About ten times as many as a Stable Diffusion checkpoint with optimizer state needs."""

_LONGEST_NAME = 100
_KEY_BITS = 64  # longer numbers take long to hash
_INVALID = (
    *(pickle.UnpicklingError, LookupError, AttributeError, TypeError, ValueError, OverflowError),
    struct.error,
)


class PickleError(ValueError):
    """An invalid pickle, or one beyond the bounds."""


class Global(NamedTuple):
    """The name of a function or class, never the function; printable as text."""

    module: str
    name: str

    def __str__(self) -> str:
        text = f"{self.module}.{self.name}"[:_LONGEST_NAME]
        return "".join(char if char.isprintable() else "?" for char in text)


class Persistent(NamedTuple):
    """A reference to a storage outside the pickle."""

    key: object


class Call:
    """A call that the pickle requests, recorded but not executed.

    items: Dictionary items that it then sets on the result. state: Attributes that it then sets.
    """

    def __init__(self, function: object, arguments: object) -> None:
        self.function = function
        self.arguments = arguments
        self.items: dict[object, object] = {}
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state

    def extend(self, _: object) -> None:
        """Ignore elements, which lists have and tensors do not."""

    append = extend


class Unpickler(pickle._Unpickler):
    """Reads the pickle at a file's position; `references` are its storages, in order."""

    dispatch: dict[int, Any]  # type: ignore[misc]  # each counts its own operations
    stack: list[Any]
    pop_mark: Callable[[], list[Any]]

    def __init__(self, file: io.BytesIO | mmap, check_name: Callable[[Global], None]) -> None:
        super().__init__(file, encoding="latin-1")  # of Python 2, which does not say
        self.dispatch = _Operations(self.operations)
        self.references: list[Persistent] = []
        self._file = file
        self._check_name = check_name

    def load(self) -> object:
        """Return the value. Raises PickleError, and what `check_name` raises."""
        try:
            return super().load()
        except PickleError:
            raise
        except EOFError as error:
            raise PickleError("it ends too early") from error
        except _INVALID as error:
            raise PickleError(f"at byte {self._file.tell()} of it") from error

    def find_class(self, module: str, name: str) -> Global:
        """Return a name in place of what it names."""
        self._check_name(named := Global(module, name))
        return named

    def persistent_load(self, pid: object) -> Persistent:
        """Record a reference to a storage."""
        self.references.append(Persistent(pid))
        return self.references[-1]

    def _instantiate(self, function: object, arguments: list[object]) -> None:
        self.stack.append(Call(function, tuple(arguments)))

    def _reduce(self) -> None:
        arguments = self.stack.pop()
        self.stack[-1] = Call(self.stack[-1], arguments)

    def _reduce_named(self) -> None:
        self.stack.pop()  # keyword arguments, which checkpoints do not use
        self._reduce()

    def _set_items(self) -> None:
        self._put(self.pop_mark())

    def _set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._put([key, value])

    def _make_dictionary(self) -> None:
        taken = self.pop_mark()
        self.stack.append({})
        self._put(taken)

    def _put(self, taken: list[object]) -> None:
        """Put alternating keys and values into what is on top of the stack."""
        owner = self.stack[-1]
        items = owner.items if isinstance(owner, Call) else owner
        if len(taken) % 2 or not isinstance(items, dict):
            raise PickleError("a key has no value, or no dictionary")
        for key, value in zip(taken[::2], taken[1::2], strict=True):
            # Hashing a tuple visits all its elements, which a file could make endless.
            is_number = isinstance(key, int) and key.bit_length() <= _KEY_BITS
            if key is None or is_number or isinstance(key, str | float | bytes | Global):
                items[key] = value

    operations: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)
    operations[pickle.REDUCE[0]] = operations[pickle.NEWOBJ[0]] = _reduce
    operations[pickle.NEWOBJ_EX[0]] = _reduce_named
    operations[pickle.SETITEM[0]] = _set_item
    operations[pickle.SETITEMS[0]] = _set_items
    operations[pickle.DICT[0]] = _make_dictionary
    # Sets are lists here: nothing in them is hashed.
    operations[pickle.EMPTY_SET[0]] = operations[pickle.EMPTY_LIST[0]]
    operations[pickle.ADDITEMS[0]] = operations[pickle.APPENDS[0]]
    operations[pickle.FROZENSET[0]] = operations[pickle.LIST[0]]
    # The library's allocates what the file says before it reads.
    operations[pickle.BYTEARRAY8[0]] = operations[pickle.BINBYTES8[0]]
    operations[pickle.FRAME[0]] = lambda self: self.read(8)
    for code in (pickle.EXT1, pickle.EXT2, pickle.EXT4):  # functions by numbers
        del operations[code[0]]


class _Operations(dict[int, Callable[..., None]]):
    """The operations by code, which a file may look up this many times."""

    left = MAX_OPERATIONS

    def __getitem__(self, code: int) -> Callable[..., None]:
        self.left -= 1
        if self.left < 0:
            raise PickleError(f"it has more than {MAX_OPERATIONS} operations")
        return super().__getitem__(code)
