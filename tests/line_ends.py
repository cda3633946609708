"""The checker of the rule that texts are cut into lines by one function."""

import ast
from collections.abc import Iterator

from tests.rules import Source

SPLITTER = "onetrainer/files/lines.py"


def line_violations(source: Source) -> Iterator[str]:
    """Lines end at "\\n", "\\r\\n" and "\\r" for every reader: training, editor, message, terminal.

    `splitlines` also ends them at U+2028, U+0085, form feeds and others; "\\n" alone leaves "\\r".
    Bytes, whose lines are this program's own, are split at b"\\n".
    """
    for node in source.nodes if source.path != SPLITTER else ():
        match node:
            case ast.Call(func=ast.Attribute(attr="splitlines" | "readlines" | "iter_lines")):
                pass
            case ast.Call(
                func=ast.Attribute(attr="split" | "rsplit"),
                args=[ast.Constant(value="\n" | "\r\n" | "\r"), *_],
            ):
                pass
            case _:
                continue
        yield f"{source.path}:{node.lineno}: lines are split by split_lines ({SPLITTER})"
