"""JSON as damage, other programs and strangers leave it."""

import json
import random

from pydantic import TypeAdapter

WRONG = (None, True, -1, 10**15, 2.5, "x", "", "\0", [], [[1]], {}, {"a": {"b": []}})


def corruptions(content, seed=0):
    """Yield names and contents that are made of one of ours, in a line."""
    line = json.dumps(json.loads(content)).encode()
    draws = random.Random(seed)  # the same for the same seed
    yield "empty", b""
    yield "nested lists", b"[" * 100_000
    yield "nested objects", b'{"a":' * 100_000
    yield "closed and nested", b"[" * 400 + b"]" * 400
    yield "truncated", line[: draws.randrange(1, max(2, len(line)))]
    yield "not UTF-8", line[:1] + b"\xff\xfe" + line[1:]
    yield "UTF-16", line.decode().encode("utf-16")
    yield "byte order mark", b"\xef\xbb\xbf" + line
    yield "bytes", draws.randbytes(200)
    for value in (b"NaN", b"-Infinity", b"1e400", b"9" * 400, b"9" * 5000, b"null", b"3", b'"x"'):
        yield value[:9].decode(), value
        yield f"list of {value[:9].decode()}", b"[" + value + b"]"
    document = json.loads(line)
    for path in paths(document):
        for value in WRONG:
            yield f"{path}={value!r}", json.dumps(changed(document, path, value)).encode()
        marked = json.dumps(changed(document, path, "<here>")).encode()
        nested = b"[" * 300 + b"]" * 300
        for raw in (b"NaN", b"1e999", b"9" * 30, b"9" * 5000, b'"\\ud800"', nested):
            yield f"{path}={raw[:9]!r}", marked.replace(b'"<here>"', raw)
    if isinstance(document, dict) and document:
        key = json.dumps(next(iter(document))).encode()
        yield "twice", b"{" + key + b": 1, " + line[1:]


def paths(value, path=()):
    """Yield the places of a JSON value but its own."""
    inner = value if isinstance(value, dict) else {}
    inner = dict(enumerate(value)) if isinstance(value, list) else inner
    for key, each in inner.items():
        yield (*path, key)
        yield from paths(each, (*path, key))


def changed(value, path, to):
    """Return a JSON value with another one at a place."""
    if not path:
        return to
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(copy[path[0]], path[1:], to)
    return copy


def require_type(value, kind, case):
    """Fail unless a value is of a type, with all that is in it."""
    assert TypeAdapter(kind).validate_python(value, strict=True) == value, case
