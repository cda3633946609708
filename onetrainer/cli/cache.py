"""The command `onetrainer cache`, which reports on the cache of encoded images and prunes it."""

import argparse
import math
from dataclasses import asdict
from pathlib import Path

from onetrainer.cache.run_entries import cache_folder
from onetrainer.cache.store import (
    CacheReport,
    PruneReport,
    cache_report,
    empty_prune,
    empty_report,
    has_contents,
    has_image_index,
    prune,
)
from onetrainer.cli.configs import startable
from onetrainer.cli.jobs import run_job
from onetrainer.cli.screen import print_result
from onetrainer.errors import EXIT_DONE, UserError
from onetrainer.jobs.options import validate_request
from onetrainer.jobs.plan_request import CacheRequest
from onetrainer.messages.cache import format_cache_report, format_prune_report
from onetrainer.presets import presets
from onetrainer.run.run_folder import RunFolder

_GB = 10**9
_DAY_S = 24 * 3600


def cache(options: argparse.Namespace) -> int:
    """Report on a cache folder, prune it, or encode a config's images into it."""
    if options.encode:
        return _encode(options)
    if not options.prune:
        for name, value in (("--limit", options.limit), ("--older-than", options.older_than)):
            if value is not None:
                raise UserError(f"{name} requires --prune", "", "Add --prune, or leave it out")
    folder, limit = _folder_of(options)
    # A folder that is named directly has to be a cache; that of a config may not exist yet.
    if not has_contents(folder) and (not _names_cache(options) or has_image_index(folder)):
        lines = [f"{folder}: nothing is cached yet. Use --encode or start a run to fill it."]
        return _print(
            options, empty_prune(folder) if options.prune else empty_report(folder), lines
        )
    if not options.prune:
        report = cache_report(folder)
        return _print(options, report, format_cache_report(report))
    pruned = prune(
        folder,
        limit_bytes=limit,
        unused_s=_amount("--older-than", options.older_than, "days", _DAY_S),
        removes_older=True,
    )
    return _print(options, pruned, format_prune_report(pruned, str(folder), limit))


def _print(options: argparse.Namespace, report: CacheReport | PruneReport, lines: list[str]) -> int:
    return print_result({**asdict(report), "bytes": report.bytes}, lines, is_json=options.json)


def _encode(options: argparse.Namespace) -> int:
    if options.config is None or _names_cache(options):
        raise UserError(
            "--encode needs a config, which names the images and the model",
            "",
            "Give a config file, a preset or a run's folder",
        )
    document = presets.load(options.config, options.set, may_be_run=True)
    config = presets.with_absolute_paths(startable(document, source=options.config))
    folder = cache_folder(config).absolute()
    request = validate_request(CacheRequest, {"config": config, "folder": str(folder)})
    code = run_job("cache", request, is_json=options.json)
    return _print(options, cache_report(folder), []) if options.json and code == EXIT_DONE else code


def _folder_of(options: argparse.Namespace) -> tuple[Path, int | None]:
    """Return the cache folder and the limit in bytes, of the option or the config."""
    limit = _amount("--limit", options.limit, "GB", _GB)
    if _names_cache(options):
        return Path(options.config), limit
    if options.config is None:
        document = presets.with_overrides({}, options.set)
    else:
        expected = "a cache folder, a config file or a preset"
        document = presets.load(options.config, options.set, may_be_run=True, wanted=expected)
    config = presets.resolve(document, source=options.config or "")
    of_config = round(config.data.cache_limit * _GB) or None
    return cache_folder(config), of_config if limit is None else limit


def _names_cache(options: argparse.Namespace) -> bool:
    """Return whether the options name a cache folder rather than that of a run, or a config."""
    path = Path(options.config or "")
    return options.config is not None and path.is_dir() and not RunFolder(path).config.is_file()


def _amount(option: str, text: str | None, unit: str, factor: int) -> int | None:
    """Parse a number of an option, None if it is not given. Raises UserError."""
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise UserError(
            f'{option} "{text}": this is not a number of {unit}', "", f"Give {unit}, such as 20"
        )
    return round(number * factor)
