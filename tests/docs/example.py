"""Runs the examples of the documentation. `python -m tests.docs.example --update` rewrites what they should print."""

import contextlib
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from agent_resolver import Explanation, parse_agent_file, parse_index, parse_lockfile
from agent_resolver.project import Layers, load_config
from agent_resolver.schema import IssueCode, parse_yaml, read_agent_file
from tests.docs.made import MADE
from tests.docs.page import PAGES, ROOT, Block, Section, kept, sections

_PROJECTS = (Path(__file__).parent / "projects", ROOT / "examples")
_NEIGHBOURS = {"helpdesk": "tickets"}
"""The example that stands beside another one, because its pages use a file of it."""


class Outcome(Struct, frozen=True):
    """What came of one block: what should stand in it, and what is wrong beside that."""

    block: Block
    text: str
    problems: tuple[str, ...] = ()


def outcomes(section: Section) -> Iterator[Outcome]:
    """What came of each block of a section, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as temporary:
        workshop = _Workshop(Path(temporary), section.project)
        for block in section.blocks:
            yield workshop.outcome(block)


class _Workshop:
    """A project folder, and what its blocks leave behind for one another."""

    def __init__(self, temporary: Path, project: str) -> None:
        self._folder = temporary / (project if project not in {"", "new"} else "project")
        self._has_project = bool(project)
        self._programs = temporary / "programs"
        self._settings = temporary / "settings"
        self._printed = ""
        self._names: dict[str, Any] = {"__name__": "example"}
        _copy_project(project, self._folder)
        if neighbour := _NEIGHBOURS.get(project):
            _copy_project(neighbour, temporary / neighbour)
        _install_jq(self._programs)

    def outcome(self, block: Block) -> Outcome:
        if "not run" in block.said:
            return Outcome(block, block.text, tuple(syntax_problems(block)))
        if "file" in block.said:
            return self._put(block)
        if "shows" in block.said:
            path = self._folder / block.said["shows"]
            return Outcome(block, path.read_text(encoding="utf-8"), _problems_of_a_file(path, block))
        if "output" in block.said:
            return Outcome(block, self._printed)
        if "made by" in block.said:
            return Outcome(block, MADE[block.said["made by"]]())
        return self._by_language(block)

    def _by_language(self, block: Block) -> Outcome:
        match block.language:
            case "console" if self._has_project:
                return self._console(block)
            case "python":
                return self._python(block)
            case "text":
                return Outcome(block, block.text)
        return Outcome(block, block.text, tuple(_problems_of_a_part(block)))

    def _put(self, block: Block) -> Outcome:
        path = self._folder / block.said["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
        return Outcome(block, block.text, _problems_of_a_file(path, block))

    def _python(self, block: Block) -> Outcome:
        printed = io.StringIO()
        with contextlib.chdir(self._folder), contextlib.redirect_stdout(printed):
            exec(compile(block.text, block.place, "exec"), self._names)  # noqa: S102 - running examples is the point
        self._printed = printed.getvalue()
        return Outcome(block, block.text)

    def _console(self, block: Block) -> Outcome:
        shown, problems, last = "", [], 0
        commands = list(_commands(block))
        for position, command in enumerate(commands):
            done = self._shell("\n".join(command), last)
            shown += "".join(f"{'> ' if row else '$ '}{line}\n" for row, line in enumerate(command)) + done.stdout
            is_last = position == len(commands) - 1
            expected = int(block.said.get("exit", "0")) if is_last else 0
            # Whoever asks for the exit code next shows it to the reader.
            is_asked = not is_last and commands[position + 1][0].startswith("echo $?")
            if done.returncode != expected and not is_asked:
                problems.append(f"`{command[0]}` exits {done.returncode}, not {expected}")
            last = done.returncode
        lines = kept(block.lines, shown.splitlines())
        return Outcome(block, "".join(f"{line}\n" for line in lines), tuple(problems))

    def _shell(self, command: str, last: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", f"(exit {last})\n{command}"],
            cwd=self._folder,
            env={
                "PATH": os.pathsep.join([str(self._programs), sysconfig.get_path("scripts"), os.environ["PATH"]]),
                "HOME": str(self._folder),
                "LOGNAME": "you",
                "XDG_CONFIG_HOME": str(self._settings),
                "LC_ALL": "C.UTF-8",
                # Both streams go to one pipe here; this keeps their order, as a terminal does.
                "PYTHONUNBUFFERED": "1",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
            timeout=120,
        )


def _copy_project(name: str, folder: Path) -> None:
    if name in {"", "new"}:
        folder.mkdir()
        return
    found = next(path for path in (parent / name for parent in _PROJECTS) if path.is_dir())
    # Whoever tried an example in its place left its state there.
    shutil.copytree(found, folder, ignore=shutil.ignore_patterns(".agent", "__pycache__"))


def _install_jq(programs: Path) -> None:
    programs.mkdir()
    program = programs / "jq"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).with_name("jq_shim.py")}" "$@"\n')
    program.chmod(0o755)


def _commands(block: Block) -> Iterator[list[str]]:
    """The commands of a console block, each with its continuation lines."""
    command: list[str] = []
    for line in block.lines:
        if line.startswith("$ "):
            if command:
                yield command
            command = [line[2:]]
        elif line.startswith("> ") and command:
            command.append(line[2:])
    yield command


def _problems_of_a_file(path: Path, block: Block) -> tuple[str, ...]:
    """What is wrong with a block as that file; what is shown as mere text need not be right."""
    return tuple(file_problems(path.name, block.text)) if block.language != "text" else ()


def file_problems(name: str, text: str) -> Iterator[str]:
    """What is wrong with a text as the content of the file `name`."""
    try:
        match name.split("."):
            case [*_, "md"]:
                parse_agent_file(text)
            case [*_, "lock"]:
                parse_lockfile(text.encode())
            case [*_, "resolution", "json"]:
                msgspec.json.decode(text, type=Explanation)
            case [*_, "json"]:
                parse_index(text.encode())
            case [*_, "yaml" | "yml"]:
                parse_yaml(text)
            case [*_, "toml"]:
                load_config(Layers(file=name, content=text.encode()))
    except Exception as error:  # noqa: BLE001 - whatever it is, the page is wrong
        yield f"{name}: {'; '.join(map(str, getattr(error, 'issues', ()))) or error}"


def _problems_of_a_part(block: Block) -> Iterator[str]:
    """What is wrong with a block that is no file of a project."""
    match block.language:
        case "yaml":
            yield from front_matter_problems(block.text)
        case "json":
            yield from file_problems("mcp.index.json", block.text)
        case "markdown":
            yield from file_problems("agents.md", block.text)
        case "toml":
            yield from file_problems("agent.toml", block.text)
        case _:
            yield f"say what this `{block.language}` block is"


def front_matter_problems(text: str) -> Iterator[str]:
    """What is wrong with a part of a front matter, apart from the keys that it leaves out."""
    issues = read_agent_file(f"---\n{text}---\n".encode()).issues
    yield from (str(issue) for issue in issues if issue.code is not IssueCode.REQUIRED)


def syntax_problems(block: Block) -> Iterator[str]:
    """What is wrong with a block that is not run."""
    if block.language == "yaml":
        yield from file_problems("block.yaml", block.text)


def update(page: Path) -> bool:
    """Rewrite what the blocks of a page should hold; whether that changed anything."""
    lines = page.read_text(encoding="utf-8").splitlines()
    before = list(lines)
    found = [outcome for section in sections(page) for outcome in outcomes(section)]
    for outcome in reversed(found):
        start = outcome.block.line
        lines[start : start + len(outcome.block.lines)] = outcome.text.splitlines()
        for problem in outcome.problems:
            sys.stdout.write(f"{outcome.block.place}: {problem}\n")
    if lines != before:
        page.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return lines != before


def main() -> None:
    """Update every page."""
    if sys.argv[1:] != ["--update"]:
        sys.exit("usage: python -m tests.docs.example --update")
    for page in PAGES:
        if update(page):
            sys.stdout.write(f"Updated {page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
