"""What the pages promise about themselves and about the program."""

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import agent_resolver
from agent_resolver.catalog import catalog, client_folder as eager, reader, role, search_text, uri
from agent_resolver.core import OPS_RULES, GuardrailCode
from agent_resolver.exchange import CLIENTS
from agent_resolver.reasoner.task_view import TaskView
from agent_resolver.schema import AuditKind, Caller, Run, Stage, TaskState, limit
from tests.docs.page import PAGES, ROOT, blocks, code_spans, sections

DOCS = ROOT / "docs"
PROJECTS = Path(__file__).parent / "projects"
GENERATOR = ROOT / "tools" / "generate_cli_reference.py"
GENERATORS = sorted({*(ROOT / "tools").glob("generate_*.py")} - {ROOT / "tools" / "generate_lock_drawing.py"})
"""The programs that write pages."""


def test_the_readme_reaches_its_first_example_within_fifty_words() -> None:
    before, fence, _ = (ROOT / "README.md").read_text(encoding="utf-8").partition("```console")
    words = re.sub(r"<!--.*?-->", "", before).split()

    assert fence
    assert len(words) <= 50


def test_the_quick_start_makes_the_project_that_other_pages_use() -> None:
    made = {block.said["file"]: block.text for block in blocks(DOCS / "quick-start.md") if "file" in block.said}

    assert made == {path.name: path.read_text(encoding="utf-8") for path in (PROJECTS / "quick-start").iterdir()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_may_differ_is_never_a_whole_line(page: Path) -> None:
    lines = [line for block in blocks(page) for line in block.lines if "[..]" in line]

    assert [line for line in lines if not re.search(r"[a-z]{3}", line.replace("[..]", ""))] == []


def test_the_digests_that_a_reader_computes_are_those_in_the_lock() -> None:
    page = (DOCS / "file-formats.md").read_text(encoding="utf-8")
    computed = re.findall(r"^([0-9a-f]{64})  -$", page, re.MULTILINE)

    assert len(computed) == 3
    assert [digest for digest in computed if page.count(digest) == 1] == []


def test_every_kind_of_audit_record_has_its_row() -> None:
    listed = re.findall(r"^\| `([a-z]+\.[a-z]+)` \|", (DOCS / "audit.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert sorted(listed) == sorted(AuditKind)


def test_every_rule_of_ops_has_its_row() -> None:
    _, _, section = (DOCS / "reasoner.md").read_text(encoding="utf-8").partition("## Rules of Ops")
    rows = re.findall(r"^\| `(OPS-[A-Z]+-\d+)` \| ([A-Z]+-\d+) \| (.+?) \| .+ \|$", section, re.MULTILINE)

    assert rows == [(rule.id, rule.standard, rule.title) for rule in OPS_RULES]


def test_every_stage_and_every_guardrail_of_a_task_is_named() -> None:
    spans = {span for _, span in code_spans(DOCS / "reasoner.md")}

    assert {*get_args(Stage), *GuardrailCode} - spans == set()


def test_every_key_of_a_task_is_named() -> None:
    _, _, section = (DOCS / "reasoner.md").read_text(encoding="utf-8").partition("| key | meaning |")
    names = re.findall(r"^\| (`.+?`) \|", section.partition("\n\n")[0], re.MULTILINE)
    state = TaskState(task_id="t", environment="dev", initiator=Caller(id="you"), active_task_id="t/done")
    row = Run(id="t", kind="task", status="done", trace_id="", started_at="", changed_at="")

    assert [name for row in names for name in re.findall("`([a-z_]+)`", row)] == [
        *TaskView(row=row, status="done", state=state).document()
    ]


def test_every_limit_is_in_the_table() -> None:
    page = (DOCS / "schemas.md").read_text(encoding="utf-8")
    limits = {name: value for name, value in vars(limit).items() if name.startswith("MAX_")}
    _, _, section = page.partition("## Limits")

    assert limits
    assert {name for name, value in limits.items() if not re.search(rf"\b{value:,}\b", section)} == set()


def test_every_limit_of_a_catalog_is_in_its_table() -> None:
    _, _, section = (DOCS / "catalog.md").read_text(encoding="utf-8").partition("## Limits")
    limits = {
        "bytes of a file": limit.MAX_AGENT_FILE_BYTES,
        "front matter": limit.MAX_FRONT_MATTER_CHARACTERS,
        "name": reader._MAX_NAME,
        "address": uri.MAX_LENGTH,
        "fallbacks": role.MAX_FALLBACKS,
        "page": catalog.MAX_PAGE,
        "words": search_text._MOST_WORDS,
        "definitions": catalog.CACHED_DEFINITIONS,
        "MiB of definitions": catalog._CACHED_BYTES // 2**20,
    }

    assert {
        name for name, value in limits.items() if not re.search(rf"\| .*\b{value:,}\b.* \|$", section, re.MULTILINE)
    } == set()


def test_every_folder_that_a_client_loads_by_itself_is_named() -> None:
    spans = {span for _, span in code_spans(DOCS / "catalog.md")}

    assert set(eager._EAGER) - spans == set()


def test_the_settings_of_every_client_are_shown() -> None:
    page = DOCS / "serve.md"
    # The rest of a line is a pipe, which compares what equals the settings of an earlier client with those.
    shown = {line.partition(" | ")[0] for block in blocks(page) for line in block.lines}

    assert {client for client in CLIENTS if f"$ agent serve --print-config {client}" not in shown} == set()
    assert set(CLIENTS) - {span for _, span in code_spans(page)} == set()


def test_the_library_page_lists_every_public_name() -> None:
    spans = {span for _, span in code_spans(DOCS / "library.md")}

    assert set(dir(agent_resolver)) - spans == set()


def programs_of(page: Path) -> Iterator[str]:
    """Each file of Python on a page, and the other blocks of each section together."""
    for section in sections(page):
        python = [block for block in section.blocks if block.language == "python"]
        yield from (block.text for block in python if "file" in block.said)
        yield "\n".join(block.text for block in python if "file" not in block.said)


@pytest.mark.slow  # The type checker reads everything that the public names lead to.
def test_programs_on_the_library_page_are_typed(tmp_path: Path) -> None:
    programs = list(filter(None, programs_of(DOCS / "library.md")))
    for number, program in enumerate(programs):
        (tmp_path / f"program_{number}.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "."]
    done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, encoding="utf-8", check=False)

    assert done.stdout.splitlines() == [f"Success: no issues found in {len(programs)} source files"]


@pytest.mark.parametrize("program", GENERATORS, ids=lambda program: program.stem)
def test_a_generated_page_is_current_and_names_its_generator(program: Path) -> None:
    pages = [page for page in PAGES if f"<!-- Generated by tools/{program.name} " in page.read_text(encoding="utf-8")]

    assert len(pages) == 1
    assert generate("--check", program=program).returncode == 0


def test_the_count_of_words_leaves_out_the_generated_pages_alone() -> None:
    marked = {page.name for page in PAGES if "<!-- Generated by " in page.read_text(encoding="utf-8")}

    assert runpy.run_path(str(ROOT / "tools" / "readability.py"))["GENERATED"] == marked
    assert len(marked) == len(GENERATORS)


def test_an_outdated_command_reference_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "tools").mkdir()
    copy = tmp_path / "tools" / GENERATOR.name
    copy.write_bytes(GENERATOR.read_bytes())

    absent = generate("--check", program=copy).returncode
    made = generate(program=copy).returncode
    current = generate("--check", program=copy).returncode
    with (tmp_path / "docs" / "cli.md").open("a", encoding="utf-8") as page:
        page.write("An edit.\n")

    assert (absent, made, current, generate("--check", program=copy).returncode) == (1, 0, 0, 1)


def generate(*arguments: str, program: Path = GENERATOR) -> subprocess.CompletedProcess[bytes]:
    # Neither the width of a terminal nor a language may reach the page.
    environment = {**os.environ, "COLUMNS": "40", "LANGUAGE": "de"}
    command = [sys.executable, str(program), *arguments]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_no_place_of_a_machine(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert re.findall(r"/(?:home|root|tmp|work|Users)/\S*", text) == []
