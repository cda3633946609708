"""A report about a run, to attach to a bug report: one archive without private data."""

import os
import time
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.files.atomic import atomic_file
from onetrainer.files.inside import open_inside, read_inside
from onetrainer.files.own_json import NotOurs, parse_object
from onetrainer.run.run_folder import STATE_FILE, RunFolder
from onetrainer.support.findings import Finding
from onetrainer.support.private_text import PrivateText

_MOST_LOG_BYTES = 512 * 1024
_MOST_CURVE_EVENTS, _MOST_OTHER_EVENTS = 2_000, 2_000
_MOST_CONFIG_BYTES, _MOST_LINE_BYTES = 1 << 20, 100_000
_MOST_SAMPLE_BYTES = 64 << 20
_MOST_FILES, _MOST_SAMPLES, _MOST_REPORTS = 2_000, 12, 10_000
_CURVE = tuple(
    b'{"type": "%s"' % name for name in (b"Progress", b"Measured", b"Rewarded", b"Phase")
)
_ABOUT = """\
A report about a run of OneTrainer, for the people who look into a failure.

{contents}

{private}
Access tokens and the names of folders, users and the computer are replaced everywhere.
"""
_WITHOUT = """\
Not in it: images, weights, prompts, captions and the names of images. Where one of these texts
stood, a number stands, such as <text 1>.
"""
_WITH = "It holds prompts, and samples of the run with all that is written in their metadata.\n"


@dataclass(frozen=True)
class Report:
    """A written report. contents: A line about each of its files."""

    path: Path
    contents: list[str]


def write_report(
    place: Path, findings: Iterable[Finding], *, out: Path | None = None, with_samples: bool = False
) -> Report:
    """Write a report about a run, also of a damaged one.

    Args:
        place: The run's folder.
        findings: The doctor's.
        out: The archive to write; a new one in the run's folder by default.
        with_samples: Whether prompts and the newest samples are in it.

    Raises:
        UserError: If this is no run's folder, the archive exists, or cannot be written.
    """
    folder = RunFolder(place)
    if not any(path.exists() for path in (folder.config, folder.events, folder.log)):
        raise UserError(
            f"{place}: this is not the folder of a run",
            "Expected config.json, events.jsonl or worker.log there",
            "Check the path; runs are in runs/.",
        )
    files = _files(folder.path)  # before the report is one of them
    try:
        target = _reserve(folder, out)
    except OSError as error:
        raise _unwritable(out or folder.path, error) from error
    contents = []
    try:
        with (
            atomic_file(target) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for name, about, content in _parts(folder, files, findings, with_samples=with_samples):
                archive.writestr(name, content)
                contents.append(f"{name}: {about}, {len(content):,} bytes")
            private = _WITH if with_samples else _WITHOUT
            archive.writestr(
                "about.txt", _ABOUT.format(contents="\n".join(contents), private=private)
            )
    except OSError as error:
        target.unlink(missing_ok=True)  # it only held the place
        raise _unwritable(target, error) from error
    return Report(target, contents)


def _reserve(folder: RunFolder, out: Path | None) -> Path:
    """Create the empty archive, so that no other report is written there; return its path."""
    numbered = (folder.path / f"report-{number:03d}.zip" for number in range(1, _MOST_REPORTS))
    for path in numbered if out is None else [out]:
        try:
            path.open("xb").close()
        except FileExistsError:
            continue
        return path
    raise UserError(f"{out or folder.path}: exists already", "", "Choose another file with --out.")


def _unwritable(path: Path, error: OSError) -> UserError:
    reason = (error.strerror or str(error)).lower()
    return UserError(
        f"{path}: the report cannot be written here ({reason})",
        "Expected a writable folder with free space",
        "Choose another place with --out FILE.zip.",
    )


def _parts(
    folder: RunFolder, files: list[Path], findings: Iterable[Finding], *, with_samples: bool
) -> Iterator[tuple[str, str, bytes]]:
    """Yield name, description and content of each file. The config is first: it names texts."""
    private = PrivateText(keeps_prompts=with_samples)
    texts: list[tuple[str, str, Callable[[], str]]] = [
        ("config.json", "the settings", partial(_config, folder, private)),
        ("events.jsonl", "what has happened", partial(_events, folder.events, private)),
        ("state.json", "of the newest checkpoint", partial(_state, folder, private)),
        ("files.txt", "the files of the run", partial(_listing, folder.path, files, private)),
        ("doctor.txt", "this computer", lambda: private.of_text("\n".join(map(str, findings)))),
    ]
    texts += [
        (path.name, "what libraries have printed", partial(_log, path, private))
        for path in sorted(folder.path.glob("worker*.log*"))
    ]
    for name, about, make in texts:
        try:
            text = make()
        except (OSError, ValueError) as error:
            text = private.of_text(f"could not be read: {error}")
        yield name, about, text.encode(errors="replace")
    if with_samples:
        for path in sorted(folder.samples.glob("*.png"))[-_MOST_SAMPLES:]:
            name = path.name.encode(errors="replace").decode()  # archives hold no other names
            with suppress(OSError):
                content = read_inside(path, below=folder.path, most=_MOST_SAMPLE_BYTES)
                yield f"samples/{name}", "a sample", content


def _config(folder: RunFolder, private: PrivateText) -> str:
    text = _read(folder.config, _MOST_CONFIG_BYTES)
    try:
        return private.of_config(parse_object(text))
    except NotOurs:
        return private.of_broken_config(text)


def _state(folder: RunFolder, private: PrivateText) -> str:
    complete = folder.complete_checkpoints()
    if not complete:
        return "there is no complete checkpoint"
    step, path = complete[-1]
    text = _read(path / STATE_FILE, _MOST_CONFIG_BYTES, below=folder.path)
    return f"step {step}:\n" + private.of_text(text)


def _log(path: Path, private: PrivateText) -> str:
    with open_inside(path) as handle:
        size = handle.seek(0, os.SEEK_END)
        handle.seek(max(0, size - _MOST_LOG_BYTES))
        return private.of_text(handle.read().decode(errors="replace"))


def _events(path: Path, private: PrivateText) -> str:
    """Return the events: of steps and phases every n-th and the last ones, of others the last."""
    with open_inside(path) as handle:
        count = sum(line.startswith(_CURVE) for line in handle)
        every = -(-count // _MOST_CURVE_EVENTS) or 1
        handle.seek(0)
        kept: deque[bytes] = deque(maxlen=_MOST_CURVE_EVENTS + _MOST_OTHER_EVENTS)
        number = 0
        for line in handle:
            number += line.startswith(_CURVE)
            is_kept = number % every == 0 or number > count - every
            if not line.startswith(_CURVE) or is_kept:
                kept.append(line[:_MOST_LINE_BYTES])
    return private.of_events(line.decode(errors="replace") for line in kept)


def _files(path: Path) -> list[Path]:
    """Return the first files below a folder, level by level: not by os.walk, which calls itself."""
    files: list[Path] = []
    folders = deque([path])
    while folders and len(files) < _MOST_FILES:
        with suppress(OSError), os.scandir(folders.popleft()) as entries:
            for entry in entries:
                found = folders if entry.is_dir(follow_symlinks=False) else files
                found.append(Path(entry.path))
    return files[:_MOST_FILES]


def _listing(path: Path, files: list[Path], private: PrivateText) -> str:
    lines = []
    for file in files:
        with suppress(OSError):  # it has vanished
            status, name = file.lstat(), file.relative_to(path).as_posix()
            changed = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status.st_mtime))
            name = private.of_path(name)
            lines.append(f"{name}: {status.st_size:,} bytes, {changed}")
    return private.of_text("\n".join(sorted(lines)))


def _read(path: Path, most: int, *, below: Path | None = None) -> str:
    with open_inside(path, below=below) as handle:
        return handle.read(most).decode(errors="replace")
