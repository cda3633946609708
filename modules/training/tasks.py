"""What a run does besides steps: draw samples, save."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from modules.interfaces import ExportOptions, Family, Method
from modules.memory.precision import compute_dtype
from modules.memory.residency import Enter
from modules.optim.exported_weights import ShownWeights
from modules.sampling.image_files import Settings, save_image, thumbnail_of
from modules.sampling.sampler import Around, sample
from modules.training.checkpoints import CheckpointRecord, Checkpoints, read_record
from modules.training.engine import Engine
from modules.training.inbox import Inbox
from onetrainer.config.run.output import Output
from onetrainer.config.run.sampling import Prompt, Sampling
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Checkpoint, Phase, Sample
from onetrainer.run.run_folder import RunFolder, cannot_write

_SECONDS_PER_PHASE = 1.0
LAST_WEIGHTS = " (without the average)"
"""Told behind the prompt of a sample that shows the weights of the last step."""


class _SamplingStopped(Exception):
    """The run is to end; the picture being drawn is drawn anew when it is resumed."""


@dataclass(frozen=True)
class SampleTask:
    """Draws the sample pictures: every so many steps, at the end, and when asked.

    shows_both: whether each is drawn again with the last step's weights, without their average.
    model: what the pictures call the base model; clip_skip: 0 for the family's own. phase: puts the
    family's parts where they are needed.
    """

    section: Sampling
    steps: int
    family: Family
    method: Method
    engine: Engine
    shown: ShownWeights
    shows_both: bool
    folder: RunFolder
    events: EventWriter
    inbox: Inbox
    config_digest: str
    model: str
    clip_skip: int
    phase: Enter

    def is_due(self, step: int) -> bool:
        return self.inbox.has("sample") or self.is_planned(step)

    def is_planned(self, step: int) -> bool:
        """Whether the config wants samples after so many steps."""
        if step == 0:
            return self.section.at_start
        periodic = self.section.every > 0 and step % self.section.every == 0
        return periodic or (self.section.at_end and step == self.steps)

    def misses_end(self, step: int) -> bool:
        """Whether samples are wanted at the end, and a run that ends early here has none."""
        return self.section.at_end and step < self.steps and not self.is_planned(step)

    def run(self, step: int) -> None:
        """Draws every prompt."""
        self.inbox.take("sample")
        self.draw(step, without=set())

    def draw(self, step: int, *, without: set[int]) -> None:
        """Draws the prompts, without some, with the adapters' dropout off.

        Those with the weights of the last step are counted on, behind those with the average.
        Ends early when the run is to end before its last step; a resumed run draws what is missing.
        """
        series = [(self.shown.final, "")]
        if self.shows_both:
            series.append((self.shown.last, LAST_WEIGHTS))
        self.method.train(False)
        try:
            for number, (weights, words) in enumerate(series):
                first = number * len(self.section.prompts)
                wanted = [
                    (first + place, prompt)
                    for place, prompt in enumerate(self.section.prompts)
                    if first + place not in without
                ]
                with weights() if wanted else nullcontext():
                    for index, prompt in wanted:
                        self._draw_one(step, index, prompt, words)
        except _SamplingStopped:
            return
        finally:
            self.method.train(True)

    def thumbnail(self, step: int) -> bytes | None:
        """The first prompt's planned sample of a step, as a small JPEG; None if there is none.

        What was only asked for does not count: files follow from config, data and seed alone.
        """
        if not self.section.prompts or not self.is_planned(step):
            return None
        path = thumbnail_of(self._path(step, 0))
        return path.read_bytes() if path.is_file() else None

    def _path(self, step: int, index: int) -> Path:
        return self.folder.samples / f"step-{step:06d}-{index:02d}.png"

    def _draw_one(self, step: int, index: int, prompt: Prompt, words: str) -> None:
        """The picture is in the folder before its event is. words: behind the prompt's own."""
        last_told = 0.0

        def on_step(number: int) -> None:
            nonlocal last_told
            if self.inbox.is_leaving() and step < self.steps:
                raise _SamplingStopped
            if number == 0 or monotonic() - last_told > _SECONDS_PER_PHASE:
                last_told = monotonic()
                detail = f"step {number + 1} of {self.section.steps}"
                self.events.write(Phase("sampling", index, self._images, detail))

        pixels = sample(
            self.family,
            [prompt],
            steps=self.section.steps,
            guidance=self.section.guidance,
            sampler=self.section.sampler,
            guidance_rescale=self.section.guidance_rescale,
            on_step=on_step,
            around=Around(self.engine.autocast, self.phase),
        )
        path = self._path(step, index)
        settings = Settings(
            prompt,
            steps=self.section.steps,
            guidance=self.section.guidance,
            step=step,
            digest=self.config_digest,
            sampler=self.section.sampler,
            guidance_rescale=self.section.guidance_rescale,
            model=self.model,
            clip_skip=self.clip_skip,
        )
        try:
            save_image(pixels, path, settings)
        except OSError as error:
            raise cannot_write(path, error) from error
        relative = path.relative_to(self.folder.path).as_posix()
        self.events.write(Sample(step, index, relative, prompt.prompt + words, prompt.seed))

    @property
    def _images(self) -> int:
        """How many are drawn each time."""
        return len(self.section.prompts) * (2 if self.shows_both else 1)


@dataclass(frozen=True)
class SaveTask:
    """Writes checkpoints, and the file for other programs.

    held_out: what checkpoints tell of the held-out pictures. metadata: what a file tells that is
    written after a step, with a thumbnail or without. thumbnail: a small JPEG of what the model
    draws after a step; None if there is none. phase: puts the parts that are not needed meanwhile
    away.
    """

    section: Output
    folder: RunFolder
    method: Method
    engine: Engine
    shown: ShownWeights
    checkpoints: Checkpoints
    events: EventWriter
    inbox: Inbox
    config_digest: str
    data_digest: str
    validation: str
    versions: dict[str, str]
    metadata: Callable[[int, bytes | None], dict[str, str]]
    thumbnail: Callable[[int], bytes | None]
    phase: Enter

    def is_due(self, step: int) -> bool:
        periodic = self.section.save_every > 0 and step % self.section.save_every == 0
        return periodic or self.inbox.has("save")

    def run(self, step: int) -> None:
        """Saves the state after a step; asked for, also the file as trained so far."""
        self.checkpoint(step)
        if self.inbox.take("save"):
            self.export(step, is_final=False)

    def checkpoint(self, step: int) -> None:
        """Saves the state after a step; everything told before belongs to it."""
        size = self.events.size
        self.events.write(Phase("saving"))
        record = CheckpointRecord(
            step=step,
            config_digest=self.config_digest,
            events_size=size,
            versions=self.versions,
            engine=self.engine.state_dict(),
            data_digest=self.data_digest,
            validation=self.validation,
        )
        with self.phase("saving"):
            path = self.checkpoints.save(record)
        self.events.write(Checkpoint(step, path.relative_to(self.folder.path).as_posix()))

    def take_back(self, step: int) -> None:
        """Takes the checkpoint of an earlier step up, to export it; nothing is trained after."""
        self.checkpoints.restore(read_record(self.folder, step))

    def export(self, step: int, *, is_final: bool, suffix: str = "") -> list[Path]:
        """Writes the finished files, or ones that tell by their names how far they were trained.

        suffix: behind the name of finished ones.
        """
        name = f"{self.section.name}{suffix if is_final else f'-{step:06d}'}"
        path = self.folder.output / name
        options = ExportOptions(
            dtype=compute_dtype(self.section.precision),
            metadata=self.metadata(step, self.thumbnail(step) if is_final else None),
            naming=self.section.lora_naming,
            fold_alpha=self.section.fold_alpha,
            model_format=self.section.model_format,
        )
        try:
            with self.phase("saving"), self.shown.exported():
                return self.method.export(path, options)
        except OSError as error:
            raise cannot_write(path, error) from error
