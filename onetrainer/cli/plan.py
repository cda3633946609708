"""The command `onetrainer plan`, which shows how a run uses its images and memory."""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from onetrainer.cache.run_entries import open_image_index
from onetrainer.checks.preflight import require_startable
from onetrainer.cli.effects import load_looked_at
from onetrainer.cli.jobs import run_job
from onetrainer.cli.screen import Screen, print_lines, print_result
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.pixel_facts import PixelFacts
from onetrainer.errors import EXIT_DONE, UserError
from onetrainer.jobs.options import validate_request
from onetrainer.jobs.plan_request import PlanRequest, RecordedHeaders, gigabytes
from onetrainer.messages.dataset import as_document, format_preview
from onetrainer.messages.memory import fix_section, forecast_lines
from onetrainer.presets import presets
from onetrainer.preview.contact_sheet import write_sheets
from onetrainer.preview.dataset_preview import known_steps_of, preview_dataset
from onetrainer.rules.rules import check_rules
from onetrainer.run.events import Forecast

NOT_NEEDED = frozenset({"model.path", "data.folder"})
"""Settings that the memory forecast does not need."""


def plan(options: argparse.Namespace) -> int:
    """Show the images at once, then memory and time, estimated in another process.

    Neither the model nor the images need to exist. A run that does not fit is no failure.
    """
    memory = 0.0 if options.memory is None else gigabytes(options.memory)
    document = load_looked_at(options.config, options.set)
    config = presets.with_absolute_paths(presets.resolve(document, source=options.config))
    # Settings that are still to be chosen do not affect the memory.
    problems = [problem for problem in check_rules(config) if problem.path not in NOT_NEEDED]
    require_startable(problems, source=options.config)
    sheets = options.images and options.images.expanduser()
    data, headers, steps = _show_images(config, sheets, is_json=options.json)
    values = {"config": config, "memory": memory, "headers": headers.recorded, "steps": steps}
    request = validate_request(PlanRequest, values)
    forecasts: list[Forecast] = []

    def lines_of(forecast: Forecast) -> list[str]:
        """Return the first forecast at once, then what the next one adds: the fixes."""
        forecasts.append(forecast)
        if options.json:
            return []
        return forecast_lines(forecast) if len(forecasts) == 1 else fix_section(forecast)

    code = run_job("plan", request, is_json=options.json, lines_of=lines_of)
    if code == EXIT_DONE and options.json and forecasts:
        whole = asdict(forecasts[-1])
        print_result({**whole, "data": {**data, **whole["data"]}}, [], is_json=True)
    return code


def _show_images(
    config: TrainConfig, sheets: Path | None, *, is_json: bool
) -> tuple[dict[str, Any], RecordedHeaders, Mapping[str, int]]:
    """Show the dataset preview, and write contact sheets if a folder is given.

    Returns the preview as a document, the headers that were read, and the steps of lengths in other
    units. Problems of the images are reported; only with `sheets` they are raised.
    """
    headers, screen = RecordedHeaders({}), Screen(sys.stderr)

    def examining(done: int, total: int) -> None:
        screen.update_status(f"examining images {done:,}/{total:,}")

    try:
        with open_image_index(config) as memory:
            headers.memory, facts = memory, PixelFacts(memory)
            preview = preview_dataset(config, facts, headers=headers, examining=examining)
        screen.clear()
    except UserError as error:
        screen.clear()
        if sheets is not None:
            raise
        sys.stderr.write(f"images: {error}\n")
        return {"problem": str(error)}, headers, known_steps_of(config, None)
    if preview is None:
        if sheets is not None:
            raise UserError(
                "there are no images to show",
                "Expected a config with training images",
                "Choose a folder (data.folder), or leave --images out",
            )
        return {}, headers, known_steps_of(config, None)
    document = as_document(preview)
    output = [] if is_json else format_preview(preview)
    if sheets is not None:
        document["sheets"] = [str(path) for path in write_sheets(preview, sheets)]
        output += [f"Contact sheets, one per bucket: {sheets}"]
    print_lines([*output, ""] if output else [])
    sys.stdout.flush()
    return document, headers, preview.known_steps
