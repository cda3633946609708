"""A reward of a person's own: a Python function, run only after consent."""

import importlib
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

import torch
from torch import Tensor, nn

from modules.memory.to_device import sent
from onetrainer.errors import UserError
from onetrainer.trust.function_file import OwnFunction
from onetrainer.trust.trusted_files import allowed_code

Scorer = Callable[[Tensor, list[str]], object]
_ANSWER = "A score for each picture was expected: a tensor of shape (B,), or a list of numbers"


@dataclass(frozen=True)
class FunctionReward:
    """What a function says of pictures.

    function: where it is, for messages. has_gradient: whether it computes with torch all the way.
    """

    function: OwnFunction
    scorer: Scorer
    has_gradient: bool

    def own_modules(self) -> nn.Module:
        return nn.Module()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        # A copy: what the function does to it in place is nobody else's.
        given = (images if self.has_gradient else images.detach()).clone()
        with _told(self.function):
            answer = self.scorer(given, list(prompts))
        scores = self._scores(answer, images)
        if self.has_gradient and images.requires_grad and not scores.requires_grad:
            raise self._error(
                "its scores have no gradient",
                "Scores computed from the pictures with torch all the way were expected",
                'Turn off "It has a gradient", and train toward it with best of n',
            )
        return scores

    def _scores(self, answer: object, images: Tensor) -> Tensor:
        """(B,), float32 on the pictures' device. Raises UserError for anything else."""
        if isinstance(answer, Tensor):
            scores = answer if answer.device == images.device else sent(answer, images.device)
        else:
            try:
                numbers = torch.as_tensor(answer, dtype=torch.float32)
            except (TypeError, ValueError, RuntimeError, OverflowError) as error:
                raise self._error(f"it gave {_kind(answer)}", _ANSWER) from error
            scores = sent(numbers, images.device)
        if scores.shape != (len(images),):
            raise self._error(
                f"it gave numbers of shape {tuple(scores.shape)} for {len(images)} pictures",
                _ANSWER,
            )
        scores = scores.to(torch.float32)
        if not bool(scores.isfinite().all()):  # waits for the device: the code is not ours
            raise self._error("it gave a score that is no finite number", _ANSWER)
        return scores

    def _error(self, what: str, expected: str, remedy: str = "Correct the function") -> UserError:
        return UserError(f"{self.function.file}: {self.function.name}: {what}", expected, remedy)


def load_function(spec: str, *, has_gradient: bool, consents: Path | None = None) -> FunctionReward:
    """The function of a spec, as a reward. Its file runs now, if it may.

    consents: the file of consents; None for the user's own. Raises UserError where it may not run,
    or fails.
    """
    function, contents = allowed_code(spec, store=consents)
    with _told(function):
        module = _run(function, contents)
    scorer = module.__dict__.get(function.name)
    if not callable(scorer):
        raise UserError(
            f'{function.file}: "{function.name}" is {_kind(scorer)}',
            "A function was expected",
            "Check its name",
        )
    return FunctionReward(function, scorer, has_gradient)


def _run(function: OwnFunction, contents: tuple[bytes, ...]) -> ModuleType:
    """The function's module, after the very bytes that were allowed, whatever is there by now."""
    if function.module is not None:
        with _Allowed(function, contents).first():
            module = importlib.import_module(function.module)
        if module.__file__ is None or Path(module.__file__).absolute() != function.file:
            raise UserError(
                f"{function.module}: {module.__file__} was imported",
                f"{function.file} was allowed",
                "Give the path of the file in place of the module",
            )
        return module
    module = ModuleType(f"own_reward_{function.file.stem}")
    module.__file__ = str(function.file)
    sys.modules[module.__name__] = module  # where dataclasses look their module up
    with _importable(function.file.parent):
        exec(compile(contents[-1], str(function.file), "exec"), module.__dict__)
    return module


class _Bytes(SourceFileLoader):
    """Loads a module from bytes; not from its file, nor from what was compiled of it before."""

    def __init__(self, name: str, path: Path, content: bytes) -> None:
        super().__init__(name, str(path))
        self._content = content

    def get_code(self, fullname: str) -> CodeType:
        del fullname
        return self.source_to_code(self._content, self.path)


class _Allowed:
    """Finds the modules of a function, before anything else does."""

    def __init__(self, function: OwnFunction, contents: tuple[bytes, ...]) -> None:
        self._found = {
            name: (file, content)
            for name, file, content in zip(function.modules, function.files, contents, strict=True)
        }

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module is; None for any other."""
        del path, target
        if name not in self._found:
            return None
        file, content = self._found[name]
        return spec_from_file_location(name, file, loader=_Bytes(name, file, content))

    @contextmanager
    def first(self) -> Iterator[None]:
        """Meanwhile it is asked first."""
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Meanwhile files beside a function's can be imported, as where Python runs it as a script."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


@contextmanager
def _told(function: OwnFunction) -> Iterator[None]:
    """Whatever a person's code raises, as an error with its place; a lack of memory as it is."""
    try:
        yield
    except (UserError, MemoryError, torch.OutOfMemoryError):
        raise
    except (Exception, SystemExit) as error:
        line = _line(error, function.file)
        place = f"{function.file}, line {line}" if line else str(function.file)
        words = str(error).partition("\n")[0]
        raise UserError(
            f"{place}: {type(error).__name__}{f': {words}' if words else ''}",
            f"The reward {function.name} runs this code",
            "Correct that place",
        ) from error


def _line(error: BaseException, file: Path) -> int:
    """The last line of a file that an error came through; 0 for none."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno or 0 for frame in frames if frame.filename == str(file)]
    if not lines and isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno or 0
    return lines[-1] if lines else 0


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
