"""What the disk and the effects say after processes are gone, and what must be so whatever happened to them."""

from collections import Counter
from pathlib import Path

import msgspec
from msgspec import Struct

from agent_resolver.engine import RunResult
from agent_resolver.schema import (
    FINISHED,
    JOURNAL,
    LEASES,
    LEDGER,
    PENDING,
    RUNS,
    WAITS,
    PendingAction,
    Run,
)
from agent_resolver.storage import Snapshot, trail_faults
from tests.dying import Effects
from tests.engine.conformance.families import Family, kind_of
from tests.engine.conformance.stage import KEY, Stage
from tests.engine.conformance.tools import RULES, path_of

UNKNOWN = "OUTCOME_UNKNOWN"


class Aftermath(Struct, frozen=True, kw_only=True):
    """What is left in a folder."""

    runs: dict[str, Run]
    actions: tuple[PendingAction, ...]
    results: dict[str, RunResult]
    """How each run that has ended did."""
    finished: frozenset[str]
    """The keys of calls whose end the ledger knows."""
    tried: Counter[tuple[str, str]]
    """How often each tool was tried, by tool and key of the call."""
    effects: Counter[tuple[str, str]]
    order: tuple[str, ...]
    """The keys of the effects, in their order."""


def look(folder: Path) -> Aftermath:
    """Look at what is left; the trail must verify, and what the store knows of runs must fit together."""
    stage = Stage(folder)
    try:
        found: Aftermath = stage.sqlite.read_now(_read)
        results = {run: stage.result_now(run) for run, row in found.runs.items() if row.status in FINISHED}
    finally:
        stage.close()
    lines = Effects(folder).read()
    noted = [line for line in lines if line[0] == "effect"]
    return msgspec.structs.replace(
        found,
        results=results,
        tried=Counter((line[1], line[2]) for line in lines if line[0] == "tried"),
        effects=Counter((line[1], line[2]) for line in noted),
        order=tuple(line[2] for line in noted),
    )


def _read(snapshot: Snapshot) -> Aftermath:
    assert trail_faults(snapshot, KEY)[0] == []
    runs = {row.id: row for row in snapshot.find(RUNS)}
    for row in runs.values():
        numbers = [entry.number for entry in snapshot.find(JOURNAL, {"run": row.id})]
        assert numbers == list(range(1, row.entries + 1)), f"the journal of {row.id} has the entries {numbers}"
        waits = snapshot.find(WAITS, {"run": row.id})
        lease = snapshot.get(LEASES, f"run/{row.id}")
        if row.status in FINISHED:
            assert not waits, f"{row.id} has ended and waits for {waits}"
            assert lease is None or not lease.owner, f"{row.id} has ended, and its lease is held"
        if row.status == "waiting":
            assert waits, f"{row.id} waits, and nothing will take it up"
    finished = frozenset(entry.key for entry in snapshot.find(LEDGER) if entry.state in {"done", "failed"})
    actions = tuple(snapshot.find(PENDING))
    nothing = Counter[tuple[str, str]]()
    return Aftermath(
        runs=runs, actions=actions, results={}, finished=finished, tried=nothing, effects=nothing, order=()
    )


def check_nothing_is_repeated(left: Aftermath, after: Aftermath) -> None:
    """What had an end before a process began was not tried again by it, and no effect came twice."""
    for (tool, key), tries in after.tried.items():
        if Stage.ledger_key_of(tool, key) in left.finished:
            assert tries == left.tried[tool, key], f"{tool} under {key} had ended, and was tried again"
    doubled = [key for key, times in after.effects.items() if times > 1]
    assert not doubled, f"these effects came twice: {doubled}"


def check_ends(after: Aftermath, runs: tuple[str, ...]) -> None:
    """Every run came to the end that its family has, with the results of its own steps and with its own effects."""
    assert set(after.runs) >= set(runs)
    for run in runs:
        family = kind_of(run)
        assert after.runs[run].status in FINISHED, f"{run} is {after.runs[run].status}"
        result = after.results[run]
        inner = after.results.get(Stage.inner_run_of(run), result)
        if UNKNOWN in {result.code, inner.code}:
            _check_unknown(after, run)
            continue
        found = (result.status, result.code, result.output, result.compensated)
        expected = (family.status, family.code, family.output, family.compensated)
        assert found == expected, f"{run} ended with {result}"
        assert _effects_of(after, run) == sorted(family.effects), run
        _check_order(after, run, family)
    _check_tries(after)
    traces = {after.runs[run].trace_id for run in runs}
    # A question of a run that was cancelled has expired.
    asked = [each for each in after.actions if each.is_open and each.trace_id in traces and each.expires_at is None]
    assert not asked, f"runs have ended, and these questions are open: {asked}"


def _effects_of(after: Aftermath, run: str) -> list[str]:
    own = [f"{tool} {path_of(key)}" for tool, key in after.effects if key.startswith(f"{run}/")]
    part = f"{Stage.inner_run_of(run)}/"
    inner = [f"inner {tool} {path_of(key)}" for tool, key in after.effects if key.startswith(part)]
    return sorted([*own, *inner])


def _check_order(after: Aftermath, run: str, family: Family) -> None:
    """What is taken back is taken back in reverse."""
    taken_back = [path_of(key) for key in after.order if key.startswith(f"{run}/compensate/")]
    # Without the number of the attempt.
    paths = [path.partition("#")[0] for path in taken_back]
    assert paths == [f"compensate/{path}" for path in family.compensated], f"{run} took back {paths}"


def _check_unknown(after: Aftermath, run: str) -> None:
    """A run that ends because of a call nobody knows the outcome of: it was asked about, and answered."""
    result = after.results[run]
    asked = [action for action in after.actions if action.type == "CLARIFICATION" and action.answer is not None]
    assert asked, f"{run} ended with {UNKNOWN}, and no person was asked"
    assert result.status in {"failed", "cancelled"}, run


def _check_tries(after: Aftermath) -> None:
    """What may not be done twice was tried again only where a person said so."""
    retries = sum(action.answer == "retry" for action in after.actions)
    again = sum(tries - 1 for (tool, _), tries in after.tried.items() if not RULES[tool].is_idempotent)
    assert again <= retries, f"{again} calls were tried again, and {retries} answers said so"
