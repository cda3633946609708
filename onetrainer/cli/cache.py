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
from onetrainer.cli.effects import ask_for_effects, load_looked_at
from onetrainer.cli.jobs import run_job
from onetrainer.cli.screen import print_result
from onetrainer.errors import EXIT_DONE, UserError
from onetrainer.jobs.options import validate_request
from onetrainer.jobs.plan_request import CacheRequest
from onetrainer.json_file import Document
from onetrainer.messages.cache import format_cache_report, format_prune_report
from onetrainer.presets import presets
from onetrainer.presets.find import expanded
from onetrainer.run.run_folder import RunFolder

_GB = 10**9
_DAY_S = 24 * 3600


def cache(options: argparse.Namespace) -> int:
    """Report on a cache folder, prune it, or encode a config's images into it."""
    folder = Path(options.config or "")
    # A cache folder, rather than that of a run, or a config.
    is_cache = bool(options.config) and folder.is_dir() and not RunFolder(folder).config.is_file()
    if options.encode:
        if is_cache or options.config is None:
            raise UserError(
                "--encode needs a config, which names the images and the model",
                "",
                "Give a config file, a preset or a run's folder",
            )
        return _encode(options)
    if not options.prune:
        for name, value in (("--limit", options.limit), ("--older-than", options.older_than)):
            if value is not None:
                raise UserError(f"{name} requires --prune", "", f"Add --prune, or remove {name}")
    limit = _amount("--limit", options.limit, "GB", _GB)
    if not is_cache:
        config = presets.resolve(_document(options), source=options.config or "")
        folder = cache_folder(config)
        limit = round(config.data.cache_limit * _GB) or None if limit is None else limit
    unused = _amount("--older-than", options.older_than, "days", _DAY_S)
    report: CacheReport | PruneReport
    # A folder that is named directly has to be a cache; that of a config may not exist yet.
    if not has_contents(folder) and (not is_cache or has_image_index(folder)):
        report = empty_prune(folder) if options.prune else empty_report(folder)
        lines = [f"{folder}: nothing is cached yet. Use --encode or start a run to fill it."]
    elif options.prune:
        report = prune(folder, limit_bytes=limit, unused_s=unused, removes_older=True)
        lines = format_prune_report(report, str(folder), limit)
    else:
        report = cache_report(folder)
        lines = format_cache_report(report)
    return print_result({**asdict(report), "bytes": report.bytes}, lines, is_json=options.json)


def _encode(options: argparse.Namespace) -> int:
    document = presets.load(options.config, options.set, may_be_run=True)
    if (run := RunFolder(Path(expanded(options.config)))).is_run():
        asked = presets.with_absolute_paths(presets.resolve(document, source=options.config))
        ask_for_effects(asked, run, is_meant=options.yes)
    config = presets.with_absolute_paths(startable(document, source=options.config))
    folder = cache_folder(config).absolute()
    request = validate_request(CacheRequest, {"config": config, "folder": str(folder)})
    code = run_job("cache", request, is_json=options.json)
    if options.json and code == EXIT_DONE:
        report = cache_report(folder)
        print_result({**asdict(report), "bytes": report.bytes}, [], is_json=True)
    return code


def _document(options: argparse.Namespace) -> Document:
    if options.config is None:
        return presets.with_overrides({}, options.set)
    expected = "a cache folder, a config file or a preset"
    return load_looked_at(options.config, options.set, wanted=expected)


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
