"""Kills of the worker that keeps a model for *Try model*: it is started anew, and no image is lost.

What it had written before stays and is whole; the same request gives the same images again.
"""

import hashlib
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

from PIL import Image

from onetrainer.jobs import job
from onetrainer.jobs.sample_request import SampleRequest
from onetrainer.jobs.warm_worker import WarmWorker
from onetrainer.run.events import Event, Failed, Finished
from tests import tiny
from tests.faults.cases import litter
from tests.faults.faulty_worker import Fault, Kind, main_with
from tests.faults.result import Result
from tests.forked import Forking
from tests.own_user import user_variables

_KINDS: tuple[Kind, ...] = ("kill", "cut")


class KilledTrials:
    """Requests for images, in a project of its own."""

    def __init__(self, project: Path) -> None:
        """Make the model, and the images that nothing happens to."""
        self._project = project
        self._base = tiny.write_folder(project / "base")
        finished = self._ask(project / "straight", Fault())[-1]
        assert isinstance(finished, Finished), finished
        self.expected = self._images(finished.outputs)
        self.operations = int((project / "operations").read_text())

    def campaign(self, times: int, seed: int) -> Iterator[Result]:
        """Kill the worker before operations drawn by a seed, and ask again."""
        draw = random.Random(f"{seed} trials")
        for number in range(times):
            fault = Fault(draw.choice(_KINDS), draw.randint(1, self.operations))
            out = self._project / f"tried-{number}"
            # The fault may be in the second request, where the worker of the first one lives on.
            *befallen, last = self._ask(out, fault, Fault(), Fault())
            yield Result(
                "trials",
                "grid of two",
                f"{fault.kind} at {fault.at}",
                ", ".join(type(event).__name__ for event in befallen),
                tuple(self._problems(out, befallen, last)),
            )

    def _problems(self, out: Path, befallen: Sequence[Event], last: Event) -> Iterator[str]:
        if sum(isinstance(event, Failed) for event in befallen) > 1:
            yield f"more than one request is lost: {befallen}"
        if not all(isinstance(event, Failed | Finished) for event in befallen):
            yield f"killed requests end with {befallen}"
        if not isinstance(last, Finished):
            yield f"the next request ends with {last}"
        elif self._images(last.outputs) != self.expected:
            yield "the images differ"
        try:
            kept = self._images([str(path) for path in out.glob("*.png")])
        except OSError as error:
            yield f"an image is damaged: {error}"
        else:
            if not set(kept) <= set(self.expected):
                yield "an image of the killed request differs"
        yield from (f"litter: {path}" for path in litter(self._project))

    def _ask(self, out: Path, *faults: Fault) -> list[Event]:
        """Ask one worker for the images with each fault; the last event of each request."""
        request = SampleRequest(
            base=str(self._base),
            prompts=("a cat", "a dog"),
            width=64,
            height=64,
            steps=2,
            precision="fp32",
            device="cpu",
            grid=True,
            out=str(out),
        )
        endings: list[Event] = []
        warm = WarmWorker()
        home = user_variables(self._project / "user-config")
        for fault in faults:
            forking = Forking(main_with(fault, self._project))
            with patch.object(job, "subprocess", forking), patch.dict(os.environ, home):
                endings.append([*warm.events(request)][-1])
        if (process := warm._process) is not None:  # None after a failure
            assert process.stdin is not None
            process.stdin.close()  # it ends by itself then, and notes what it has done
            process.wait(60)
        warm.close()
        return endings

    def _images(self, paths: Sequence[str]) -> list[str]:
        """Digests of the pixels of images, in order."""
        digests = []
        for path in paths:
            with Image.open(path) as image:
                digests.append(hashlib.sha256(image.tobytes()).hexdigest())
        return sorted(digests)
