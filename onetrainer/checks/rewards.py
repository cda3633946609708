"""What can be known to be wrong with reward training before a run starts: files, prompts, consent.

All of it is looked at without torch; what a network's file holds is looked into when it is loaded.
"""

from pathlib import Path

from onetrainer.checks.dataset import missing_token_problems
from onetrainer.concepts.folder_listing import list_images
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.rewards.reward import NETWORKS, Reward
from onetrainer.config.train import TrainConfig, uses_images
from onetrainer.errors import Fix, Problem, UserError
from onetrainer.model_files.hub import cached_folder, is_hub_name
from onetrainer.rewards.prompts import PLACES, PromptSplit, prompts_of
from onetrainer.rules.data import has_images
from onetrainer.trust import trusted_files

_SHOWN = 3  # prompts named in a message
_ENOUGH_PROMPTS = 4  # of fewer, the band of a mean is too wide for any fall to be sure
_FILES = (
    "config.json",
    "HPS_v2.1_compressed.pt",
    "HPS_v2.1_compressed.safetensors",
    "HPS_v2_compressed.pt",
    "ImageReward.pt",
    "ImageReward.safetensors",
)
"""What networks have one of, as their authors publish them."""
_VOCABULARY = "vocab.txt"


def check_rewards(config: TrainConfig) -> list[Problem]:
    """Problems of rewards' files and of prompts; none with other objectives."""
    section = config.objective
    if not isinstance(section, AlignProp):
        return []
    found = []
    for place, reward in enumerate(section.rewards):
        path = f"objective.rewards.{place}"
        found += _file_problems(path, reward, is_offline=config.model.offline)
    return found + _prompt_problems(config, section)


def _file_problems(path: str, reward: Reward, *, is_offline: bool) -> list[Problem]:
    found = []
    uses_network = reward.reward in (*NETWORKS, "reference")
    if uses_network and reward.model:
        found += _network_problems(f"{path}.model", reward.model, is_offline=is_offline)
    if reward.reward == "image_reward" and reward.model:
        found += _vocabulary_problems(f"{path}.model", reward.model)
    if reward.reward == "aesthetic" and reward.head and not Path(reward.head).is_file():
        found.append(_not_there(f"{path}.head", reward.head, "the file with the score's weights"))
    if reward.reward == "reference" and reward.folder:
        found += _folder_problems(f"{path}.folder", reward.folder)
    if reward.reward == "function" and ":" in reward.function:
        problem = trusted_files.problem(reward.function, f"{path}.function")
        found += [problem] if problem is not None else []
    return found


def _network_problems(path: str, model: str, *, is_offline: bool) -> list[Problem]:
    if not is_hub_name(model):
        if Path(model).exists():
            return []
        return [_not_there(path, model, "the folder or file of a network, or its name on the hub")]
    if cached_folder(model, _FILES) is not None or not is_offline:
        return []
    return [
        Problem(
            path,
            f"{model}: no network of this name has been downloaded before",
            "Expected one on this disk, as the network is not to be used (model.offline)",
            "Choose a folder or file, or turn off model.offline to allow the download.",
            fix=Fix("model.offline", value=False),
        )
    ]


def _vocabulary_problems(path: str, model: str) -> list[Problem]:
    place = Path(model)
    if is_hub_name(model) or not place.exists():
        return []  # it is fetched with the network; that is missing has been said
    folder = place if place.is_dir() else place.parent
    if (folder / _VOCABULARY).is_file():
        return []
    return [
        Problem(
            path,
            f"{folder}: the words that ImageReward reads are missing ({_VOCABULARY})",
            "Expected the vocabulary of BERT (bert-base-uncased) beside the network",
            "Put it there.",
        )
    ]


def _folder_problems(path: str, folder: str) -> list[Problem]:
    if not Path(folder).is_dir():
        return [_not_there(path, folder, "a folder of reference pictures")]
    if any(not found.reason for found in list_images(Path(folder), recursive=False)):
        return []
    return [
        Problem(
            path,
            f"{folder}: there are no pictures in this folder",
            "Expected the pictures to be like",
            "Choose another folder.",
        )
    ]


def _prompt_problems(config: TrainConfig, section: AlignProp) -> list[Problem]:
    source = section.prompts.source
    is_chosen = {
        "list": bool(section.prompts.text.strip()),
        "file": bool(section.prompts.file),
        "captions": has_images(config),
    }
    if not is_chosen[source]:
        return []  # the rules say so
    place = PLACES[source]
    try:
        split = prompts_of(config)
    except UserError as error:
        what = str(error.what).removeprefix(f"{place}: ")
        return [Problem(place, what, error.expected, error.remedy)]
    few = _few_problems(section, split)
    return _watched_problems(split) + few + _word_problems(config, split)


def _few_problems(section: AlignProp, split: PromptSplit) -> list[Problem]:
    """That the guard can hardly hear of watched rewards; what a person wrote is told by the rules
    where there are next to no pictures.
    """
    watched, count = section.evaluation, len(split.validation)
    is_heard = count >= _ENOUGH_PROMPTS or all(reward.train for reward in section.rewards)
    if is_heard or watched.guard == "off" or split.both:
        return []
    prompts = f"{count} prompt{'s' if count > 1 else ''}"
    return [
        Problem(
            "objective.evaluation.prompts",
            f"only {prompts} would be held out, which {'say' if count > 1 else 'says'} little about"
            " all others, so that the guard can hardly tell whether a watched reward falls",
            f"Expected {_ENOUGH_PROMPTS} at least; six are better",
            "Write some to watch, or more prompts to train.",
            "warning",
        )
    ]


def _word_problems(config: TrainConfig, split: PromptSplit) -> list[Problem]:
    is_complete = not uses_images(config)
    return missing_token_problems(config, split.trained, are_prompts=True, is_complete=is_complete)


def _watched_problems(split: PromptSplit) -> list[Problem]:
    if not split.both:
        return []
    named = ", ".join(f'"{prompt}"' for prompt in split.both[:_SHOWN])
    more = len(split.both) - _SHOWN
    named += f" and {more} more" if more > 0 else ""
    return [
        Problem(
            "objective.evaluation.prompts",
            f"what is watched is trained as well: {named}",
            "Expected held-out prompts: whether others get better, too, only they can tell",
            "Write other prompts to watch, or more prompts to train.",
            "warning",
        )
    ]


def _not_there(path: str, place: str, what: str) -> Problem:
    return Problem(
        path, f"{place}: there is no such file or folder", f"Expected {what}", "Choose another one."
    )
