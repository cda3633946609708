"""Errors for tensor files that are refused."""

from pathlib import Path

from onetrainer.errors import UserError

DOWNLOAD_AGAIN = "The file is damaged or was not downloaded completely; download it again"


def not_tensors_error(path: Path, start: bytes) -> UserError:
    """Return the error for a file without tensors, from its first bytes."""
    if start.startswith(b"version "):
        return UserError(
            f"{path.name}: this is a Git LFS pointer, not the file itself",
            "Expected the file itself",
            "Download the file, or run `git lfs pull` in its repository",
        )
    if start.lstrip().startswith(b"<"):
        what = "this is a web page, not the model: the download went wrong"
        remedy = "Download the file itself; some pages ask you to sign in first"
        return UserError(f"{path.name}: {what}", remedy=remedy)
    return UserError(
        f"{path.name}: this is neither a safetensors nor a torch file",
        "Expected a complete .safetensors or .ckpt file",
        "Choose another file, or download this one again if it should be one",
    )


def truncated_error(path: Path, how: str) -> UserError:
    """Return the error for a file that ends too early."""
    return UserError(f"{path.name}: the file is cut short: {how}", remedy=DOWNLOAD_AGAIN)


def code_error(path: Path, name: str) -> UserError:
    """Return the error for a file that calls a function when other programs open it."""
    return UserError(
        f"{path.name}: this file holds code ({name}), which most programs would run on opening it",
        "Expected a file of tensors only",
        "Do not open it elsewhere unless you trust its maker; choose a .safetensors version",
    )


def damaged_error(path: Path, how: str) -> UserError:
    """Return the error for an invalid table of tensors."""
    return UserError(
        f"{path.name}: its table of tensors cannot be read ({how})", remedy=DOWNLOAD_AGAIN
    )


def unusual_error(path: Path, how: str) -> UserError:
    """Return the error for a valid file of an unsupported kind."""
    return UserError(
        f"{path.name}: {how}",
        "Expected a file of plain tensors",
        "Choose the .safetensors version of this model",
    )
