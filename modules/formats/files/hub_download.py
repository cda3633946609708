"""Download of a repository's files from the Hugging Face Hub, into the library's cache."""

import errno
import glob
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import (  # type: ignore[attr-defined]  # HTTPError: of all requests
    GatedRepoError,
    HFValidationError,
    HTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)

from onetrainer.errors import UserError

ERRORS = (HTTPError, OSError, HFValidationError)
"""What a download raises."""
LOGIN = "hf auth login"
TIMEOUT = 10.0  # seconds to wait for the Hub's answer


def download(
    name: str,
    choose: Callable[[list[str]], list[str]],
    *,
    offline: bool,
    report: Callable[[str], None],
    revision: str | None = None,
    index: str = "",
) -> Path:
    """Return the folder of a repository ("owner/name"), downloading what is missing.

    The folder's name is the commit.

    Args:
        name: The repository.
        choose: Returns the files to download, of those in the repository.
        offline: Use only what was downloaded before; also the fallback without a network.
        report: Called with a description of each stage.
        revision: Commit that no other can replace; None for the newest.
        index: A file without which a downloaded copy counts as none.

    Raises:
        UserError: With the reason and what to do.
    """
    try:
        if not offline:
            report(f"asking the Hugging Face Hub for {name}")
        names = [] if offline else _list_files(name, revision)
        if names:
            chosen = [*map(glob.escape, choose(names))]
            report(f"downloading {name}")
            with _ended_by_signals():
                return Path(snapshot_download(name, revision=revision, allow_patterns=chosen))
        # Without patterns the library would ask for the files that were not chosen, too.
        needed = [index] if index else []
        folder = snapshot_download(
            name, revision=revision, allow_patterns=needed, local_files_only=True
        )
        report(f"using the downloaded copy of {name}")
        return Path(folder)
    except ERRORS as error:
        if revision is not None and isinstance(error, LocalEntryNotFoundError):
            remedy = "Turn off model.offline" if offline else "Check the network and the login"
            raise UserError(
                f"{name}: the version this run started with ({revision}) is not on this computer,"
                f" and {'offline mode is on' if offline else 'the Hub did not provide it'}",
                "A run must be resumed with exactly the model it started with",
                f"{remedy}; if the Hub no longer has this version, start a new run",
            ) from error
        raise download_error(name, error, offline=offline) from error


def download_error(name: str, error: Exception, *, offline: bool) -> UserError:
    """Return the error of a repository that cannot be downloaded, with what helps."""
    path = "If you meant a file or folder, it does not exist; enter its full path"
    match error:
        case GatedRepoError():
            return UserError(
                f"{name}: this model can be downloaded only after accepting its terms",
                "Expected a login that has accepted them",
                f"Accept the terms on the model's page on the Hugging Face Hub, then run: {LOGIN}",
                failure="download",
            )
        case RepositoryNotFoundError():
            return UserError(
                f"{name}: the Hugging Face Hub has no model of this name, or it is private",
                path,
                f"Check the spelling; for a private model, run: {LOGIN}",
                failure="download",
            )
        case HFValidationError():
            what = f"{name}: this is not a valid hub model name"
            return UserError(what, "", path, failure="download")
        case LocalEntryNotFoundError() if offline:
            return UserError(
                f"{name}: this model has not been downloaded yet, and offline mode is on",
                path,
                "Turn off model.offline to download it, or choose another model",
                failure="offline",
            )
        case OSError(errno=errno.ENOSPC):
            return UserError(
                f"{name}: the disk is full",
                "The download needs more space",
                "Free some space, or set HF_HOME to a folder on another disk",
            )
        case _:
            return UserError(
                f"{name}: the Hugging Face Hub cannot be reached, and this model has not been"
                " downloaded yet",
                path,
                "Check the network and try again",
                failure="download",
            )


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let a signal that would raise KeyboardInterrupt end the process instead.

    An exception would wait for the threads that download, for as long as their files take. What
    they have written is continued by the next download.
    """
    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) is signal.default_int_handler
    ]
    for number in numbers:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.default_int_handler)


def _list_files(name: str, revision: str | None) -> list[str]:
    """List the files of a repository; empty if the Hub cannot be reached.

    Also empty if the Hub no longer has, or no longer shows, a revision that may still be on this
    disk.
    """
    try:
        # list_repo_files would retry for half a minute without a network.
        info = HfApi().model_info(name, revision=revision, timeout=TIMEOUT)
        return [file.rfilename for file in info.siblings or []]
    except RepositoryNotFoundError:
        if revision is None:
            raise
        return []
    except (HTTPError, OSError):
        return []
