"""Holds `schema` and `core` to what they promise: no clock, disk, network, environment or randomness.

Ruff's `banned-api` says so while one types, but it knows only what is forbidden. Here the list is of what is allowed.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "agent_resolver"
PURE_ROOMS = ("schema", "core")

# A package on the list covers its modules.
ALLOWED_IMPORTS = frozenset(
    {
        "__future__",
        # The interpreter's own SHA-256, without OpenSSL.
        "_sha2",
        "_sha256",
        "abc",
        # How a room offers its names; no value depends on it.
        "agent_resolver._export",
        "agent_resolver.core",
        "agent_resolver.schema",
        "base64",
        "binascii",
        "bisect",
        "collections",
        "contextlib",
        "copy",
        "dataclasses",
        "datetime",
        "decimal",
        "difflib",
        "enum",
        "functools",
        "graphlib",
        "hashlib",
        "heapq",
        "hmac",
        "html",
        "ipaddress",
        "itertools",
        "json",
        "keyword",
        "math",
        "msgspec",
        "operator",
        "re",
        "shlex",
        "string",
        "struct",
        "textwrap",
        "tomllib",
        "types",
        "typing",
        "unicodedata",
        "urllib.parse",
        "yaml",
    }
)
FORBIDDEN_NAMES = frozenset({"__import__", "breakpoint", "compile", "eval", "exec", "input", "open", "print"})
CLOCKS = frozenset({"now", "today", "utcnow"})


def pure_modules() -> list[Path]:
    return sorted(path for room in PURE_ROOMS for path in (PACKAGE / room).rglob("*.py"))


def offences(source: str, package: str) -> list[str]:
    """What a module in `package` does that a pure room may not, each with its line."""
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt | ast.expr))
    found = sorted((node.lineno, what) for node in nodes for what in offences_of(node, package))
    return [f"line {line}: {what}" for line, what in found]


def offences_of(node: ast.stmt | ast.expr, package: str) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (f"imports {name.name}" for name in names if not allowed(name.name))
        case ast.ImportFrom(module=module, names=names, level=level):
            origin = absolute(module or "", package, level)
            wanted = [f"{origin}.{name.name}" for name in names]
            yield from (f"imports {name}" for name in wanted if not allowed(name))
        case ast.Name(id=name, ctx=ast.Load()) if name in FORBIDDEN_NAMES:
            yield f"uses {name}"
        case ast.Call(func=ast.Attribute(attr=name)) if name in CLOCKS:
            yield f"reads the clock with {name}"


def absolute(module: str, package: str, level: int) -> str:
    """The full name of `module`, as written with `level` dots in front inside `package`."""
    above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
    return ".".join([*above, *filter(None, [module])])


def allowed(name: str) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:length]) in ALLOWED_IMPORTS for length in range(1, len(parts) + 1))


# One test over all files, so that it also stands while a room is empty.
def test_pure_rooms_touch_nothing_outside() -> None:
    found = {
        str(path.relative_to(PACKAGE)): offences(path.read_text(encoding="utf-8"), package_of(path))
        for path in pure_modules()
    }

    assert {path: lines for path, lines in found.items() if lines} == {}


def package_of(path: Path) -> str:
    return ".".join(path.parent.relative_to(PACKAGE.parent).parts)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import time", "imports time"),
        ("import os.path", "imports os.path"),
        ("import urllib.request", "imports urllib.request"),
        ("from urllib import request", "imports urllib.request"),
        ("from pathlib import Path", "imports pathlib.Path"),
        ("from agent_resolver.storage import read", "imports agent_resolver.storage.read"),
        ("from agent_resolver import resolve", "imports agent_resolver.resolve"),
        ("from ..storage import read", "imports agent_resolver.storage.read"),
        ("from .. import storage", "imports agent_resolver.storage"),
        ("def late() -> None:\n    import random", "imports random"),
        ("open('x')", "uses open"),
        ("show = print", "uses print"),
        ("input()", "uses input"),
        ("eval('1')", "uses eval"),
        ("exec('1')", "uses exec"),
        ("__import__('os')", "uses __import__"),
        ("from datetime import datetime\ndatetime.now()", "reads the clock with now"),
        ("import datetime\ndatetime.date.today()", "reads the clock with today"),
    ],
)
def test_an_impure_line_is_found(source: str, expected: str) -> None:
    found = offences(source, "agent_resolver.core")

    assert [line.partition(": ")[2] for line in found] == [expected]


@pytest.mark.parametrize(
    "source",
    [
        "import re, json",
        "from urllib.parse import urlsplit",
        "from urllib import parse",
        "from collections.abc import Iterable",
        "from agent_resolver.schema.issue import Issue",
        "from agent_resolver import schema",
        "from . import lock",
        "from .lock import write",
        "from ..schema import Issue",
        "from datetime import datetime\ndatetime.fromisoformat('2025-01-15')",
        "import re\nre.compile('x')",
        "door.open()",
        "context.now",
    ],
)
def test_a_pure_line_passes(source: str) -> None:
    assert offences(source, "agent_resolver.core") == []
