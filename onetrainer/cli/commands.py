"""What each command of the terminal does; the window takes the same ways."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from onetrainer.errors import EXIT_DONE, EXIT_USER, Problem, UserError, problem_json


def train(options: argparse.Namespace) -> int:
    """Resolves and checks a config, then runs it to its end in a worker."""
    from onetrainer.checks.preflight import document_problems, require_startable
    from onetrainer.cli.run_progress import Interrupts, follow
    from onetrainer.presets import presets
    from onetrainer.run import client
    from onetrainer.run.run_folder import create_run, fill_run

    document = presets.with_overrides(
        presets.load_document(presets.locate(options.config)), options.set
    )
    if options.run_folder is not None:
        # The folder really used is the one that is checked, and that the cache goes beside.
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
    _say(f"Run folder: {folder.path}")
    interrupts = Interrupts()
    return follow(client.start(folder), interrupts)


def resume(options: argparse.Namespace) -> int:
    """Continues a run from its newest checkpoint, or follows it if it is at work."""
    from onetrainer.cli.run_progress import Interrupts, follow
    from onetrainer.run import client
    from onetrainer.run.run_folder import open_run

    folder = open_run(options.run_folder)
    interrupts = Interrupts()
    if folder.is_busy():
        _say(f"{folder.name} is being trained already; following it.")
        return follow(client.attach(folder), interrupts)
    return follow(client.start(folder), interrupts)


def check(options: argparse.Namespace) -> int:
    """Tells every problem of a config at once."""
    problems = _problems(options)
    errors = [problem for problem in problems if problem.severity == "error"]
    if options.json:
        _say(json.dumps([asdict(problem) for problem in problems], indent=2, ensure_ascii=False))
    else:
        for problem in problems:
            _say(f"{problem.severity}: {problem}")
        if not errors:
            _say(f"{options.config}: ready to train")
    return EXIT_USER if errors else EXIT_DONE


def check_data(options: argparse.Namespace) -> int:
    """Tells what is wrong with the pictures themselves."""
    from onetrainer.cli.check_data import check_data as checked

    return _for_programs_too(checked, options)


def plan(options: argparse.Namespace) -> int:
    """Tells what a run will do with its pictures, and how much memory it would take."""
    from onetrainer.cli.plan import plan as planned

    return _for_programs_too(planned, options)


def cache(options: argparse.Namespace) -> int:
    """Tells what a cache folder holds, prunes it, or fills it."""
    from onetrainer.cli.cache import cache as done

    return _for_programs_too(done, options)


def demo(options: argparse.Namespace) -> int:
    """Writes the demo."""
    from onetrainer.demo.write import write_demo

    files = write_demo(options.folder)
    _say(f"The demo is in {options.folder}. To train it: onetrainer train {files.config}")
    return EXIT_DONE


def allow(options: argparse.Namespace) -> int:
    """Lets a reward function be run, after showing where it is and asking."""
    from onetrainer.trust import trusted_files
    from onetrainer.trust.function_file import absolute_spec, find_function

    spec = absolute_spec(options.function, Path.cwd())
    function, asked = find_function(spec), trusted_files.check_trust(spec)
    if asked.standing == "allowed":
        _say(f"{function.file} may be run already, as it is now.")
        return EXIT_DONE
    if not options.yes:
        _say(trusted_files.preview(spec))
        _say(f"\nThis is {function.file}. A run that asks for {function.name} runs all of it, with")
        _say("your rights: it can read, change and send whatever you can.")
        if not sys.stdin.isatty():
            raise UserError("nobody is there to ask", "", "Read the file, and add --yes")
        if input("Let it be run? [y/N] ").strip().lower() not in ("y", "yes"):
            _say("It stays forbidden.")
            return EXIT_USER
    if not trusted_files.trust_function(spec, expected_digest=asked.digest):
        raise UserError(
            f"{function.file}: it has changed while you were asked", "", "Read it again"
        )
    _say(f"{function.file} may be run from now on, until it changes.")
    return EXIT_DONE


def sample(options: argparse.Namespace) -> int:
    """Draws pictures in a process of its own."""
    from onetrainer.cli.job_progress import run_job
    from onetrainer.jobs.options import error_with_option_names
    from onetrainer.jobs.sample_request import request_of

    try:
        request = request_of(options)
    except UserError as error:
        raise error_with_option_names(error) from error
    return run_job("sample", request)


def convert(options: argparse.Namespace) -> int:
    """Converts a file in a process of its own."""
    from onetrainer.cli.job_progress import run_job
    from onetrainer.jobs.convert_request import ConvertRequest, examine
    from onetrainer.jobs.options import error_with_option_names, request_values, validate_request

    request = validate_request(ConvertRequest, request_values(options, ConvertRequest))
    try:
        examine(request)  # here already, which takes no engine
    except UserError as error:
        raise error_with_option_names(error) from error
    return run_job("convert", request)


def show(options: argparse.Namespace) -> int:
    """Tells what files are, from their headers; one that cannot be read keeps none untold."""
    from onetrainer.cli.show import lines, look_at

    found, code = [], EXIT_DONE
    for path in options.file:
        try:
            found.append(look_at(path))
        except UserError as error:
            sys.stderr.write(f"{error}\n")
            code = EXIT_USER
    if options.json:
        known = [asdict(one) for one in found]
        content = known if len(options.file) > 1 else next(iter(known), None)
        if content is not None:
            _say(json.dumps(content, indent=2, ensure_ascii=False, default=str))
        return code
    if found:
        _say("\n\n".join("\n".join(lines(one, everything=options.all)) for one in found))
    return code


def list_presets(_options: argparse.Namespace) -> int:
    """Lists the presets."""
    from onetrainer.presets.presets import find_presets

    found = find_presets()
    width = max((len(preset.name) for preset in found), default=0)
    for preset in found:
        _say(f"{preset.name.ljust(width)}  {preset.origin}  {preset.description}")
    return EXIT_DONE


def diff(options: argparse.Namespace) -> int:
    """Shows the settings in which two configs differ."""
    from onetrainer.presets import presets
    from onetrainer.presets.differences import differences

    left, right = (
        presets.resolve(presets.load_document(presets.locate(name, may_be_run=True)), source=name)
        for name in (options.left, options.right)
    )
    for difference in differences(left, right):
        _say(difference.words())
    return EXIT_DONE


def schema(_options: argparse.Namespace) -> int:
    """Prints the JSON Schema."""
    from onetrainer.config.train import TrainConfig

    _say(json.dumps(TrainConfig.model_json_schema(), indent=2, ensure_ascii=False))
    return EXIT_DONE


def doctor(_options: argparse.Namespace) -> int:
    """Tells what this computer has for training."""
    from onetrainer.cli.doctor import report

    for line in report():
        _say(line)
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


def _for_programs_too(
    command: Callable[[argparse.Namespace], int], options: argparse.Namespace
) -> int:
    """Does a command; whoever reads JSON gets that also of what is wrong. Raises UserError then."""
    try:
        return command(options)
    except (UserError, OSError) as error:
        # Not where the reader of our output has gone.
        if options.json and not isinstance(error, BrokenPipeError):
            _say(problem_json(str(error)))
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


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
