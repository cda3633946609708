"""The checkers behind the rules of ARCHITECTURE.md: pure functions over parsed sources."""

import ast
import gc
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

WINGS = ("onetrainer", "modules", "ui")
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_NESTING = 4

# R1: a library, and the one wing that may load it.
HOMES = {
    **dict.fromkeys(
        (
            "torch",
            "torchvision",
            "diffusers",
            "transformers",
            "peft",
            "accelerate",
            "lycoris",
            "onnxruntime",
        ),
        "modules",
    ),
    **dict.fromkeys(("tkinter", "_tkinter", "tkinterdnd2"), "ui"),
}

# R3: folders and files at the top of each wing, from the ground up. Each imports from lower
# ranks only, so that no two folders import each other.
RANKS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "onetrainer": (
        ("redaction", "seeds"),
        ("errors",),
        ("families", "files"),
        ("config/base", "gpu_driver"),
        (
            *("config/data", "config/methods", "config/optimizers"),
            *("images", "json_file", "run", "tensor_files"),
        ),
        ("config/run", "demo", "edits", "model_files/original", "trust"),
        ("config/rewards", "model_files"),
        ("config/objectives", "metrics"),
        ("config", "schedules"),
        ("concepts", "presets"),
        ("captions",),
        ("dataset",),
        ("cache", "jobs", "rewards", "rules"),
        ("captioning", "checks", "guide", "preview", "support"),
        ("queue",),
        ("messages",),
        ("cli",),
        ("__main__",),
    ),
    "modules": (
        (
            *("devices", "formats/files", "memory/layers", "meta_device", "seeds", "user_code"),
            "world",
        ),
        ("diffusion", "formats/embeddings", "formats/original", "memory"),
        ("formats", "formats/models", "interfaces", "rewards/networks"),
        ("data", "families/prompts", "formats/lora", "optim", "rewards", "sampling"),
        ("broken_steps", "families", "methods/layers", "objectives", "sharding"),
        ("captioning", "demo", "evaluation", "methods/adapters", "training"),
        ("methods", "stepping"),
        ("trainer",),
        ("assembly", "lora_tools"),
        ("forecast",),
        ("jobs",),
        ("worker",),
    ),
    "ui": (
        ("theme",),
        ("model", "progress"),
        ("background",),
        ("editing",),
        ("messages",),
        ("widgets",),
        ("charts", "context"),
        ("models",),
        ("dialogs", "shell"),
        ("actions", "forms"),
        ("pages/*",),
        ("pages",),
        ("app",),
        ("__main__",),
    ),
}
# What a base model is stands in its spec and its engine; other files do not ask for one by name.
FAMILY_ROOMS = ("onetrainer/families/", "modules/families/")
FAMILY_NAMES = re.compile(r"\b(?:sd15|sd2|sdxl|te2|text_encoder_2|inpainting)\b", re.IGNORECASE)
NAMES_A_FAMILY: Mapping[str, str] = {
    "onetrainer/config/data/data.py": "people look for a setting by what such models are called",
    "onetrainer/config/run/sampling.py": "people look for a setting by what such models are called",
    "onetrainer/config/migrate.py": "older configs",
    "onetrainer/config/renamed.py": "older configs",
    "modules/demo/train_base.py": "the demo's model is of one family",
}
"""Files that may, with the reason."""
MOST_AT_THE_TOP = 6
# R4: the rooms of the engine that see the whole config.
SEE_THE_CONFIG = ("assembly", "forecast", "jobs")


@dataclass(frozen=True)
class Source:
    """One Python file. module: its dotted name, a package's without `__init__`."""

    path: str
    module: str
    is_package: bool
    lines: tuple[str, ...]
    tree: ast.Module

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All of its tree, gone through once for all rules."""
        return tuple(ast.walk(self.tree))


@dataclass(frozen=True)
class Import:
    """One import. target: the dotted name of a module of ours, or anything else that was named."""

    target: str
    line: int


def read_sources(root: Path, folders: Iterable[str]) -> list[Source]:
    """Every Python file below the folders."""
    paths = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
    gc.disable()  # it would go through a million nodes again and again, for as long as they take
    try:
        return [parse(path.relative_to(root).as_posix(), path.read_text("utf-8")) for path in paths]
    finally:
        gc.enable()


def parse(path: str, text: str) -> Source:
    """A source from its text; its module's name follows from its path."""
    parts = path.removesuffix(".py").split("/")
    is_package = parts[-1] == "__init__"
    module = ".".join(parts[:-1] if is_package else parts)
    return Source(path, module, is_package, tuple(text.splitlines()), ast.parse(text, path))


def imports(source: Source, known: Iterable[str]) -> Iterator[Import]:
    """Every import of a file, also those inside functions and for types only.

    known: our modules; `from a import b` means a.b where that is one of them, and a otherwise.
    """
    ours = set(known)
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(source, node)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield Import(full if full in ours else base, node.lineno)


def library_violations(sources: Iterable[Source]) -> Iterator[str]:
    """R1: each library stays in its wing."""
    for source in sources:
        for found in imports(source, ()):
            home = HOMES.get(_top(found.target))
            if home is not None and home != _top(source.module):
                yield f"{source.path}:{found.line}: {found.target} belongs to {home}/ alone"


def wing_violations(sources: Iterable[Source]) -> Iterator[str]:
    """R2: onetrainer imports neither wing, and the wings do not import each other."""
    for source in sources:
        own = _top(source.module)
        allowed = {own, "onetrainer"}
        for found in imports(source, ()):
            if _top(found.target) in WINGS and _top(found.target) not in allowed:
                yield f"{source.path}:{found.line}: {own} may not import {found.target}"


def rank_violations(sources: Iterable[Source]) -> Iterator[str]:
    """R3: inside a wing a room imports lower ranks only."""
    rooms = {source.module: _room(source) for source in sources}
    for source in sources:
        wing, room = _top(source.module), rooms[source.module]
        rank = _rank(wing, room)
        if rank is None:
            if room:
                yield f"{source.path}: {wing}/{room} has no rank yet; give it one in tests/rules.py"
            continue
        for found in imports(source, rooms):
            other = rooms.get(found.target, "")
            lower = _rank(wing, other)
            if _top(found.target) != wing or other in ("", room) or lower is None:
                continue
            if lower >= rank:
                yield f"{source.path}:{found.line}: {room} may not import {other}"


def top_violations(sources: Iterable[Source]) -> Iterator[str]:
    """R3: a wing shows its subject at a glance, so few files stand at its top."""
    for wing in WINGS:
        files = [source.path for source in sources if source.path.rpartition("/")[0] == wing]
        if len(files) > MOST_AT_THE_TOP:
            yield f"{wing}: {len(files)} files at its top, at most {MOST_AT_THE_TOP}"


def package_violations(sources: Iterable[Source]) -> Iterator[str]:
    """R3: a folder's `__init__.py` imports none of ours: one of its files loads no other."""
    for source in sources:
        for found in imports(source, ()) if source.is_package and "." in source.module else ():
            if _top(found.target) in WINGS:
                yield f"{source.path}:{found.line}: import {found.target} where it is used"


def circles(sources: Iterable[Source]) -> list[list[str]]:
    """R3: every set of files that import each other in a circle, smallest names first."""
    listed = list(sources)
    known = {source.module for source in listed}
    graph = {
        source.module: sorted({i.target for i in imports(source, known)} & known - {source.module})
        for source in listed
    }
    return sorted(sorted(group) for group in _components(graph) if len(group) > 1)


def config_violations(sources: Iterable[Source]) -> Iterator[str]:
    """R4: of the engine only assembly, forecast and jobs see the whole config."""
    for source in sources:
        if _top(source.module) != "modules" or _room(source) in SEE_THE_CONFIG:
            continue
        for node in source.nodes:
            if _names_whole_config(node):
                yield f"{source.path}:{node.lineno}: only assembly may see the whole config"


def family_violations(sources: Iterable[Source]) -> Iterator[str]:
    """A family is one folder and one line: elsewhere nothing depends on which one it is."""
    for source in sources:
        if source.path.startswith(FAMILY_ROOMS):
            continue
        found = [n for n, line in enumerate(source.lines, 1) if FAMILY_NAMES.search(line)]
        if source.path not in NAMES_A_FAMILY:
            for number in found:
                yield f"{source.path}:{number}: what a family is belongs into its spec"
        elif not found:
            yield f"{source.path}: it names no family and needs no exception"


def size_violations(source: Source) -> Iterator[str]:
    """R5: files, functions and nesting stay small."""
    if len(source.lines) > MAX_FILE_LINES:
        yield f"{source.path}: {len(source.lines)} lines, at most {MAX_FILE_LINES}"
    for node in source.nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > MAX_FUNCTION_LINES:
            yield f"{source.path}:{node.lineno}: {node.name} has {length} lines, at most 60"
        if _nesting(node.body) > MAX_NESTING:
            yield f"{source.path}:{node.lineno}: {node.name} is nested deeper than {MAX_NESTING}"


def manner_violations(source: Source) -> Iterator[str]:
    """What ruff has no rule for: silenced checks without a reason, files that are about nothing."""
    if source.path.rsplit("/", 1)[-1] in ("utils.py", "util.py", "helpers.py", "common.py"):
        yield f"{source.path}: a file is named after its subject"
    for number, line in enumerate(source.lines, 1):
        if re.search(r"#\s*type:\s*ignore(?!\[[\w, -]+\]\s*\S)", line):
            yield f"{source.path}:{number}: `type: ignore` needs a code and a reason behind it"


def match_violations(source: Source) -> Iterator[str]:
    """A match over classes of ours names each: a new one must not fall through to `case _`."""
    classes = {node.name for node in source.nodes if isinstance(node, ast.ClassDef)}
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom) and _top(node.module or "") in WINGS:
            classes |= {alias.asname or alias.name for alias in node.names}
    for node in source.nodes:
        if not isinstance(node, ast.Match):
            continue
        matched = {name for case in node.cases for name in _matched_classes(case.pattern)}
        match node.cases[-1]:
            case ast.match_case(pattern=ast.MatchAs(name=None), guard=None) if matched & classes:
                yield f"{source.path}:{node.lineno}: name the cases that `case _` stands for"


def _matched_classes(pattern: ast.pattern) -> Iterator[str]:
    """The classes that a pattern, or any of its alternatives, is an instance of."""
    match pattern:
        case ast.MatchClass(cls=ast.Name(id=name)):
            yield name
        case ast.MatchOr(patterns=alternatives):
            for alternative in alternatives:
                yield from _matched_classes(alternative)
        case ast.MatchAs(pattern=ast.pattern() as inner):
            yield from _matched_classes(inner)


def _top(module: str) -> str:
    return module.split(".", 1)[0]


def _room(source: Source) -> str:
    """The folder of a file below its wing, or a file at the top; "" for the wing itself."""
    _, _, inside = source.path.partition("/")
    folder, _, name = inside.rpartition("/")
    stem = name.removesuffix(".py")
    return folder or ("" if stem == "__init__" else stem)


def _rank(wing: str, room: str) -> int | None:
    """A room's rank; "folder/*" stands for every folder in it."""
    names = {room, f"{room.rpartition('/')[0]}/*"}
    ranks = RANKS.get(wing, ())
    return next((rank for rank, rooms in enumerate(ranks) if names & set(rooms)), None)


def _absolute(source: Source, node: ast.ImportFrom) -> str:
    """The module that a `from` names; dots count from the file's own package."""
    if node.level == 0:
        return node.module or ""
    parts = source.module.split(".")
    package = parts if source.is_package else parts[:-1]
    base = package[: len(package) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)


def _names_whole_config(node: ast.AST) -> bool:
    match node:
        case ast.ImportFrom(module="onetrainer.config.train"):
            return True
        case ast.ImportFrom(module="onetrainer.config", names=names):
            return any(alias.name == "train" for alias in names)
        case ast.ImportFrom(names=names) | ast.Import(names=names):
            whole = ("TrainConfig", "onetrainer.config.train")
            return any(alias.name in whole for alias in names)
        case ast.Name(id="TrainConfig") | ast.Attribute(attr="TrainConfig"):
            return True
    return False


def _nesting(body: Iterable[ast.stmt]) -> int:
    """How deep blocks stand inside each other; an elif is no deeper than its if."""
    return max((_depth(statement) for statement in body), default=0)


def _depth(node: ast.stmt) -> int:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return 0  # judged on its own
    if isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        return max(1 + _nesting(node.body), _depth(node.orelse[0]))
    blocks = [value for _, value in ast.iter_fields(node) if _is_block(value)]
    inner = [part for block in blocks for part in block]
    statements = [
        statement
        for part in inner
        for statement in (
            part.body if isinstance(part, ast.ExceptHandler | ast.match_case) else [part]
        )
    ]
    return 1 + _nesting(statements) if statements else 0


def _is_block(value: object) -> bool:
    kinds = (ast.stmt, ast.ExceptHandler, ast.match_case)
    return isinstance(value, list) and bool(value) and isinstance(value[0], kinds)


def _components(graph: Mapping[str, list[str]]) -> list[list[str]]:
    """Strongly connected components. Source: Tarjan 1972, SIAM Journal on Computing 1(2)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in graph[name]:
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            start = stack.index(name)
            found.append(stack[start:])
            del stack[start:]

    for name in graph:
        if name not in index:
            visit(name)
    return found
