"""Rules for sample prompts."""

from collections.abc import Iterator

from onetrainer.captions.prompt_weights import has_weights
from onetrainer.config.base.prompt_weights import PROMPT_WEIGHTS
from onetrainer.config.run.sampling import PAIR, Prompt
from onetrainer.config.train import TrainConfig, uses_images
from onetrainer.errors import Fix, Offer, Problem, warning
from onetrainer.families.registry import family_spec

# The largest number of steps of a sampler; the others have no limit.
MAX_STEPS = {"lcm": 50, "unipc": 999}
SMALL_SAMPLE = 0.75  # of the training resolution; smaller samples are misleading
LARGE_SAMPLE = 2  # of the same; larger ones repeat what they show


def problems(config: TrainConfig) -> Iterator[Problem]:
    """Yield the problems of samples and their prompts."""
    section = config.sampling
    yield from _steps_problems("sampling", section.steps, section.sampler)
    for index, prompt in enumerate(section.prompts):
        if prompt.use:
            yield from _prompt_problems(f"sampling.prompts.{index}", prompt, config)


def _prompt_problems(path: str, prompt: Prompt, config: TrainConfig) -> Iterator[Problem]:
    section, resolution = config.sampling, config.data.resolution
    if not prompt.prompt.strip() and not prompt.negative.strip():
        yield Problem(
            f"{path}.prompt",
            "the prompt is empty",
            "Expected what the image should show",
            "Write a prompt or remove this sample.",
        )
    weights = has_weights(prompt.prompt) or has_weights(prompt.negative)
    if weights and section.prompt_weights == "off":
        yield warning(
            f"{path}.prompt",
            "its weights are read as plain text: prompt weights are off",
            "Expected (word:1.3) only with them (sampling.prompt_weights)",
            "Choose how they are read, or remove them.",
            choices=tuple(
                Fix("sampling.prompt_weights", style) for style in PROMPT_WEIGHTS if style != "off"
            ),
        )
    if prompt.steps is not None or prompt.sampler != "run":
        sampler = section.sampler if prompt.sampler == "run" else prompt.sampler
        yield from _steps_problems(path, prompt.steps or section.steps, sampler)
    if (missing := prompt.missing_of_pair) and family_spec(config.model.family).sees_masked_image:
        yield Problem(f"{path}.{missing}", f"the {missing} is missing", PAIR, "Choose it.")
    pixels = prompt.width * prompt.height
    if pixels < (SMALL_SAMPLE * resolution) ** 2:
        yield _size_warning(path, prompt, "below", resolution, "Raise width and height.")
    elif pixels > (LARGE_SAMPLE * _largest_resolution(config)) ** 2 and uses_images(config):
        yield _size_warning(path, prompt, "above", resolution, "Lower width and height.")


def _largest_resolution(config: TrainConfig) -> int:
    data = config.data
    sides = [data.resolution, *(each.resolution for each in data.buckets.resolutions)]
    sides += [each.resolution for each in data.concepts]
    sides += [max(each.width, each.height) for each in data.buckets.sizes]
    return max(sides)


def _size_warning(path: str, prompt: Prompt, where: str, resolution: int, remedy: str) -> Problem:
    label, height = f"Use {resolution} × {resolution} px", Fix(f"{path}.height", resolution)
    return warning(
        f"{path}.width",
        f"{prompt.width} × {prompt.height} px is far {where} the training resolution",
        f"Samples are best near the training resolution, {resolution} px",
        remedy,
        fix=Offer(f"{path}.width", resolution, label, (height,)),
    )


def _steps_problems(path: str, steps: int, sampler: str) -> Iterator[Problem]:
    most = MAX_STEPS.get(sampler, steps)
    if steps > most:
        yield Problem(
            f"{path}.steps",
            f'{steps} steps are more than the sampler "{sampler}" supports',
            f"Expected at most {most} with it",
            "Lower the steps or choose another sampler.",
        )
