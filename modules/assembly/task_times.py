"""How often a run does what it does besides steps, and how long that takes about, by its config."""

from modules.evaluation.scores import PromptEvaluation
from modules.evaluation.slider import SliderEvaluation
from modules.evaluation.validation import ImageEvaluation
from modules.training.evaluate_task import Evaluation
from modules.training.time_left import TaskTimes
from onetrainer.captions.sample_prompts import Shot
from onetrainer.config.base.amount import Steps
from onetrainer.config.train import TrainConfig
from onetrainer.rewards.cost import StepCost, cost_of, passes_per_step
from onetrainer.schedules.amounts import Plan, intervals_in


class RunTaskTimes:
    """The times of a run's tasks; until one was measured, it is guessed by its passes."""

    def __init__(self, config: TrainConfig, plan: Plan) -> None:
        self._config, self._plan = config, plan
        self._cost = cost_of(config)

    def of_evaluation(self, evaluation: Evaluation) -> TaskTimes:
        """Return the times of an evaluation."""
        match evaluation:
            case ImageEvaluation(section=section, grid=grid, weights=weights):
                passes = evaluation.count * grid.levels * grid.noises * len(weights)
                return self._times(section.every, passes, at_end=section.at_end)
            case PromptEvaluation(section=section):
                return self._times(section.every, _passes(self._cost.evaluation))
            case SliderEvaluation(every=every):
                return self._times(every)
        return self._times(0)

    def of_samples(self, shots: tuple[Shot, ...]) -> TaskTimes:
        """Return the times of samples."""
        section, ema = self._config.sampling, self._config.ema
        passes = sum(shot.steps * passes_per_step(shot.guidance) for shot in shots)
        times = 2 if ema.use and ema.sample_both else 1
        return self._times(section.every, times * passes, at_end=section.at_end)

    def of_saving(self) -> TaskTimes:
        """Return the times of checkpoints."""
        return self._times(self._config.output.save_every)

    def of_export(self) -> TaskTimes:
        """Return the times of output files, of which the finished one is the last."""
        return self._times(self._config.output.export_every)

    def _times(self, every: Steps, passes: float = 0.0, *, at_end: bool = True) -> TaskTimes:
        steps, plan = self._config.training.total_steps, self._plan
        of_a_step = _passes(self._cost.step)
        # Counted once: an interval in images plans the last epoch.
        total = intervals_in(every, steps - at_end, plan) + at_end

        def left(step: int) -> int:
            return total - intervals_in(every, step - 1, plan)

        return TaskTimes(left, passes / of_a_step if of_a_step else 0.0)


def _passes(cost: StepCost) -> float:
    return sum(cost.by_purpose().values())
