"""The command line. Only argparse is loaded until a command is known, so that help is instant."""

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from onetrainer import __version__
from onetrainer.cli.file_arguments import add_cache, add_command, add_convert, add_sample, add_show
from onetrainer.errors import EXIT_STOPPED, EXIT_USER, UserError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code: 0 done, 1 failure, 2 bad input, 3 stopped."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal or a file that knows no "█" gets a "?" and no traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return EXIT_USER
    from onetrainer.cli import commands as cli

    try:
        return cli.COMMANDS[options.command](options)
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_USER
    except KeyboardInterrupt:
        return EXIT_STOPPED
    except BrokenPipeError:
        # The reader of our output has gone (`onetrainer schema | head`); that is its good right.
        sys.stderr.close()
        return 0
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        sys.stderr.write(
            f"{error.filename or 'a file'}: {reason}. Check the path and its rights.\n"
        )
        return EXIT_USER


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="onetrainer", description="Train Stable Diffusion on your pictures."
    )
    parser.add_argument("--version", action="version", version=f"onetrainer {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    train = add_command(commands, "train", "train by a config file or a preset")
    _config_argument(train)
    train.add_argument(
        "--run-folder",
        type=Path,
        metavar="FOLDER",
        help="a new or empty folder for this run; default a new one in output.folder",
    )

    resume = add_command(commands, "resume", "continue a run from its newest checkpoint")
    resume.add_argument("run_folder", type=Path, help="the run's folder")

    _add_looks(commands)
    _config_argument(
        add_cache(commands), "a cache folder, a config file, a preset or a run's folder", nargs="?"
    )

    demo = add_command(commands, "demo", "write a small model and pictures to try things with")
    demo.add_argument("folder", type=Path, help="a new or empty folder")

    allow = add_command(commands, "allow", "let a reward function of yours be run")
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
    add_command(commands, "doctor", "tell what this computer has for training")
    return parser


def _add_looks(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The commands that tell what a config means, and do nothing."""
    check = add_command(commands, "check", "tell everything that is wrong with a config")
    _config_argument(check, "a config file, the name of a preset or a run's folder")
    check.add_argument("--json", action="store_true", help="print the problems as JSON")

    images = add_command(commands, "check-data", "tell which pictures may spoil a run, and why")
    _config_argument(images, "a folder of pictures, a config file, a preset or a run's folder")
    images.add_argument("--json", action="store_true", help="print the findings as JSON")

    plan = add_command(
        commands, "plan", "tell what a run does with its pictures, its memory, and if that fits"
    )
    _config_argument(plan, "a config file, the name of a preset or a run's folder")
    plan.add_argument(
        "--memory",
        metavar="GB",
        help="plan for a graphics card with so much memory; default this computer, as it is now",
    )
    plan.add_argument(
        "--images",
        "--pictures",
        type=Path,
        metavar="FOLDER",
        help="draw the pictures as training sees them into this new folder, a sheet for each size",
    )
    plan.add_argument("--json", action="store_true", help="print the forecast as JSON")


def _config_argument(
    parser: argparse.ArgumentParser,
    words: str = "a config file or the name of a preset",
    nargs: str | None = None,
) -> None:
    parser.add_argument("config", nargs=nargs, help=words)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY.PATH=VALUE",
        help="change one setting; may be given again",
    )


if __name__ == "__main__":
    raise SystemExit(main())
