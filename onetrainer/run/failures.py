"""The catalog of failures: what has happened, what to do, and what the window's button does."""

import errno
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from onetrainer import install_command
from onetrainer.errors import EXIT_DONE, EXIT_STOPPED, EXIT_USER, KnownError, UserError
from onetrainer.files.lines import split_lines
from onetrainer.run.events import Failed

Button = Literal["resume", "setting", "folder", "examine", "report"]
"""What the window offers: resume the run, go to a setting, open the folder of the failure, examine
the computer, or make a report."""


@dataclass(frozen=True)
class Failure:
    """One kind of failure.

    Attributes:
        what: What has happened, after the place, for errors that do not say it themselves.
        expected: What was expected.
        remedy: What to do.
        button: What the window offers, unless there are changes.
        setting: The one that the button leads to; "" for the one whose value the error is about.
        changes: Settings, by path, to resume the run with.
        scaled: Numbers, by path, to resume the run with a multiple of.
        is_fixable: Whether a person can fix it, which is exit code 2 instead of 1.
    """

    what: str
    expected: str
    remedy: str
    button: Button
    setting: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    scaled: Mapping[str, float] = field(default_factory=dict)
    is_fixable: bool = True


_CHECKPOINTING = {"hardware.gradient_checkpointing": "block"}
_RESUME = "It can be resumed from its last checkpoint."
_NO_LACK_OF_MEMORY = (
    "A person or another program probably killed it: the system has not recorded that memory (RAM)"
    " ran out."
)
FAILURES: Mapping[str, Failure] = {
    "device memory": Failure(
        "there is not enough memory",
        "The device ran out of memory",
        "Turn on gradient checkpointing, or lower the batch size or the resolution.",
        "setting",
        "training.batch_size",
        _CHECKPOINTING,
        is_fixable=False,
    ),
    "host memory": Failure(
        "there is not enough memory (RAM)",
        "The computer ran out of memory",
        "Close other programs, then resume; or lower the batch size or the resolution.",
        "resume",
        "training.batch_size",
        is_fixable=False,
    ),
    "disk full": Failure(
        "the disk is full, or takes no file of this size",
        "Expected free space for checkpoints and output files",
        "Free some space, then resume.",
        "folder",
    ),
    "permission": Failure(
        "access is denied",
        "Expected a file or folder that this user may read and write",
        "Correct its permissions, then resume.",
        "folder",
    ),
    "file missing": Failure(
        "this file or folder is missing",
        "It was there when the run was checked, or is on a disk that is gone",
        "Restore it or connect the disk, then resume.",
        "folder",
    ),
    "disk error": Failure(
        "the disk reports an error",
        "Expected a disk that can be read and written",
        "Check the disk and its cable; copy what matters before anything else.",
        "folder",
    ),
    "image": Failure(
        "an image cannot be read",
        "Expected the image that was checked",
        "Restore or remove it, then start again.",
        "folder",
    ),
    "cache": Failure(
        "the cache is damaged",
        "Expected encoded images that no other program changes",
        "Resume: what is damaged is encoded again.",
        "resume",
    ),
    "driver": Failure(
        "the GPU cannot be used",
        "Expected a GPU with a driver for this torch",
        "Update the driver and restart the computer; onetrainer doctor says more.",
        "examine",
    ),
    "operation": Failure(
        "the GPU lacks an operation or a number format that these settings need",
        "Expected one on which torch can compute all of them",
        "Set the device to cpu (hardware.device); or start the program with the environment"
        " variable PYTORCH_ENABLE_MPS_FALLBACK=1, which leaves what is missing to the CPU.",
        "setting",
        "hardware.device",
    ),
    "not deterministic": Failure(
        "an operation of these settings has no algorithm that computes the same bits each time",
        "Expected one for all of them, as hardware.deterministic is on",
        "Set hardware.deterministic to auto, then resume.",
        "setting",
        "hardware.deterministic",
        {"hardware.deterministic": "auto"},
    ),
    "device lost": Failure(
        "the GPU has failed",
        "Its driver reported an error that no program can recover from",
        f"Restart the computer if it happens again. {_RESUME}",
        "resume",
        is_fixable=False,
    ),
    "package": Failure(
        "a package is missing or damaged",
        "Expected all packages that the program needs",
        f"Install it with: {install_command()}; onetrainer doctor names what is missing.",
        "examine",
    ),
    "model family": Failure(
        "the model is of another family",
        "Expected a base model of the chosen family",
        "Choose the model's family, or another model.",
        "setting",
        "model.family",
    ),
    "model file": Failure(
        "the model's file is incomplete",
        "Expected all tensors of a base model",
        "Choose another file, or download it again.",
        "setting",
        "model.path",
    ),
    "download": Failure(
        "the model cannot be downloaded",
        "Expected a model that is on this computer or on the Hugging Face Hub",
        "Check its name and the network, or choose another model.",
        "setting",
    ),
    "offline": Failure(
        "the model has not been downloaded yet, and offline mode is on",
        "Expected a model that is on this computer",
        "Turn off model.offline, or choose another model.",
        "setting",
        changes={"model.offline": False},
    ),
    "diverged": Failure(
        "training has diverged",
        "Expected finite numbers",
        "Lower the learning rate (optimizer.lr).",
        "setting",
        "optimizer.lr",
        scaled={"optimizer.lr": 0.5},
    ),
    "killed": Failure(
        "The worker was killed (SIGKILL).",
        "The computer probably ran out of memory.",
        f"Close other programs. {_RESUME}",
        "resume",
        "training.batch_size",
        is_fixable=False,
    ),
    "killed by another": Failure(
        "The worker was killed (SIGKILL).", _NO_LACK_OF_MEMORY, _RESUME, "resume", is_fixable=False
    ),
    "out of memory": Failure(
        "The system ended the worker because memory (RAM) ran out.",
        "",
        f"Close other programs, or lower what is kept in RAM. {_RESUME}",
        "resume",
        "training.batch_size",
        is_fixable=False,
    ),
    "crashed": Failure(
        "The worker crashed ({signal}) in a library or a driver.",
        "",
        f"{_RESUME} If it happens again, update the GPU's driver, and report it.",
        "report",
        is_fixable=False,
    ),
    "ended": Failure(
        "The worker was terminated by another process ({signal}).",
        "",
        _RESUME,
        "resume",
        is_fixable=False,
    ),
    "silent": Failure(
        "The worker stopped{code} without an error message.",
        "",
        _RESUME,
        "resume",
        is_fixable=False,
    ),
    "lost": Failure(
        "The worker is gone without an error message.",
        "",
        _RESUME,
        "resume",
        "training.batch_size",
        is_fixable=False,
    ),
    "restarted": Failure(
        "The computer was switched off or restarted while the run trained.",
        "",
        _RESUME,
        "resume",
        is_fixable=False,
    ),
    "program": Failure("the program failed", "", "", "report", is_fixable=False),
}

LostBy = Literal["memory", "restart", "no lack of memory", "nothing known"]
"""What was found out about a worker whose exit code nobody knows."""
_LOST_BY: Mapping[LostBy, tuple[str, str]] = {
    "memory": ("out of memory", FAILURES["out of memory"].what),
    "restart": ("restarted", FAILURES["restarted"].what),
    "no lack of memory": ("killed by another", f"{FAILURES['lost'].what} {_NO_LACK_OF_MEMORY}"),
    "nothing known": (
        "lost",
        f"{FAILURES['lost'].what} It was probably killed, as the system does when memory (RAM)"
        " runs out.",
    ),
}
OUT_OF_MEMORY = ("device memory", "host memory")
_BY_ERRNO: Mapping[int | None, str] = {
    errno.ENOSPC: "disk full",
    errno.EDQUOT: "disk full",
    errno.EFBIG: "disk full",
    errno.EACCES: "permission",
    errno.EPERM: "permission",
    errno.EROFS: "permission",
    errno.ENOENT: "file missing",
    errno.ENOTDIR: "file missing",
    errno.ENODEV: "file missing",
    errno.EIO: "disk error",
    errno.ENOMEM: "host memory",
}
# What torch and its libraries say; they have no exceptions for most of it.
_BY_TEXT: Mapping[str, str] = {
    "no space left on device": "disk full",
    "free some space": "disk full",  # our own words, in the log of a worker that can write no event
    "can't allocate memory": "host memory",
    "not enough memory: you tried": "host memory",
    "out of memory": "device memory",
    "alloc_failed": "device memory",
    "driver on your system is too old": "driver",
    "driver version is insufficient": "driver",
    "no kernel image is available": "driver",
    "not compiled with cuda": "driver",
    "found no nvidia driver": "driver",
    "cuda error": "device lost",
    "hip error": "device lost",
    "not currently implemented for the mps device": "operation",
    "mps framework doesn't support": "operation",
    "does not have support for that dtype": "operation",
    "does not have a deterministic implementation": "not deterministic",
}


def recognize(error: BaseException) -> str:
    """Return the name of an error's kind in the catalog; "" if it is of none.

    An error for people that names no kind is of the kind of what it was raised from.
    """
    if isinstance(error, UserError) and error.failure:
        return error.failure
    causes = reversed(list(_chain(error)))
    return next((name for each in causes if (name := _recognize_one(each))), "")


def _recognize_one(error: BaseException) -> str:
    match error:
        case MemoryError():
            return "host memory"
        case OSError() if error.errno in _BY_ERRNO:
            return _BY_ERRNO[error.errno]
        case ImportError():
            return "package"
        case KnownError():
            return error.failure
    return _by_text(str(error))


def _by_text(text: str) -> str:
    return next((name for sign, name in _BY_TEXT.items() if sign in text.lower()), "")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory of the device or of the computer is exhausted."""
    return recognize(error) in OUT_OF_MEMORY


def failed(error: Exception, *, otherwise: str = "") -> Failed:
    """Return the event of an error. otherwise: The remedy if it is of no known kind."""
    name = recognize(error)
    place = next((found for each in _chain(error) if (found := _place(each))), "")
    if isinstance(error, UserError):
        return Failed(
            "user", str(error.what), error.expected, error.remedy, name, place, _changes(name)
        )
    if not name:
        text = split_lines(f"{type(error).__name__}: {error}")[0][:300]
        what = f"{FAILURES['program'].what}: {text}"
        return Failed("program", what, "", otherwise, "program", place)
    known = FAILURES[name]
    what = f"{place}: {known.what}" if place else known.what
    kind: Literal["user", "program"] = "user" if known.is_fixable else "program"
    return Failed(kind, what, known.expected, known.remedy, name, place, _changes(name))


def lost_failure(lost_by: LostBy) -> tuple[str, str]:
    """Return kind and description of the end of a worker that another process had started."""
    return _LOST_BY[lost_by]


def exit_failure(
    code: int | None, *, is_out_of_memory: bool | None = None, said: str = ""
) -> tuple[str, str]:
    """Return kind and description of the exit of a worker that reported no ending.

    is_out_of_memory: Whether the system has recorded a kill for memory; None if unknown. said: The
    last line of its log, which is a message for people where it could not write that into the run
    folder.
    """
    name, text = "silent", ""
    if code == EXIT_USER and said:
        return _by_text(said) or name, said
    if code is not None and code - 128 in signal.valid_signals():
        code = 128 - code  # as the worker and shells write it
    if code is not None and (code in (EXIT_DONE, EXIT_STOPPED, EXIT_USER) or code > 0):
        text = f" with exit code {code} and"
    elif code is not None:
        text = signal.Signals(-code).name if -code in signal.valid_signals() else str(-code)
        crashes = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE")
        name = "killed" if text == "SIGKILL" else "crashed" if text in crashes else "ended"
    if name == "killed" and is_out_of_memory is not None:
        name = "out of memory" if is_out_of_memory else "killed by another"
    known = FAILURES[name]
    what = known.what.format(signal=text, code=text)
    return name, f"{what} {known.expected}".strip()


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _place(error: BaseException) -> str:
    """Return the file that an error is about; "" if it names none."""
    place = error.filename if isinstance(error, OSError) else vars(error).get("path")
    return str(place) if isinstance(place, str | Path) else ""


def _changes(name: str) -> dict[str, Any]:
    return dict(FAILURES[name].changes) if name else {}
