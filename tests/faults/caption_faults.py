"""Kills of jobs that describe images, and of the writing of what they found.

No image is left out or described twice, no mask or caption is left in halves, a person's caption
stays, and what a killed writing has written can be taken back.
"""

import hashlib
import json
import operator
import random
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from PIL import Image

from modules.jobs.caption import caption
from onetrainer.__main__ import main as terminal
from onetrainer.captioning.results import JobFolder
from onetrainer.errors import EXIT_DONE, EXIT_USER
from onetrainer.jobs.caption_request import CaptionRequest
from onetrainer.run.events import Finished
from onetrainer.run.run_folder import RunFolder
from tests import runs, tiny_describers
from tests.faults.cases import litter
from tests.faults.faulty_worker import Fault, Kind, main_with
from tests.faults.queue_faults import QueuedWork
from tests.faults.result import Result
from tests.forked import Forked
from tests.own_user import user_variables

_COLORS = ("red", "lime", "blue", "cyan", "black", "white", "navy")
_OWN = {"01": "mine\n", "04": "also mine\nand a second one"}
"""Captions that a person has written, by image."""
_MOST_WRITINGS = 3
_KINDS: tuple[Kind, ...] = ("kill", "cut")


def masking(project: Path) -> QueuedWork:
    """Jobs that find masks: each has a line and a file for every image."""
    images, network, numbers = project / "described", project / "isnet.onnx", count(1)
    _write_images(images)
    tiny_describers.save_background(network)

    def new() -> RunFolder:
        # Another length of texts, of which masks have none, is another job.
        request = CaptionRequest(
            images=str(images),
            model=str(network),
            makes="masks",
            batch_size=2,
            device="cpu",
            max_tokens=next(numbers),
        )
        return JobFolder(request, _user_folder(project) / "captioning").write_request()

    return QueuedWork("masks", new, _found, operator.eq, _damaged_masks, dies_alone=True)


def _found(folder: RunFolder) -> object:
    """What a job has left: each result by itself, so that two of one image are two."""
    events = runs.events_of(folder)
    results = sorted(
        json.dumps({**line, "seconds": 0}, sort_keys=True) for line in _lines(folder.path)
    )
    masks = {path.name: _digest(path) for path in (folder.path / "masks").iterdir()}
    return results, masks, isinstance(events[-1], Finished)


def _lines(job: Path) -> Iterator[Mapping[str, Any]]:
    """The whole lines of a job's results."""
    for line in (job / "results.jsonl").read_bytes().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue  # cut off by a kill


def _damaged_masks(folder: RunFolder) -> Iterator[str]:
    for path in (folder.path / "masks").glob("*.png"):
        try:
            with Image.open(path) as image:
                image.load()
        except OSError as error:
            yield f"{path.name} is damaged: {error}"


class KilledWriting:
    """The command that writes captions, in a project of its own."""

    def __init__(self, project: Path) -> None:
        """Make the project, describe its images, and write them once without a fault."""
        self._project, self._images = project, project / "described"
        self._log = project / "writing.log"
        _write_images(self._images)
        tiny_describers.save_tagger(project / "tagger")
        self._write_own()
        request = CaptionRequest(
            images=str(self._images), model=str(project / "tagger"), device="cpu"
        )
        assert self._run(lambda _: _describe(request), Fault()) == EXIT_DONE
        assert self._command("--write") == EXIT_DONE, self._log.read_text()[-2000:]
        self.operations = int((project / "operations of the writing").read_text())
        self.expected = self._captions()

    def campaign(self, times: int, seed: int) -> Iterator[Result]:
        """Kill the writing before operations drawn by a seed, and write again."""
        draw = random.Random(f"{seed} writing")
        for _ in range(times):
            fault = Fault(draw.choice(_KINDS), draw.randint(1, self.operations))
            self._write_own()
            self._command("--write", fault)
            problems = [*self._halves()]
            if self._command("--write") != EXIT_DONE:
                problems.append(f"it cannot be written again: {self._log.read_text()[-500:]}")
            if self._captions() != self.expected:
                problems.append(f"the captions differ: {self._captions()}")
            problems += self._take_back()
            problems += [f"litter: {path}" for path in litter(self._project)]
            text = f"{fault.kind} at {fault.at}"
            yield Result("captions", "writing", text, "caption --write", tuple(problems))

    def _take_back(self) -> Iterator[str]:
        """Take all back, of both writings; what is wrong then."""
        codes = [self._command("--take-back") for _ in range(_MOST_WRITINGS)]
        if codes[-1] != EXIT_USER or EXIT_DONE not in codes:
            yield f"taking back ends with {codes}: {self._log.read_text()[-500:]}"
        if self._captions() != _OWN:
            yield f"not taken back: {self._captions().keys() - _OWN.keys()}"

    def _halves(self) -> Iterator[str]:
        for name, text in self._captions().items():
            if text != self.expected[name]:
                yield f"{name} has {text!r} after the kill"

    def _write_own(self) -> None:
        """Leave only what a person has written, and nothing of what was written before."""
        for path in (*self._images.glob("*.txt"), *_user_folder(self._project).glob("edits*")):
            path.unlink()
        for path in (_user_folder(self._project) / "captioning").glob("*.json"):
            path.unlink()
        for name, text in _OWN.items():
            (self._images / f"{name}.txt").write_text(text)

    def _captions(self) -> dict[str, str]:
        return {path.stem: path.read_text() for path in sorted(self._images.glob("*.txt"))}

    def _command(self, option: str, fault: Fault | None = None) -> int:
        model = [] if option == "--take-back" else [str(self._project / "tagger")]
        words = ["caption", str(self._images), *model, "--device", "cpu", option]
        return self._run(lambda _: terminal(words), fault or Fault())

    def _run(self, body: Callable[[list[str]], int], fault: Fault) -> int:
        work = main_with(fault, self._project, body, counted="operations of the writing")
        home = user_variables(self._project / "user-config")
        with self._log.open("ab") as log:
            return Forked(work, [], log, home).wait(runs.DEADLINE)


def _user_folder(project: Path) -> Path:
    return project / "user-config" / "onetrainer"


def _write_images(folder: Path) -> None:
    folder.mkdir(parents=True)
    for number, color in enumerate(_COLORS):
        Image.new("RGB", (24, 16), color).save(folder / f"{number:02d}.png")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _describe(request: CaptionRequest) -> int:
    caption(request, lambda _: None)
    return EXIT_DONE
