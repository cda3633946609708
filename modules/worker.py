"""The worker's entry: `python -m modules.worker RUN_FOLDER`, or `--job NAME` for a job without one.

With a folder it takes the folder's lock and trains; a job gets its request on standard input and
tells its events on standard output. Either way whatever goes wrong becomes one event, a message in
the log and an exit code.
"""

import faulthandler
import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import strftime, time
from typing import Any, TextIO

from onetrainer.errors import EXIT_DONE, EXIT_PROGRAM, EXIT_STOPPED, EXIT_USER, UserError
from onetrainer.model_files.hub import is_hub_name
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Event, Failed, Finished
from onetrainer.run.run_folder import RunFolder, open_run
from onetrainer.run.wire import encode_event

Tell = Callable[[Event], None]
_LACKS = ("out of memory", "can't allocate memory", "cublas_status_alloc_failed")


def main(arguments: list[str]) -> int:
    """Works on a run folder or does a job; returns the exit code."""
    faulthandler.enable()  # a crash in a library leaves its place in the log
    match arguments:
        case ["--job", name]:
            return _job(name)
        case [folder]:
            return _run(Path(folder))
        case _:
            return _say("usage: python -m modules.worker RUN_FOLDER | --job NAME", EXIT_USER)


def _run(path: Path) -> int:
    try:
        folder = open_run(path)
        with folder.locked():
            return _train(folder)
    except UserError as error:
        return _say(str(error), EXIT_USER)


def _train(folder: RunFolder) -> int:
    _say(f"worker {os.getpid()} begins at {strftime('%Y-%m-%d %H:%M:%S')}", 0)
    try:
        names, is_offline = _named_models(_peek(_read(folder.config)))
        _set_environment(names, is_offline=is_offline)
        with _loading():
            from modules.jobs.train import train

        return train(folder)
    except UserError as error:
        _write(folder, _user_failure(error))
        return _say(str(error), EXIT_USER)  # last: whoever cannot read events reads this
    except Exception as error:  # noqa: BLE001 - the edge: nothing may leave without a word
        traceback.print_exc()
        remedy = "Turn on gradient checkpointing, or lower the batch size or the resolution."
        safe = f"Everything up to the last checkpoint is safe. The whole story is in {folder.log}"
        failure = _program_failure(error, memory=remedy, otherwise=safe)
        is_lack = _is_lack_of_memory(error)
    # Not before here: until then the error holds on to everything that was on the device.
    _write(folder, _explained(folder, failure) if is_lack else failure)
    return EXIT_PROGRAM


def _explained(folder: RunFolder, failure: Failed) -> Failed:
    """A lack of memory with what took it; the plain words where that cannot be found out."""
    try:
        from modules.forecast.out_of_memory import explain_failure

        return explain_failure(folder)
    except Exception:  # noqa: BLE001 - whatever it is, the lack of memory is the news
        traceback.print_exc()
        return failure


def _job(name: str) -> int:
    tell = _teller(_take_stdout())
    try:
        # Also where the parent ignored Ctrl+C, as in the background of a shell.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
        text = sys.stdin.buffer.read().decode()
        settings = _peek(text)
        _set_environment([str(settings.get("base", ""))], is_offline=bool(settings.get("offline")))
        tell(_do(name, text, tell))
        return EXIT_DONE
    except KeyboardInterrupt:
        return EXIT_STOPPED
    except UserError as error:
        return _end(tell, _user_failure(error), EXIT_USER)
    except Exception as error:  # noqa: BLE001 - the edge: nothing may leave without a word
        traceback.print_exc()
        remedy = "Close other programs, or do less at once."
        return _end(tell, _program_failure(error, memory=remedy, otherwise=""), EXIT_PROGRAM)


def _do(name: str, text: str, tell: Tell) -> Finished:
    """Only here the engine is loaded, after the environment is set."""
    match name:
        case "convert":
            with _loading():
                from modules.jobs.convert import convert
            from onetrainer.jobs.convert_request import ConvertRequest

            return convert(ConvertRequest.model_validate_json(text), tell)
        case "sample":
            with _loading():
                from modules.jobs.sample import sample_job
            from onetrainer.jobs.sample_request import SampleRequest

            return sample_job(SampleRequest.model_validate_json(text), tell)
        case "plan":
            with _loading():
                from modules.jobs.plan import plan
            from onetrainer.jobs.plan_request import PlanRequest

            return plan(PlanRequest.model_validate_json(text), tell)
        case "cache":
            with _loading():
                from modules.jobs.cache import cache
            from onetrainer.jobs.cache_request import CacheRequest

            return cache(CacheRequest.model_validate_json(text), tell)
        case _:
            raise ValueError(f"there is no job {name!r}")


@contextmanager
def _loading() -> Iterator[None]:
    """Within, the engine's modules are loaded, which takes a fourth less of the time so.

    Four thousand of them stay until the end: nothing is gained by looking for garbage among them,
    neither now nor later.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()


def _named_models(config: Mapping[str, Any]) -> tuple[list[str], bool]:
    """What a config names that may have to be downloaded, and whether it forbids that."""
    model, objective = (_section(config, key) for key in ("model", "objective"))
    rewards = objective.get("rewards")
    entries = rewards if isinstance(rewards, list) else []
    networks = [str(entry.get("model", "")) for entry in entries if isinstance(entry, dict)]
    return [str(model.get("path", "")), *networks], bool(model.get("offline"))


def _section(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    section = config.get(key)
    return section if isinstance(section, dict) else {}


def _set_environment(names: list[str], *, is_offline: bool) -> None:
    """To be called before the engine is loaded: libraries read these when imported.

    names: of the models that are asked for. is_offline: whether none may be downloaded.
    """
    if is_offline or not any(map(is_hub_name, names)):
        # No library may try the network: everything needed is on this disk.
        os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def _take_stdout() -> TextIO:
    """Standard output for events alone; what libraries print there goes to standard error."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    return events


def _teller(stream: TextIO) -> Tell:
    def tell(event: Event) -> None:
        try:
            stream.write(encode_event(event, time=time()))
            stream.flush()
        except BrokenPipeError:
            # Whoever wanted this done is gone; it ends as if it had been interrupted.
            raise KeyboardInterrupt from None

    return tell


def _end(tell: Tell, event: Failed, code: int) -> int:
    try:
        tell(event)
    except KeyboardInterrupt:
        return EXIT_STOPPED
    return code


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _peek(text: str) -> Mapping[str, Any]:
    """A JSON object; empty for what is none, which the job itself will complain about."""
    try:
        content = json.loads(text)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _user_failure(error: UserError) -> Failed:
    return Failed("user", str(error.what), error.expected, error.remedy)


def _program_failure(error: Exception, *, memory: str, otherwise: str) -> Failed:
    """An unforeseen error in words; the traceback is in the log."""
    text = f"{type(error).__name__}: {error}"
    if _is_lack_of_memory(error):
        return Failed(
            "program", "there is not enough memory for this", "The device ran out of memory", memory
        )
    return Failed("program", f"the program failed: {text.splitlines()[0][:300]}", "", otherwise)


def _is_lack_of_memory(error: Exception) -> bool:
    """Of a card, or of the computer: torch has no type of its own for the latter."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or any(sign in words for sign in _LACKS)


def _write(folder: RunFolder, event: Failed) -> None:
    try:
        events = EventWriter(folder.events)
        events.write(event)
        events.close()
    except (OSError, UserError) as error:
        _say(f"{folder.events}: cannot be written ({error})", EXIT_PROGRAM)


def _say(text: str, code: int) -> int:
    sys.stderr.write(text + "\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
