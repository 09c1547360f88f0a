"""Makes the course of a run again, from its journal and from what the ledger knows of its calls."""

from collections.abc import Callable, Collection, Mapping

import msgspec
from msgspec import Struct

from agent_resolver.core.blueprint.move import Course
from agent_resolver.core.blueprint.prepared_blueprint import PreparedBlueprint, prepare
from agent_resolver.core.blueprint.wave import (
    INTERPRETER_VERSION,
    Ended,
    Known,
    Move,
    RunFacts,
    StepDone,
    StepOutcome,
    Wave,
)
from agent_resolver.engine.errors import DamagedRun
from agent_resolver.engine.journal import History
from agent_resolver.engine.outcome import step_failed
from agent_resolver.registry.call import ledger_key
from agent_resolver.registry.ledger import open_outcome
from agent_resolver.registry.port import Seal
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.outcome import Failed
from agent_resolver.schema.state import LEDGER
from agent_resolver.storage.port import Snapshot

LookUp = Callable[[str, str], StepOutcome | None]
"""The outcome of the path, of a call of this tool; None if it has none yet."""


class Folded(Struct, kw_only=True):
    """A run as far as the state knows it."""

    course: Course
    """The way of the run. It was given every outcome but those of the wave that is not complete."""
    move: Move
    """The wave that is not complete, or the end."""
    outcomes: dict[str, StepOutcome]
    """All outcomes that are known, also those of that wave."""
    waves: list[Wave]
    """The waves before."""
    known: int
    """The number of waves of which the state has any trace."""


def course_of(
    history: History,
    outcomes: Mapping[str, StepOutcome],
    *,
    is_cancelled: bool = False,
) -> Course:
    """The course of a run with these outcomes.

    Args:
        history: What the journal says.
        outcomes: What is known.
        is_cancelled: True from the moment that the wish to cancel was seen; the outcomes are those of that moment.

    Raises:
        DamagedRun: The run was begun by a version of the interpreter that this program does not have.
    """
    started = history.started
    blueprint = history.blueprint
    # Another version could take other steps after the same outcomes.
    if started.interpreter != INTERPRETER_VERSION:
        raise DamagedRun(
            history.row.id, f"it needs version {started.interpreter} of the interpreter"
        )
    known = Known(
        input=started.input,
        run=run_facts(history),
        outcomes=outcomes,
        is_cancelled=is_cancelled,
    )
    return Course(prepared_blueprint(started.blueprint, blueprint), known)


def run_facts(history: History) -> RunFacts:
    """The facts about a run itself that expressions can use."""
    started = history.started
    blueprint = history.blueprint
    return RunFacts(
        id=history.row.id,
        blueprint=blueprint.id,
        version=blueprint.version,
        cost_center=started.starter.cost_center
        or blueprint.blueprint_metadata.cost_center,
        started_at=started.started_at,
    )


# One function: the loop has to see each wave whole, and each branch is one way in which
# the course can go on after it.
def fold(
    history: History,
    look_up: LookUp,
    *,
    first: str = "",
    again: Collection[str] = (),
) -> Folded:
    """Take the course of a run as far as outcomes are known.

    Args:
        history: What the journal says.
        look_up: Finds outcomes.
        first: The first path of the wave to stop at, complete or not; empty for the first that is not complete.
        again: Paths of that wave whose outcomes are left out, because they are about to be asked for again.
    """
    course = course_of(history, {})
    # True until the fold reaches the place where the run saw the wish to cancel.
    is_wish_left = is_cancelled_before(
        history, history.segments[-1].segment if first else None
    )
    outcomes: dict[str, StepOutcome] = {}
    waves: list[Wave] = []
    known = 0
    while True:
        move = course.next_move()
        if isinstance(move, Ended):
            if not is_wish_left:
                break
            # All steps had ended when the wish was seen, but not the run: everything is
            # taken back.
            course = course_of(history, outcomes, is_cancelled=True)
            is_wish_left = False
            continue
        is_last = first != "" and first_path(move) == first
        found = _outcomes_in(move, look_up, again if is_last else ())
        outcomes |= found
        # One outcome is a trace: the wave was begun, whatever becomes of the rest of
        # it.
        known += bool(found)
        is_complete = len(found) == len(move.paths)
        if is_last or not (is_complete or is_wish_left):
            break
        if not is_complete:
            # Here the wish to cancel was seen: what had ended is taken back, and the
            # rest never starts.
            waves.append(move)
            course = course_of(history, outcomes, is_cancelled=True)
            is_wish_left = False
            continue
        course.add(found)
        waves.append(move)
    return Folded(course=course, move=move, outcomes=outcomes, waves=waves, known=known)


def is_cancelled_before(history: History, segment: int | None) -> bool:
    """True if a segment begins with the wish to cancel; None is the segment that comes next."""
    seen = history.cancel_seen
    return seen is not None and (segment is None or seen.segment < segment)


def first_path(wave: Wave) -> str:
    """The path that names a wave: no other wave of the run has it."""
    return wave.paths[0]


def outcome_reader(history: History, snapshot: Snapshot, seal: Seal) -> LookUp:
    """Finds outcomes in the journal and in the ledger.

    Calls are in the ledger under the caller that began the run, also where a worker makes them.
    """
    run = history.row.id
    starter = history.started.starter.id

    def look_up(path: str, tool: str) -> StepOutcome | None:
        if path in history.ended_waits:
            return history.ended_waits[path].outcome
        if path in history.refused:
            return history.refused[path].failed
        # A wait has no tool, and so no entry in the ledger.
        return (
            kept_outcome(snapshot, run, call_key(starter, tool, run, path), seal)
            if tool
            else None
        )

    return look_up


def call_key(starter: str, tool: str, run: str, path: str) -> str:
    """The key under which the ledger has a call of a run."""
    return ledger_key(starter, tool, context_key(run, path))


def context_key(run: str, path: str) -> str:
    """The key under which a call of a run is made: the same in every engine and process."""
    return f"{run}/{path}"


def kept_outcome(
    snapshot: Snapshot,
    run: str,
    key: str,
    seal: Seal,
) -> StepOutcome | None:
    """What the ledger has of a call; None where it has not ended, or only a person knows how.

    Raises:
        DamagedRun: It was edited.
    """
    kept = snapshot.get(LEDGER, key)
    if kept is None or kept.state not in {"done", "failed"}:
        return None
    try:
        if kept.state == "done":
            return StepDone(
                msgspec.json.decode(open_outcome(seal, kept.result or b"", key, "done"))
            )
        failed = msgspec.json.decode(
            open_outcome(seal, kept.result or b"", key, "failed"), type=Failed
        )
    except ValueError as error:
        raise DamagedRun(run, f"the result of one of its calls: {error}") from error
    return step_failed(failed.code, failed.message)


def _outcomes_in(
    wave: Wave,
    look_up: LookUp,
    left_out: Collection[str],
) -> dict[str, StepOutcome]:
    tools = {call.path: call.tool for call in wave.calls} | {
        wait.path: "" for wait in wave.waits
    }
    found = {
        path: look_up(path, tool)
        for path, tool in tools.items()
        if path not in left_out
    }
    return {path: outcome for path, outcome in found.items() if outcome is not None}


_prepared: dict[str, PreparedBlueprint] = {}
_MOST_PREPARED = 100


def prepared_blueprint(digest: str, blueprint: Blueprint) -> PreparedBlueprint:
    """A blueprint that is ready to run: its templates are parsed once for all of its runs."""
    found = _prepared.get(digest)
    if found is None:
        # Rarely are there so many at once, and to prepare one again is cheap: no need
        # to find the oldest.
        if len(_prepared) >= _MOST_PREPARED:
            _prepared.clear()
        found = _prepared[digest] = prepare(blueprint)
    return found
