"""The command line. Only argparse is imported until a command is known, so that help is instant."""

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from onetrainer import __version__
from onetrainer.cli.file_arguments import add_cache, add_command, add_convert, add_sample, add_show
from onetrainer.errors import EXIT_STOPPED, EXIT_USER, UserError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code: 0 done, 1 failure, 2 bad input, 3 stopped.
    """
    for stream in (sys.stdout, sys.stderr):
        # An encoding without "█" prints "?" instead of failing.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return EXIT_USER
    from onetrainer.cli import commands as cli
    from onetrainer.config.renamed import rename_notes

    for note in rename_notes(vars(options).get("set") or ()):
        sys.stderr.write(f"{note}\n")
    try:
        return cli.COMMANDS[options.command](options)
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_USER
    except KeyboardInterrupt:
        return EXIT_STOPPED
    except BrokenPipeError:
        # The reader closed the pipe early (`onetrainer schema | head`), which is no failure.
        sys.stderr.close()
        return 0
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        sys.stderr.write(
            f"{error.filename or 'a file'}: {reason}. Check the path and its permissions.\n"
        )
        return EXIT_USER


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="onetrainer", description="Train Stable Diffusion on your images."
    )
    parser.add_argument("--version", action="version", version=f"onetrainer {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    train = add_command(commands, "train", "train with a config file or a preset")
    _config_argument(train)
    train.add_argument(
        "--run-folder",
        type=Path,
        metavar="FOLDER",
        help="a new or empty folder for this run (default: a new one in output.folder)",
    )

    resume = add_command(commands, "resume", "continue a run from its newest checkpoint")
    resume.add_argument("run_folder", type=Path, help="the run's folder")

    _add_inspections(commands)
    _config_argument(
        add_cache(commands), "a cache folder, a config file, a preset or a run's folder", nargs="?"
    )

    demo = add_command(commands, "demo", "write a small model and images to try things with")
    demo.add_argument("folder", type=Path, help="a new or empty folder")

    allow = add_command(commands, "allow", "trust a reward function of your own")
    allow.add_argument("function", help='"file.py:function" or "module:function"')
    allow.add_argument("--yes", action="store_true", help="do not ask")

    add_sample(commands)
    add_convert(commands)
    add_show(commands)

    add_command(commands, "presets", "list the presets")

    diff = add_command(commands, "diff", "show the settings in which two configs differ")
    diff.add_argument("left", help="a config file, a preset or a run's folder")
    diff.add_argument("right", help="a config file, a preset or a run's folder")

    add_command(commands, "schema", "print the JSON Schema of a config")
    add_command(commands, "doctor", "show this computer's GPU, memory and library versions")
    return parser


def _add_inspections(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands that report on a config and change nothing."""
    check = add_command(commands, "check", "list every problem of a config")
    _config_argument(check, "a config file, the name of a preset or a run's folder")
    check.add_argument("--json", action="store_true", help="print the problems as JSON")

    images = add_command(commands, "check-data", "list images that may harm training, and why")
    _config_argument(images, "an image folder, a config file, a preset or a run's folder")
    images.add_argument("--json", action="store_true", help="print the findings as JSON")

    plan = add_command(
        commands, "plan", "show how a run uses its images and memory, and whether it fits"
    )
    _config_argument(plan, "a config file, the name of a preset or a run's folder")
    plan.add_argument(
        "--memory",
        metavar="GB",
        help="plan for a GPU with this much memory (default: this computer as it is now)",
    )
    plan.add_argument(
        "--images",
        "--pictures",
        type=Path,
        metavar="FOLDER",
        help="write contact sheets of the images as trained, one per bucket, to this new folder",
    )
    plan.add_argument("--json", action="store_true", help="print the forecast as JSON")


def _config_argument(
    parser: argparse.ArgumentParser,
    description: str = "a config file or the name of a preset",
    nargs: str | None = None,
) -> None:
    parser.add_argument("config", nargs=nargs, help=description)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY.PATH=VALUE",
        help="change one setting; can be repeated",
    )


if __name__ == "__main__":
    raise SystemExit(main())
