"""`agent state prune`: old runs go with all that belongs to them, and what a kept run needs stays."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.cli.scripted_model import CONFIG, NOTES, asking, saying, write_script
from tests.conftest import Run

YEARS_AGO = "2020-01-01T00:00:00.000Z"
TABLES = ("run", "journal", "plan", "thread", "lease", "ledger")


def talk(folder: Path, run: Run, *options: str) -> str:
    """A run with a call, that came to its end; its id."""
    write_script(folder, asking("notes__read", name="welcome"), saying("It says hello."))
    assert run("run", "Read it", *options).code == 0
    return newest(run)


def newest(run: Run) -> str:
    return str(json.loads(run("runs", "list", "--json").stdout)[0]["id"])


def age(folder: Path, *runs: str) -> None:
    """Let runs, and what they called, be from years ago."""
    with closing(sqlite3.connect(folder / ".agent" / "state.db")) as connection, connection:
        for each in runs:
            connection.execute("UPDATE run SET started_at = ?, changed_at = ? WHERE id = ?", (YEARS_AGO,) * 2 + (each,))
            trace = "(SELECT trace_id FROM run WHERE id = ?)"
            times = "started_at = ?, ended_at = ?"
            connection.execute(
                f"UPDATE ledger SET {times} WHERE trace_id = {trace}",  # noqa: S608 - parts from above
                (YEARS_AGO, YEARS_AGO, each),
            )


def counts(folder: Path) -> dict[str, int]:
    """How many rows each table has."""
    with closing(sqlite3.connect(folder / ".agent" / "state.db")) as connection:
        statements = {name: f"SELECT count(*) FROM {name}" for name in TABLES}  # noqa: S608 - our own names
        return {name: connection.execute(text).fetchone()[0] for name, text in statements.items()}


def prune(run: Run, *options: str) -> Any:
    """What was removed."""
    return json.loads(run("state", "prune", "--older-than", "30d", "--json", *options).stdout)["removed"]


def test_an_old_run_goes_with_its_journal_plan_thread_and_lease(trusted: Path, run: Run) -> None:
    old = talk(trusted, run, "--thread", "talk")
    age(trusted, old)
    before = counts(trusted)

    trial, removed = prune(run, "--dry-run"), prune(run)

    assert before == {"run": 1, "journal": 6, "plan": 1, "thread": 1, "lease": 1, "ledger": 1}
    assert trial == removed == {"ledger": 1, "pending": 0, "runs": 1, "plans": 1, "audit": 0}
    assert set(counts(trusted).values()) == {0}
    assert run("audit", "verify").code == 0
    # The name is free for another conversation.
    assert talk(trusted, run, "--thread", "talk") != old


def test_a_young_run_keeps_its_plan_and_its_results(trusted: Path, run: Run) -> None:
    old, young = talk(trusted, run), talk(trusted, run)
    age(trusted, old, young)
    with closing(sqlite3.connect(trusted / ".agent" / "state.db")) as connection, connection:
        connection.execute("UPDATE run SET changed_at = '2099-01-01T00:00:00.000Z' WHERE id = ?", (young,))

    removed = prune(run)

    # The results of its calls are parts of its conversation, however old they are.
    assert removed == {"ledger": 1, "pending": 0, "runs": 1, "plans": 0, "audit": 0}
    assert counts(trusted) == {"run": 1, "journal": 6, "plan": 1, "thread": 0, "lease": 1, "ledger": 1}
    assert run("runs", "show", young).code == 0


def test_a_conversation_that_goes_on_keeps_its_old_runs(trusted: Path, run: Run) -> None:
    first = talk(trusted, run, "--thread", "talk")
    second = talk(trusted, run, "--thread", "talk")
    age(trusted, first)

    assert prune(run)["runs"] == 0
    conversation = json.loads(run("runs", "export", second).stdout)["conversation"]
    assert [message["role"] for message in conversation].count("user") == 2
    age(trusted, second)
    assert prune(run)["runs"] == 2


def test_a_run_that_waits_is_kept_however_old_it_is(trusted: Path, run: Run) -> None:
    write_script(trusted, asking("notes__read", name="welcome"), asking("notes__write", name="welcome"))
    assert run("run", "Write it").code == 1
    waiting = newest(run)
    age(trusted, waiting)

    assert prune(run)["runs"] == 0
    assert counts(trusted)["ledger"] == 1
    assert run("runs", "show", waiting).code == 0


def test_a_delegate_goes_with_the_run_that_started_it(trusted: Path, run: Run) -> None:
    (trusted / "agents.md").unlink()
    (trusted / "agents").mkdir()
    delegating = "runtime: { delegates: [helper] }"
    (trusted / "agents" / "keeper.md").write_text(f"---\nname: keeper\ndescription: Keeps\n{delegating}\n---\nKeep.\n")
    (trusted / "agents" / "helper.md").write_text("---\nname: helper\ndescription: Helps\n---\nHelp.\n")
    (trusted / "agent.toml").write_text(f'{CONFIG}\n[tools]\nmodules = ["{NOTES}"]\n')
    assert run("trust-folder").code == 0
    write_script(trusted, asking("agent_run_helper", prompt="Help"), saying("Helped."), saying("Done."))
    ran = run("run", "keeper", "Get help")
    rows = json.loads(run("runs", "list", "--json").stdout)
    (parent,) = [row["id"] for row in rows if not row["parent"]]
    (child,) = [row["id"] for row in rows if row["parent"] == parent]

    age(trusted, child)
    kept = prune(run)["runs"]
    age(trusted, parent)

    assert ran.code == 0
    assert kept == 0
    assert f"  Delegate: {child} done helper\n" in run("runs", "show", parent).stdout
    assert prune(run)["runs"] == 2
    assert counts(trusted)["journal"] == 0


def test_info_counts_what_runs_keep(trusted: Path, run: Run) -> None:
    talk(trusted, run, "--thread", "talk")

    shown = run("state", "info")
    document = json.loads(run("state", "info", "--json").stdout)

    assert "  Runs: 1 done\n  Journal: 6 steps, 1 plan, 1 thread\n" in shown.stdout
    assert (document["journal"], document["plans"], document["threads"]) == (6, 1, 1)
