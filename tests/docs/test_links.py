"""What a page points at exists: links, anchors, commands, options, modules."""

import argparse
import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from agent_resolver.cli.app import build_parser
from tests.docs.page import PAGES, ROOT, anchors, blocks, code_spans, links

LINKED_PAGES = (*PAGES, ROOT / "CHANGELOG.md")
PACKAGE = ROOT / "src" / "agent_resolver"

_COMMAND = re.compile(r"(?:^|(?:\$|>|run:|-|&&|\|) )agent (?P<arguments>[^|&;>]+)")
_ROOMS = "schema|core|storage|identity|telemetry|catalog|registry|engine|runtime|reasoner|project|server|cli"
_MODULE = re.compile(rf"(?:{_ROOMS})/(?:\w+/)*\w+\.py")
_SHOWS_COMMANDS = ("console", "sh", "text", "yaml")
_FOLDERS = ("docs/", "tests/", "tools/", "examples/")
_METHODS = {"tools/call", "tools/list"}
"""Of MCP: they only look like files."""


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", LINKED_PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = [f"{name(page)}:{line}: {link}" for line, link in links(page) if not leads_somewhere(page, link)]

    assert broken == []


def leads_somewhere(page: Path, link: str) -> bool:
    if link.startswith("https://"):
        return True
    target, _, anchor = link.partition("#")
    path = (page.parent / target).resolve() if target else page
    return path.exists() and (not anchor or anchor in anchors(path))


@pytest.mark.parametrize("page", LINKED_PAGES, ids=name)
def test_no_two_headings_of_a_page_share_an_anchor(page: Path) -> None:
    found = anchors(page)

    # A changelog repeats its headings under every version, and nobody links to them.
    assert page.name == "CHANGELOG.md" or len(set(found)) == len(found)


def test_the_index_lists_every_page() -> None:
    listed = {link for _, link in links(ROOT / "docs" / "index.md")}

    assert {page.name for page in PAGES if page.parent.name == "docs"} - {"index.md"} <= listed


@pytest.mark.parametrize("page", LINKED_PAGES, ids=name)
def test_every_command_that_is_mentioned_exists(page: Path) -> None:
    assert [f"{name(page)}:{line}: {problem}" for line, problem in command_problems(page)] == []


def command_problems(page: Path) -> Iterator[tuple[int, str]]:
    spans = ((line, span) for line, span in code_spans(page) if span.startswith("agent "))
    lines = ((block.line, line) for block in blocks(page) if block.language in _SHOWS_COMMANDS for line in block.lines)
    for number, text in (*spans, *lines):
        for found in _COMMAND.finditer(text.strip()):
            # What stands behind a gap explains the command.
            words = shlex.split(re.split(r"\s{2,}", found["arguments"])[0], comments=True)
            yield from ((number, problem) for problem in argument_problems(words))


def argument_problems(words: list[str]) -> Iterator[str]:
    """Commands that do not exist, options that the command does not have, and values that it does not take."""
    parser = whole_parser()
    # The usage of a command that can also be run without one below it has its options in brackets.
    while words and not words[0].startswith(("-", "[")) and (below := commands_of(parser)):
        command = words.pop(0)
        if command not in below:
            yield f"`{parser.prog}` has no `{command}`"
            return
        parser = below[command]
    options = {spelling: action for action in parser._actions for spelling in action.option_strings}
    unknown = [word for word in words if word.startswith("-") and word != "-" and word not in options]
    yield from (f"`{parser.prog}` has no `{word}`" for word in unknown)
    for word, value in pairwise(words):
        if word in options and options[word].choices and value not in (options[word].choices or ()):
            yield f"`{word}` does not take `{value}`"


@cache
def whole_parser() -> argparse.ArgumentParser:
    return build_parser()


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands below a command."""
    groups = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return next((dict(group.choices) for group in groups), {})


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("tools list --json", []),
        ("tools call notes.read_note -", []),
        ("tools", []),
        ("tool list", ["`agent` has no `tool`"]),
        ("tools lst", ["`agent tools` has no `lst`"]),
        ("tools list --verbosely", ["`agent tools list` has no `--verbosely`"]),
        ("validate --format toml", ["`--format` does not take `toml`"]),
    ],
)
def test_a_command_that_does_not_exist_is_noticed(command: str, expected: list[str]) -> None:
    assert list(argument_problems(command.split())) == expected


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_file_of_the_checkout_that_is_mentioned_exists(page: Path) -> None:
    spans = [span for _, span in code_spans(page)]
    modules = [PACKAGE / span for span in spans if _MODULE.fullmatch(span)]
    others = [ROOT / span for span in spans if span.startswith(_FOLDERS) and span not in _METHODS]

    assert [path for path in (*modules, *others) if not path.exists()] == []
