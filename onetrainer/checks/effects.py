"""What a run does outside the folder that it is started from, listed before its first start.

Settings may come from anybody. Code is asked for by itself (`trust`); here is the rest: folders
elsewhere that are written to, and models that are downloaded. What a person has confirmed, or has
written in the window, is remembered by the line.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from onetrainer.cache.run_entries import cache_folder
from onetrainer.checks.user_code import user_functions
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.train import TrainConfig
from onetrainer.model_files.hub import cached_folder, is_hub_name
from onetrainer.presets.find import BUILT_IN, own_folder
from onetrainer.run.known_folders import known_run_folders
from onetrainer.run.user_folder import user_folder
from onetrainer.trust import trusted_files


def is_own(file: Path) -> bool:
    """Return whether a config is a preset of this program, or one that this user has saved."""
    path = file.absolute().resolve()
    return any(path.is_relative_to(folder.resolve()) for folder in (BUILT_IN, own_folder()))


def new_effects(
    config: TrainConfig, folder: Path, *, is_new: bool = True, with_code: bool = True
) -> list[str]:
    """Return what a run does elsewhere that was not confirmed before, a line each.

    Args:
        config: Of the run.
        folder: That of the config's file, or that of the run's folder.
        is_new: Whether a run's folder will be made, in `output.folder`.
        with_code: Whether code is listed that is asked for by itself.
    """
    lines = [*_written_folders(config, folder, is_new=is_new)]
    models = _base_models(config)
    if isinstance(config.objective, AlignProp):
        for number, reward in enumerate(config.objective.rewards):
            models[f"objective.rewards.{number}.model"] = reward.model
    lines += _downloads(config, models)
    if with_code:
        lines += _code(config)
    return _unconfirmed(lines)


def new_base_downloads(config: TrainConfig) -> list[str]:
    """Return the downloads of a base model that were not confirmed before, a line each."""
    return _unconfirmed(_downloads(config, _base_models(config)))


def confirm_effects(lines: Iterable[str]) -> None:
    """Remember that a person knows of these. Raises UserError if that cannot be stored."""
    if known := [*lines]:
        trusted_files.confirm(known)


def _unconfirmed(lines: Iterable[str]) -> list[str]:
    return [line for line in dict.fromkeys(lines) if not trusted_files.is_confirmed(line)]


def _written_folders(config: TrainConfig, own: Path, *, is_new: bool) -> Iterator[str]:
    familiar = [own, Path("runs"), user_folder(), *known_run_folders()]
    familiar = [folder.absolute().resolve() for folder in familiar]
    folders = {"data.cache_folder": cache_folder(config)}
    if is_new:
        folders = {"output.folder": Path(config.output.folder).expanduser(), **folders}
    for setting, folder in folders.items():
        path = folder.absolute().resolve()
        if not any(path.is_relative_to(one) for one in familiar):
            familiar.append(path)  # the cache may be in the runs folder
            yield f"writes to the folder {path} ({setting})"


def _base_models(config: TrainConfig) -> dict[str, str]:
    return {"model.path": config.model.path, "model.vae": config.model.vae}


def _downloads(config: TrainConfig, models: Mapping[str, str]) -> Iterator[str]:
    for setting, name in models.items():
        if not config.model.offline and is_hub_name(name) and cached_folder(name) is None:
            yield f"downloads {name} from the Hugging Face Hub ({setting})"


def _code(config: TrainConfig) -> Iterator[str]:
    for setting, spec in user_functions(config).items():
        if trusted_files.status(spec) != "trusted":
            yield f"runs Python code: {spec} ({setting}), which is asked for by itself"
