"""The examples in the help of every command: each can be typed, and each filter finds what it looks for."""

import argparse
import re
import shlex
from collections.abc import Iterator
from itertools import dropwhile, takewhile
from typing import Final

import pytest

from agent_resolver.cli.app import build_parser
from tests.docs.example import outcomes
from tests.docs.page import ROOT, Block, Section

PARSER: Final = build_parser()


def edit(old: str, new: str, path: str) -> str:
    return f"sed 's/{old}/{new}/' {path} > edited && mv edited {path}"


NARROWED: Final = edit("le=100", "le=50", "tickets.py")
MANIFEST: Final = "agent tools manifest --out"
PREPARED: Final = {
    "agent catalog list": (
        "catalog",
        f"rm agents/roles.yaml && {edit('payments', 'python', 'agents/code-reviewer.md')}",
    ),
    "agent discover": ("quick-start", "true"),
    "agent index coverage": ("quick-start", "true"),
    "agent index list": ("quick-start", edit('"version"', '"status": "deprecated", "version"', "mcp.index.json")),
    "agent index search": ("quick-start", "true"),
    "agent index show": ("quick-start", edit("acme-[a-z]*", "github", "mcp.index.json")),
    "agent tools certify": ("tickets", f"agent trust-folder && {MANIFEST} tools.manifest.json && {NARROWED}"),
    "agent tools diff": ("tickets", f"agent trust-folder && {MANIFEST} old.json && {NARROWED} && {MANIFEST} new.json"),
    "agent tools list": ("governed-agent", "agent trust-folder && agent resolve"),
    "agent tools manifest": ("tickets", "agent trust-folder"),
    "agent tree": ("quick-start", "agent resolve"),
    "agent verify": ("quick-start", f"agent resolve && {edit('version: 1.0.0', 'version: 1.1.0', 'agents.md')}"),
    "agent workspace users": ("quick-start", "agent resolve"),
}
"""For each command with a filter in an example, a project, and what is done there to give it something to find."""


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A command and all below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from commands(command)


def examples(command: argparse.ArgumentParser) -> list[str]:
    """The examples in the help of a command, without the words about them."""
    _, _, text = (command.epilog or "").partition("examples:\n")
    return [re.split(r" {3,}", line.strip())[0] for line in text.partition("\n\n")[0].splitlines()]


EXAMPLES: Final = [(command.prog, example) for command in commands(PARSER) for example in examples(command)]
FILTERS: Final = [(name, example) for name, example in EXAMPLES if "| jq " in example]


def calls(example: str) -> Iterator[list[str]]:
    """Every `agent` in an example with its arguments, without variables before it and redirections after it."""
    words = shlex.shlex(example, posix=True, punctuation_chars="|<>")
    words.commenters, words.whitespace_split = "", True
    rest = list(words)
    while rest:
        part = list(takewhile(lambda word: word != "|", rest))
        rest = rest[len(part) + 1 :]
        command = dropwhile(lambda word: re.match(r"[A-Z_]+=", word), part)
        call = list(takewhile(lambda word: word not in {"<", ">"}, command))
        if call[0] == "agent":
            yield call


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_an_example_calls_its_command_with_options_that_it_has(name: str, example: str) -> None:
    (call,) = calls(example)

    assert f"{shlex.join(call)} ".startswith(f"{name} ")
    PARSER.parse_args(call[1:])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "example"), FILTERS)
def test_the_filter_of_an_example_finds_what_it_looks_for(name: str, example: str) -> None:
    project, prepare = PREPARED[name]
    lines = (f"$ ({prepare}) > log.txt", f"$ {example}")
    block = Block(page=ROOT / "docs" / "cli.md", line=0, language="console", lines=lines, said={})
    (outcome,) = outcomes(Section(page=block.page, project=project, blocks=(block,)))
    found = outcome.text.splitlines()[len(lines) :]

    assert outcome.problems == ()
    assert found
    assert "null" not in found


def test_every_filter_has_something_to_find_and_nothing_else_is_prepared() -> None:
    assert {name for name, _ in FILTERS} == set(PREPARED)


def test_the_help_of_a_group_has_examples_too() -> None:
    assert [command.prog for command in commands(PARSER) if not examples(command)] == []


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        ("echo '{}' | agent tools call a.b -", [["agent", "tools", "call", "a.b", "-"]]),
        ("AGENT_TOKEN=... agent inbox show 3f", [["agent", "inbox", "show", "3f"]]),
        ("agent schema index > index.json", [["agent", "schema", "index"]]),
        ("agent verify --json | jq '.a | .b'", [["agent", "verify", "--json"]]),
        ("agent plan agent://team/reviewer", [["agent", "plan", "agent://team/reviewer"]]),
    ],
)
def test_a_call_is_found_among_what_the_shell_reads(example: str, expected: list[list[str]]) -> None:
    assert list(calls(example)) == expected
