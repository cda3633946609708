"""A pickle reader that never calls a function.

A pickle is a program for a small stack machine (Python's `pickletools` documents every operation).
Python's own machine calls any function that a file names. This one only records that a call was
requested: it builds numbers, texts, lists and dictionaries, and a `Call` for everything else. It
bounds the number of operations, hashes only plain keys and is not recursive, so that no file can
make it run long, use much memory or overflow the stack.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

MAX_OPERATIONS = 2_000_000
"""About ten times as many as a Stable Diffusion checkpoint with optimizer state needs."""


_LONGEST_NAME = 100


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

    __slots__ = ("arguments", "function", "items", "state")

    def __init__(self, function: object, arguments: object) -> None:
        self.function = function
        self.arguments = arguments
        self.items: dict[object, object] = {}
        self.state: object = None


class Pickle(NamedTuple):
    """The content of one pickle.

    end: The position after it. references: All storage references, in order.
    """

    value: object
    end: int
    references: list[Persistent]


def read_pickle(data: bytes, start: int, check_name: Callable[[Global], None]) -> Pickle:
    """Read the pickle at a position in the data.

    check_name: Raises an error for a name that a harmless pickle would not mention.

    Raises PickleError.
    """
    machine = _Machine(data, start, check_name)
    try:
        return Pickle(machine.run(), machine.place, machine.references)
    except PickleError:
        raise
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, struct.error) as error:
        raise PickleError(f"at byte {machine.place} of it") from error


class _Machine:
    def __init__(self, data: bytes, start: int, check_name: Callable[[Global], None]) -> None:
        self.data = data
        self.place = start
        self.check_name = check_name
        self.stack: list[object] = []
        self.marks: list[int] = []
        self.memo: dict[int, object] = {}
        self.references: list[Persistent] = []
        self.operations = self._table()

    def run(self) -> object:
        """Execute all operations up to STOP and return the value."""
        data, operations = self.data, self.operations
        for _ in range(MAX_OPERATIONS):
            code = data[self.place]
            self.place += 1
            if code == _STOP:
                return self.stack.pop()
            operation = operations.get(code)
            if operation is None:
                raise PickleError(f"unknown operation {code} at byte {self.place - 1}")
            operation()
        raise PickleError(f"it has more than {MAX_OPERATIONS} operations")

    def _take(self, count: int) -> bytes:
        end = self.place + count
        taken = self.data[self.place : end]
        if count < 0 or len(taken) < count:
            raise PickleError("it ends too early")
        self.place = end
        return taken

    def _number(self, form: str, width: int) -> int:
        value: int = struct.unpack(form, self._take(width))[0]
        return value

    def _line(self) -> bytes:
        end = self.data.index(b"\n", self.place)
        return self._take(end + 1 - self.place)[:-1]

    def _push_number(self, form: str, width: int) -> None:
        self.stack.append(struct.unpack(form, self._take(width))[0])

    def _push_text(self, form: str, width: int) -> None:
        # Pickles may hold lone surrogates.
        self.stack.append(self._take(self._number(form, width)).decode("utf-8", "surrogatepass"))

    def _push_old_text(self, form: str, width: int) -> None:
        """Push a text of Python 2, whose encoding is unknown."""
        self.stack.append(self._take(self._number(form, width)).decode("latin-1"))

    def _push_bytes(self, form: str, width: int) -> None:
        self.stack.append(self._take(self._number(form, width)))

    def _push_long(self, form: str, width: int) -> None:
        taken = self._take(self._number(form, width))
        self.stack.append(int.from_bytes(taken, "little", signed=True))

    def _push_int_line(self) -> None:
        line = self._line()
        match line:
            case b"00" | b"01":  # the booleans of protocol 0
                self.stack.append(line == b"01")
            case _:
                self.stack.append(int(line.removesuffix(b"L")))

    def _push_global(self) -> None:
        self._push_name(self._line().decode(), self._line().decode())

    def _push_stacked_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise PickleError("a name is no text")
        self._push_name(module, name)

    def _push_name(self, module: str, name: str) -> None:
        named = Global(module, name)
        self.check_name(named)
        self.stack.append(named)

    def _refuse_extension(self) -> None:
        raise PickleError("it names a function by a number")

    def _marked(self) -> list[object]:
        start = self.marks.pop()
        taken = self.stack[start:]
        del self.stack[start:]
        return taken

    def _push_tuple(self, count: int) -> None:
        if len(self.stack) < count:
            raise PickleError("the stack is empty")
        taken = tuple(self.stack[-count:])
        self.stack[-count:] = [taken]

    def _push_dictionary(self) -> None:
        taken = self._marked()
        made: dict[object, object] = {}
        self.stack.append(made)
        _put(made, taken)

    def _put_items(self, taken: list[object]) -> None:
        _put(self.stack[-1], taken)

    def _append(self, taken: list[object]) -> None:
        owner = self.stack[-1]
        if isinstance(owner, list):
            owner.extend(taken)

    def _pop_two(self) -> list[object]:
        value, key = self.stack.pop(), self.stack.pop()
        return [key, value]

    def _call(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        self.stack.append(Call(function, arguments))

    def _call_with_names(self) -> None:
        self.stack.pop()  # keyword arguments, which checkpoints do not use
        self._call()

    def _call_marked(self) -> None:
        function, *arguments = self._marked()
        self.stack.append(Call(function, tuple(arguments)))

    def _call_named(self) -> None:
        arguments = tuple(self._marked())
        self._push_global()
        self.stack.append(Call(self.stack.pop(), arguments))

    def _refer(self, key: object) -> None:
        self.references.append(Persistent(key))
        self.stack.append(self.references[-1])

    def _set_state(self) -> None:
        state, owner = self.stack.pop(), self.stack[-1]
        if isinstance(owner, Call):
            owner.state = state

    def _pop(self) -> None:
        if self.marks and self.marks[-1] == len(self.stack):
            self.marks.pop()
        else:
            self.stack.pop()

    def _remember(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def _recall(self, place: int) -> None:
        self.stack.append(self.memo[place])

    def _table(self) -> dict[int, Callable[[], None]]:
        """Return the operations by code."""
        table = self._values() | self._structures()
        return {code[0]: operation for code, operation in table.items()}

    def _values(self) -> dict[bytes, Callable[[], None]]:
        """Return the operations that push a number, a text or an empty container."""
        push, text = self.stack.append, self._push_text
        return {
            b"\x80": lambda: self._skip(1),  # PROTO
            b"\x95": lambda: self._skip(8),  # FRAME
            b"N": lambda: push(None),
            b"\x88": lambda: push(True),
            b"\x89": lambda: push(False),
            b"I": self._push_int_line,
            b"L": self._push_int_line,
            b"J": lambda: self._push_number("<i", 4),
            b"K": self._push_byte,
            b"M": lambda: self._push_number("<H", 2),
            b"\x8a": lambda: self._push_long("<B", 1),
            b"\x8b": lambda: self._push_long("<i", 4),
            b"F": lambda: push(float(self._line())),
            b"G": lambda: self._push_number(">d", 8),
            b"S": lambda: push(self._line()[1:-1].decode("latin-1")),
            b"T": lambda: self._push_old_text("<i", 4),
            b"U": lambda: self._push_old_text("<B", 1),
            b"V": lambda: push(self._line().decode("raw-unicode-escape")),
            b"X": lambda: text("<I", 4),
            b"\x8c": lambda: text("<B", 1),
            b"\x8d": lambda: text("<Q", 8),
            b"B": lambda: self._push_bytes("<I", 4),
            b"C": lambda: self._push_bytes("<B", 1),
            b"\x8e": lambda: self._push_bytes("<Q", 8),
            b"\x96": lambda: self._push_bytes("<Q", 8),
            b")": lambda: push(()),
            b"]": lambda: push([]),
            b"}": lambda: push({}),
            b"\x8f": lambda: push([]),  # a set: nothing is hashed here
        }

    def _structures(self) -> dict[bytes, Callable[[], None]]:
        """Return the operations that combine, store or drop values on the stack."""
        push, number = self.stack.append, self._number
        return {
            b"(": lambda: self.marks.append(len(self.stack)),
            b"t": lambda: push(tuple(self._marked())),
            b"\x85": lambda: self._push_tuple(1),
            b"\x86": lambda: self._push_tuple(2),
            b"\x87": lambda: self._push_tuple(3),
            b"l": lambda: push(self._marked()),
            b"\x91": lambda: push(self._marked()),  # a frozen set
            b"d": self._push_dictionary,
            b"a": lambda: self._append([self.stack.pop()]),
            b"e": lambda: self._append(self._marked()),
            b"\x90": lambda: self._append(self._marked()),
            b"s": lambda: self._put_items(self._pop_two()),
            b"u": lambda: self._put_items(self._marked()),
            b"0": self._pop,
            b"1": self._pop_marked,
            b"2": lambda: push(self.stack[-1]),
            b"p": lambda: self._remember(int(self._line())),
            b"q": lambda: self._remember(self._byte()),
            b"r": lambda: self._remember(number("<I", 4)),
            b"\x94": lambda: self._remember(len(self.memo)),
            b"g": lambda: self._recall(int(self._line())),
            b"h": lambda: self._recall(self._byte()),
            b"j": lambda: self._recall(number("<I", 4)),
            b"c": self._push_global,
            b"\x93": self._push_stacked_global,
            b"P": lambda: self._refer(self._line().decode("latin-1")),
            b"Q": lambda: self._refer(self.stack.pop()),
            b"R": self._call,
            b"\x81": self._call,
            b"\x92": self._call_with_names,
            b"o": self._call_marked,
            b"i": self._call_named,
            b"b": self._set_state,
            **dict.fromkeys((b"\x82", b"\x83", b"\x84"), self._refuse_extension),
        }

    def _byte(self) -> int:
        self.place += 1
        return self.data[self.place - 1]

    def _push_byte(self) -> None:
        self.stack.append(self._byte())

    def _skip(self, count: int) -> None:
        self._take(count)

    def _pop_marked(self) -> None:
        self._marked()


_STOP = ord(".")


def _put(owner: object, taken: list[object]) -> None:
    """Put alternating keys and values into a dictionary or a call's result."""
    if len(taken) % 2:
        raise PickleError("a key has no value")
    items = owner.items if isinstance(owner, Call) else owner
    if not isinstance(items, dict):
        return
    for key, value in zip(taken[::2], taken[1::2], strict=True):
        # Hashing a tuple visits all its elements, which a file could make endless.
        if key is None or isinstance(key, str | int | float | bytes | Global):
            items[key] = value
