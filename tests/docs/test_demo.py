"""`make demo`: the story within the first screen, and JSON only on request."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page import ROOT

COLUMNS, ROWS = 80, 24

pytestmark = pytest.mark.slow


def rows_of(line: str) -> int:
    """How many rows a line takes on a screen."""
    return max(1, -(-len(line) // COLUMNS))


def run_demo(folder: Path, *options: str) -> list[str]:
    command = [sys.executable, str(ROOT / "tools" / "demo.py"), "--folder", str(folder / "demo"), *options]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the demo prints."""
    return run_demo(tmp_path_factory.mktemp("demo"))


def test_the_refusal_is_on_the_first_screen_and_the_files_are_not_printed(lines: list[str]) -> None:
    refusal = next(number for number, line in enumerate(lines) if line.startswith("✗ FORBIDDEN_ACTION"))
    end = next(number for number, line in enumerate(lines) if line == "(exit 1, as it should be)")
    assert refusal < end
    assert sum(map(rows_of, lines[: end + 1])) <= ROWS
    assert '  "text": "The lock governs the run."' in lines
    assert any(line.startswith("  · notes.delete_note") and "FORBIDDEN_ACTION" in line for line in lines)
    assert not any("agents.resolution.json" in line and line.startswith("$") for line in lines)
    assert lines[-1] == "`make demo JSON=1` also prints the lock and the explanation"


def test_a_killed_worker_leaves_a_run_that_another_one_finishes(lines: list[str]) -> None:
    killed = lines.index("$ kill -9 %1")
    before, after = lines[:killed], lines[killed:]
    assert "$ agent worker &" in before
    interrupted = next(number for number, line in enumerate(after) if " interrupted tickets.handle@1.0.0" in line)
    done = next(number for number, line in enumerate(after) if " done tickets.handle@1.0.0" in line)
    assert interrupted < done
    assert "  · research tickets.research running" in after[interrupted:done]
    assert "  ✓ research tickets.research done" in after[done:]
    # The step before was not taken again: there is one such ticket.
    assert lines.count('      "title": "Print fails",') == 1


def test_a_request_is_rejected_revised_approved_executed_and_audited(lines: list[str]) -> None:
    steps = (
        " waiting at ops_audit: CLARIFICATION",
        " answered by requester",
        " waiting at ops_audit: APPROVAL",
        "error: OWN_CALL: ",
        " approved by approver",
        " done: The plan was executed",
        "  approver: action.approved plans.",
        "  requester: execution DONE",
        " records verify, ",
    )
    start = next(number for number, line in enumerate(lines) if " agent task start " in line)
    rest = iter(lines[start:])

    assert [step for step in steps if not any(step in line for line in rest)] == []
    assert not (ROOT / "examples" / "helpdesk" / ".agent").exists()


def test_the_files_come_last_where_they_are_asked_for(tmp_path: Path) -> None:
    lines = run_demo(tmp_path, "--json")

    commands = [line for line in lines if line.startswith("$ ")]
    assert commands[-2:] == ["$ cat agents.lock", "$ cat agents.resolution.json"]
    assert lines[-1] == "}"
