"""What a run of reward training does to know whether its reward still means anything: look, judge,
tell, keep the best, stop.

Looked at are the weights that samples show and finished files hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from time import monotonic

import torch

from modules.evaluation.prompts import Drawn, Evaluator
from modules.interfaces import Method
from modules.optim.exported_weights import ShownWeights
from modules.rewards.drift import diversity
from modules.rewards.mixer import Mixer
from modules.sampling.image_files import save_jpeg
from modules.training.engine import Engine
from modules.training.inbox import Inbox
from onetrainer.config.rewards.evaluation import Evaluation
from onetrainer.metrics.evaluation_files import RewardFiles
from onetrainer.metrics.reward_guard import (
    DISTANCE,
    DIVERSITY,
    VARIETY,
    Judged,
    Look,
    Scored,
    judge,
    stats_of,
)
from onetrainer.metrics.validation import when
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Evaluated, Event, Phase, Warned
from onetrainer.run.run_folder import RunFolder, cannot_write

_SECONDS_PER_PHASE = 1.0


class _LookStopped(Exception):
    """The run is to end; what was begun is looked at when it is resumed."""


@dataclass
class BaseScores:
    """The rewards of a run, in units of the base's scores as soon as these are known."""

    mixer: Mixer

    def __call__(self) -> Mixer:
        return self.mixer


class Looks:
    """The looks of a run, and what they amount to.

    trained, watched: the weights of rewards by name.
    """

    def __init__(
        self,
        files: RewardFiles,
        section: Evaluation,
        *,
        trained: Mapping[str, float],
        watched: Mapping[str, float],
    ) -> None:
        self.files = files
        self.section = section
        self._weights = trained, watched
        self._judged: tuple[list[Look], Judged] | None = None

    def judged(self) -> Judged | None:
        """What the newest look amounts to; None before the first."""
        history = self.files.history()
        if not history:
            return None
        if self._judged is None or self._judged[0] != history:  # asked for after every step
            trained, watched = self._weights
            found = judge(history, trained=trained, watched=watched, settings=self.section)
            self._judged = history, found
        return self._judged[1]

    def best_step(self) -> int | None:
        """The step whose checkpoint is kept; None if none is: before training there is none."""
        found = self.judged()
        return (found.best_step or None) if found is not None and self.section.keep_best else None


@dataclass(frozen=True)
class EvaluateTask:
    """Looks at the held-out prompts: before the first step, every so many steps, at the end.

    rewards: of which the base's scores are told as soon as they are known. looks: those that were
    made before, and those to come.
    """

    steps: int
    evaluator: Evaluator
    rewards: BaseScores
    looks: Looks
    method: Method
    engine: Engine
    shown: ShownWeights
    folder: RunFolder
    events: EventWriter
    inbox: Inbox

    @property
    def keeps_best(self) -> bool:
        """Whether the checkpoint of the best step is kept."""
        return self.looks.section.keep_best

    def is_due(self, step: int) -> bool:
        """Whether the config wants a look after so many steps."""
        return step % self.looks.section.every == 0 or step == self.steps

    def begin(self, step: int, kept: Sequence[Event]) -> None:
        """Before the first step, or the next one of a resumed run: looks where a look is missing.

        A run without any look begins with one, whatever its step: rewards are counted in units of
        it. kept: what the run has told up to here.
        """
        base = self.looks.files.base()
        if base is not None:
            self.rewards.mixer = self.rewards.mixer.with_base(base)
        told = any(isinstance(one, Evaluated) and one.step == step for one in kept)
        # Without a base, what was told is of looks that cannot be compared with those to come.
        if base is None or (self.is_due(step) and not told):
            self._look(step)

    def run(self, step: int) -> None:
        """Looks and tells; does neither if asked to end before the run's last step."""
        self._look(step)

    def has_enough(self) -> bool:
        """Whether the guard has stopped the run."""
        found = self.looks.judged()
        return found is not None and found.stops

    def best_step(self) -> int | None:
        """The step whose checkpoint is to be kept; None if none is."""
        return self.looks.best_step()

    def summary(self, step: int, best_files: Sequence[Path]) -> list[str]:
        """What there is to say at the end. best_files: those of the best step."""
        found = self.looks.judged()
        if found is None:
            return []
        lines = [found.words]
        if found.stops and step < self.steps:
            lines.append(
                f"The guard stopped it after step {step:,}. To go on, set"
                ' objective.evaluation.guard ("Guard") to "warn" in the run\'s config.json and'
                " resume it."
            )
        if best_files:
            lines.append(f"{best_files[0].name} holds the weights of step {found.best_step:,}.")
        elif found.best_step == 0 and step > 0:
            lines.append(f"No look was better than that {when(0)}.")
        elif self.keeps_best and found.best_step < step:
            # What the guard holds against a look was changed since, and another is the best now.
            lines.append(
                f"The best look is that of step {found.best_step:,}, whose weights were not kept."
            )
        return lines

    def _look(self, step: int) -> None:
        if not self.looks.files.has(step):
            try:
                look = self._seen(step)
            except _LookStopped:
                return
            self.looks.files.add(look)
        found = self.looks.judged()
        if found is not None:
            self.events.write(found.event(self.looks.files.history()[-1]))

    def _seen(self, step: int) -> Look:
        """What there is to see now, with its pictures on the disk."""
        progress, scored, drawn = _Progress(self, step), list[Scored](), list[Drawn]()
        seeds = [seed for _, seed in self.evaluator.validation.each()]
        self.method.train(False)
        try:
            with self.shown.final():
                for one in self.evaluator.look(self.rewards.mixer, progress.tell):
                    paths = self._saved(step, len(drawn), one)
                    scored += _scored(one, paths, seeds[len(scored) :])
                    drawn.append(one.without_images())
        finally:
            self.method.train(True)
        look = Look(step, tuple(scored), _drift(drawn))
        return look if self.looks.files.history() else self._in_own_units(look)

    def _in_own_units(self, look: Look) -> Look:
        """The first look, whose own scores are the units that all are counted in from now on."""
        self.rewards.mixer = mixer = self.rewards.mixer.with_base(stats_of(look))
        totals = mixer.total(
            {name: torch.tensor([one.rewards[name] for one in look.images]) for name in look.names}
        ).tolist()
        for text in _reached(mixer):
            self.events.write(Warned(text))
        images = zip(look.images, totals, strict=True)
        return replace(look, images=tuple(replace(one, total=total) for one, total in images))

    def _saved(self, step: int, number: int, drawn: Drawn) -> list[str]:
        """Writes a prompt's pictures; their paths in the run folder."""
        folder, paths = self.looks.files.images(step), []
        for place, image in enumerate(drawn.images):
            path = folder / f"{number:03d}-{place:02d}.jpg"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                save_jpeg(image * 2 - 1, path)
            except OSError as error:
                raise cannot_write(path, error) from error
            paths.append(path.relative_to(self.folder.path).as_posix())
        return paths


def _reached(mixer: Mixer) -> list[str]:
    """What to tell of targets that the base's pictures have reached already, on average."""
    told = []
    for member in mixer.members:
        mean, _ = mixer.base.get(member.name, (0.0, 0.0))
        if not member.is_trained or member.target is None:
            continue
        if (mean - member.target) * (1 if member.weight > 0 else -1) >= 0:
            told.append(
                f"{member.name}: the base's pictures have {mean:.3g} already, which is beyond what"
                f' is enough ("Enough at" {member.target:g}): there is little to gain'
            )
    return told


class _Progress:
    """Tells how far a look is, and ends it if the run is to end."""

    def __init__(self, task: EvaluateTask, step: int) -> None:
        self._task = task
        self._step = step
        self._last_told: float | None = None

    def tell(self, done: int) -> None:
        """Before pictures are drawn. done: how many are."""
        task = self._task
        if task.inbox.is_leaving() and self._step < task.steps:
            raise _LookStopped
        now = monotonic()
        if self._last_told is None or now - self._last_told > _SECONDS_PER_PHASE:
            self._last_told = now
            task.events.write(Phase("evaluating", done, task.evaluator.validation.count))


def _scored(drawn: Drawn, paths: Sequence[str], seeds: Sequence[int]) -> list[Scored]:
    totals = drawn.total.tolist()
    by_name = {name: scores.tolist() for name, scores in drawn.by_name.items()}
    return [
        Scored(
            prompt=drawn.prompt,
            seed=seeds[place],
            path=path,
            rewards={name: scores[place] for name, scores in by_name.items()},
            total=totals[place],
        )
        for place, path in enumerate(paths)
    ]


def _drift(drawn: Sequence[Drawn]) -> dict[str, float]:
    """Means over all pictures.

    Of diversity, which is that of the pictures of a prompt, over prompts; of variety, which is that
    of the pictures of different prompts from the same noise, over noises.
    """
    found = {
        "contrast": float(torch.cat([one.contrast for one in drawn]).mean()),
        "saturation": float(torch.cat([one.saturation for one in drawn]).mean()),
        DIVERSITY: fmean(float(diversity(one.small)) for one in drawn),
    }
    if len(drawn) > 1:
        by_seed = torch.stack([one.small for one in drawn]).transpose(0, 1)
        found[VARIETY] = fmean(float(diversity(each)) for each in by_seed)
    distances = [one.distance for one in drawn if one.distance is not None]
    if distances:
        found[DISTANCE] = float(torch.cat(distances).mean().sqrt())
    return found
