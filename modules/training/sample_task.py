"""The task between steps that generates samples, and what each such task reports."""

import math
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic

from torch import Tensor

from modules.interfaces import Family, Method
from modules.memory.residency import Enter
from modules.optim.exported_weights import ExportedWeights
from modules.sampling.image_files import Settings, save_image, thumbnail_of
from modules.sampling.sampler import SamplingContexts, sample
from modules.training.engine import Engine
from modules.training.inbox import Inbox
from modules.world.world import World, alone
from onetrainer.captions.sample_prompts import Shot
from onetrainer.config.run.sampling import Sampling
from onetrainer.run.commands import LEAVING, Leaving
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Phase, Sample
from onetrainer.run.run_folder import RunFolder, cannot_write
from onetrainer.schedules.amounts import Plan, is_due

_SECONDS_PER_PHASE = 1.0
SAMPLE = "sample"
"""The order to generate samples together."""
LAST_WEIGHTS = " (without EMA)"
"""Appended to the prompt of a sample from the weights of the last step."""


class TaskStopped(Exception):
    """The run is to end; a resumed run repeats what was not finished."""


class TaskProgress:
    """Reports the progress of a task every second, and ends it if the run is to end.

    ended_by: The commands to end the run that end the task.
    """

    def __init__(self, inbox: Inbox, events: EventWriter, *, ended_by: Sequence[Leaving]) -> None:
        self._inbox, self._events, self._ended_by = inbox, events, ended_by
        self._last_report = -math.inf

    def report(self, phase: Phase, *, is_first: bool = False) -> None:
        """Report before an image or a part of it; is_first: at any time.

        Raises:
            TaskStopped: If the run, and with it the task, is to end.
        """
        if self._inbox.leaving in self._ended_by:
            raise TaskStopped
        if is_first or monotonic() - self._last_report > _SECONDS_PER_PHASE:
            self._last_report = monotonic()
            self._events.write(phase)


@dataclass(frozen=True)
class SampleTask:
    """Generates samples: every N steps, at the end, and on command.

    Attributes:
        plan: How far the run is after a step, for intervals in epochs or images.
        samples_last_weights: Whether each sample is repeated with the last step's weights, without
            EMA.
        model: Name of the base model in the images' metadata.
        clip_skip: 0 for the family's own.
        phase: Places the model's components for a phase.
        world: Shares the samples out.
    """

    section: Sampling
    shots: tuple[Shot, ...]
    steps: int
    plan: Plan
    family: Family
    method: Method
    engine: Engine
    exported: ExportedWeights
    samples_last_weights: bool
    folder: RunFolder
    events: EventWriter
    inbox: Inbox
    config_digest: str
    model: str
    clip_skip: int
    phase: Enter
    world: World = field(default_factory=alone)

    def is_due(self, step: int) -> bool:
        return self.inbox.has("sample") or self.is_planned(step)

    def is_planned(self, step: int) -> bool:
        """Return whether the config asks for samples after a step."""
        if step == 0:
            return self.section.at_start
        periodic = is_due(self.section.every, step, self.plan)
        return periodic or (self.section.at_end and step == self.steps)

    def needs_end_samples(self, step: int) -> bool:
        """Return whether a run that ends early at this step lacks its samples at the end."""
        return self.section.at_end and step < self.steps and not self.is_planned(step)

    def run(self, step: int) -> None:
        """Generate every sample."""
        self.inbox.take("sample")
        self.sample_prompts(step, without=set())

    def sample_prompts(self, step: int, *, without: set[int]) -> None:
        """Generate samples of the prompts, in evaluation mode.

        Samples of the last step's weights are numbered after those of the EMA. Ends early if the
        run is to end; a resumed run generates the missing ones. One that is to stop after its last
        step finishes without them.

        without: Indices of samples to leave out.
        """
        total = len(self.shots) * (2 if self.samples_last_weights else 1)
        indices = [index for index in range(total) if index not in without]
        with self.world.shared(SAMPLE, step, indices):
            self._sample(step, indices, self._save)

    def take_part(self, step: int, indices: Sequence[int]) -> None:
        """Generate this process's part of the samples that rank 0 asks for and saves."""
        self._sample(step, indices, lambda *_: None)

    def _sample(
        self, step: int, indices: Sequence[int], save: Callable[[int, int, Tensor], None]
    ) -> None:
        weight_forms = [self.exported.for_samples, self.exported.without_ema]
        self.method.train(False)
        try:
            for number, weights in enumerate(weight_forms):
                own = [index for index in indices if index // len(self.shots) == number]
                compute = partial(self._generate, step, own)
                with (
                    weights() if own else nullcontext(),
                    closing(self.world.map(compute, len(own), lambda _: None)) as generated,
                ):
                    for index, pixels in zip(own, generated, strict=True):
                        save(step, index, pixels)
        except TaskStopped:
            return
        finally:
            self.method.train(True)

    def thumbnail(self, step: int) -> bytes | None:
        """Return the first prompt's planned sample of a step as a small JPEG; None without one.

        Samples on command do not count: output files depend on config, data and seed alone.
        """
        if not self.shots or not self.is_planned(step):
            return None
        path = thumbnail_of(self._path(step, 0))
        return path.read_bytes() if path.is_file() else None

    def _path(self, step: int, index: int) -> Path:
        return self.folder.samples / f"step-{step:06d}-{index:02d}.png"

    def _generate(self, step: int, indices: Sequence[int], place: int) -> Tensor:
        """Return the pixels of one of some samples, on the CPU."""
        index = indices[place]
        total = len(self.shots) * (2 if self.samples_last_weights else 1)
        return self.generate(self.shots[index % len(self.shots)], step, index, total)

    def generate(
        self,
        shot: Shot,
        step: int,
        index: int,
        total: int,
        check: Callable[[], None] = lambda: None,
    ) -> Tensor:
        """Return the pixels of an image, on the CPU, in the weights and the mode that are set.

        index, total: Its number among those of the task. check: Called before each sampling step.

        Raises:
            TaskStopped: If the run is to end.
        """
        progress = TaskProgress(self.inbox, self.events, ended_by=LEAVING)

        def on_step(number: int) -> None:
            check()
            detail = f"step {number + 1} of {shot.steps}"
            progress.report(Phase("sampling", index, total, detail), is_first=number == 0)

        with self.method.at_strength(shot.strength):
            pixels = sample(
                self.family,
                [shot.prompt],
                steps=shot.steps,
                guidance=shot.guidance,
                sampler=shot.sampler,
                guidance_rescale=self.section.guidance_rescale,
                on_step=on_step,
                contexts=SamplingContexts(self.engine.autocast, self.phase),
            )
        return pixels.cpu()

    def _save(self, step: int, index: int, pixels: Tensor) -> None:
        """Write an image, then its event."""
        shot = self.shots[index % len(self.shots)]
        path = self._path(step, index)
        try:
            save_image(pixels, path, self.settings_of(shot, step))
        except OSError as error:
            raise cannot_write(path, error) from error
        relative = path.relative_to(self.folder.path).as_posix()
        title = shot.title + (LAST_WEIGHTS if index >= len(self.shots) else "")
        self.events.write(Sample(step, index, relative, title, shot.prompt.seed))

    def settings_of(self, shot: Shot, step: int) -> Settings:
        """Return what is written into an image."""
        return Settings(
            shot.prompt,
            steps=shot.steps,
            guidance=shot.guidance,
            step=step,
            digest=self.config_digest,
            sampler=shot.sampler,
            guidance_rescale=self.section.guidance_rescale,
            model=self.model,
            clip_skip=self.clip_skip,
            prompt_weights=self.section.prompt_weights,
            strength=shot.strength,
        )
