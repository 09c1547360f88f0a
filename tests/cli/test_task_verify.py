"""`agent task export` and `agent task verify`: evidence that holds, and forgeries that only the state can tell."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from agent_resolver.core.evidence.certified import certified_plans
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.evidence import TaskEvidence, evidence_digest, evidence_json, parse_evidence
from tests.cli.test_task import TICKET, WITH_PAGE, as_person, desk, document, issuer, started
from tests.conftest import Run
from tests.exchange.test_oscal import _MODEL

__all__ = ["desk", "issuer"]


def exported(run: Run, task: str, *who: str, file: str = "task.json") -> TaskEvidence:
    """The evidence that was written to a file."""
    ran = run("task", "export", task, "-o", file, *who)
    assert (ran.code, ran.stdout) == (0, "")
    return parse_evidence(Path(file).read_bytes())


def approved(desk: Path, issuer: str, run: Run) -> tuple[str, tuple[str, str]]:
    """A plan that ada asked for in prd, that eve approved, and that was executed."""
    ada = as_person(desk, issuer, "ada")
    task = started(run, TICKET, "--environment", "prd", *ada)
    (action,) = task["pending_actions"]
    assert run("inbox", "approve", action["id"], *as_person(desk, issuer, "eve", roles=["approver"])).code == 0
    assert run("task", "resume", task["task_id"], *ada).code == 0
    return task["task_id"], ada


def test_the_evidence_of_an_approved_plan_verifies(desk: Path, issuer: str, run: Run) -> None:
    task, ada = approved(desk, issuer, run)
    evidence = exported(run, task, *ada)

    alone = run("task", "verify", "task.json")
    compared = run("task", "verify", "task.json", "--state", *ada)

    (plan,) = evidence.certified
    assert (plan.isolation, [approval.by for approval in plan.approvals]) == ("confined", ["eve"])
    words = f"{plan.artifact} CERTIFIED: 10 rules, 1 acceptance test (confined), approved by eve, executed"
    assert alone.code == compared.code == 0
    assert alone.stdout.splitlines()[1] == f"  {words}"
    assert "`--state`" in alone.stderr
    assert compared.stdout.splitlines()[-1] == "✓ It is what the state of this project says"


def test_a_task_goes_on_at_a_machine_that_does_not_have_its_plan(desk: Path, issuer: str, run: Run) -> None:
    """Another machine installed the plan in its own folder: here it is installed again, and the evidence holds."""
    ada = as_person(desk, issuer, "ada")
    eve = as_person(desk, issuer, "eve", roles=["approver"])
    task = started(run, "Unlock the account of user 'bob'", *ada)
    first = task["pending_actions"][0]["id"]
    assert run("inbox", "approve", first, *eve).code == 0
    waiting = document(run("task", "resume", task["task_id"], *ada, "--json"))
    second = next(each["id"] for each in waiting["pending_actions"] if not each["resolved"])
    (plan,) = (desk / "blueprints").iterdir()
    content = plan.read_bytes()
    plan.unlink()

    assert run("inbox", "approve", second, *eve).code == 0
    done = run("task", "resume", task["task_id"], *ada)

    assert done.code == 0, done
    assert plan.read_bytes() == content
    exported(run, task["task_id"], *ada)
    assert run("task", "verify", "task.json", "--state", *ada).code == 0


def test_the_report_of_a_verification_is_json(desk: Path, run: Run) -> None:
    task = started(run, TICKET)
    evidence = exported(run, task["task_id"])

    report = document(run("task", "verify", "task.json", "--state", "--json"))

    assert report == {
        "success": True,
        "task_id": task["task_id"],
        "status": "done",
        "certified": [evidence.certified[0].artifact],
        "records": len(evidence.records),
        "compared_with_state": True,
        "faults": [],
    }


@pytest.mark.slow
def test_an_export_is_the_same_bytes_each_time(desk: Path, run: Run) -> None:
    task = started(run, TICKET)["task_id"]

    exported(run, task, file="one.json")
    exported(run, task, file="two.json")

    assert Path("one.json").read_bytes() == Path("two.json").read_bytes()


# Tasks that certify nothing -------------------------------------------------------------------------------------------


def waiting(desk: Path, run: Run) -> str:
    return str(started(run, "Reboot the server 'web-1'")["task_id"])


def rejected(desk: Path, run: Run) -> str:
    return str(started(run, WITH_PAGE)["task_id"])


def halted(desk: Path, run: Run) -> str:
    return str(started(run, TICKET, "--max-iterations", "1")["task_id"])


def cancelled(desk: Path, run: Run) -> str:
    task = rejected(desk, run)
    assert run("task", "cancel", task).code == 0
    return task


def scaffolded(desk: Path, run: Run) -> str:
    task = started(run, "Reboot the server 'web-1'")
    run("inbox", "answer", task["pending_actions"][0]["id"], "draft it")
    assert run("task", "resume", task["task_id"]).code == 0
    return str(task["task_id"])


@pytest.mark.slow
@pytest.mark.parametrize("story", [waiting, rejected, halted, cancelled, scaffolded])
def test_evidence_that_certifies_nothing_verifies_and_says_so(
    desk: Path, run: Run, story: Callable[[Path, Run], str]
) -> None:
    evidence = exported(run, story(desk, run))

    verified = run("task", "verify", "task.json", "--state")

    assert (verified.code, verified.stderr) == (0, "")
    assert "  Nothing is certified" in verified.stdout.splitlines()
    assert evidence.certified == ()


@pytest.mark.slow
def test_the_evidence_of_a_failed_task_verifies(desk: Path, issuer: str, run: Run) -> None:
    ada = as_person(desk, issuer, "ada")
    task = started(run, "Unlock the account of user 'bob'", *ada)
    run("inbox", "reject", task["pending_actions"][0]["id"], *as_person(desk, issuer, "eve", roles=["approver"]))
    run("task", "resume", task["task_id"], *ada)
    exported(run, task["task_id"], *ada)

    verified = run("task", "verify", "task.json", "--state", *ada)

    assert verified.code == 0, verified.stderr
    assert "  Nothing is certified" in verified.stdout.splitlines()


@pytest.mark.slow
def test_the_evidence_of_a_plan_with_an_answer_verifies(desk: Path, run: Run) -> None:
    task = started(run, WITH_PAGE)
    run("inbox", "answer", task["pending_actions"][0]["id"], "leave-out")
    before = exported(run, task["task_id"], file="before.json")
    assert run("task", "resume", task["task_id"]).code == 0
    after = exported(run, task["task_id"])

    assert run("task", "verify", "task.json", "--state").code == 0
    # A document of an earlier day stays true.
    assert run("task", "verify", "before.json", "--state").code == 0
    assert len(before.records) < len(after.records)
    assert [action.answer for action in after.actions] == ["leave-out"]


# Who may export and compare -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_auditor_exports_digests_in_place_of_words(desk: Path, issuer: str, run: Run) -> None:
    ada, olga = as_person(desk, issuer, "ada"), as_person(desk, issuer, "olga", roles=["auditor"])
    task = started(run, WITH_PAGE, *ada)
    run("inbox", "answer", task["pending_actions"][0]["id"], "leave-out", *ada)

    own = exported(run, task["task_id"], *ada, file="own.json")
    audited = exported(run, task["task_id"], *olga)

    assert own.actions[0].answer == "leave-out"
    assert (audited.actions[0].answer, audited.actions[0].answer_digest) == (None, digest("leave-out"))
    for who in (ada, olga):
        for file in ("own.json", "task.json"):
            assert run("task", "verify", file, "--state", *who).code == 0


@pytest.mark.slow
def test_another_caller_cannot_compare_with_the_state(desk: Path, issuer: str, run: Run) -> None:
    task, ada = approved(desk, issuer, run)
    exported(run, task, *ada)

    refused = run("task", "verify", "task.json", "--state", *as_person(desk, issuer, "bob"))

    assert refused.code == 1
    assert f"STATE: the task cannot be compared: There is no task {task}" in refused.stderr


# A key that was changed since -----------------------------------------------------------------------------------------


def test_evidence_from_before_a_rotation_verifies_as_long_as_the_old_key_is_kept(desk: Path, run: Run) -> None:
    task = started(run, TICKET)["task_id"]
    exported(run, task)
    noted = Path("task.json").read_bytes()
    for _ in range(2):
        assert run("state", "rotate-key").code == 0

    with_old_key = run("task", "verify", "task.json", "--state")
    exported(run, task, file="again.json")
    Path("forged.json").write_bytes(noted.replace(b'"cycles": 2', b'"cycles": 3'))
    changed = document(run("task", "verify", "forged.json", "--state", "--json"))
    for old in (desk / ".agent").glob("state.key.*"):
        old.unlink()
    without = run("task", "verify", "task.json", "--state")

    assert (with_old_key.code, with_old_key.stderr) == (0, "")
    assert json.loads(noted)["records"] == json.loads(Path("again.json").read_bytes())["records"]
    assert {fault["code"] for fault in changed["faults"]} == {"DIGEST", "SEAL", "STATE"}
    assert without.code == 1
    (fault,) = without.stderr.splitlines()[1:]
    assert fault.startswith("  - SEAL: the key of this state was changed since, with record ")
    assert fault.endswith(" of the seal is not known here")


@pytest.mark.slow
def test_evidence_from_before_a_rotation_of_a_key_in_a_variable_verifies(
    desk: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLD", "the old key")
    monkeypatch.setenv("NEW", "the new key")
    old = ("--config", "state.key_env=OLD")
    both = ("--config", "state.key_env=NEW", "--config", "state.old_key_env=OLD")
    task = started(run, TICKET, *old)["task_id"]
    exported(run, task, *old)
    # Every process may be given both keys beforehand, and seals with the old one until the rotation.
    exported(run, task, *both, file="between.json")
    before = [run("task", "verify", file, "--state", *both).code for file in ("task.json", "between.json")]
    assert run("state", "rotate-key", *both).code == 0

    after = [run("task", "verify", file, "--state", *both).code for file in ("task.json", "between.json")]
    alone = run("task", "verify", "task.json", "--state", "--config", "state.key_env=NEW")

    assert before == after == [0, 0]
    assert alone.code == 1
    assert "SEAL: the key of this state was changed since" in alone.stderr


def test_an_export_after_its_records_were_pruned_says_that_it_will_not_hold(desk: Path, run: Run) -> None:
    task = started(run, TICKET)["task_id"]
    records = json.loads(run("audit", "show", "--json").stdout)
    assert run("state", "prune", "--audit-before", records[5]["at"]).code == 0

    ran = run("task", "export", task, "-o", "task.json")

    assert ran.code == 0
    assert "warning: The evidence does not hold: RECORD: " in ran.stderr
    assert "hint: its records were pruned, or the state was edited" in ran.stderr


# Forgeries ------------------------------------------------------------------------------------------------------------


def forged(evidence: TaskEvidence, **more: Any) -> TaskEvidence:
    """The document with something else in it, and every digest made again; the seal takes a key."""
    changed = structs.replace(evidence, **more)
    changed = structs.replace(changed, certified=certified_plans(changed))
    return structs.replace(changed, digest=evidence_digest(changed))


FORGERIES: dict[str, Callable[[TaskEvidence], TaskEvidence]] = {
    "the number of cycles": lambda found: forged(found, task=structs.replace(found.task, cycles=99)),
    "the time": lambda found: forged(found, task=structs.replace(found.task, started_at="2020-01-01T00:00:00.000Z")),
    "the cost centre": lambda found: forged(
        found,
        context=structs.replace(found.context, initiator=structs.replace(found.context.initiator, cost_center="CC-99")),
    ),
    "the classification": lambda found: forged(found, context=structs.replace(found.context, classification="PUBLIC")),
    "the root": lambda found: forged(found, trail=structs.replace(found.trail, root="0" * 64)),
    "the count": lambda found: forged(found, trail=structs.replace(found.trail, count=found.trail.count + 9)),
    "the python": lambda found: forged(found, product=structs.replace(found.product, python="2.7.18")),
    "the seal": lambda found: structs.replace(found, seal="0" * 64),
    "no seal": lambda found: structs.replace(found, seal=""),
}


def test_a_forgery_that_holds_together_is_found_by_the_state(desk: Path, run: Run) -> None:
    evidence = exported(run, waiting(desk, run))

    for name, forge in FORGERIES.items():
        Path("forged.json").write_bytes(evidence_json(forge(evidence)))
        assert run("task", "verify", "forged.json").code == 0, f"it holds together: {name}"
        found = document(run("task", "verify", "forged.json", "--state", "--json"))
        assert found["success"] is False, name
        assert "SEAL" in {fault["code"] for fault in found["faults"]}, name


def test_a_word_that_no_digest_covers_is_not_verified(desk: Path, run: Run) -> None:
    evidence = exported(run, started(run, TICKET)["task_id"])
    document = json.loads(evidence_json(evidence))
    document["records"][3]["approved_by"] = "the board"
    Path("forged.json").write_text(json.dumps(document))

    found = run("task", "verify", "forged.json", "--state")

    assert (found.code, found.stdout) == (1, "")
    assert "It has keys that no evidence has" in found.stderr


@pytest.mark.slow
def test_other_words_of_an_answer_are_found_by_the_state(desk: Path, run: Run) -> None:
    task = started(run, WITH_PAGE)
    run("inbox", "answer", task["pending_actions"][0]["id"], "leave-out")
    evidence = exported(run, task["task_id"])
    action = structs.replace(evidence.actions[0], answer="allowed", answer_digest=digest("allowed"))
    Path("forged.json").write_bytes(evidence_json(forged(evidence, actions=(action,))))

    found = document(run("task", "verify", "forged.json", "--state", "--json"))

    assert {fault["message"] for fault in found["faults"]} >= {"the state has another version of the questions"}


@pytest.mark.slow
def test_an_installed_file_that_was_changed_is_found(desk: Path, run: Run) -> None:
    evidence = exported(run, started(run, TICKET)["task_id"])
    (plan,) = evidence.certified
    file = desk / "blueprints" / f"{plan.artifact}.json"
    file.write_text(file.read_text(encoding="utf-8").replace("Open ticket", "Open a ticket"), encoding="utf-8")

    found = run("task", "verify", "task.json", "--state")

    assert found.code == 1
    assert f"STATE: the installed file {plan.artifact}.json is missing, or was changed since" in found.stderr


@pytest.mark.slow
def test_a_trail_that_was_edited_is_found(desk: Path, run: Run) -> None:
    exported(run, started(run, TICKET)["task_id"])
    connection = sqlite3.connect(desk / ".agent" / "state.db")
    with connection:
        connection.execute("UPDATE audit SET at = '2020-01-01T00:00:00.000Z' WHERE position = 3")
    connection.close()

    found = run("task", "verify", "task.json", "--state")

    assert found.code == 1
    assert "STATE: the trail: " in found.stderr


@pytest.mark.slow
def test_evidence_of_another_project_is_found(desk: Path, run: Run) -> None:
    exported(run, started(run, TICKET)["task_id"])
    for file in (desk / ".agent").iterdir():
        file.unlink(missing_ok=True) if file.is_file() else None
    started(run, TICKET)

    found = document(run("task", "verify", "task.json", "--state", "--json"))

    assert {fault["code"] for fault in found["faults"]} == {"SEAL", "STATE"}


# Files ----------------------------------------------------------------------------------------------------------------


def test_many_faults_are_counted_and_not_all_printed(desk: Path, run: Run) -> None:
    evidence = exported(run, waiting(desk, run))
    records = tuple(structs.replace(evidence.records[0], position=1) for _ in range(40))
    Path("many.json").write_bytes(evidence_json(structs.replace(evidence, records=records)))

    ran = run("task", "verify", "many.json")

    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr.splitlines()[-1].endswith(" more: `--json` has all of them")
    assert len(ran.stderr.splitlines()) == 52


def test_a_file_that_is_missing_is_a_usage_error(desk: Path, run: Run) -> None:
    ran = run("task", "verify", "missing.json")

    assert (ran.code, ran.stdout) == (2, "")


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 100_000, b'{"version": "1", "version": "1"}', b"\xff"])
def test_a_file_that_is_not_evidence_is_refused_in_words(desk: Path, run: Run, content: bytes) -> None:
    Path("bad.json").write_bytes(content)

    ran = run("task", "verify", "bad.json")

    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: The file is not the evidence of a task: bad.json:")


@pytest.mark.slow
def test_without_a_state_nothing_is_compared_and_none_is_made(desk: Path, run: Run) -> None:
    exported(run, started(run, TICKET)["task_id"])
    for file in sorted((desk / ".agent").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    (desk / ".agent").rmdir()

    assert run("task", "verify", "task.json").code == 0
    assert run("task", "verify", "task.json", "--state").code == 2
    assert not (desk / ".agent").exists()


@pytest.mark.slow
def test_an_export_in_oscal_follows_the_model(desk: Path, issuer: str, run: Run) -> None:
    task, ada = approved(desk, issuer, run)

    ran = run("task", "export", task, "--format", "oscal", *ada)
    again = run("task", "export", task, "--format", "oscal", "-o", "results.json", *ada)

    assert (ran.code, again.code) == (0, 0)
    written = json.loads(ran.stdout)
    assert [fault.message for fault in _MODEL.iter_errors(written)] == []
    assert json.loads(Path("results.json").read_bytes()) == written
    refused = run("task", "verify", "results.json")
    assert (refused.code, "an OSCAL document is for other programs" in refused.stderr) == (1, True)


def test_no_secret_and_no_sealed_argument_is_in_the_evidence(desk: Path, issuer: str, run: Run) -> None:
    ada = as_person(desk, issuer, "ada")
    task = started(run, TICKET, "--environment", "prd", *ada)

    evidence = exported(run, task["task_id"], *ada)

    written = msgspec.json.encode(evidence).decode()
    assert all(action.content is None and action.connection == "" for action in evidence.actions)
    assert Path(ada[1]).read_text() not in written
