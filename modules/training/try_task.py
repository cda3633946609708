"""Images that a person asks a running worker for, with prompts and settings of their own."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from pydantic import ValidationError

from modules.memory.precision import free_cached_memory
from modules.sampling.image_files import to_image
from modules.sampling.image_folder import require_writable
from modules.sampling.table_writer import TableWriter
from modules.training.sample_task import SampleTask, TaskStopped
from onetrainer.errors import EndsRun, UserError
from onetrainer.jobs.sample_request import SampleRequest
from onetrainer.jobs.sample_table import SampleTable, table_of
from onetrainer.run.commands import ImageRequest
from onetrainer.run.events import Tried

_NO_ROOM = "There is not enough memory for images of this size while the run trains"
_FAILED = "Generating failed: the log of the run says why"


class _Cancelled(Exception):
    """The person has canceled it."""


@dataclass(frozen=True)
class TryTask:
    """Generates requested images with what is trained, and changes nothing of the run.

    samples: How the run's own samples are generated.
    """

    samples: SampleTask

    def is_due(self, step: int) -> bool:
        return self.samples.inbox.has_images()

    def run(self, step: int) -> None:
        """Generate the images of every request; a failure is told to who asked."""
        while (images := self.samples.inbox.take_images()) is not None:
            end = Tried(images.id, -1, error=_FAILED)
            try:
                end = Tried(images.id, -1, self._answer(step, images))
            except EndsRun:
                raise
            except (UserError, ValidationError) as error:
                end = replace(end, error=str(error))
            except torch.OutOfMemoryError:
                end = replace(end, error=_NO_ROOM)
            except TaskStopped:
                end = replace(end, error="The run was to end")
                return
            finally:
                self.samples.events.write(end)
            free_cached_memory()

    def _answer(self, step: int, images: ImageRequest) -> str:
        """Generate the images of a request, and return the path of their grid; "" without one."""
        request = SampleRequest.model_validate(images.request)
        family = self.samples.family
        table = table_of(request, family.name, family.process.prediction)
        self._require_possible(request)
        require_writable(Path(request.out))
        has_grid = request.grid or request.x is not None or request.y is not None
        writer = TableWriter(Path(request.out), table, has_grid=has_grid)
        self.samples.method.train(False)
        try:
            with self.samples.exported.for_samples():
                self._generate(step, images.id, table, writer)
        except _Cancelled:
            pass
        finally:
            self.samples.method.train(True)
            grid = writer.finish()
        return str(grid or "")

    def _generate(self, step: int, name: str, table: SampleTable, writer: TableWriter) -> None:
        samples = self.samples
        check = partial(self._check, name)
        check()
        for index, cell in enumerate(table.cells):
            strength = cell.loras[0].strength if cell.loras else 1.0
            shot = replace(cell.shot, strength=strength)
            pixels = samples.generate(shot, step, index, len(table.cells), check)
            path = writer.add(to_image(pixels[0]), cell, samples.settings_of(shot, step))
            prompt = shot.prompt
            samples.events.write(Tried(name, index, str(path), prompt.prompt, prompt.seed))

    def _check(self, name: str) -> None:
        if self.samples.inbox.is_canceled(name):
            raise _Cancelled

    def _require_possible(self, request: SampleRequest) -> None:
        run = self.samples.folder.name  # who asks may not know that it has begun
        if not self.samples.shots:
            raise UserError(
                f"{run} trains on this device. It has no sample prompts, so it has freed what only "
                "images need",
                "Expected a run with one prompt at least",
                f"Pause {run}, or wait for its end",
            )
        if not self.samples.world.is_alone:
            raise UserError(
                f"{run} trains on these devices. Its processes generate only its own samples "
                "together",
                "Expected a run on one device",
                f"Press Sample now, or pause {run}",
            )
        if any(axis and axis.of in ("lora", "step") for axis in (request.x, request.y)):
            raise UserError(
                f"{run} trains on this device, and generates with the weights that it has now",
                "Expected a grid over something else than files or steps",
                f"Choose another setting, or pause {run}",
            )
