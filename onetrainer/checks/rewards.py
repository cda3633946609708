"""Check reward training before a run starts: files, prompts, trust.

Without torch; the contents of a network's file are checked when it is loaded.
"""

from collections.abc import Iterator
from pathlib import Path

from onetrainer.checks.dataset import missing_token_problems
from onetrainer.concepts.folder_listing import list_folder
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.rewards.reward import NETWORKS, Reward
from onetrainer.config.train import TrainConfig, uses_images
from onetrainer.errors import Fix, Problem, UserError, some_of, warning
from onetrainer.model_files.hub import cached_folder, is_hub_name
from onetrainer.rewards.prompts import PLACES, prompts_of
from onetrainer.rules.data import has_images

_SHOWN = 3  # prompts named in a message
_MIN_PROMPTS = 4  # with fewer, the confidence interval is too wide for any fall to be sure
_FILES = (
    "config.json",
    "HPS_v2.1_compressed.pt",
    "HPS_v2.1_compressed.safetensors",
    "HPS_v2_compressed.pt",
    "ImageReward.pt",
    "ImageReward.safetensors",
)
"""Files of networks as their authors publish them; a network has one of them."""
_VOCABULARY = "vocab.txt"


def check_rewards(config: TrainConfig) -> list[Problem]:
    """Return problems of reward files and prompts; none with other objectives."""
    section = config.objective
    if not isinstance(section, AlignProp):
        return []
    problems: list[Problem] = []
    for number, reward in enumerate(section.rewards):
        path = f"objective.rewards.{number}"
        problems += _file_problems(path, reward, is_offline=config.model.offline)
    return [*problems, *_prompt_problems(config, section)]


def _file_problems(path: str, reward: Reward, *, is_offline: bool) -> Iterator[Problem]:
    if reward.reward in (*NETWORKS, "reference") and reward.model:
        yield from _network_problems(f"{path}.model", reward.model, is_offline=is_offline)
    if reward.reward == "image_reward" and reward.model:
        yield from _vocabulary_problems(f"{path}.model", reward.model)
    if reward.reward == "aesthetic" and reward.head and not Path(reward.head).is_file():
        yield _missing_path_problem(f"{path}.head", reward.head, "the file of the score's head")
    if reward.reward == "reference" and (folder := reward.folder):
        if not Path(folder).is_dir():
            yield _missing_path_problem(f"{path}.folder", folder, "a folder of reference images")
        elif all(image.reason for image in list_folder(Path(folder), recursive=False).images):
            yield Problem(
                f"{path}.folder",
                f"{folder}: this folder has no images",
                "Expected reference images",
                "Choose another folder.",
            )


def _network_problems(path: str, model: str, *, is_offline: bool) -> Iterator[Problem]:
    if not is_hub_name(model):
        if not Path(model).exists():
            what = "a file or folder of a network, or its name on the Hub"
            yield _missing_path_problem(path, model, what)
    elif is_offline and cached_folder(model, _FILES) is None:
        yield Problem(
            path,
            f"{model}: no network of this name has been downloaded before",
            "Expected one on this computer, as downloads are turned off (model.offline)",
            "Choose a file or folder, or turn off model.offline to allow downloads.",
            fix=Fix("model.offline", value=False),
        )


def _vocabulary_problems(path: str, model: str) -> Iterator[Problem]:
    if is_hub_name(model) or not Path(model).exists():
        return  # downloaded with the network, or reported as missing already
    folder = Path(model) if Path(model).is_dir() else Path(model).parent
    if not (folder / _VOCABULARY).is_file():
        yield Problem(
            path,
            f"{folder}: ImageReward's vocabulary is missing ({_VOCABULARY})",
            "Expected the vocabulary of BERT (bert-base-uncased) next to the network",
            "Put it there.",
        )


def _prompt_problems(config: TrainConfig, section: AlignProp) -> Iterator[Problem]:
    source = section.prompts.source
    is_chosen = {
        "list": bool(section.prompts.text.strip()),
        "file": bool(section.prompts.file),
        "captions": has_images(config),
    }
    if not is_chosen[source]:
        return  # the rules say so
    setting = PLACES[source]
    try:
        split = prompts_of(config)
    except UserError as error:
        what = str(error.what).removeprefix(f"{setting}: ")
        yield Problem(setting, what, error.expected, error.remedy)
        return
    count = len(split.validation)
    is_guarded = section.evaluation.guard != "off" and not all(
        reward.train for reward in section.rewards
    )
    if split.both:
        both = [f'"{prompt}"' for prompt in split.both]
        yield warning(
            "objective.evaluation.prompts",
            f"validation prompts are trained as well: {some_of(both, _SHOWN)}",
            "Expected other prompts: only they can show whether the model generalizes",
            "Write other validation prompts, or more prompts to train.",
        )
    # Too few validation prompts that a person wrote are covered by the rules.
    elif count < _MIN_PROMPTS and is_guarded:
        prompts = f"{count} prompt{'s' if count > 1 else ''}"
        yield warning(
            "objective.evaluation.prompts",
            f"only {prompts} would be used for validation, too few for the guard to notice a"
            " falling reward",
            f"Expected at least {_MIN_PROMPTS}; six are better",
            "Add validation prompts, or more prompts to train.",
        )
    is_complete = not uses_images(config)
    yield from missing_token_problems(
        config, split.trained, are_prompts=True, is_complete=is_complete
    )


def _missing_path_problem(path: str, setting: str, what: str) -> Problem:
    return Problem(
        path, f"{setting}: no such file or folder", f"Expected {what}", "Choose another one."
    )
