"""`make demo`: the whole story within two screens, and every command on request."""

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
    """Everything that the demo prints on request."""
    return run_demo(tmp_path_factory.mktemp("demo"), "--details")


def test_the_whole_story_fits_two_screens(tmp_path: Path) -> None:
    lines = run_demo(tmp_path)
    story = (
        "✓ Wrote ./agents.lock",
        "✗ FORBIDDEN_ACTION: ",
        "  · notes.delete_note ",
        "$ kill -9 %1",
        "whose process is gone, goes on",
        " of tickets.handle@1.0.0: done",
        "  APPROVAL ",
        "error: OWN_CALL: ",
        " approved by approver",
        " done: The plan was executed",
        " records verify, ",
        "`make demo DETAILS=1`",
    )
    rest = iter(lines)

    assert [part for part in story if not any(part in line for line in rest)] == []
    assert sum(map(rows_of, lines)) <= 2 * ROWS


def test_details_have_the_edited_lock_and_the_misled_run(lines: list[str]) -> None:
    assert '  "text": "The lock governs the run."' in lines
    assert "error: `./agents.lock` does not hold" in lines
    assert any(line.startswith("  · notes.delete_note") and "FORBIDDEN_ACTION" in line for line in lines)


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
        " done: The plan was executed",
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


def test_the_files_come_last_where_they_are_asked_for(lines: list[str]) -> None:
    commands = [line for line in lines if line.startswith("$ ")]

    assert commands[-2:] == ["$ cat agents.lock", "$ cat agents.resolution.json"]
    assert lines[-1] == "}"
