"""All rules between settings: combinations of valid values that do not work together."""

from collections.abc import Iterator

from onetrainer.captions.prompt_weights import has_weights
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
    rewards,
    schedule,
)  # fmt: skip

_RULES = (data, method, full, embedding, objective, optimizer, schedule, memory, rewards)
# The largest number of steps of a sampler; the others have no limit.
MAX_STEPS = {"lcm": 50, "unipc": 999}
SMALL_SAMPLE = 0.75  # of the training resolution; smaller samples are misleading


def check_rules(config: TrainConfig) -> list[Problem]:
    """Return errors and warnings about combinations of valid settings, errors first."""
    found = [*_problems(config), *(one for rules in _RULES for one in rules.problems(config))]
    return sorted(found, key=lambda problem: problem.severity != "error")


def _problems(config: TrainConfig) -> Iterator[Problem]:
    model, resolution = config.model, config.data.resolution
    spec, label = family_spec(model.family), FAMILY_LABELS[base_of(model.family)]
    for index, prompt in enumerate(config.sampling.prompts):
        if not prompt.prompt.strip() and not prompt.negative.strip():
            yield Problem(
                f"sampling.prompts.{index}.prompt",
                "the prompt is empty",
                "Expected what the image should show",
                "Write a prompt or remove this sample.",
            )
        weights = has_weights(prompt.prompt) or has_weights(prompt.negative)
        if weights and config.sampling.prompt_weights == "off":
            yield warning(
                f"sampling.prompts.{index}.prompt",
                "its weights are read as plain text: prompt weights are off",
                "Expected (word:1.3) only with them (sampling.prompt_weights)",
                'Choose "a1111" or "comfyui" there, or remove the weights.',
            )
    if problem := name_problem(config.output.name):
        yield Problem(
            "output.name",
            f"{config.output.name[:40]!r} is not a valid file name on all systems: {problem}",
            "Expected a name that works on Windows, macOS and Linux",
            "Choose another name.",
        )
    yield from _model_problems(model)
    most = MAX_STEPS.get(config.sampling.sampler, config.sampling.steps)
    if config.sampling.steps > most:
        yield Problem(
            "sampling.steps",
            f"{config.sampling.steps} steps are more than the sampler"
            f' "{config.sampling.sampler}" supports',
            f"Expected at most {most} with it",
            "Lower the steps or choose another sampler.",
        )
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
    for index, prompt in enumerate(config.sampling.prompts):
        if prompt.width * prompt.height < (SMALL_SAMPLE * resolution) ** 2:
            yield warning(
                f"sampling.prompts.{index}.width",
                f"{prompt.width} × {prompt.height} px is far below the training resolution",
                f"Samples are best near the training resolution, {resolution} px",
                "Raise width and height.",
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
