"""The commands of the command line, built on the same functions as the window.

Each imports what it needs itself: `onetrainer presets` shall not wait for what `plan` loads.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from onetrainer.errors import EXIT_DONE, EXIT_USER, Problem, UserError
from onetrainer.json_file import json_text

if TYPE_CHECKING:
    from onetrainer.config.base.section import Section
    from onetrainer.jobs.job import JobName


def run_command(options: argparse.Namespace) -> int:
    """Run the command of the parsed options and return its exit code."""
    from onetrainer.config.renamed import rename_notes

    for note in rename_notes(vars(options).get("set") or ()):
        sys.stderr.write(f"{note}\n")
    match options.command:
        case "plan":
            from onetrainer.cli.plan import plan

            return plan(options)
        case "cache":
            from onetrainer.cli.cache import cache

            return cache(options)
        case "check-data":
            from onetrainer.cli.check_data import check_data

            return check_data(options)
    return _COMMANDS[options.command](options)


def _train(options: argparse.Namespace) -> int:
    """Resolve and check a config, then train it to the end in a worker."""
    from onetrainer.checks.preflight import document_problems, require_startable
    from onetrainer.cli.progress import follow
    from onetrainer.presets import presets
    from onetrainer.run import client
    from onetrainer.run.run_folder import create_run, fill_run

    document = presets.with_overrides(
        presets.load_document(presets.locate(options.config)), options.set
    )
    if options.run_folder is not None:
        # Check the folder that is really used, which also is the parent of the cache.
        parent = str(options.run_folder.absolute().parent)
        document = presets.with_value(document, "output.folder", parent)
    config, problems = document_problems(document, source=options.config)
    for problem in require_startable(problems, source=options.config):
        sys.stderr.write(f"warning: {problem}\n")
    values = config.model_dump(mode="json")
    if options.run_folder is not None:
        folder = fill_run(options.run_folder, config=values)
    else:
        folder = create_run(Path(config.output.folder), name=config.output.name, config=values)
    _print(f"Run folder: {folder.path}")
    return follow(lambda: client.start(folder))


def _resume(options: argparse.Namespace) -> int:
    """Resume a run from its newest checkpoint, or follow it if it is running."""
    from onetrainer.cli.progress import follow
    from onetrainer.run import client
    from onetrainer.run.run_folder import open_run

    folder = open_run(options.run_folder)
    if folder.is_busy():
        _print(f"{folder.name} is already being trained; following it.")
        return follow(lambda: client.attach(folder))
    return follow(lambda: client.start(folder))


def _check(options: argparse.Namespace) -> int:
    """List every problem of a config."""
    from onetrainer.checks.preflight import document_problems
    from onetrainer.presets import presets

    try:
        path = presets.locate(options.config, may_be_run=True)
        document = presets.with_overrides(presets.load_document(path), options.set)
        problems = document_problems(document, source=options.config)[1]
    except UserError as error:
        problems = [Problem("", error.what, error.expected, error.remedy)]
    has_errors = any(problem.severity == "error" for problem in problems)
    if options.json:
        _print_json([asdict(problem) for problem in problems])
    else:
        for problem in problems:
            _print(f"{problem.severity}: {problem}")
        if not has_errors:
            _print(f"{options.config}: ready to train")
    return EXIT_USER if has_errors else EXIT_DONE


def _demo(options: argparse.Namespace) -> int:
    from onetrainer.demo.write import write_demo

    config = write_demo(options.folder)
    _print(f"The demo is in {options.folder}. To train it: onetrainer train {config}")
    return EXIT_DONE


def _allow(options: argparse.Namespace) -> int:
    """Trust a reward function, after showing its source and asking."""
    from onetrainer.trust import trusted_files
    from onetrainer.trust.function_file import absolute_spec, find_function

    spec = absolute_spec(options.function, Path.cwd())
    function, asked = find_function(spec), trusted_files.check_trust(spec)
    if asked.status == "allowed":
        _print(f"{function.file} is trusted already, in its present version.")
        return EXIT_DONE
    if not options.yes:
        _print(trusted_files.preview(spec))
        _print(f"\nThis is {function.file}. A run that uses {function.name} runs all of it with")
        _print("your permissions: it can read, change and send everything that you can.")
        if not sys.stdin.isatty():
            raise UserError(
                "this terminal cannot ask for confirmation", "", "Read the file, and add --yes"
            )
        if input("Trust it? [y/N] ").strip().lower() not in ("y", "yes"):
            _print("Not trusted.")
            return EXIT_USER
    if not trusted_files.trust_function(spec, expected_digest=asked.digest):
        raise UserError(
            f"{function.file}: the file changed while you were asked", "", "Read it again"
        )
    _print(f"{function.file} is trusted from now on, until it changes.")
    return EXIT_DONE


def _sample(options: argparse.Namespace) -> int:
    from onetrainer.jobs.sample_request import SampleRequest, request_of

    return _run_request("sample", SampleRequest, lambda: request_of(options))


def _convert(options: argparse.Namespace) -> int:
    from onetrainer.jobs.convert_request import ConvertRequest, examine
    from onetrainer.jobs.options import request_values, validate_request

    def request() -> ConvertRequest:
        request = validate_request(ConvertRequest, request_values(options, ConvertRequest))
        examine(request)  # in this process, since it needs no engine
        return request

    return _run_request("convert", ConvertRequest, request)


def _run_request(
    name: "JobName", section: "type[Section]", request_of: "Callable[[], Section]"
) -> int:
    """Check a request and run it in a process of its own; messages name its options."""
    from onetrainer.cli.progress import run_job
    from onetrainer.jobs.options import naming_options

    try:
        request = request_of()
    except UserError as error:
        raise UserError(naming_options(str(error), section)) from error
    return run_job(name, request)


def _show(options: argparse.Namespace) -> int:
    """Describe files from their headers; an unreadable one does not stop the others."""
    from onetrainer.cli.show import inspect_path, lines

    descriptions, code = [], EXIT_DONE
    for path in options.file:
        try:
            descriptions.append(inspect_path(path))
        except UserError as error:
            sys.stderr.write(f"{error}\n")
            code = EXIT_USER
    documents = [asdict(description) for description in descriptions]
    if options.json and len(options.file) > 1:
        _print_json(documents)
    elif options.json and documents:
        _print_json(documents[0])
    elif descriptions:
        _print("\n\n".join("\n".join(lines(d, everything=options.all)) for d in descriptions))
    return code


def _presets(_options: argparse.Namespace) -> int:
    from onetrainer.presets.presets import find_presets

    presets = find_presets()
    width = max((len(preset.name) for preset in presets), default=0)
    for preset in presets:
        _print(f"{preset.name.ljust(width)}  {preset.origin}  {preset.description}")
    return EXIT_DONE


def _diff(options: argparse.Namespace) -> int:
    from onetrainer.presets import presets
    from onetrainer.presets.differences import differences

    left, right = (
        presets.resolve(presets.load_document(presets.locate(name, may_be_run=True)), source=name)
        for name in (options.left, options.right)
    )
    for difference in differences(left, right):
        _print(difference.text())
    return EXIT_DONE


def _schema(_options: argparse.Namespace) -> int:
    from onetrainer.config.train import TrainConfig

    _print_json(TrainConfig.model_json_schema())
    return EXIT_DONE


def _doctor(_options: argparse.Namespace) -> int:
    from onetrainer.cli.doctor import report

    for line in report():
        _print(line)
    return EXIT_DONE


_COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = MappingProxyType(
    {
        "train": _train,
        "resume": _resume,
        "check": _check,
        "demo": _demo,
        "allow": _allow,
        "sample": _sample,
        "convert": _convert,
        "show": _show,
        "presets": _presets,
        "diff": _diff,
        "schema": _schema,
        "doctor": _doctor,
    }
)


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


def _print_json(document: object) -> None:
    _print(json_text(document))
