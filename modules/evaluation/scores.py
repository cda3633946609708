"""Evaluation of reward training on validation prompts: generate, score, judge, stop early."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Literal

import torch

from modules.evaluation.prompts import Evaluator, ScoredPrompt
from modules.optim.exported_weights import ExportedWeights
from modules.rewards.measures import diversity
from modules.rewards.mixer import Mixer
from modules.sampling.image_files import save_jpeg
from onetrainer.config.rewards.evaluation import Evaluation
from onetrainer.metrics.files import MeasurementFiles
from onetrainer.metrics.guard import (
    DISTANCE,
    DIVERSITY,
    VARIETY,
    EvaluationResult,
    ScoredImage,
    judge,
    reward_stats,
)
from onetrainer.metrics.messages import guard_summary
from onetrainer.run.events import Evaluated, Event
from onetrainer.run.run_folder import cannot_write
from onetrainer.schedules.amounts import Plan, is_due

EVALUATE = "evaluate"
"""The order to generate and score the images of validation prompts together."""


@dataclass
class PromptEvaluation:
    """The scores of validation prompts, by the weights that samples and output files use.

    Before the first step, every N steps and at the end. The first evaluation of a run, at any
    step, defines the units of the rewards.

    Attributes:
        files: Past evaluations.
        plan: How far the run is after a step, for intervals in epochs or images.
        trained, monitored: Weights of trained and monitored rewards by name.
        rewards: Normalized by the first evaluation once there is one.
        folder: The run's.
        on_base: Called with the units of the rewards, once they are known.
    """

    section: Evaluation
    files: MeasurementFiles[EvaluationResult]
    steps: int
    plan: Plan
    trained: Mapping[str, float]
    monitored: Mapping[str, float]
    evaluator: Evaluator
    rewards: Mixer
    exported: ExportedWeights
    folder: Path
    warn: Callable[[str], None]
    on_base: Callable[[Mapping[str, tuple[float, float]]], None] = lambda _: None
    _verdict: Evaluated | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.files.by_step:
            self._set_base(self._history[0])
            self._verdict = self._judge()

    @property
    def phase_name(self) -> Literal["evaluating"]:
        return "evaluating"

    @property
    def count(self) -> int:
        return self.evaluator.validation.count

    @property
    def keeps_best(self) -> bool:
        return self.section.keep_best

    @property
    def prefers_best(self) -> bool:
        return self.should_stop_early()

    def is_due(self, step: int) -> bool:
        # Step 0 begins every interval.
        return step in (0, self.steps) or is_due(self.section.every, step, self.plan)

    def is_missing(self, step: int, past_events: Sequence[Event]) -> bool:
        is_reported = any(
            isinstance(event, Evaluated) and event.step == step for event in past_events
        )
        # Without base scores, reported evaluations cannot be compared with later ones.
        return not self._history or (self.is_due(step) and not is_reported)

    @property
    def is_required(self) -> bool:
        """Whether the rewards have no units yet."""
        return not self._history

    def measure(self, step: int, before_each: Callable[[int], None]) -> None:
        if step in self.files.by_step:
            return
        scored: list[ScoredImage] = []
        prompts: list[ScoredPrompt] = []
        seeds = [seed for _, seed in self.evaluator.validation.each()]
        with (
            self.evaluator.world.shared(EVALUATE),
            self.exported.for_samples(),
            closing(self.evaluator.evaluate(self.rewards, before_each)) as results,
        ):
            for prompt in results:
                paths = self._save_images(step, len(prompts), prompt)
                scored += _scored_images(prompt, paths, seeds[len(scored) :])
                prompts.append(prompt.without_images())
        evaluation = EvaluationResult(step, tuple(scored), _mean_drift(prompts))
        self.files.add(step, evaluation if self._history else self._normalized(evaluation))
        self._verdict = self._judge()

    def take_part(self) -> None:
        """Do this process's part of an evaluation of rank 0's, in evaluation mode."""
        with self.exported.for_samples():
            for _ in self.evaluator.evaluate(self.rewards, lambda _: None):
                pass

    def events(self) -> list[Event]:
        return [self._verdict] if self._verdict else []

    def should_stop_early(self) -> bool:
        """Return whether the guard stops the run."""
        return self._verdict is not None and self._verdict.stops

    def best_step(self) -> int | None:
        return self._verdict.best_step or None if self._verdict and self.keeps_best else None

    def summary(self, first: int, step: int, best_files: Sequence[Path]) -> list[str]:
        del first
        if self._verdict is None:
            return []
        return guard_summary(
            self._verdict,
            step=step,
            steps=self.steps,
            keeps_best=self.keeps_best,
            best_files=[path.name for path in best_files],
        )

    @property
    def _history(self) -> list[EvaluationResult]:
        return list(self.files.by_step.values())

    def _judge(self) -> Evaluated:
        return judge(
            self._history,
            trained=self.trained,
            monitored=self.monitored,
            settings=self.section,
        )

    def _set_base(self, evaluation: EvaluationResult) -> None:
        self.rewards.set_base(reward_stats(evaluation))
        self.on_base(self.rewards.base)

    def _normalized(self, evaluation: EvaluationResult) -> EvaluationResult:
        """Return the first evaluation in its own units, which all later ones use."""
        mixer = self.rewards
        self._set_base(evaluation)
        totals = mixer.total(
            {
                name: torch.tensor([image.rewards[name] for image in evaluation.images])
                for name in evaluation.names
            }
        ).tolist()
        for member in mixer.members:
            mean, _ = mixer.base.get(member.name, (0.0, 0.0))
            if not member.is_trained or member.target is None:
                continue
            if (mean - member.target) * (1 if member.weight > 0 else -1) >= 0:
                self.warn(
                    f"{member.name}: the base model's images score {mean:.3g} already, beyond"
                    f' "Target score" ({member.target:g}): there is little to gain'
                )
        images = zip(evaluation.images, totals, strict=True)
        return replace(
            evaluation, images=tuple(replace(image, total=total) for image, total in images)
        )

    def _save_images(self, step: int, number: int, prompt: ScoredPrompt) -> list[str]:
        """Write a prompt's images; return their paths relative to the run folder."""
        folder, paths = self.files.images(step), []
        for place, image in enumerate(prompt.images):
            path = folder / f"{number:03d}-{place:02d}.jpg"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                save_jpeg(image * 2 - 1, path)
            except OSError as error:
                raise cannot_write(path, error) from error
            paths.append(path.relative_to(self.folder).as_posix())
        return paths


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
