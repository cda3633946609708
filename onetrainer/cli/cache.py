"""The command `onetrainer cache`, which reports on the cache of encoded images and prunes it."""

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
    """Report on a cache folder, prune it, or encode a config's images into it."""
    if options.encode:
        return _encode(options)
    if not options.prune:
        for name, value in (("--limit", options.limit), ("--older-than", options.older_than)):
            if value is not None:
                raise UserError(f"{name} requires --prune", "", "Add --prune, or leave it out")
    folder, limit = _folder_of(options)
    from onetrainer.cache.store import has_contents, has_image_index

    # A folder that is named directly has to be a cache; that of a config may not exist yet.
    is_named = options.config is not None and _is_cache(Path(options.config))
    if not has_contents(folder) and (not is_named or has_image_index(folder)):
        return _report_empty(options, folder)
    return _prune(options, folder, limit) if options.prune else _report(options, folder)


def _report_empty(options: argparse.Namespace, folder: Path) -> int:
    """Report that nothing has been cached yet."""
    from onetrainer.cache.store import empty_prune, empty_report

    if not options.json:
        _print(f"{folder}: nothing is cached yet. Use --encode or start a run to fill it.")
    elif options.prune:
        _print(json.dumps(asdict(empty_prune(folder)), indent=2))
    else:
        _print_json(empty_report(folder))
    return EXIT_DONE


def _report(options: argparse.Namespace, folder: Path) -> int:
    from onetrainer.cache.store import cache_report
    from onetrainer.messages.cache import format_cache_report

    content = cache_report(folder)
    if options.json:
        _print_json(content)
    else:
        _print("\n".join(format_cache_report(content)))
    return EXIT_DONE


def _print_json(content: "CacheReport") -> None:
    _print(json.dumps(asdict(content) | {"bytes": content.bytes}, indent=2, ensure_ascii=False))


def _prune(options: argparse.Namespace, folder: Path, limit_gb: float) -> int:
    from onetrainer.cache.store import prune
    from onetrainer.messages.cache import format_prune_report

    if options.limit is not None:
        limit_gb = _number("--limit", options.limit, "GB")
    limit = round(limit_gb * _GB) if limit_gb or options.limit is not None else None
    days = options.older_than
    result = prune(
        folder,
        limit_bytes=limit,
        unused_s=None if days is None else _number("--older-than", days, "days") * _DAY_S,
        removes_older=True,
    )
    if options.json:
        _print(json.dumps(asdict(result), indent=2, ensure_ascii=False))
    else:
        _print("\n".join(format_prune_report(result, str(folder), limit)))
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
            "--encode needs a config, which names the images and the model",
            "",
            "Give a config file, a preset or a run's folder",
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
    # With --json, standard output gets the final report or the error, and nothing else.
    code = run_job(
        "cache", request, out=sys.stderr, failed=lambda problem: _print(problem_json(problem))
    )
    return _report(options, folder) if code == EXIT_DONE else code


def _folder_of(options: argparse.Namespace) -> tuple[Path, float]:
    """Return the cache folder and its config's limit in GB, 0 for none."""
    from onetrainer.cache.run_entries import cache_folder
    from onetrainer.presets import presets

    if options.config is not None and _is_cache(Path(options.config)):
        return Path(options.config), 0.0
    document: Document = {}
    if options.config is not None:
        expected = "a cache folder, a config file or a preset"
        path = presets.locate(options.config, may_be_run=True, wanted=expected)
        document = presets.load_document(path)
    document = presets.with_overrides(document, options.set)
    config = presets.resolve(document, source=options.config or "")
    return cache_folder(config), config.data.cache_limit


def _is_cache(path: Path) -> bool:
    """Return whether the path is a cache folder rather than that of a run."""
    from onetrainer.run.run_folder import RunFolder

    return path.is_dir() and not RunFolder(path).config.is_file()


def _number(option: str, text: str, unit: str) -> float:
    """Parse a number of an option. Raises UserError."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise UserError(
            f'{option} "{text}": this is not a number of {unit}', "", f"Give {unit}, such as 20"
        )
    return number


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
