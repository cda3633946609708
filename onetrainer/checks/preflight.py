"""Check files, folders, disk space and packages before a run starts; without torch."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path

from onetrainer.captions.sample_prompts import prompts_of_file
from onetrainer.checks.dataset import check_images, unreadable_problem
from onetrainer.checks.packages import package_problems
from onetrainer.checks.rewards import check_rewards
from onetrainer.checks.user_code import check_user_code
from onetrainer.config.fields import setting_at
from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.methods.low_rank import LowRank
from onetrainer.config.run.sampling import PAIR, Prompt
from onetrainer.config.train import TrainConfig
from onetrainer.errors import CHOOSE, Fix, Problem, ProblemsError, UserError, warning
from onetrainer.families.registry import FAMILY_LABELS, family_spec
from onetrainer.json_file import Document
from onetrainer.model_files.adapters import adapter_at, resolve_start_rank
from onetrainer.model_files.choices import (
    prediction_change,
    require_family,
    require_predictable,
    require_published_size,
    require_vae,
    resolve_prediction,
    resolve_zero_snr,
)
from onetrainer.model_files.hub import cached_folder, is_hub_name
from onetrainer.model_files.inspection import inspect_model
from onetrainer.model_files.kinds import ModelFile
from onetrainer.presets import presets
from onetrainer.presets.lines import with_lines
from onetrainer.presets.presets import value_at
from onetrainer.rules.objective import pure_noise_problems
from onetrainer.rules.rules import check_rules

ENOUGH_DISK = 1_000_000_000
LEAST_DISK = 64_000_000
_PREDICTION, _ZERO_SNR = "model.prediction", "model.zero_terminal_snr"


def document_problems(document: Document, *, source: str) -> tuple[TrainConfig, list[Problem]]:
    """Return the config of a document with all of its problems.

    Invalid settings have their defaults in the config, so that the others can be checked: files,
    folders, and combinations of settings.
    """
    config, problems = _document_problems(document, source=source)
    return config, with_lines(problems, document, source=source)


def _document_problems(document: Document, *, source: str) -> tuple[TrainConfig, list[Problem]]:
    try:
        config = presets.with_absolute_paths(presets.resolve(document, source=source))
        return config, all_problems(config)
    except ProblemsError as error:
        wrong = error.problems
    sound = presets.without_settings(document, [problem.path for problem in wrong])
    try:
        config = presets.with_absolute_paths(presets.resolve(sound, source=source))
    except ProblemsError:
        return TrainConfig(), wrong
    named = {problem.path for problem in wrong}
    other = _with_other_values(config, named)
    return config, [
        *wrong,
        *(one for one in all_problems(config, other) if not _is_part(one.path, named)),
    ]


def _with_other_values(config: TrainConfig, paths: Collection[str]) -> TrainConfig | None:
    """Return the config with values at the paths that are far from the defaults; None if invalid.

    A problem that depends on a rejected value is not the same with both.
    """
    document = config.model_dump(mode="json")
    for path in paths:
        setting = setting_at(path)
        at = value_at(document, path) if setting is not None else None
        if setting is None or at is None:
            continue
        if isinstance(at, bool):
            document = presets.with_value(document, path, not at)
        elif setting.kind in ("integer", "number", "amount"):
            end = next((e for e in (setting.highest, setting.lowest) if e not in (None, at)), at)
            document = presets.with_value(document, path, end)
        elif setting.kind == "choice":
            other = next((choice for choice in setting.choices if choice != at), at)
            document = presets.with_value(document, path, other)
    try:
        return presets.resolve(document, source="")
    except ProblemsError:
        return None


def _is_part(path: str, rejected: Collection[str]) -> bool:
    return any(f"{each}.".startswith(f"{path}.") for each in rejected)


def all_problems(config: TrainConfig, other: TrainConfig | None = None) -> list[Problem]:
    """Return all problems of a config with valid values: rules, then files and folders.

    other: Those of its rules are left out that this config does not have.
    """
    broken = check_rules(config)
    if other is not None:
        same = check_rules(other)
        broken = [one for one in broken if one in same]
    named = {problem.path for problem in broken if problem.severity == "error"}
    # A missing path has been reported already.
    return [*broken, *(one for one in check_environment(config) if one.path not in named)]


def check_environment(config: TrainConfig) -> list[Problem]:
    """Return the problems of files, folders and packages that the config needs."""
    checks: dict[str, Callable[[TrainConfig], list[Problem]]] = {
        "model.path": _check_model,
        "model.vae": _check_vae,
        "data.folder": check_images,
        "objective.rewards": check_rewards,
        "sampling.file": _check_prompt_file,
        "sampling.prompts": _check_prompt_images,
        "output.folder": lambda config: _check_writable("output.folder", config.output.folder),
        "data.cache_folder": lambda config: _check_writable(
            "data.cache_folder", config.data.cache_folder
        ),
    }
    problems = []
    for path, check in checks.items():
        try:
            problems += check(config)
        except UserError as error:
            problems.append(_problem(path, error))
        except OSError as error:  # a name too long, a folder that may not be looked into
            problems.append(unreadable_problem(path, error))
    problems += _check_start_files(config)
    return problems + check_user_code(config) + package_problems(config)


def require_startable(problems: list[Problem], *, source: str = "") -> list[Problem]:
    """Return the warnings among problems. Raises ProblemsError if there are errors."""
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        raise ProblemsError(errors, source)
    return problems


def _check_prompt_file(config: TrainConfig) -> list[Problem]:
    prompts = [each for each in enumerate(prompts_of_file(config), start=1) if each[1].use]
    if config.sampling.file and not prompts:
        return [Problem("sampling.file", "there is no prompt in it", "Expected at least one")]
    return [
        replace(problem, path="sampling.file", what=f"prompt {number}: {problem.what}")
        for number, prompt in prompts
        for problem in _problems_of_listed(prompt, config)
    ]


def _problems_of_listed(prompt: Prompt, config: TrainConfig) -> Iterator[Problem]:
    """Yield the problems of the image and the mask of a prompt in the prompt file."""
    if family_spec(config.model.family).sees_masked_image:
        if missing := prompt.missing_of_pair:
            yield Problem("", f"the {missing} is missing", PAIR, "Add it to the file.")
        yield from _missing_images("", prompt)
    elif prompt.image or prompt.mask:
        yield warning(
            "",
            "its image and mask are not used",
            "Expected them only with a model that paints in a masked image",
            "Remove them, or choose such a model family.",
        )


def _check_prompt_images(config: TrainConfig) -> list[Problem]:
    if not family_spec(config.model.family).sees_masked_image:
        return []
    return [
        problem
        for index, prompt in enumerate(config.sampling.prompts)
        for problem in _missing_images(f"sampling.prompts.{index}.", prompt)
        if prompt.use
    ]


def _missing_images(prefix: str, prompt: Prompt) -> Iterator[Problem]:
    for name, path in (("image", prompt.image), ("mask", prompt.mask)):
        if path and not Path(path).is_file():
            yield Problem(f"{prefix}{name}", f"{path}: there is no such file", "", CHOOSE)


def _check_model(config: TrainConfig) -> list[Problem]:
    if not config.model.path:
        return []
    path = _local_place(config.model.path, is_offline=config.model.offline)
    if path is None:
        return []
    model = inspect_model(path)
    try:
        require_family(model, config.model.family, has_custom_vae=bool(config.model.vae))
        require_published_size(model)
    except UserError as error:
        if model.kind in FAMILY_LABELS and model.kind != config.model.family:
            return [_problem("model.family", error, Fix("model.family", model.kind))]
        return [_problem("model.path", error)]
    return _check_choices(config, model)


def _check_choices(config: TrainConfig, model: ModelFile) -> list[Problem]:
    """Return the problems of settings about a model of the right family."""
    section, setting = config.model, _PREDICTION
    try:
        prediction = resolve_prediction(model, section.prediction)
        setting = _ZERO_SNR
        zero_snr = resolve_zero_snr(model, section.zero_terminal_snr)
    except UserError as error:
        choice = section.prediction if setting == _PREDICTION else section.zero_terminal_snr
        if choice != "auto":
            return [_problem(setting, error, Fix(setting, "auto"))]
        either = tuple(Fix(setting, prediction) for prediction in ("v_prediction", "epsilon"))
        return [replace(_problem(setting, error), choices=either)]
    try:
        require_predictable(prediction, zero_terminal_snr=zero_snr, model=model)
    except UserError as error:
        if not model.zero_terminal_snr:
            return [_problem(_ZERO_SNR, error, Fix(_ZERO_SNR, "auto"))]
        if model.zero_snr_is_sure:
            return [_problem(_PREDICTION, error, Fix(_PREDICTION, "v_prediction"))]
        return [_problem(_ZERO_SNR, error)]  # a person has to decide which of the two is wrong
    problems: list[Problem] = []
    is_known_from_settings = "auto" not in (section.prediction, section.zero_terminal_snr)
    if prediction == "v_prediction" and zero_snr and not is_known_from_settings:
        problems += pure_noise_problems(config)
    if change := prediction_change(model, section.prediction):
        remedy = 'Choose "auto", unless it shall learn this prediction or its file is wrong.'
        problems.append(warning(_PREDICTION, *change, remedy, to="auto"))
    if section.zero_terminal_snr == "off" and model.zero_terminal_snr:
        problems.append(
            warning(
                _ZERO_SNR,
                f"{model.path.name}: the file asks for zero terminal SNR",
                '"off" is set here and takes precedence',
                'Choose "auto" if its images turn out as noise.',
                to="auto",
            )
        )
    return problems


def _check_vae(config: TrainConfig) -> list[Problem]:
    if config.model.vae:
        path = _local_place(config.model.vae, is_offline=config.model.offline)
        if path is not None:
            require_vae(inspect_model(path), config.model.family)
    return []


def _local_place(text: str, *, is_offline: bool) -> Path | None:
    """Return where a model is on this computer; None if it will be downloaded.

    Raises UserError if it is not here and must not be downloaded.
    """
    if not is_hub_name(text):
        return Path(text)
    folder = cached_folder(text)
    if folder is None and is_offline:
        raise UserError(
            f"{text}: no such file or folder, and no model of this name has been downloaded from"
            " the Hugging Face Hub",
            "Expected a model on this computer, as downloads are turned off",
            "Choose a file or folder, or turn off model.offline to allow downloads",
        )
    return folder


def _problem(setting: str, error: UserError, fix: Fix | None = None) -> Problem:
    return Problem(setting, error.what, error.expected, error.remedy, fix=fix)


def _check_start_files(config: TrainConfig) -> list[Problem]:
    """Return problems of start files by their headers. Loading checks the rest."""
    files = {
        f"embeddings.tokens.{setting}.start_from": token.start_from
        for setting, token in enumerate(config.embeddings.tokens)
    }
    if isinstance(config.method, Adapter):
        files["method.start_from"] = config.method.start_from
    problems = [
        Problem(
            path,
            f"{file}: file not found",
            "Expected a file to continue from",
            "Choose another one, or leave it empty to start from scratch.",
        )
        for path, file in files.items()
        if file and not Path(file).is_file()
    ]
    if problems or not (isinstance(config.method, Adapter) and config.method.start_from):
        return problems
    setting = "method.start_from"
    try:
        adapter_at(Path(config.method.start_from))
        setting = "method.rank"
        if isinstance(config.method, LowRank):
            resolve_start_rank(config.method)
    except UserError as error:
        return [_problem(setting, error)]
    return []


def _check_writable(path: str, value: str) -> list[Problem]:
    if not value:
        return []
    folder = Path(value).absolute()
    existing = next(setting for setting in (folder, *folder.parents) if setting.exists())
    free, what = 0, ""
    if not existing.is_dir():
        what = "is a file"
    elif not os.access(existing, os.W_OK | os.X_OK):
        what = "cannot be written to"
    else:
        free = shutil.disk_usage(existing).free
        if free < LEAST_DISK and not _takes_files(existing):  # such as /proc
            what = "cannot be written to"
    if what:
        which = "this folder" if existing == folder else str(existing)
        if existing == folder and what == "is a file":
            which = "this"
        what = f"{value}: {which} {what}"
        return [Problem(path, what, "Expected a writable folder", "Choose another one.")]
    if free >= ENOUGH_DISK:
        return []
    return [
        Problem(
            path,
            f"{value}: only {free / 1e6:.0f} MB are free on this disk",
            f"At least {LEAST_DISK / 1e6:.0f} MB are needed, better {ENOUGH_DISK / 1e9:.0f} GB",
            "Free some space or choose another disk.",
            "error" if free < LEAST_DISK else "warning",
        )
    ]


def _takes_files(folder: Path) -> bool:
    """Return whether a file can be created in a folder, if only an empty one on a full disk."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
