"""A user-defined reward: a Python function, run only if the user trusts it."""

import importlib
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from modules.memory.to_device import to_device
from modules.rewards.trusted_imports import TrustedImports
from onetrainer.errors import UserError
from onetrainer.trust.function_file import UserFunction
from onetrainer.trust.trusted_files import trusted_function

Scorer = Callable[[Tensor, list[str]], object]
_EXPECTED = "Expected a score for each image: a tensor of shape (B,), or a list of numbers"


@dataclass(frozen=True)
class FunctionReward:
    """The scores that a user's function gives to images.

    function: its location, for messages. imports: of its code. has_gradient: whether it
    computes with torch throughout.
    """

    function: UserFunction
    scorer: Scorer
    imports: TrustedImports
    has_gradient: bool

    def extra_modules(self) -> nn.Module:
        return nn.Module()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        # A copy, which the function may change in place.
        inputs = (images if self.has_gradient else images.detach()).clone()
        with _user_errors(self.function), self.imports.installed():
            result = self.scorer(inputs, list(prompts))
        scores = self._scores(result, images)
        if self.has_gradient and images.requires_grad and not scores.requires_grad:
            raise self._error(
                "its scores have no gradient",
                "Expected scores computed from the images with torch throughout",
                'Turn off "Has a gradient", and train with best of n',
            )
        return scores

    def _scores(self, result: object, images: Tensor) -> Tensor:
        """Convert a result to (B,), float32 on the images' device. Raises UserError if invalid."""
        if isinstance(result, Tensor):
            scores = result if result.device == images.device else to_device(result, images.device)
        else:
            try:
                numbers = torch.as_tensor(result, dtype=torch.float32)
            except (TypeError, ValueError, RuntimeError, OverflowError) as error:
                raise self._error(f"it returned {_type_name(result)}", _EXPECTED) from error
            scores = to_device(numbers, images.device)
        if scores.shape != (len(images),):
            raise self._error(
                f"it returned numbers of shape {tuple(scores.shape)} for {len(images)} images",
                _EXPECTED,
            )
        scores = scores.to(torch.float32)
        if not bool(scores.isfinite().all()):  # waits for the device: user code is not checked
            raise self._error("it returned a score that is not a finite number", _EXPECTED)
        return scores

    def _error(self, what: str, expected: str, remedy: str = "Correct the function") -> UserError:
        return UserError(f"{self.function.file}: {self.function.name}: {what}", expected, remedy)


def load_function(spec: str, *, has_gradient: bool) -> FunctionReward:
    """Load a trusted function as a reward, which runs its file.

    Args:
        spec: Where the function is.
        has_gradient: Whether it computes with torch throughout.

    Raises:
        UserError: The function is not trusted, or its file fails.
    """
    function = trusted_function(spec)
    imports = TrustedImports(function)
    with _user_errors(function):
        module = _run(function, imports)
    scorer = module.__dict__.get(function.name)
    if not callable(scorer):
        raise UserError(
            f'{function.file}: "{function.name}" is {_type_name(scorer)}',
            "Expected a function",
            "Check its name",
        )
    return FunctionReward(function, scorer, imports, has_gradient)


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
    module = ModuleType(f"own_reward_{function.file.stem}")
    module.__file__ = str(function.file)
    sys.modules[module.__name__] = module  # where dataclasses look up their module
    with imports.installed():
        exec(compile(function.contents[-1], str(function.file), "exec"), module.__dict__)
    return module


@contextmanager
def _user_errors(function: UserFunction) -> Iterator[None]:
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
            f"The reward {function.name} runs this code",
            "Correct the code there",
        ) from error


def _line(error: BaseException, file: Path) -> int:
    """Return the last line of a file in an error's traceback; 0 for none."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno or 0 for frame in frames if frame.filename == str(file)]
    if not lines and isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno or 0
    return lines[-1] if lines else 0


def _type_name(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
