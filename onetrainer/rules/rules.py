"""All rules between settings: combinations of valid values that do not work together."""

from onetrainer.config.run.model import Model
from onetrainer.config.train import TrainConfig, uses_images
from onetrainer.errors import CHOOSE, Fix, Problem
from onetrainer.families.registry import FAMILY_LABELS, base_of, family_spec
from onetrainer.rules import data as rules_data
from onetrainer.rules import (
    embedding,
    full,
    memory,
    method,
    objective,
    optimizer,
    rewards,
    schedule,
)

_RULES = (
    rules_data,
    method,
    full,
    embedding,
    objective,
    optimizer,
    schedule,
    memory,
    rewards,
)
# The largest number of steps of a sampler; the others have no limit.
MAX_STEPS = {"lcm": 50, "unipc": 999}
SMALL_SAMPLE = 0.75  # of the training resolution; smaller samples are misleading


def check_rules(config: TrainConfig) -> list[Problem]:
    """Return errors and warnings about combinations of valid settings, errors first."""
    found = [*_errors(config), *_warnings(config)]
    for rules in _RULES:
        found += rules.problems(config)
    return sorted(found, key=lambda problem: problem.severity != "error")


def _errors(config: TrainConfig) -> list[Problem]:
    found = []
    for index, prompt in enumerate(config.sampling.prompts):
        if not prompt.prompt.strip() and not prompt.negative.strip():
            found.append(
                Problem(
                    f"sampling.prompts.{index}.prompt",
                    "the prompt is empty",
                    "Expected what the image should show",
                    "Write a prompt or remove this sample.",
                )
            )
    name = config.output.name
    if not name.strip() or name != name.strip() or name.endswith(".") or len(name.encode()) > 150:
        found.append(
            Problem(
                "output.name",
                f"{name[:40]!r} is not a valid file name on all systems",
                "Expected at most 150 bytes of text, without spaces at its ends or a final dot",
                "Choose another name.",
            )
        )
    found += _model_errors(config.model)
    most = MAX_STEPS.get(config.sampling.sampler, config.sampling.steps)
    if config.sampling.steps > most:
        found.append(
            Problem(
                "sampling.steps",
                f"{config.sampling.steps} steps are more than the sampler"
                f' "{config.sampling.sampler}" supports',
                f"Expected at most {most} with it",
                "Lower the steps or choose another sampler.",
            )
        )
    if not config.model.path:
        found.append(
            Problem(
                "model.path",
                "no base model is chosen",
                "Expected a folder, a file or a name on the Hub",
                CHOOSE,
            )
        )
    return found


def _model_errors(model: Model) -> list[Problem]:
    found = []
    encoder = family_spec(model.family).encoders[0]
    if 0 < model.clip_skip <= encoder.missing_layers:
        name = FAMILY_LABELS[base_of(model.family)]
        found.append(
            Problem(
                "model.clip_skip",
                f"{name} was trained on the second to last layer, and its diffusers folders do not"
                " contain the last",
                f"Expected 0 or at least {encoder.missing_layers + 1} for {name}",
                f"Set it to 0, which is {encoder.clip_skip} here.",
            )
        )
    if model.zero_terminal_snr == "on" and model.prediction == "epsilon":
        found.append(
            Problem(
                "model.zero_terminal_snr",
                "a model that predicts noise (epsilon) cannot be trained with zero terminal SNR:"
                " its input at the last timestep is pure noise",
                'Expected "v_prediction" with it',
                'Choose "off", or "v_prediction" if the model predicts velocity.',
            )
        )
    return found


def _warnings(config: TrainConfig) -> list[Problem]:
    found = []
    spec = family_spec(config.model.family)
    if config.data.resolution < spec.smallest_side and uses_images(config):
        found.append(
            Problem(
                "data.resolution",
                f"{config.data.resolution} px is small for {FAMILY_LABELS[base_of(spec.name)]}",
                f"It was trained at {spec.side} px and works poorly below that",
                f"Raise it to {spec.side}, if the memory allows.",
                "warning",
                Fix("data.resolution", spec.side),
            )
        )
    small = SMALL_SAMPLE * config.data.resolution
    for index, prompt in enumerate(config.sampling.prompts):
        if prompt.width * prompt.height < small**2:
            found.append(
                Problem(
                    f"sampling.prompts.{index}.width",
                    f"{prompt.width} × {prompt.height} px is far below the training resolution",
                    f"Samples are best near the training resolution, {config.data.resolution} px",
                    "Raise width and height.",
                    "warning",
                )
            )
    return found
