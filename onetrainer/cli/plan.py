"""`onetrainer plan`: what a run will do with its pictures, and how much memory it would take."""

import argparse
import sys
from pathlib import Path
from typing import Any

from onetrainer.cache.run_entries import open_image_index
from onetrainer.checks.preflight import require_startable
from onetrainer.cli.job_progress import run_job
from onetrainer.config.train import TrainConfig
from onetrainer.errors import EXIT_DONE, UserError, problem_json
from onetrainer.jobs.options import validate_request
from onetrainer.jobs.plan_request import PlanRequest, RecordedHeaders, gigabytes
from onetrainer.messages.dataset import as_document, lines
from onetrainer.messages.memory import Report
from onetrainer.presets import presets
from onetrainer.preview.contact_sheet import write_sheets
from onetrainer.preview.dataset_preview import preview_dataset
from onetrainer.rules.rules import check_rules

NOT_NEEDED = frozenset({"model.path", "data.folder"})
"""Settings without which memory can be counted all the same."""


def plan(options: argparse.Namespace) -> int:
    """Tells of the pictures at once, then of memory and time, counted in a process of its own.

    Neither the model nor the pictures need to be there; that it does not fit is an answer, too.
    """
    memory = 0.0 if options.memory is None else gigabytes(options.memory)
    path = presets.locate(options.config, may_be_run=True)
    document = presets.with_overrides(presets.load_document(path), options.set)
    config = presets.with_absolute_paths(presets.resolve(document, source=options.config))
    # What is yet to be chosen does not matter to the memory.
    wrong = [one for one in check_rules(config) if one.path not in NOT_NEEDED]
    require_startable(wrong, source=options.config)
    # Whoever reads JSON gets nothing else.
    out = sys.stderr if options.json else sys.stdout
    sheets = options.images and options.images.expanduser()
    data, headers = _images(config, sheets, is_json=options.json)
    wanted = {"config": config, "memory": memory, "headers": headers.recorded}
    request = validate_request(PlanRequest, wanted)
    report = Report(is_json=options.json, data=data)

    def failed(problem: str) -> None:
        if options.json:
            sys.stdout.write(f"{problem_json(problem)}\n")

    code = run_job("plan", request, out=out, lines_of=report.lines, failed=failed)
    if code == EXIT_DONE:
        for line in report.last_lines():
            sys.stdout.write(f"{line}\n")
    return code


def _images(
    config: TrainConfig, sheets: Path | None, *, is_json: bool
) -> tuple[dict[str, Any], RecordedHeaders]:
    """Tells of the pictures, and draws sheets of them if a folder is named.

    Returns a document, and the headers that were read. What is wrong with the pictures is told;
    only where they are to be drawn is it an end.
    """
    headers = RecordedHeaders({})
    try:
        with open_image_index(config) as memory:
            headers.memory = memory
            found = preview_dataset(config, headers=headers, image_index=memory)
    except UserError as error:
        if sheets is not None:
            raise
        sys.stderr.write(f"pictures: {error}\n")
        return {"problem": str(error)}, headers
    if found is None:
        if sheets is not None:
            raise UserError(
                "there are no pictures to draw",
                "Expected a config with pictures to learn",
                "Choose some (data.folder), or leave --pictures out",
            )
        return {}, headers
    document = as_document(found)
    told = [] if is_json else lines(found)
    if sheets is not None:
        drawn = write_sheets(found, sheets)
        document["sheets"] = [str(path) for path in drawn]
        told += [f"Drawn, a sheet for each size: {sheets}"]
    for line in [*told, ""] if told else []:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    return document, headers
