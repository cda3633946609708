"""The command line. Only argparse is imported until a command is known, so that help is instant."""

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from onetrainer import __version__
from onetrainer.errors import EXIT_STOPPED, EXIT_USER, UserError, problem_json
from onetrainer.redaction import without_tokens

Options = dict[str, dict[str, Any]]


def _flag(text: str) -> dict[str, Any]:
    return {"action": "store_true", "help": text}


def _value(metavar: str, text: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 # argparse's
    return {"metavar": metavar, "help": text, **more}


_SET = _value("KEY.PATH=VALUE", "change one setting; can be repeated", action="append", default=[])
_JSON = _flag("print the result as JSON")
_CONFIG: Options = {"config": {"help": "a config file or the name of a preset"}, "--set": _SET}
_ANY_CONFIG: Options = {
    "config": {"help": "a config file, the name of a preset or a run's folder"},
    "--set": _SET,
    "--json": _JSON,
}
_PROCESSES = _value(
    "N", "train in so many processes, each on a device of its own (hardware.processes)", type=int
)
_RUN: Options = {"run_folder": {"type": Path, "help": "the run's folder"}}
_YES = _flag("do not ask for what the run does outside its folder")
_STEP = "the step of the checkpoint (default: that of the newest one)"
_PLACE = "folder, a config file, a preset or a run's folder"
_OWN_FOLDER = "a new or empty folder for this run (default: a new one in output.folder)"
_MEMORY = "plan for a GPU with this much memory (default: this computer as it is now)"
_SHEETS = "write contact sheets of the images as trained, one per bucket, to this new folder"
_TEST_DEVICE = "where to train the five steps: auto (default), cuda, cuda:1, mps or cpu"
DEVICES = ("auto", "cuda", *(f"cuda:{index}" for index in range(8)), "mps", "cpu")
_TEST_PRECISION = "in which number format: auto (default), fp32, bf16 or fp16"
_PRECISIONS = ("auto", "fp32", "bf16", "fp16")
_DEMO = "create and load the demo: at the first start, or at every start with a FOLDER"
_SWEEP = "add a run for each value; can be repeated, for every combination"
_QUEUE_ACTIONS = (
    "list", "add", "serve", "now", "move", "clone", "device", "remove", "hold", "go", "clear",
)  # fmt: skip
_WRITES: Options = {
    "--write": _flag("write what was found; otherwise it is only shown"),
    "--queue": _flag("let the queue run the model, instead of doing so now"),
    "--take-back": _flag("give files back what they held before they were last written"),
}
_OTHER = {"help": "a config file, a preset or a run's folder"}

# Each command's file in `onetrainer/cli`, which has a function of its name; what it does; and its
# options. Those of "sample" and "convert" are their requests'.
COMMANDS: dict[str, tuple[str, str, Options]] = {
    "window": (
        "window",
        "open the window",
        {
            "preset": {"nargs": "?", "help": "a config file or the name of a preset"},
            "--demo": _value("FOLDER", _DEMO, nargs="?", const=""),
        },
    ),
    "train": (
        "runs",
        "train with a config file or a preset",
        {
            **_CONFIG,
            "--run-folder": _value("FOLDER", _OWN_FOLDER, type=Path),
            "--processes": _PROCESSES,
        },
    ),
    "resume": (
        "runs",
        "continue a run from its newest checkpoint",
        {**_RUN, "--processes": _PROCESSES, "--yes": _YES},
    ),
    "fork": (
        "runs",
        "start a new run that goes on from a kept checkpoint of another",
        {
            "run": {"type": Path, "help": "the other run's folder"},
            "--step": _value("N", _STEP, type=int),
            "--set": _SET,
            "--run-folder": _value("FOLDER", _OWN_FOLDER, type=Path),
            "--yes": _YES,
        },
    ),
    "stop": (
        "runs",
        "stop a run that is running, and save what it has trained",
        {
            **_RUN,
            "--without-saving": _flag("lose the steps since the last checkpoint, write no file"),
            "--now": _flag("end the process at once, if it does not answer"),
        },
    ),
    "pause": ("runs", "save a checkpoint of a run that is running, and end it", _RUN),
    "queue": (
        "queue",
        "train one run after the other: list, add, order and serve them",
        {
            "action": {"nargs": "?", "choices": _QUEUE_ACTIONS, "default": "list"},
            "target": {"nargs": "?", "help": "add: a config, preset or run; others: a run's name"},
            "--set": _SET,
            "--sweep": _value("KEY.PATH=A,B", _SWEEP, action="append", default=[]),
            "--device": _value("DEVICE", "add, device: where the runs train", choices=DEVICES),
            "--no-forecast": _flag("do not forecast how long an added run takes"),
            "--to": _value("N", "move: the new place among the waiting ones", type=int, default=1),
            "--yes": _YES,
            "--keep": _flag("serve: also wait for runs that are added later"),
            "--json": _JSON,
        },
    ),
    "check": ("configs", "list every problem of a config", _ANY_CONFIG),
    "check-data": (
        "check_data",
        "list images that may harm training, and why",
        {**_ANY_CONFIG, "config": {"help": f"an image {_PLACE}"}},
    ),
    "concepts": (
        "configs",
        'make a config of the folders of kohya\'s trainer, named like "10_sks dog"',
        {
            "folder": {"help": "the folder that they are in"},
            "--extends": _value("CONFIG", "a config or preset that has all other settings"),
            "--out": _value("FILE", "the config file (default: print it)", type=Path),
        },
    ),
    "plan": (
        "plan",
        "show how a run uses its images and memory, and whether it fits",
        {
            **_ANY_CONFIG,
            "--memory": _value("GB", _MEMORY),
            "--images": _value("FOLDER", _SHEETS, type=Path),
            "--pictures": {"type": Path, "dest": "images", "help": argparse.SUPPRESS},
        },
    ),
    "cache": (
        "cache",
        "show what the cache of encoded images holds, or prune it",
        {
            **_ANY_CONFIG,
            "config": {"nargs": "?", "help": f"a cache {_PLACE}"},
            "--prune": _flag("remove unusable entries, and those of the following limits"),
            "--limit": _value("GB", "with --prune: also the least recently used above this size"),
            "--older-than": _value("DAYS", "with --prune: also what was not used for this long"),
            "--encode": _flag("encode the images of a config, without training"),
            "--yes": _YES,
        },
    ),
    "demo": (
        "configs",
        "write a small model and images to try things with",
        {"folder": {"type": Path, "help": "a new or empty folder"}},
    ),
    "trust": (
        "configs",
        "trust a function or class of your own",
        {
            "function": {"help": '"file.py:NAME", "module:NAME" or "module.NAME"'},
            "--yes": _flag("do not ask"),
        },
    ),
    "sample": ("jobs", "generate images with a model, LoRAs and embeddings", {}),
    "convert": (
        "jobs",
        "convert a model, LoRA or embedding, or a run's checkpoint",
        {"--yes": _YES},
    ),
    "merge": ("jobs", "merge LoRAs into a base model, or into one LoRA", {}),
    "resize": ("jobs", "change the rank of a LoRA", {}),
    "extract": ("jobs", "extract the difference of two models as a LoRA", {}),
    "caption": (
        "caption",
        "describe images with a tagger or captioner, and write their captions",
        _WRITES,
    ),
    "mask": ("caption", "find the subject of images with a model, and write their masks", _WRITES),
    "show": (
        "show",
        "describe a model file, a run or an image",
        {
            "file": _value("FILE", "one or more files or folders", type=Path, nargs="+"),
            "--all": _flag("show all metadata"),
            "--json": _JSON,
        },
    ),
    "presets": ("configs", "list the presets", {}),
    "diff": (
        "configs",
        "show the settings in which two configs differ",
        {"left": _OTHER, "right": _OTHER},
    ),
    "schema": ("configs", "print the JSON Schema of a config", {}),
    "report": (
        "support",
        "write an archive about a run, without private data, for a bug report",
        {
            **_RUN,
            "--out": _value("FILE", "the archive (default: a new one in the folder)", type=Path),
            "--with-samples": _flag("add prompts and the newest samples"),
        },
    ),
    "doctor": (
        "support",
        "examine this computer, and train five steps on it",
        {
            "--device": _value("DEVICE", _TEST_DEVICE, choices=DEVICES, default="auto"),
            "--precision": _value("FORMAT", _TEST_PRECISION, choices=_PRECISIONS, default="auto"),
            "--quick": _flag("do not train"),
            "--json": _JSON,
        },
    ),
}

# Of commands whose options are their requests' fields: the module and classes of these, and the
# argument that may be left out.
_REQUESTS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "convert": ("onetrainer.jobs.convert_request", ("ConvertRequest",), "target"),
    "merge": ("onetrainer.jobs.lora_requests", ("MergeRequest",), ""),
    "resize": ("onetrainer.jobs.lora_requests", ("ResizeRequest",), ""),
    "extract": ("onetrainer.jobs.lora_requests", ("ExtractRequest",), ""),
    "caption": (
        "onetrainer.jobs.caption_request",
        ("CaptionRequest", "CaptionWriting"),
        "model",
    ),
    "mask": ("onetrainer.jobs.caption_request", ("CaptionRequest", "MaskWriting"), "model"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code: 0 done, 1 failure, 2 bad input, 3 stopped.
    """
    for stream in (sys.stdout, sys.stderr):
        # An encoding without "█" prints "?" instead of failing.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    arguments = sys.argv[1:] if arguments is None else [*arguments]
    if arguments[:1] == ["allow"]:  # the older name of "trust"
        arguments = ["trust", *arguments[1:]]
    parser = make_parser(arguments[0] if arguments else "")
    options = _parse(parser, arguments)
    if options.command is None:
        parser.print_help()
        return EXIT_USER
    try:
        if settings := vars(options).get("set"):
            from onetrainer.config.renamed import rename_notes

            for note in rename_notes(settings):
                sys.stderr.write(f"{without_tokens(note)}\n")
        command = import_module(f"onetrainer.cli.{COMMANDS[options.command][0]}")
        run: Callable[[argparse.Namespace], int] = vars(command)[options.command.replace("-", "_")]
        return run(options)
    except KeyboardInterrupt:
        return EXIT_STOPPED
    except BrokenPipeError:
        # The reader closed the pipe early (`onetrainer schema | head`), which is no failure.
        sys.stderr.close()
        return 0
    except (UserError, OSError) as error:
        if isinstance(error, OSError):
            from onetrainer.run.run_folder import system_error

            error = system_error(error)
        if vars(options).get("json"):  # standard output gets a JSON document in any case
            sys.stdout.write(f"{problem_json(str(error))}\n")
        sys.stderr.write(f"{error}\n")
        return EXIT_USER


class _Parser(argparse.ArgumentParser):
    """A parser whose errors say no token."""

    def error(self, message: str) -> NoReturn:
        super().error(without_tokens(message))


def _parse(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse arguments, also a target after options, which argparse misses if it may be left out."""
    options, rest = parser.parse_known_args(arguments)
    if len(rest) == 1 and not rest[0].startswith("-") and vars(options).get("target", "") is None:
        options.target = rest[0]
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return options


def open_window() -> int:
    """Open the window, without a terminal: Windows starts it without standard streams."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
        return main(["window", *sys.argv[1:]])


def make_parser(command: str) -> argparse.ArgumentParser:
    """Return the parser of all commands, with the options of requests only for this one."""
    parser = _Parser(prog="onetrainer", description="Train Stable Diffusion on your images.")
    parser.add_argument("--version", action="version", version=f"onetrainer {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, (_, text, options) in COMMANDS.items():
        description = f"{text[0].upper()}{text[1:]}."
        added = commands.add_parser(name, help=text, description=description)
        for option, keywords in options.items():
            added.add_argument(option, **keywords)
        if name == command == "sample":
            from onetrainer.jobs.sample_options import add_sample_options

            add_sample_options(added)
        elif name == command and name in _REQUESTS:
            from onetrainer.jobs.options import add_options

            place, requests, optional = _REQUESTS[name]
            for request in requests:
                add_options(added, vars(import_module(place))[request], optional=optional)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
