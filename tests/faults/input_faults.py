"""Hostile configs and damaged files: each gets an answer, a message and exit code 0 or 2.

What answers is the command itself, `onetrainer check` and `onetrainer show`, in this process.
"""

import contextlib
import io
import json
import random
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from safetensors.torch import save_file

from onetrainer.__main__ import main
from onetrainer.config.train import TrainConfig
from onetrainer.errors import EXIT_DONE, EXIT_USER
from tests import runs, tiny
from tests.faults.cases import CASES, new_run
from tests.faults.result import Result

MOST_SECONDS = 5
"""Of processor time, for one answer: a busy machine is no hang."""
MOST_WAITING = 60
"""Seconds by the clock, for one answer: what waits takes no processor time."""
_HOSTILE: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 7, 2**31, 2**63, -(2**70), 10**400, 0.5, -0.0, 1e-320, 1e308),
    *("", " ", "0", "nan", "true", "\0", "\ud800", "é" * 300, "x" * 70_000, "‮abc", "{", "%s{0}"),
    *("/", "..", "../" * 60, "/dev/null", "/dev/zero", "/proc/self/mem", "C:\\x", "CON", "aux.txt"),
    *("a\nb", "~", "http://", "https://user:hf_secretsecretsecret@x.y/z", "org/name", "."),
    *([], [[]], {}, [None], [{}], {"": ""}, {"kind": None}, {"kind": "x"}, [[[[[[[]]]]]]]),
    *(["x"] * 500, {str(number): number for number in range(300)}),
)
_BAD_TEXTS = (
    *("", "[]", "null", "{", "}", '{"a": NaN}', '{"a": 1, "a": 2}', "\ufeff{}", "\0", "//x\n{}"),
    *("[" * 50_000, '{"a":' * 20_000, '{"version": 99999999999999999999}', '{"version": "7"}'),
)


class _TookTooLongError(BaseException):
    pass


def hostile_configs(folder: Path, times: int, seed: int) -> Iterator[Result]:
    """Check configs that are wrong in one to four places; some of them are no JSON at all."""
    config = runs.write_project(folder)
    documents = [json.loads(config.read_text())]
    documents += [
        json.loads(new_run(config, case).config.read_text()) for case in CASES
    ]  # with every setting of their variants
    choices = [*_choices(TrainConfig.model_json_schema())]
    draw = random.Random(f"{seed} configs")
    path = folder / "hostile.json"
    for number in range(times):
        text = _hostile_text(draw, documents, choices)
        path.write_bytes(text)
        yield _answer(["check", str(path)], "configs", f"{number}", text)


def damaged_files(folder: Path, times: int, seed: int) -> Iterator[Result]:
    """Describe files of every kind that this program reads, each damaged in one of seven ways."""
    config = runs.write_project(folder)
    run = new_run(config, "lora-accumulation")
    assert main_quietly(["check", str(config)])[0] == EXIT_DONE
    run.events.write_text('{"type": "Progress", "step": 1, "loss": 0.5, "time": 1.0}\n' * 20)
    pictures = sorted((folder / "pictures").glob("*.png"))
    for suffix in ("jpg", "webp", "gif", "bmp"):
        with Image.open(pictures[0]) as image:
            image.save(pictures[0].with_suffix(f".{suffix}"))
    wholes: list[tuple[Path, list[str]]] = [
        *((path, ["show", str(path)]) for path in _model_files(folder)),
        *((path, ["show", str(path)]) for path in sorted((folder / "pictures").glob("*.*"))[:5]),
        *(
            (path, ["check-data", str(folder / "pictures")])
            for path in sorted((folder / "pictures").glob("*0.*"))
        ),
        (run.config, ["show", str(run.path)]),
        (run.events, ["show", str(run.path)]),
        (folder / "base" / "unet" / "config.json", ["show", str(folder / "base")]),
        (folder / "base" / "model_index.json", ["check", str(config)]),
    ]
    contents = {path: path.read_bytes() for path, _ in wholes}
    draw = random.Random(f"{seed} files")
    for number in range(times):
        path, command = wholes[number % len(wholes)]
        how = draw.choice(_DAMAGES)
        path.write_bytes(how(draw, contents[path]))
        yield _answer(command, "files", f"{number} {path.name} {how.__name__}", b"")
        path.write_bytes(contents[path])


def _model_files(folder: Path) -> list[Path]:
    """A LoRA, an embedding and a base model, as safetensors and as pickles."""
    single = tiny.write_single_file(folder / "single.safetensors")
    layer = "lora_unet_down_blocks_0_attentions_0_proj_in"
    tensors = {
        f"{layer}.lora_down.weight": torch.zeros(4, 8, 1, 1),
        f"{layer}.lora_up.weight": torch.zeros(8, 4, 1, 1),
        f"{layer}.alpha": torch.tensor(4.0),
    }
    save_file(
        tensors, folder / "lora.safetensors", {"ss_network_dim": "4", "ss_tag_frequency": "{}"}
    )
    save_file({"emb_params": torch.zeros(2, 768)}, folder / "embedding.safetensors")
    torch.save({"state_dict": tensors}, folder / "lora.ckpt")
    torch.save({"string_to_param": {"*": torch.zeros(1, 768)}}, folder / "embedding.pt")
    names = ("lora.safetensors", "embedding.safetensors", "lora.ckpt", "embedding.pt")
    return [single, *(folder / name for name in names)]


def main_quietly(arguments: Sequence[str]) -> tuple[int, str]:
    """The exit code of a command, and all that it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            code = main(arguments)
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
    return code, printed.getvalue()


def _answer(command: Sequence[str], part: str, fault: str, text: bytes) -> Result:
    def stop(*_: object) -> None:
        raise _TookTooLongError

    problems = []
    limits = (
        (signal.ITIMER_PROF, signal.SIGPROF, MOST_SECONDS),
        (signal.ITIMER_REAL, signal.SIGALRM, MOST_WAITING),
    )
    before = [signal.signal(number, stop) for _, number, _ in limits]
    for timer, _, seconds in limits:
        signal.setitimer(timer, seconds)
    try:
        code, printed = main_quietly(command)
        if code not in (EXIT_DONE, EXIT_USER):
            problems.append(f"exit code {code}")
        if code == EXIT_USER and not printed.strip():
            problems.append("no message")
        if "Traceback" in printed:
            problems.append(f"a traceback: {printed[-300:]}")
    except _TookTooLongError:
        problems.append(f"no answer in time: {traceback.format_exc()[-600:]}")
    except Exception:  # noqa: BLE001 - counted, and the next one is tried
        problems.append(traceback.format_exc()[-900:])
    finally:
        for (timer, number, _), handler in zip(limits, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)
    shown = text[:1500].decode(errors="replace") if problems else ""
    return Result(part, command[0], fault, shown, tuple(problems))


def _hostile_text(
    draw: random.Random, documents: Sequence[dict[str, Any]], choices: Sequence[Any]
) -> bytes:
    kind = draw.random()
    if kind < 0.03:
        return draw.choice(_BAD_TEXTS).encode(errors="surrogatepass")
    document = json.loads(json.dumps(draw.choice(documents)))
    for _ in range(draw.randint(1, 4)):
        _spoil(draw, document, choices)
    text = json.dumps(document).encode(errors="surrogatepass")
    return draw.choice(_DAMAGES)(draw, text) if kind < 0.1 else text


def _spoil(draw: random.Random, document: dict[str, Any], choices: Sequence[Any]) -> None:
    """Change one value, key or section of a document, at a place drawn from all of them."""
    places = list(_places(document))
    inside, key = draw.choice(places)
    value = deepcopy(draw.choice(_HOSTILE if draw.random() < 0.6 else choices))
    match draw.randrange(8):
        case 0:
            del inside[key]
        case 1 if isinstance(inside, dict):
            inside[str(value)[:80]] = inside.pop(key)
        case 2:
            other, name = draw.choice(places)
            inside[key] = deepcopy(other.get(name) if isinstance(other, dict) else 0)
        case 3:
            inside[key] = [inside[key]]
        case _:
            inside[key] = value


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a document: what it is in, and its key or number."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        yield node, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _choices(schema: Any) -> Iterator[Any]:
    """Every value that a schema names."""
    if isinstance(schema, dict):
        yield from schema.get("enum", ())
        if "const" in schema:
            yield schema["const"]
    if isinstance(schema, dict | list):
        for value in schema.values() if isinstance(schema, dict) else schema:
            yield from _choices(value)


def _cut(draw: random.Random, content: bytes) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def _flip(draw: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.randint(1, 8)):
        if changed:
            changed[draw.randrange(min(len(changed), 4096))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _insert(draw: random.Random, content: bytes) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + draw.randbytes(draw.randint(1, 64)) + content[at:]


def _double(draw: random.Random, content: bytes) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + content


def _zero(draw: random.Random, content: bytes) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + bytes(min(64, len(content) - at)) + content[at + 64 :]


def _rubbish(draw: random.Random, content: bytes) -> bytes:
    return draw.randbytes(min(len(content), 4096))


def _inflate(draw: random.Random, content: bytes) -> bytes:
    """With a length of a header, or the first number of a text, that is enormous."""
    return draw.choice((b"\xff" * 8, b"\xff\xff\xff\x7f\0\0\0\0", b"9" * 5000)) + content[8:]


_DAMAGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *(_cut, _flip, _insert, _double, _zero, _rubbish, _inflate),
)
