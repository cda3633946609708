"""The checker behind the rule on tolerances: none in a test is a bare small number."""

import ast
import operator
from collections.abc import Collection, Iterator

from tests.rules import Source

LEAST = 1e-5
"""Larger ones are what a method or a format loses, and say so; a rounding of float32 is 1e-7."""
HELPER = "tests/close.py"
_SAY_THEM = (HELPER, "tests/tolerances.py")
_KEYWORDS = frozenset({"atol", "rtol", "abs", "rel", "abs_tol", "rel_tol"})
_COMPARED = {"assert_close": 2, "allclose": 2, "assert_allclose": 2, "isclose": 2, "approx": 1}
"""Functions of libraries, with how many of their arguments come before tolerances."""
_OPERATORS = {ast.Pow: operator.pow, ast.Mult: operator.mul, ast.Div: operator.truediv}


def tolerance_violations(source: Source) -> Iterator[str]:
    """Comparisons by a small number, or by what a library takes for one by default."""
    if source.path in _SAY_THEM:
        return
    small = {
        target.id
        for node in source.nodes
        if isinstance(node, ast.Assign) and _is_small(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    computes = any(map(_names_torch, source.nodes))
    for node in source.nodes:
        if _in_call(node, small, computes) or _in_comparison(node, small):
            yield f"{source.path}:{node.lineno}: say how close in roundings, by {HELPER}"


def _in_call(call: ast.AST, small: Collection[str], computes: bool) -> bool:
    """Whether a call says how close by a small number, or compares and does not say it."""
    if not isinstance(call, ast.Call):
        return False
    name = ast.unparse(call.func).rpartition(".")[2]
    given = [word.value for word in call.keywords if word.arg in _KEYWORDS or word.arg is None]
    if name in _COMPARED:
        given += call.args[_COMPARED[name] :]
        if not given:
            return computes or name != "approx"  # its default is for numbers of plain Python
    return any(_is_small(value, small) for value in given)


def _in_comparison(node: ast.AST, small: Collection[str]) -> bool:
    """Whether something is to be less than a small number."""
    if not isinstance(node, ast.Compare):
        return False
    sides = (node.left, *node.comparators)
    for comparing, left, right in zip(node.ops, sides, sides[1:], strict=False):
        most = {ast.Lt: right, ast.LtE: right, ast.Gt: left, ast.GtE: left}.get(type(comparing))
        if most is not None and _is_small(most, small):
            return True
    return False


def _is_small(value: ast.expr, names: Collection[str] = ()) -> bool:
    """Whether a small number is in an expression, or in what a name in it stands for."""
    parts = [*ast.walk(value)]
    numbers = filter(None, map(_number, parts))
    if any(abs(number) <= LEAST for number in numbers):
        return True
    return any(isinstance(part, ast.Name) and part.id in names for part in parts)


def _number(node: ast.AST) -> float | None:
    """What an expression of nothing but numbers is."""
    match node:
        case ast.Constant(value=float() | int() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            number = _number(inner)
            return None if number is None else -number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            sides = _number(left), _number(right)
            if None not in sides and (sides[1] or not isinstance(op, ast.Div)):
                return _OPERATORS[type(op)](*sides)
    return None


def _names_torch(node: ast.AST) -> bool:
    names = [alias.name for alias in getattr(node, "names", ()) if isinstance(node, ast.Import)]
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return any(name.split(".")[0] in ("torch", "modules") for name in names)
