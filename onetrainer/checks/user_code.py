"""The Python code of the user's own that a run runs, and whether it is trusted."""

from onetrainer.config.optimizers.custom import CustomOptimizer
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.run.schedule import CustomSchedule
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Problem
from onetrainer.trust import trusted_files


def user_functions(config: TrainConfig) -> dict[str, str]:
    """Return the named functions and classes that a run runs, by the paths of their settings."""
    found = {}
    if isinstance(config.objective, AlignProp):
        for number, reward in enumerate(config.objective.rewards):
            if reward.reward == "function" and ":" in reward.function:
                found[f"objective.rewards.{number}.function"] = reward.function
    if isinstance(config.optimizer, CustomOptimizer):
        found["optimizer.function"] = config.optimizer.function
    if isinstance(config.schedule, CustomSchedule):
        found["schedule.function"] = config.schedule.function
    return {path: spec for path, spec in found.items() if spec.strip()}


def check_user_code(config: TrainConfig) -> list[Problem]:
    """Return problems of code that does not exist or is not trusted."""
    problems = (trusted_files.problem(spec, path) for path, spec in user_functions(config).items())
    return [problem for problem in problems if problem is not None]
