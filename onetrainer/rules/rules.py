"""All rules between settings: combinations of valid values that do not work together."""

from collections.abc import Iterator

from onetrainer.config.run.model import Model
from onetrainer.config.train import TrainConfig, uses_images
from onetrainer.errors import CHOOSE, Fix, Problem, warning
from onetrainer.families.registry import FAMILY_LABELS, base_of, family_spec
from onetrainer.files.names import name_problem
from onetrainer.model_files.kinds import PREDICTS
from onetrainer.rules import (
    data,
    embedding,
    full,
    memory,
    method,
    objective,
    optimizer,
    processes,
    rewards,
    sampling,
    schedule,
    sharding,
    slider,
)  # fmt: skip

_RULES = (
    *(data, method, full, embedding, objective, optimizer, schedule, memory, rewards),
    *(processes, sharding, sampling, slider),
)


def check_rules(config: TrainConfig) -> list[Problem]:
    """Return errors and warnings about combinations of valid settings, errors first."""
    found = [*_problems(config), *(one for rules in _RULES for one in rules.problems(config))]
    return sorted(found, key=lambda problem: problem.severity != "error")


def _problems(config: TrainConfig) -> Iterator[Problem]:
    model, resolution = config.model, config.data.resolution
    spec, label = family_spec(model.family), FAMILY_LABELS[base_of(model.family)]
    if problem := name_problem(config.output.name):
        yield Problem(
            "output.name",
            f"{config.output.name[:40]!r} is not a valid file name on all systems: {problem}",
            "Expected a name that works on Windows, macOS and Linux",
            "Choose another name.",
        )
    yield from _model_problems(model)
    if not model.path:
        yield Problem(
            "model.path",
            "no base model is chosen",
            "Expected a folder, a file or a name on the Hub",
            CHOOSE,
        )
    if resolution < spec.smallest_side and uses_images(config):
        yield warning(
            "data.resolution",
            f"{resolution} px is small for {label}",
            f"It was trained at {spec.side} px and works poorly below that",
            f"Raise it to {spec.side}, if the memory allows.",
            to=spec.side,
        )


def _model_problems(model: Model) -> Iterator[Problem]:
    spec, label = family_spec(model.family), FAMILY_LABELS[base_of(model.family)]
    if model.prediction != "auto" and model.prediction not in spec.predictions:
        known = " or ".join(PREDICTS[prediction] for prediction in spec.predictions)
        yield Problem(
            "model.prediction",
            f"no {label} model predicts {PREDICTS[model.prediction]}",
            f"{label} models predict {known}",
            'Choose "auto".',
            fix=Fix("model.prediction", "auto"),
        )
    encoder = spec.encoders[0]
    if 0 < model.clip_skip <= encoder.missing_layers:
        yield Problem(
            "model.clip_skip",
            f"{label} was trained on the second to last layer, and its diffusers folders do not"
            " contain the last",
            f"Expected 0 or at least {encoder.missing_layers + 1} for {label}",
            f"Set it to 0, which is {encoder.clip_skip} here.",
        )
    if model.zero_terminal_snr == "on" and model.prediction == "epsilon":
        yield Problem(
            "model.zero_terminal_snr",
            "a model that predicts noise (epsilon) cannot be trained with zero terminal SNR:"
            " its input at the last timestep is pure noise",
            'Expected "v_prediction" with it',
            'Choose "off", or "v_prediction" if the model predicts velocity.',
        )
