"""Evaluation of reward training on validation prompts: generate, score, judge, stop early.

Uses the weights that samples and output files use.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from time import monotonic

import torch

from modules.evaluation.prompts import Evaluator, ScoredPrompt
from modules.interfaces import Method
from modules.optim.exported_weights import ExportedWeights
from modules.rewards.drift import diversity
from modules.rewards.mixer import Mixer
from modules.sampling.image_files import save_jpeg
from modules.training.engine import Engine
from modules.training.inbox import Inbox
from onetrainer.config.rewards.evaluation import Evaluation
from onetrainer.metrics.evaluation_files import EvaluationFiles
from onetrainer.metrics.reward_guard import (
    DISTANCE,
    DIVERSITY,
    VARIETY,
    EvaluationResult,
    EvaluationSummary,
    ScoredImage,
    judge,
    reward_stats,
)
from onetrainer.metrics.validation import when
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Evaluated, Event, Phase, Warned
from onetrainer.run.run_folder import RunFolder, cannot_write

_SECONDS_PER_PHASE = 1.0


class _EvaluationStopped(Exception):
    """The run is to end; a resumed run repeats the evaluation."""


@dataclass
class CurrentMixer:
    """The rewards of a run; replaced by normalized ones once the base model's scores are known."""

    mixer: Mixer

    def __call__(self) -> Mixer:
        return self.mixer


class Evaluations:
    """The evaluations of a run and their verdict."""

    def __init__(
        self,
        files: EvaluationFiles,
        section: Evaluation,
        *,
        trained: Mapping[str, float],
        watched: Mapping[str, float],
    ) -> None:
        """Load the past evaluations.

        trained, watched: The weights of rewards by name.
        """
        self.files = files
        self.section = section
        self._weights = trained, watched
        self._cached_verdict: tuple[list[EvaluationResult], EvaluationSummary] | None = None

    def verdict(self) -> EvaluationSummary | None:
        """Return the verdict on the newest evaluation; None before the first."""
        history = self.files.history()
        if not history:
            return None
        if self._cached_verdict is None or self._cached_verdict[0] != history:
            trained, watched = self._weights
            verdict = judge(history, trained=trained, watched=watched, settings=self.section)
            self._cached_verdict = history, verdict
        return self._cached_verdict[1]

    def best_step(self) -> int | None:
        """Return the step whose checkpoint is kept; None for the base model or if none is kept."""
        verdict = self.verdict()
        return verdict.best_step or None if verdict is not None and self.section.keep_best else None


@dataclass(frozen=True)
class EvaluateTask:
    """Evaluates the validation prompts before the first step, at an interval and at the end.

    Attributes:
        rewards: Normalized by the base model's scores once these are known.
    """

    steps: int
    evaluator: Evaluator
    rewards: CurrentMixer
    evaluations: Evaluations
    method: Method
    engine: Engine
    exported: ExportedWeights
    folder: RunFolder
    events: EventWriter
    inbox: Inbox

    @property
    def saves_best(self) -> bool:
        """Whether the checkpoint of the best step is kept."""
        return self.evaluations.section.keep_best

    def is_due(self, step: int) -> bool:
        """Return whether the config asks for an evaluation after a step."""
        return step % self.evaluations.section.every == 0 or step == self.steps

    def begin(self, step: int, past_events: Sequence[Event]) -> None:
        """Run a missing evaluation before the first step of a new or resumed run.

        The first evaluation of a run, at any step, defines the units of the rewards.

        past_events: Events of the run up to here.
        """
        base = self.evaluations.files.base()
        if base is not None:
            self.rewards.mixer = self.rewards.mixer.with_base(base)
        is_reported = any(
            isinstance(event, Evaluated) and event.step == step for event in past_events
        )
        # Without base scores, reported evaluations cannot be compared with later ones.
        if base is None or (self.is_due(step) and not is_reported):
            self._evaluate(step)

    def run(self, step: int) -> None:
        """Evaluate and report; neither if the run is to end before its last step."""
        self._evaluate(step)

    def should_stop_early(self) -> bool:
        """Return whether the guard stops the run."""
        verdict = self.evaluations.verdict()
        return verdict is not None and verdict.stops

    def best_step(self) -> int | None:
        """Return the step whose checkpoint is kept; None if none is."""
        return self.evaluations.best_step()

    def summary(self, step: int, best_files: Sequence[Path]) -> list[str]:
        """Return lines for the end of the run.

        best_files: Output files of the best step.
        """
        verdict = self.evaluations.verdict()
        if verdict is None:
            return []
        lines = [verdict.words]
        if verdict.stops and step < self.steps:
            lines.append(
                f"The guard stopped it after step {step:,}. To go on, set"
                ' objective.evaluation.guard ("Guard") to "warn" in the run\'s config.json and'
                " resume it."
            )
        if best_files:
            lines.append(f"{best_files[0].name} holds the weights of step {verdict.best_step:,}.")
        elif verdict.best_step == 0 and step > 0:
            lines.append(f"No evaluation was better than the one {when(0)}.")
        elif self.saves_best and verdict.best_step < step:
            # The guard's settings were changed since, so that another evaluation is the best now.
            best = verdict.best_step
            lines.append(f"The best evaluation is step {best:,}, but its weights were not saved.")
        return lines

    def _evaluate(self, step: int) -> None:
        if not self.evaluations.files.has(step):
            try:
                evaluation = self._generate(step)
            except _EvaluationStopped:
                return
            self.evaluations.files.add(evaluation)
        verdict = self.evaluations.verdict()
        if verdict is not None:
            self.events.write(verdict.event(self.evaluations.files.history()[-1]))

    def _generate(self, step: int) -> EvaluationResult:
        """Generate and score all images, and write them to the run folder."""
        progress = _Progress(self, step)
        scored: list[ScoredImage] = []
        prompts: list[ScoredPrompt] = []
        seeds = [seed for _, seed in self.evaluator.validation.each()]
        self.method.train(False)
        try:
            with self.exported.for_samples():
                for prompt in self.evaluator.evaluate(self.rewards.mixer, progress.report):
                    paths = self._save_images(step, len(prompts), prompt)
                    scored += _scored_images(prompt, paths, seeds[len(scored) :])
                    prompts.append(prompt.without_images())
        finally:
            self.method.train(True)
        evaluation = EvaluationResult(step, tuple(scored), _mean_drift(prompts))
        return evaluation if self.evaluations.files.history() else self._normalize(evaluation)

    def _normalize(self, evaluation: EvaluationResult) -> EvaluationResult:
        """Return the first evaluation in its own units, which all later ones use."""
        self.rewards.mixer = mixer = self.rewards.mixer.with_base(reward_stats(evaluation))
        totals = mixer.total(
            {
                name: torch.tensor([image.rewards[name] for image in evaluation.images])
                for name in evaluation.names
            }
        ).tolist()
        for text in _reached_target_warnings(mixer):
            self.events.write(Warned(text))
        images = zip(evaluation.images, totals, strict=True)
        return replace(
            evaluation, images=tuple(replace(image, total=total) for image, total in images)
        )

    def _save_images(self, step: int, number: int, prompt: ScoredPrompt) -> list[str]:
        """Write a prompt's images; return their paths relative to the run folder."""
        folder, paths = self.evaluations.files.images(step), []
        for place, image in enumerate(prompt.images):
            path = folder / f"{number:03d}-{place:02d}.jpg"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                save_jpeg(image * 2 - 1, path)
            except OSError as error:
                raise cannot_write(path, error) from error
            paths.append(path.relative_to(self.folder.path).as_posix())
        return paths


def _reached_target_warnings(mixer: Mixer) -> list[str]:
    """Warn of targets that the base model's images exceed on average."""
    warnings = []
    for member in mixer.members:
        mean, _ = mixer.base.get(member.name, (0.0, 0.0))
        if not member.is_trained or member.target is None:
            continue
        if (mean - member.target) * (1 if member.weight > 0 else -1) >= 0:
            warnings.append(
                f"{member.name}: the base model's images score {mean:.3g} already, beyond"
                f' "Target score" ({member.target:g}): there is little to gain'
            )
    return warnings


class _Progress:
    """Reports progress, and aborts the evaluation if the run is to end."""

    def __init__(self, task: EvaluateTask, step: int) -> None:
        self._task = task
        self._step = step
        self._last_report: float | None = None

    def report(self, done: int) -> None:
        """Report progress before images are generated.

        Args:
            done: Number of images generated.
        """
        task = self._task
        if task.inbox.is_leaving() and self._step < task.steps:
            raise _EvaluationStopped
        now = monotonic()
        if self._last_report is None or now - self._last_report > _SECONDS_PER_PHASE:
            self._last_report = now
            task.events.write(Phase("evaluating", done, task.evaluator.validation.count))


def _scored_images(
    prompt: ScoredPrompt, paths: Sequence[str], seeds: Sequence[int]
) -> list[ScoredImage]:
    totals = prompt.total.tolist()
    by_name = {name: scores.tolist() for name, scores in prompt.by_name.items()}
    return [
        ScoredImage(
            prompt=prompt.prompt,
            seed=seeds[place],
            path=path,
            rewards={name: scores[place] for name, scores in by_name.items()},
            total=totals[place],
        )
        for place, path in enumerate(paths)
    ]


def _mean_drift(prompts: Sequence[ScoredPrompt]) -> dict[str, float]:
    """Return drift measures as means over all images.

    Diversity is measured among the images of a prompt and averaged over prompts; variety among the
    images of different prompts from the same noise, averaged over noises.
    """
    drift = {
        "contrast": float(torch.cat([prompt.contrast for prompt in prompts]).mean()),
        "saturation": float(torch.cat([prompt.saturation for prompt in prompts]).mean()),
        DIVERSITY: fmean(float(diversity(prompt.small)) for prompt in prompts),
    }
    if len(prompts) > 1:
        by_seed = torch.stack([prompt.small for prompt in prompts]).transpose(0, 1)
        drift[VARIETY] = fmean(float(diversity(images)) for images in by_seed)
    distances = [prompt.distance for prompt in prompts if prompt.distance is not None]
    if distances:
        drift[DISTANCE] = float(torch.cat(distances).mean().sqrt())
    return drift
