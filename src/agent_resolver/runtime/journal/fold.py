"""Makes the state of a run again, from its journal and the ledger."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, structs

from agent_resolver.core.count import counted
from agent_resolver.registry.call import ledger_key
from agent_resolver.registry.ledger import open_outcome
from agent_resolver.registry.port import Seal
from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.errors import RunRefused
from agent_resolver.runtime.journal.change import apply_change
from agent_resolver.runtime.journal.entry import (
    Beginning,
    Entry,
    Question,
    decode_entry,
)
from agent_resolver.runtime.journal.question_digest import with_known
from agent_resolver.runtime.message import Message
from agent_resolver.runtime.result_text import text_of_result
from agent_resolver.runtime.run import RunState, Termination
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.outcome import Pending
from agent_resolver.schema.state import JOURNAL, LEDGER, RUNS, JournalRow, Run
from agent_resolver.storage.port import Snapshot

_DAMAGED: Final = "put back the state and its key from a backup: `agent state backup`"


class Folded(Struct, frozen=True, kw_only=True):
    """A run as its journal tells it."""

    row: Run
    beginning: Beginning
    state: RunState
    message_count: int
    """The messages of the state that this journal holds or refers to, with those of the runs before it."""
    number: int
    """The number of the last entry."""
    caller: Caller
    """The caller that acted last."""
    budget: RunBudget
    """The budget that its caller allowed last."""
    pending: Pending | None = None
    termination: Termination | None = None
    """The end of the run, or its wait for a person; None if it was interrupted."""
    is_unanswered: bool = False
    """True if the newest entry is a question: `state` counts it as uncertain, and the journal does not yet."""


class UnknownRun(RunRefused):
    """The state has no run of this id."""

    def __init__(self, run: str) -> None:
        super().__init__(
            f"there is no run {run}", "`agent runs list` shows those there are"
        )


class DamagedJournal(RunRefused):
    """The journal of a run cannot be read."""

    def __init__(self, run: str, problem: str) -> None:
        super().__init__(
            f"the journal of run {run} cannot be read: {problem}", _DAMAGED
        )


def require_no_blueprint(row: Run, command: str) -> None:
    """Refuse a run of a blueprint: workers drive it, and its journal is of another kind.

    Raises:
        RunRefused: It is one; the hint names the command for it.
    """
    if row.kind == "blueprint":
        raise RunRefused(
            f"run {row.id} is one of the blueprint {row.agent}",
            f"`agent blueprint {command} {row.id}`",
        )


def read_entries(
    snapshot: Snapshot, run: str, seal: Seal
) -> list[tuple[JournalRow, Entry]]:
    """Every entry of a run's journal, in order.

    Raises:
        DamagedJournal: One of them was edited or is missing.
    """
    found = []
    known = Question()
    for number, row in enumerate(snapshot.find(JOURNAL, {"run": run}), 1):
        # The seal of an entry covers its own number, and so a gap shows here.
        if row.number != number:
            raise DamagedJournal(run, f"entry {number} is missing")
        try:
            entry = decode_entry(row, seal)
        except (ValueError, msgspec.MsgspecError) as error:
            raise DamagedJournal(run, f"entry {number}: {error}") from error
        # A question was written without the parts of the one before it, so that each is
        # completed from that one.
        if entry.question is not UNSET:
            known = with_known(entry.question, known)
            entry = structs.replace(entry, question=known)
        found.append((row, entry))
    return found


def fold_run(
    snapshot: Snapshot, run: str, seal: Seal, *, through: int | None = None
) -> Folded | None:
    """A run as it was after its newest entry, or after entry `through`; None if there is no such run.

    Raises:
        DamagedJournal: Its journal, or that of a run before it in the conversation, cannot be read.
        RunRefused: It is a run of a blueprint.
    """
    row = snapshot.get(RUNS, run)
    return None if row is None else fold_row(snapshot, row, seal, through=through)


def fold_row(
    snapshot: Snapshot, row: Run, seal: Seal, *, through: int | None = None
) -> Folded:
    """The run of a row that was read from the same snapshot, as `fold_run` returns it.

    Raises:
        DamagedJournal: Its journal, or that of a run before it in the conversation, cannot be read.
        RunRefused: It is a run of a blueprint.
    """
    require_no_blueprint(row, "history")
    entries = read_entries(snapshot, row.id, seal)
    beginning = _require_whole(row, entries)
    messages = _messages_before(snapshot, beginning.continues, seal)
    # The whole journal was checked, even where only its beginning is folded.
    return fold_entries(snapshot, row, entries[:through], messages, seal)


def _require_whole(row: Run, entries: Sequence[tuple[JournalRow, Entry]]) -> Beginning:
    """The start of a run, from its first entry.

    Raises:
        DamagedJournal: Entries are missing at the beginning or at the end.
    """
    # The seal of an entry says nothing of those around it, so that missing ones at
    # either end show only here.
    beginning = entries[0][1].beginning if entries else UNSET
    if beginning is UNSET:
        raise DamagedJournal(row.id, "its beginning is missing")
    if len(entries) != row.entries:
        known = counted(row.entries, "entry", "entries")
        raise DamagedJournal(row.id, f"it has {known}, and {len(entries)} are there")
    return beginning


def runs_before(
    snapshot: Snapshot, run: str, seal: Seal
) -> list[tuple[Run, list[tuple[JournalRow, Entry]]]]:
    """A run and those before it in its conversation, the oldest first, each with its journal; none where `run` is "".

    It ends: a run continues one that was there before it.

    Raises:
        DamagedJournal: One of them is missing, or cannot be read.
    """
    chain = []
    seen: set[str] = set()
    while run:
        row = snapshot.get(RUNS, run)
        # Rows can be edited: a chain that comes back to itself counts as damaged, and
        # does not go round for ever.
        if row is None or run in seen:
            raise DamagedJournal(run, "a run of its conversation is missing")
        entries = read_entries(snapshot, run, seal)
        seen.add(run)
        chain.append((row, entries))
        # The sealed beginning says which run comes before; the row could be edited.
        run = _require_whole(row, entries).continues
    return chain[::-1]


def _messages_before(snapshot: Snapshot, run: str, seal: Seal) -> list[Message]:
    """The conversation of the runs before, the oldest first."""
    messages: list[Message] = []
    for row, entries in runs_before(snapshot, run, seal):
        messages = fold_entries(snapshot, row, entries, messages, seal).state.messages
    return messages


def fold_entries(
    snapshot: Snapshot,
    row: Run,
    entries: Sequence[tuple[JournalRow, Entry]],
    messages: list[Message],
    seal: Seal,
) -> Folded:
    """A run after these entries; `messages` are those of the runs before it."""
    beginning = entries[0][1].beginning
    assert beginning is not UNSET  # noqa: S101 - the callers have looked
    # A copy, because folding changes the state, and the same entries may be folded
    # again.
    state = msgspec.convert(msgspec.to_builtins(beginning.state), RunState)
    state.messages = list(messages)
    caller = beginning.caller
    budget = beginning.budget
    pending: Pending | None = None
    termination: Termination | None = None

    def read_result(tool_id: str, key: str) -> str:
        # Calls are in the ledger under the caller that began the run, also where
        # another one goes on with it.
        call = ledger_key(beginning.caller.id, tool_id, key)
        return text_of_result(kept_result(snapshot, row.id, call, seal))

    for _, entry in entries:
        apply_change(state, entry.change, read_result)
        # An entry leaves out what did not change, so the last entry that says it
        # counts.
        caller = entry.caller or caller
        budget = RunBudget(**entry.budget) if entry.budget else budget
        # Each entry replaces what the run waits for, and whether it has ended.
        pending = entry.pending or None
        termination = entry.termination or None
    # Every later entry answers a question or goes on without an answer: only the newest
    # can be open.
    newest_row, newest = entries[-1]
    is_unanswered = newest.question is not UNSET
    # Its provider may have answered: that is not known, and the operator who pays must
    # be able to see so.
    state.uncertain += is_unanswered
    return Folded(
        row=row,
        beginning=beginning,
        state=state,
        message_count=len(state.messages),
        number=newest_row.number,
        caller=caller,
        budget=budget,
        pending=pending,
        termination=termination,
        is_unanswered=is_unanswered,
    )


def kept_result(snapshot: Snapshot, run: str, key: str, seal: Seal) -> Any:  # noqa: ANN401 - a JSON value
    """The result of a call that is done, by the key that the ledger has it under.

    Raises:
        DamagedJournal: The ledger does not have it, or it was edited.
    """
    kept = snapshot.get(LEDGER, key)
    if kept is None or kept.result is None:
        raise DamagedJournal(run, "the result of one of its calls is gone")
    try:
        return msgspec.json.decode(open_outcome(seal, kept.result, key, "done"))
    except ValueError as error:
        raise DamagedJournal(run, f"the result of one of its calls: {error}") from error
