"""The folder of a captioning job: what a model found in each image, also after an interruption.

Results are kept apart from captions. The same images, model and prompt always have the same folder,
so that a preview, an interrupted job and a repeated one describe no image twice.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from io import FileIO
from pathlib import Path

from onetrainer.concepts.folder_listing import FolderImage, list_folder
from onetrainer.errors import UserError
from onetrainer.files.atomic import remove_leftovers, write_atomic
from onetrainer.files.inside import read_inside
from onetrainer.files.locks import locked
from onetrainer.files.own_json import NotOurs, parse_json, parse_object, typed
from onetrainer.jobs.caption_request import CaptionRequest
from onetrainer.run.job_folders import JOB, is_job, jobs_folder, make_job_folder
from onetrainer.run.run_folder import RunFolder, cannot_write

_IDENTITY = {"images", "model", "makes", "prompt", "max_tokens"}
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True)
class Result:
    """What a model found in one image.

    Attributes:
        image: Its path below the folder of images, with "/".
        stamp: Of the file as it was described; another one means that it has changed.
        text: A sentence or more.
        tags: How sure a tagger is of each general tag.
        characters: The same of characters.
        rating: The rating that it is surest of.
        mask: Name of the file in `masks` that holds the mask, in the model's own size.
        error: Why the image could not be described; everything else is empty then.
        seconds: How long it took.
    """

    image: str
    stamp: str = ""
    text: str = ""
    tags: Mapping[str, float] = field(default_factory=dict)
    characters: Mapping[str, float] = field(default_factory=dict)
    rating: str = ""
    mask: str = ""
    error: str = ""
    seconds: float = 0.0


class JobFolder:
    """The folder of a request's results, which the queue can hold as it does a run's."""

    def __init__(self, request: CaptionRequest, parent: Path | None = None) -> None:
        absolute = {"images": str(Path(request.images).absolute())}
        if Path(request.model).exists():
            absolute["model"] = str(Path(request.model).absolute())
        self.request = request.model_copy(update=absolute)
        same = json.dumps(self.request.model_dump(include=_IDENTITY), sort_keys=True)
        digest = hashlib.sha256(same.encode()).hexdigest()[:10]
        names = [self.request.makes, Path(self.request.images).name, Path(request.model).stem]
        name = "-".join(_UNSAFE.sub("-", part).strip("-")[:24] for part in names)
        self.path = (parent or jobs_folder()) / f"{name}-{digest}"
        self.results = self.path / "results.jsonl"
        self.masks = self.path / "masks"

    def write_request(self) -> RunFolder:
        """Write what is to be done; the folder can be started, or be put into the queue, then."""
        folder = RunFolder(self.path)
        document = {"job": JOB, "request": self.request.model_dump(exclude_unset=True)}
        try:
            make_job_folder(self.path)
            write_atomic(folder.config, (json.dumps(document, indent=2) + "\n").encode())
        except OSError as error:
            raise cannot_write(self.path, error) from error
        return folder

    def listed(self) -> list[FolderImage]:
        """Return the images, or an even selection of them. Raises UserError if there are none."""
        folder = Path(self.request.images)
        if not folder.is_dir():
            raise UserError(f"{folder}: this folder does not exist", "", "Check the path")
        found = list_folder(folder, recursive=self.request.subfolders).images
        if not found:
            remedy = "Choose another folder, or include subfolders"
            raise UserError(f"{folder}: there are no images in this folder", "", remedy)
        return evenly(found, self.request.limit)

    def read(self) -> dict[str, Result]:
        """Return the results so far by image; damaged lines are left out."""
        try:
            lines = read_inside(self.results).split(b"\n")
        except OSError:
            return {}
        return {result.image: result for line in lines if (result := _result(line)) is not None}

    def missing(self) -> list[FolderImage]:
        """Return the images that have no result, or have changed since."""
        known = self.read()
        return [
            image
            for image in self.listed()
            if image.name not in known or known[image.name].stamp != stamp_of(image.path)
        ]

    @contextmanager
    def adding(self) -> Iterator["_Results"]:
        """Open the results to add to them. Raises UserError if another process does."""
        try:
            self.masks.mkdir(parents=True, exist_ok=True)
            with (
                locked(self.path / "results.lock", wait=0),
                self.results.open("ab", buffering=0) as file,
            ):
                remove_leftovers(self.masks, is_locked=True)
                file.write(b"\n")  # what was cut off before is a line of its own
                yield _Results(file)
        except BlockingIOError as error:
            raise UserError(
                f"{self.path.name}: another process describes these images with this model",
                "One does at a time",
                "Wait until it ends, or stop it first",
            ) from error
        except OSError as error:
            raise cannot_write(self.path, error) from error


class _Results:
    def __init__(self, file: FileIO) -> None:
        self._file = file

    def add(self, results: Iterable[Result]) -> None:
        """Append results; they are in the file when this returns."""
        for result in results:
            body = {key: value for key, value in asdict(result).items() if value}
            self._file.write((json.dumps(body, ensure_ascii=False) + "\n").encode())


def job_request(folder: RunFolder) -> CaptionRequest | None:
    """Return the request of a job's folder; None if it is a run's."""
    if not is_job(folder):
        return None
    try:
        document = parse_object(read_inside(folder.config))
        if document.get("job") != JOB:
            return None
        return CaptionRequest.model_validate(document["request"])
    except (OSError, ValueError, KeyError):
        return None


def stamp_of(path: Path) -> str:
    """Return what changes with a file's content: its size and time; "" if it is gone."""
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{status.st_size}-{status.st_mtime_ns}"


def evenly(images: Sequence[FolderImage], count: int) -> list[FolderImage]:
    """Return so many of some images, spread evenly over them; all for 0."""
    if not 0 < count < len(images):
        return list(images)
    return [images[index * len(images) // count] for index in range(count)]


def _result(line: bytes) -> Result | None:
    try:
        return typed(parse_json(line), Result)
    except NotOurs:  # cut off
        return None
