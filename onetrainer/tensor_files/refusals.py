"""Why a file of tensors is refused, in words."""

from pathlib import Path

from onetrainer.errors import UserError

AGAIN = "The file is damaged or was not downloaded completely; download it again"


def foreign_error(path: Path, start: bytes) -> UserError:
    """Why a file that holds no tensors is none, from its first bytes."""
    if start.startswith(b"version "):
        return UserError(
            f"{path.name}: this is a Git LFS pointer, a few lines that stand for the file",
            "The file itself was expected",
            "Download it itself, or run `git lfs pull` where it came from",
        )
    if start.lstrip().startswith(b"<"):
        what = "this is a web page, not the model: the download went wrong"
        return UserError(f"{path.name}: {what}", remedy="Download the file itself again")
    return UserError(
        f"{path.name}: this is not a safetensors file, and not one of torch either",
        "A complete .safetensors or .ckpt file was expected",
        "Choose another file, or download this one again if it should be one",
    )


def truncated_error(path: Path, how: str) -> UserError:
    """The file ends too early."""
    return UserError(f"{path.name}: the file is cut short: {how}", remedy=AGAIN)


def code_error(path: Path, name: str) -> UserError:
    """The file has a function called when it is opened by others."""
    return UserError(
        f"{path.name}: this file holds code ({name}), which most programs would run on opening it",
        "A file with nothing but tensors was expected",
        "Do not open it elsewhere unless you trust its maker; choose a .safetensors version",
    )


def damaged_error(path: Path, how: str) -> UserError:
    """The file's table of contents makes no sense."""
    return UserError(f"{path.name}: its table of tensors cannot be read ({how})", remedy=AGAIN)


def unusual_error(path: Path, how: str) -> UserError:
    """The file is sound, but of a kind that is not read."""
    return UserError(
        f"{path.name}: {how}",
        "A file of plain tensors was expected",
        "Choose the .safetensors version of this model",
    )
