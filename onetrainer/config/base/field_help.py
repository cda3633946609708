"""The strings under the fields of sections, which are the help of settings.

They are read from the source when a help is asked for: pydantic would read all of them whenever
the program begins, which takes a third of the time until the window is on the screen.
"""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache

from pydantic import BaseModel

_Body = ast.Module | ast.ClassDef | ast.FunctionDef


def owner_of(section: type[BaseModel], name: str) -> type[BaseModel]:
    """Return the class, a section or one that it inherits from, whose body defines a field."""
    return next(
        each
        for each in section.__mro__
        if issubclass(each, BaseModel) and name in vars(each).get("__annotations__", {})
    )


def field_help(section: type[BaseModel], name: str) -> str:
    """Return the description of a field, or the string under it, in one line; "" for none."""
    owner = owner_of(section, name)
    text = owner.model_fields[name].description
    if text is None:
        text = _helps_in(owner.__module__).get(owner.__qualname__, {}).get(name, "")
    return " ".join(text.split())


@cache
def _helps_in(module: str) -> Mapping[str, Mapping[str, str]]:
    """Return the strings under the fields of all classes of a module, by class and field."""
    source = inspect.getsource(sys.modules[module])
    return {name: dict(_strings_under_fields(body)) for name, body in _classes(ast.parse(source))}


def _classes(body: _Body, prefix: str = "") -> Iterator[tuple[str, ast.ClassDef]]:
    for part in body.body:
        if isinstance(part, ast.ClassDef):
            yield f"{prefix}{part.name}", part
            yield from _classes(part, f"{prefix}{part.name}.")
        elif isinstance(part, ast.FunctionDef):
            yield from _classes(part, f"{prefix}{part.name}.<locals>.")


def _strings_under_fields(body: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in zip(body.body, body.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, inspect.cleandoc(text)
