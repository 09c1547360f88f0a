"""What the disk and the effects say after processes are gone, and what must be so whatever happened to them."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent_resolver.core import evidence_faults
from agent_resolver.reasoner.artifact import Artifacts
from agent_resolver.reasoner.task_view import TaskView
from agent_resolver.schema import LEASES, PENDING, RUNS, AuditKind, AuditRecord, PendingAction
from agent_resolver.storage import AesSeal, Snapshot, lease_name, trail_faults
from tests.dying import Effects
from tests.reasoner.lasting import IN_FLIGHT, Process, trace_of
from tests.reasoner.task_home import KEY
from tests.state_place import open_state

Decision = tuple[str, str, tuple[str, ...], tuple[tuple[str, str], ...], str]
"""Stage, choice, codes, digests and summary of a decision record; ids of questions stand there by what they ask for."""


class Left(Struct, frozen=True, kw_only=True):
    """What is left of one task."""

    status: str
    stage: str
    code: str
    reason: str
    output: Any
    artifacts: dict[str, tuple[str, str, str]]
    """Type, status and digest of each artifact."""
    contents: dict[str, Any]
    decisions: tuple[Decision, ...]
    """Without the waits for the outcome of an interrupted call."""
    effects: tuple[str, ...]
    """The tools that had an effect, in order."""
    interrupted: tuple[str, ...]
    """The answers about calls that were interrupted."""


def look(folder: Path, names: Sequence[str] = IN_FLIGHT) -> dict[str, Left]:
    """Look at what is left of every task; what the store knows of tasks must fit together."""
    _check_store(folder)
    process = Process(folder)
    try:
        return asyncio.run(_look(process, Effects(folder), names))
    finally:
        process.close()


def check_trail(folder: Path) -> None:
    """The trail verifies, whatever else is the matter."""
    store = open_state(folder, key=KEY)
    assert store.read_now(lambda snapshot: trail_faults(snapshot, KEY)[0]) == []
    store.close()


def _check_store(folder: Path) -> None:
    """The trail verifies, no lease is held, and no question is open."""
    store = open_state(folder, key=KEY)

    def check(snapshot: Snapshot) -> None:
        assert trail_faults(snapshot, KEY)[0] == []
        for row in snapshot.find(RUNS):
            lease = snapshot.get(LEASES, lease_name(row.id))
            assert lease is None or not lease.owner, f"the lease of {row.kind} {row.id} is held"
        is_open = [action.message for action in snapshot.find(PENDING) if action.is_open]
        assert not is_open, f"these questions are open: {is_open}"

    store.read_now(check)
    store.close()


def check_nothing_is_repeated(effects: Effects) -> list[tuple[str, ...]]:
    """Every effect that there was; none may have come twice."""
    noted = [line for line in effects.read() if line[0] == "effect"]
    doubled = [key for key, times in Counter((line[1], line[2]) for line in noted).items() if times > 1]
    assert not doubled, f"these effects came twice: {doubled}"
    return noted


async def _look(process: Process, effects: Effects, names: Sequence[str]) -> dict[str, Left]:
    noted = check_nothing_is_repeated(effects)
    found: dict[str, Left] = {}
    for name in names:
        row = await process.row(name)
        assert row is not None, f"{name} is lost"
        own = [line[1] for line in noted if line[3] == trace_of(name)]
        found[name] = await _left_of(process, await process.look(row), tuple(own))
    rows = await process.sqlite.read(lambda snapshot: snapshot.find(RUNS, {"kind": "task"}))
    assert len(rows) == len(names), "a task was started twice"
    return found


async def _left_of(process: Process, view: TaskView, effects: tuple[str, ...]) -> Left:
    state, task = view.state, view.state.task_id
    assert (view.row.status, view.row.stage) == (view.status, state.stage), "the row is not that of the checkpoint"

    def read(snapshot: Snapshot) -> tuple[list[AuditRecord], list[PendingAction]]:
        asked = [action for action in snapshot.find(PENDING) if action.trace_id == state.trace_id]
        return list(snapshot.records(task)), asked

    records, asked = await process.sqlite.read(read)
    kinds = Counter(record.kind for record in records)
    assert (kinds[AuditKind.RUN_STARTED], kinds[AuditKind.RUN_ENDED]) == (1, 1), f"{task} began or ended twice"
    decided = [record.body for record in records if record.kind == AuditKind.TASK_DECIDED]
    ids = [body["decision"] for body in decided]
    assert len(set(ids)) == len(ids), f"{task} has records twice: {ids}"
    assert ids == list(state.reasoning_history), f"{task} refers to other records than the trail has"
    evidence = await process.tasks.export(task, state.initiator)
    faults = evidence_faults(evidence)
    assert faults == [], f"the evidence of {task} does not hold: {faults}"
    artifacts = Artifacts(process.sqlite, AesSeal(KEY))
    questions = {action.id: f"{action.type} {action.key}" for action in state.pending_actions}
    return Left(
        status=view.status,
        stage=state.stage,
        code=view.row.code,
        reason=state.reason,
        output=view.output,
        artifacts={name: (each.type, each.status, each.content) for name, each in state.artifacts.items()},
        contents={name: await artifacts.plain(task, each.content) for name, each in state.artifacts.items()},
        decisions=_decisions(decided, questions, {action.id for action in asked if is_about_outcome(action)}),
        effects=effects,
        interrupted=tuple(action.answer or "" for action in asked if is_about_outcome(action)),
    )


def is_about_outcome(action: PendingAction) -> bool:
    """True if a question asks whether an interrupted call was done, or whether a run that met many kills goes on."""
    return "was interrupted after it had started" in action.message or "ended its worker" in action.message


def _decisions(decided: list[dict[str, Any]], questions: dict[str, str], unknown: set[str]) -> tuple[Decision, ...]:
    """The decisions in order, without those to wait for the outcome of an interrupted call, and to go on after it."""
    found: list[Decision] = []
    for body in decided:
        codes = body.get("codes", [])
        if unknown.intersection(codes):
            assert found.pop()[:2] == ("execution", "WAITS")
            continue
        named = tuple(questions.get(code, code) for code in codes)
        digests = tuple(sorted(body.get("digests", {}).items()))
        found.append((body["stage"], body["choice"], named, digests, body.get("summary", "")))
    return tuple(found)


def check_ends(after: dict[str, Left], expected: dict[str, Left]) -> None:
    """Every task ended as it would have without a kill; one whose effect nobody knows ended clearly."""
    for name, left in after.items():
        if left.interrupted and left.status == "failed":
            _check_unknown(name, left, expected[name])
            continue
        for field in Left.__struct_fields__:
            if field != "interrupted":
                assert getattr(left, field) == getattr(expected[name], field), f"{name} has another {field}"


def _check_unknown(name: str, left: Left, expected: Left) -> None:
    """A person said that an interrupted call was done: its result is lost, and so the plan ended there."""
    assert "done" in left.interrupted, name
    assert "OUTCOME_UNKNOWN" in left.reason, f"{name} ended without saying why: {left.reason}"
    assert left.stage == "failed"
    assert left.artifacts == expected.artifacts, name
    assert left.decisions[:-1] == expected.decisions[:-1], name
    assert left.decisions[-1][:2] == ("execution", "FAILED"), name
    assert Counter(left.effects)["tickets.open"] == 1, name
