"""The command `onetrainer cache`: what is kept of encoded pictures, and how to have less of it."""

import argparse
import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from onetrainer.errors import EXIT_DONE, UserError, problem_json
from onetrainer.json_file import Document

if TYPE_CHECKING:
    from onetrainer.cache.store import CacheReport

_GB = 10**9
_DAY_S = 24 * 3600


def cache(options: argparse.Namespace) -> int:
    """Tells what a cache folder holds, makes it smaller, or encodes a config's pictures."""
    if options.encode:
        return _encode(options)
    if not options.prune:
        for name, value in (("--limit", options.limit), ("--older-than", options.older_than)):
            if value is not None:
                raise UserError(f"{name} goes with --prune", "", "Add --prune, or leave it out")
    folder, limit = _folder_of(options)
    if _is_yet_to_come(options, folder):
        return _empty(options, folder)
    return _prune(options, folder, limit) if options.prune else _report(options, folder)


def _empty(options: argparse.Namespace, folder: Path) -> int:
    """Tells of a cache that has not been begun."""
    from onetrainer.cache.store import empty_prune, empty_report

    if not options.json:
        _say(f"{folder}: nothing is cached yet. --encode fills it, and so does a run.")
    elif options.prune:
        _say(json.dumps(asdict(empty_prune(folder)), indent=2))
    else:
        _say_report(empty_report(folder))
    return EXIT_DONE


def _report(options: argparse.Namespace, folder: Path) -> int:
    from onetrainer.cache.store import cache_report
    from onetrainer.messages.cache import lines

    found = cache_report(folder)
    if options.json:
        _say_report(found)
    else:
        _say("\n".join(lines(found)))
    return EXIT_DONE


def _say_report(found: "CacheReport") -> None:
    _say(json.dumps(asdict(found) | {"bytes": found.bytes}, indent=2, ensure_ascii=False))


def _prune(options: argparse.Namespace, folder: Path, limit_gb: float) -> int:
    from onetrainer.cache.store import prune
    from onetrainer.messages.cache import pruned_lines

    if options.limit is not None:
        limit_gb = _number("--limit", options.limit, "GB")
    limit = round(limit_gb * _GB) if limit_gb or options.limit is not None else None
    days = options.older_than
    done = prune(
        folder,
        limit_bytes=limit,
        unused_s=None if days is None else _number("--older-than", days, "days") * _DAY_S,
        removes_older=True,
    )
    if options.json:
        _say(json.dumps(asdict(done), indent=2, ensure_ascii=False))
    else:
        _say("\n".join(pruned_lines(done, str(folder), limit)))
    return EXIT_DONE


def _encode(options: argparse.Namespace) -> int:
    from onetrainer.cache.run_entries import cache_folder
    from onetrainer.checks.preflight import document_problems, require_startable
    from onetrainer.cli.job_progress import run_job
    from onetrainer.jobs.cache_request import CacheRequest
    from onetrainer.jobs.options import validate_request
    from onetrainer.presets import presets

    if options.config is None or _is_cache(Path(options.config)):
        raise UserError(
            "--encode needs a config: it says which pictures, and by which model",
            "",
            "Name a config file, a preset or a run's folder",
        )
    path = presets.locate(options.config, may_be_run=True)
    document = presets.with_overrides(presets.load_document(path), options.set)
    config, problems = document_problems(document, source=options.config)
    for problem in require_startable(problems, source=options.config):
        sys.stderr.write(f"warning: {problem}\n")
    config = presets.with_absolute_paths(config)
    folder = cache_folder(config).absolute()
    request = validate_request(CacheRequest, {"config": config, "folder": str(folder)})
    if not options.json:
        return run_job("cache", request)
    # Whoever reads JSON gets what the cache holds then, or what is wrong, and nothing else.
    code = run_job(
        "cache", request, out=sys.stderr, failed=lambda problem: _say(problem_json(problem))
    )
    return _report(options, folder) if code == EXIT_DONE else code


def _folder_of(options: argparse.Namespace) -> tuple[Path, float]:
    """The cache folder that is meant, and to how many GB its config limits it, 0 for none."""
    from onetrainer.cache.run_entries import cache_folder
    from onetrainer.presets import presets

    if options.config is not None and _is_cache(Path(options.config)):
        return Path(options.config), 0.0
    document: Document = {}
    if options.config is not None:
        wanted = "a cache folder, a config file or a preset"
        path = presets.locate(options.config, may_be_run=True, wanted=wanted)
        document = presets.load_document(path)
    document = presets.with_overrides(document, options.set)
    config = presets.resolve(document, source=options.config or "")
    return cache_folder(config), config.data.cache_limit


def _is_cache(path: Path) -> bool:
    """Whether a folder is meant itself, and not the run that it may belong to."""
    from onetrainer.run.run_folder import RunFolder

    return path.is_dir() and not RunFolder(path).config.is_file()


def _is_yet_to_come(options: argparse.Namespace, folder: Path) -> bool:
    """Whether a config's cache has not been begun; a folder that was named itself has to be one."""
    from onetrainer.cache.store import has_contents, has_image_index

    is_named = options.config is not None and _is_cache(Path(options.config))
    return not has_contents(folder) and (not is_named or has_image_index(folder))


def _number(option: str, text: str, unit: str) -> float:
    """A number as people type it. Raises UserError."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise UserError(
            f'{option} "{text}": this is no number of {unit}', "", f"Give {unit}, such as 20"
        )
    return number


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
