"""Bad input gets a clear error and the right exit code from every command, never a traceback."""

import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from agent_resolver.schema import limit
from tests.conftest import PROJECTS, Run

AGENTS = (PROJECTS / "quick-start" / "agents.md").read_bytes()
INDEX = (PROJECTS / "quick-start" / "mcp.index.json").read_bytes()
AGENTS_DIGEST = f"sha256-{sha256(AGENTS).hexdigest()}"

Make = Callable[[Path], object]


def with_agents(old: bytes, new: bytes) -> bytes:
    assert old in AGENTS
    return AGENTS.replace(old, new, 1)


def with_index(old: bytes, new: bytes) -> bytes:
    assert old in INDEX
    return INDEX.replace(old, new, 1)


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


ALIAS_BOMB = b"".join(
    [b"---\nb0: &b0 [x, x, x, x, x, x, x, x, x]\n"]
    + [b"b%d: &b%d [%s]\n" % (n, n, b", ".join([b"*b%d" % (n - 1)] * 9)) for n in range(1, 9)]
    + [b"---\n"]
)

BAD_AGENT_FILES: dict[str, tuple[bytes, int, str]] = {
    "an empty file": (b"", 1, "The file is empty"),
    "no front matter": (b"# Just prose\n", 1, "No front matter found"),
    "front matter that is not closed": (AGENTS.replace(b"\n---\n", b"\n", 1), 1, "Front matter is not closed"),
    "bytes that are not UTF-8": (
        with_agents(b"my-", b"\xff\xfe\xfd"),
        1,
        "not valid UTF-8 (agents.md:2:7)",
    ),
    "UTF-16": (AGENTS.decode().encode("utf-16"), 1, "The file is UTF-16, not UTF-8"),
    "a NUL": (with_agents(b"my-", b"m\0y-"), 1, "The file holds a NUL character (agents.md:2:8)"),
    "a control character": (with_agents(b"my-", b"m\x07y-"), 1, "Control character U+0007 is not allowed"),
    "a duplicate key": (with_agents(b"version: 1.0.0", b"name: other\nversion: 1.0.0"), 1, "name: Duplicate key"),
    "a numeric version": (with_agents(b"1.0.0", b"1.0"), 1, 'hint: quote it: "1.0"'),
    "a tab": (with_agents(b"  mcp:", b"\tmcp:"), 1, "indent with spaces, not tabs"),
    "an alias bomb": (ALIAS_BOMB, 1, f"More than {limit.MAX_YAML_NODES} values, aliases expanded"),
    "a recursive alias": (
        with_agents(b"constraints:", b"loop: &l [*l]\nconstraints:"),
        1,
        "Alias `*l` stands",
    ),
    "deep nesting": (with_agents(b"1.0.0", nested(5000)), 1, "Values nest deeper than 64 levels"),
    "a tag that would run code": (with_agents(b"1.0.0", b"!!python/object/apply:os.system [id]"), 1, "Tag `!!python"),
    "two documents": (with_agents(b"constraints:", b"...\n{}\n...\nconstraints:"), 1, "Invalid YAML"),
    "a separator in a scope": (with_agents(b"read:metrics", b'"read,metrics"'), 1, "Must not contain ','"),
    "front matter that is too long": (b"---\nx: " + b"y" * 300_000 + b"\n---\n", 1, "Front matter is longer than"),
    "a file that is too large": (AGENTS + b" " * limit.MAX_AGENT_FILE_BYTES, 1, "is larger than 4,194,304 bytes"),
    "a list": (b"---\n- a\n---\n", 1, "(file): Expected object, received array"),
}

BAD_INDEXES: dict[str, tuple[bytes, int, str]] = {
    "an empty file": (b"", 1, "found the end of the file"),
    "an object": (b"{}", 1, "servers: Required (mcp.index.json:1:1)"),
    "a trailing comma": (INDEX.rstrip()[:-1] + b",]", 1, "remove the comma before it"),
    "bytes that are not UTF-8": (with_index(b"Acme", b"\xff"), 1, "Byte 0xff is not valid UTF-8"),
    "bytes that are not UTF-8 in an unknown key": (with_index(b'"id"', b'"x": "\xff", "id"'), 1, "not valid UTF-8"),
    "a lone surrogate": (with_index(b"Acme", b"\\ud800"), 1, "half a surrogate pair"),
    "a NUL": (with_index(b"Acme", b"a\\u0000"), 1, "control characters, found U+0000"),
    "NaN": (
        with_index(b'"policy": {', b"{") if b'"policy"' in INDEX else with_index(b"true", b"NaN"),
        1,
        "`NaN` is not JSON",
    ),
    "a duplicate key": (with_index(b'"id"', b'"id": "x", "id"'), 1, "0.id: Duplicate key, first given on line"),
    "a duplicate key spelled otherwise": (with_index(b'"id"', b'"\\u0069d": "x", "id"'), 1, "Duplicate key"),
    "a duplicate server": (b"[%s,%s]" % ((INDEX.strip()[1:-1],) * 2), 1, "Duplicate server"),
    "a separator in an id": (with_index(b"acme-analytics", b"acme@analytics"), 1, "0.id: Must not contain '@'"),
    "a bar in an endpoint": (with_index(b"mcp.acme.com", b"mcp|acme"), 1, "0.endpoint: Must not contain '|'"),
    "deep nesting": (nested(100_000), 1, "Values nest deeper than 64 levels"),
    "deep nesting in an unknown key": (
        with_index(b'"id"', b'"x": ' + nested(70) + b', "id"'),
        1,
        "nest deeper than 64",
    ),
    "a number out of range": (
        with_index(b'"trust"', b'"policy": {"rateLimitPerMin": 1e999}, "trust"'),
        1,
        "out of range",
    ),
}


@pytest.mark.parametrize("command", ["validate", "resolve", "verify", "why reporting", "tree"])
@pytest.mark.parametrize("name", BAD_AGENT_FILES)
def test_a_bad_agent_file_is_refused(project: Path, run: Run, name: str, command: str) -> None:
    content, code, words = BAD_AGENT_FILES[name]
    (project / "agents.md").write_bytes(content)

    ran = run(*command.split())

    assert words in ran.stderr
    assert ran.code == code
    assert not (project / "agents.lock").exists()


@pytest.mark.parametrize("name", BAD_AGENT_FILES)
def test_a_bad_agent_file_does_not_hide_the_others_of_a_catalog(project: Path, run: Run, name: str) -> None:
    (project / "agents").mkdir()
    (project / "agents" / "bad.md").write_bytes(BAD_AGENT_FILES[name][0])
    (project / "agents" / "good.md").write_bytes(AGENTS)

    ran = run("catalog", "list", "--root", "agents", "--json")

    assert ran.code == 0
    assert ran.stderr in {"", "warning: 1 agent file cannot be served; `agent catalog check` says why\n"}
    assert (AGENTS_DIGEST, "resolved") in [(agent["digest"], agent["status"]) for agent in json.loads(ran.stdout)]


@pytest.mark.parametrize(
    "command",
    [
        *("validate", "discover", "resolve", "verify", "why reporting", "tree"),
        *("resolve --workspace", "verify --workspace", "catalog list", "catalog stats"),
    ],
)
@pytest.mark.parametrize("name", BAD_INDEXES)
def test_a_bad_index_is_refused(project: Path, run: Run, name: str, command: str) -> None:
    content, code, words = BAD_INDEXES[name]
    (project / "mcp.index.json").write_bytes(content)

    ran = run(*command.split())

    assert words in ran.stderr
    assert ran.code == code
    assert not (project / "agents.lock").exists()


NO_FILES: dict[str, tuple[Make, str]] = {
    "a directory": (Path.mkdir, "is a directory, not a regular file"),
    "a named pipe": (os.mkfifo, "is a named pipe, not a regular file"),
    "a dangling link": (lambda path: path.symlink_to("nowhere"), "does not exist"),
    "a link to itself": (lambda path: path.symlink_to(path), "cannot be read"),
    "nothing": (lambda _: None, "does not exist"),
}


@pytest.mark.parametrize("option", ["--agents", "--index"])
@pytest.mark.parametrize("command", ["validate", "resolve", "verify", "why reporting", "tree"])
@pytest.mark.parametrize("name", NO_FILES)
def test_what_is_no_regular_file_is_a_usage_error(
    project: Path, run: Run, name: str, command: str, option: str
) -> None:
    make, words = NO_FILES[name]
    make(project / "odd")

    ran = run(*command.split(), option, "odd")

    assert words in ran.stderr
    assert ran.code == 2


@pytest.mark.parametrize("change", [lambda text: b"\xef\xbb\xbf" + text, lambda text: text.replace(b"\n", b"\r\n")])
def test_byte_order_marks_and_line_ends_change_nothing(
    project: Path, run: Run, change: Callable[[bytes], bytes]
) -> None:
    run("resolve", "--explain")
    before = [(project / name).read_bytes() for name in ("agents.lock", "agents.resolution.json")]
    for name in ("agents.md", "mcp.index.json"):
        (project / name).write_bytes(change((project / name).read_bytes()))

    assert run("validate").code == 0
    assert run("resolve", "--explain").code == 0
    assert [(project / name).read_bytes() for name in ("agents.lock", "agents.resolution.json")] == before


def test_a_byte_order_mark_is_a_warning_and_strict_refuses_it(project: Path, run: Run) -> None:
    (project / "agents.md").write_bytes(b"\xef\xbb\xbf" + AGENTS)

    assert "warning: (file): The file opens with a byte order mark (agents.md:1:1)" in run("validate").stderr
    assert run("validate", "--strict").code == 1


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["nonsense"],
        ["resolve", "--nonsense"],
        ["schema"],
        ["schema", "none"],
        ["validate", "--format", "x"],
        ["verify", "nonsense"],
        ["why"],
        ["why", "a", "b"],
        ["tree", "nonsense"],
        ["diff"],
        ["diff", "a"],
        ["diff", "a", "b", "c"],
        ["diff", "a", "b", "--format", "x"],
        ["diff", "a", "b", "--json", "--format", "markdown"],
        ["workspace"],
        ["workspace", "users"],
        ["catalog"],
        ["catalog", "nonsense"],
        ["catalog", "list", "nonsense"],
        ["catalog", "search"],
        ["catalog", "search", "x", "--limit", "many"],
        ["catalog", "show"],
        ["catalog", "show", "x", "--format", "x"],
        ["catalog", "lint"],
        ["serve", "nonsense"],
        ["serve", "--http", "nonsense"],
        ["serve", "--http", "127.0.0.1:65536"],
        ["serve", "--page-size", "many"],
        ["serve", "--print-config", "nonsense"],
    ],
)
def test_a_bad_command_line_exits_with_two_and_usage(run: Run, command: list[str]) -> None:
    ran = run(*command)

    assert ran.code == 2
    assert "usage: agent" in ran.stderr
    assert ran.stdout == ""
