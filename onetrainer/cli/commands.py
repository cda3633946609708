"""The commands of the command line, built on the same functions as the window."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from onetrainer.errors import EXIT_DONE, EXIT_USER, Problem, UserError, problem_json


def train(options: argparse.Namespace) -> int:
    """Resolve and check a config, then train it to the end in a worker."""
    from onetrainer.checks.preflight import document_problems, require_startable
    from onetrainer.cli.run_progress import Interrupts, follow
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
    interrupts = Interrupts()
    return follow(client.start(folder), interrupts)


def resume(options: argparse.Namespace) -> int:
    """Resume a run from its newest checkpoint, or follow it if it is running."""
    from onetrainer.cli.run_progress import Interrupts, follow
    from onetrainer.run import client
    from onetrainer.run.run_folder import open_run

    folder = open_run(options.run_folder)
    interrupts = Interrupts()
    if folder.is_busy():
        _print(f"{folder.name} is already being trained; following it.")
        return follow(client.attach(folder), interrupts)
    return follow(client.start(folder), interrupts)


def check(options: argparse.Namespace) -> int:
    """List every problem of a config."""
    problems = _problems(options)
    errors = [problem for problem in problems if problem.severity == "error"]
    if options.json:
        _print(json.dumps([asdict(problem) for problem in problems], indent=2, ensure_ascii=False))
    else:
        for problem in problems:
            _print(f"{problem.severity}: {problem}")
        if not errors:
            _print(f"{options.config}: ready to train")
    return EXIT_USER if errors else EXIT_DONE


def check_data(options: argparse.Namespace) -> int:
    """List the problems of the images."""
    from onetrainer.cli.check_data import check_data as command

    return _with_json_errors(command, options)


def plan(options: argparse.Namespace) -> int:
    """Show how a run will use its images, and how much memory it takes."""
    from onetrainer.cli.plan import plan as command

    return _with_json_errors(command, options)


def cache(options: argparse.Namespace) -> int:
    """Report on a cache folder, prune it, or fill it."""
    from onetrainer.cli.cache import cache as command

    return _with_json_errors(command, options)


def demo(options: argparse.Namespace) -> int:
    """Write the demo."""
    from onetrainer.demo.write import write_demo

    config = write_demo(options.folder)
    _print(f"The demo is in {options.folder}. To train it: onetrainer train {config}")
    return EXIT_DONE


def allow(options: argparse.Namespace) -> int:
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


def sample(options: argparse.Namespace) -> int:
    """Generate images in a process of its own."""
    from onetrainer.cli.job_progress import run_job
    from onetrainer.jobs.options import error_with_option_names
    from onetrainer.jobs.sample_request import request_of

    try:
        request = request_of(options)
    except UserError as error:
        raise error_with_option_names(error) from error
    return run_job("sample", request)


def convert(options: argparse.Namespace) -> int:
    """Convert a file in a process of its own."""
    from onetrainer.cli.job_progress import run_job
    from onetrainer.jobs.convert_request import ConvertRequest, examine
    from onetrainer.jobs.options import error_with_option_names, request_values, validate_request

    request = validate_request(ConvertRequest, request_values(options, ConvertRequest))
    try:
        examine(request)  # in this process, since it needs no engine
    except UserError as error:
        raise error_with_option_names(error) from error
    return run_job("convert", request)


def show(options: argparse.Namespace) -> int:
    """Describe files from their headers; an unreadable one does not stop the others."""
    from onetrainer.cli.show import inspect_path, lines

    descriptions, code = [], EXIT_DONE
    for path in options.file:
        try:
            descriptions.append(inspect_path(path))
        except UserError as error:
            sys.stderr.write(f"{error}\n")
            code = EXIT_USER
    if options.json:
        documents = [asdict(description) for description in descriptions]
        content = documents if len(options.file) > 1 else next(iter(documents), None)
        if content is not None:
            _print(json.dumps(content, indent=2, ensure_ascii=False, default=str))
        return code
    if descriptions:
        _print("\n\n".join("\n".join(lines(d, everything=options.all)) for d in descriptions))
    return code


def list_presets(_options: argparse.Namespace) -> int:
    """List the presets."""
    from onetrainer.presets.presets import find_presets

    all_presets = find_presets()
    width = max((len(preset.name) for preset in all_presets), default=0)
    for preset in all_presets:
        _print(f"{preset.name.ljust(width)}  {preset.origin}  {preset.description}")
    return EXIT_DONE


def diff(options: argparse.Namespace) -> int:
    """Show the settings in which two configs differ."""
    from onetrainer.presets import presets
    from onetrainer.presets.differences import differences

    left, right = (
        presets.resolve(presets.load_document(presets.locate(name, may_be_run=True)), source=name)
        for name in (options.left, options.right)
    )
    for difference in differences(left, right):
        _print(difference.text())
    return EXIT_DONE


def schema(_options: argparse.Namespace) -> int:
    """Print the JSON Schema of a config."""
    from onetrainer.config.train import TrainConfig

    _print(json.dumps(TrainConfig.model_json_schema(), indent=2, ensure_ascii=False))
    return EXIT_DONE


def doctor(_options: argparse.Namespace) -> int:
    """Show what this computer offers for training."""
    from onetrainer.cli.doctor import report

    for line in report():
        _print(line)
    return EXIT_DONE


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "train": train,
    "resume": resume,
    "check": check,
    "check-data": check_data,
    "plan": plan,
    "cache": cache,
    "demo": demo,
    "allow": allow,
    "sample": sample,
    "convert": convert,
    "show": show,
    "presets": list_presets,
    "diff": diff,
    "schema": schema,
    "doctor": doctor,
}


def _with_json_errors(
    command: Callable[[argparse.Namespace], int], options: argparse.Namespace
) -> int:
    """Run a command; with --json, also print a UserError or OSError as JSON before raising it."""
    try:
        return command(options)
    except (UserError, OSError) as error:
        # A closed pipe is no error to report.
        if options.json and not isinstance(error, BrokenPipeError):
            _print(problem_json(str(error)))
        raise


def _problems(options: argparse.Namespace) -> list[Problem]:
    from onetrainer.checks.preflight import document_problems
    from onetrainer.presets import presets

    try:
        path = presets.locate(options.config, may_be_run=True)
        document = presets.with_overrides(presets.load_document(path), options.set)
    except UserError as error:
        return [Problem("", error.what, error.expected, error.remedy)]
    return document_problems(document, source=options.config)[1]


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
