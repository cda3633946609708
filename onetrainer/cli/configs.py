"""The commands about configs: list, check, compare and describe them, and write the demo's."""

import argparse
import sys
from dataclasses import asdict, replace
from pathlib import Path

from onetrainer import program
from onetrainer.checks.preflight import document_problems, require_startable
from onetrainer.cli.effects import load_looked_at
from onetrainer.cli.screen import print_lines, print_result
from onetrainer.concepts.numbered_folders import numbered_concepts
from onetrainer.config.train import TrainConfig
from onetrainer.demo.write import write_demo
from onetrainer.errors import EXIT_DONE, EXIT_USER, Problem, UserError
from onetrainer.json_file import Document, json_text
from onetrainer.messages.formatting import counted
from onetrainer.presets.differences import differences
from onetrainer.presets.find import expanded, find_presets, locate
from onetrainer.presets.presets import load, resolve, save_document
from onetrainer.trust import trusted_files
from onetrainer.trust.function_file import absolute_spec, find_function


def startable(document: Document, *, source: str, folder_option: str = "") -> TrainConfig:
    """Return the config of a document after warning of what is unusual.

    folder_option: What chose the output folder, if not its setting.

    Raises ProblemsError if a run cannot start with it.
    """
    config, problems = document_problems(document, source=source)
    if folder_option:
        problems = [
            replace(problem, path=folder_option) if problem.path == "output.folder" else problem
            for problem in problems
        ]
    for problem in require_startable(problems, source=source):
        sys.stderr.write(f"warning: {problem}\n")
    return config


def check(options: argparse.Namespace) -> int:
    """List every problem of a config."""
    try:
        document = load_looked_at(options.config, options.set)
        problems = document_problems(document, source=options.config)[1]
    except UserError as error:
        problems = [Problem("", error.what, error.expected, error.remedy)]
    has_errors = any(problem.severity == "error" for problem in problems)
    lines = [f"{problem.severity}: {problem}" for problem in problems]
    if not has_errors:
        lines.append(f"{options.config}: ready to train")
    print_result([asdict(problem) for problem in problems], lines, is_json=options.json)
    return EXIT_USER if has_errors else EXIT_DONE


def concepts(options: argparse.Namespace) -> int:
    """Write a config of the concepts that folders named like "10_sks dog" stand for."""
    root = Path(expanded(options.folder)).absolute()
    made = numbered_concepts(root)
    if not made:
        raise UserError(
            f'{root}: no folders named like "10_sks dog", or images outside of them',
            "Expected folders of images, each named by repeats, _ and words",
            "Choose the folder that holds them, and move other images elsewhere",
        )
    entries = [concept.model_dump(mode="json", exclude_defaults=True) for concept in made]
    document: Document = {"data": {"folder": "", "concepts": entries}}
    if options.extends:
        found = str(locate(options.extends).absolute())
        document = {"extends": found, **document}
    if options.out is None:
        return print_lines([json_text(document)])
    if options.out.exists():
        raise UserError(f"{options.out} exists already", "Expected a new file", "Choose another")
    save_document(options.out, document)
    return print_lines([f"{options.out} has {counted(len(made), 'concept')}."])


def demo(options: argparse.Namespace) -> int:
    """Write the demo."""
    config = write_demo(options.folder)
    return print_lines(
        [f"The demo is in {options.folder}. To train it: {program()} train {config}"]
    )


def trust(options: argparse.Namespace) -> int:
    """Trust a reward function, after showing its source and asking."""
    spec = absolute_spec(options.function, Path.cwd())
    function = find_function(spec)
    if trusted_files.status_of(function) == "trusted":
        return print_lines([f"{function.file} is trusted already, in its present version."])
    imported = f" and {counted(function.imports, 'file')} beside it" if function.imports else ""
    if not options.yes:
        print_lines(
            [
                trusted_files.preview(function),
                f"\nThis is {function.file}{imported}.",
                f"A run that uses {function.name} runs all of it {trusted_files.PERMISSIONS}.",
            ]
        )
        if not sys.stdin.isatty():
            raise UserError(
                "this terminal cannot ask for confirmation", "", "Read the file, and add --yes"
            )
        if input("Trust it? [y/N] ").strip().lower() not in ("y", "yes"):
            print_lines(["Not trusted."])
            return EXIT_USER
    trusted_files.trust(function)
    if trusted_files.status(spec) != "trusted":
        raise UserError(
            f"{function.file}: the file changed while you were asked", "", "Read it again"
        )
    return print_lines([f"{function.file}{imported} is trusted until it changes."])


def presets(_options: argparse.Namespace) -> int:
    """List the presets."""
    found = find_presets()
    width = max((len(preset.name) for preset in found), default=0)
    return print_lines(f"{one.name.ljust(width)}  {one.origin}  {one.description}" for one in found)


def diff(options: argparse.Namespace) -> int:
    """Show the settings in which two configs differ."""
    left, right = (
        resolve(load(name, may_be_run=True), source=name) for name in (options.left, options.right)
    )
    return print_lines(difference.text() for difference in differences(left, right))


def schema(_options: argparse.Namespace) -> int:
    """Print the JSON Schema of a config."""
    return print_lines([json_text(TrainConfig.model_json_schema())])
