"""Loads a function or class of the user's own, run only if the user trusts it."""

import importlib
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch

from modules.user_code.trusted_imports import TrustedImports
from onetrainer.errors import UserError
from onetrainer.trust.function_file import UserFunction
from onetrainer.trust.trusted_files import trusted_function


@dataclass(frozen=True)
class UserCode:
    """A function or class of the user's own, its location, and the imports of its code."""

    function: UserFunction
    value: Callable[..., object]
    imports: TrustedImports

    @contextmanager
    def running(self, remedy: str = "Correct the code there") -> Iterator[None]:
        """Return a context that runs the code: its imports are found, its errors UserErrors."""
        with _user_errors(self.function, remedy), self.imports.installed():
            yield

    def error(self, what: str, expected: str, remedy: str) -> UserError:
        """Return an error about what the code does."""
        return UserError(f"{self.function.file}: {self.function.name}: {what}", expected, remedy)


def load_user_code(spec: str) -> UserCode:
    """Load a trusted function or class, which runs its file.

    spec: Where it is.

    Raises:
        UserError: It is not trusted, its file fails, or it cannot be called.
    """
    function = trusted_function(spec)
    imports = TrustedImports(function)
    with _user_errors(function, "Correct the code there"):
        module = _run(function, imports)
    value = module.__dict__.get(function.name)
    if not callable(value):
        raise UserError(
            f'{function.file}: "{function.name}" is {type_name(value)}',
            "Expected a function or a class",
            "Check its name",
        )
    return UserCode(function, value, imports)


def type_name(value: object) -> str:
    """Return what a value is, for messages."""
    return "nothing" if value is None else f"a {type(value).__name__}"


def _run(function: UserFunction, imports: TrustedImports) -> ModuleType:
    """Import the function's module from the exact bytes that are trusted, not from the disk."""
    name = function.modules[-1]
    if name:
        with imports.installed():
            module = importlib.import_module(name)
        if module.__file__ is None or Path(module.__file__).absolute() != function.file:
            raise UserError(
                f"{name}: the import found {module.__file__}",
                f"The trusted file is {function.file}",
                "Give the path of the file instead of the module",
            )
        return module
    module = ModuleType(f"own_code_{function.file.stem}")
    module.__file__ = str(function.file)
    sys.modules[module.__name__] = module  # where dataclasses look up their module
    with imports.installed():
        exec(compile(function.contents[-1], str(function.file), "exec"), module.__dict__)
    return module


@contextmanager
def _user_errors(function: UserFunction, remedy: str) -> Iterator[None]:
    """Convert exceptions of user code to errors with their location; but not out of memory."""
    try:
        yield
    except (UserError, MemoryError, torch.OutOfMemoryError):
        raise
    except (Exception, SystemExit) as error:
        line = _line(error, function.file)
        location = f"{function.file}, line {line}" if line else str(function.file)
        message = str(error).partition("\n")[0]
        raise UserError(
            f"{location}: {type(error).__name__}{f': {message}' if message else ''}",
            f"{function.name} runs this code",
            remedy,
        ) from error


def _line(error: BaseException, file: Path) -> int:
    """Return the last line of a file in an error's traceback; 0 for none."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno or 0 for frame in frames if frame.filename == str(file)]
    if not lines and isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno or 0
    return lines[-1] if lines else 0
