"""The history of a run, from its journal and the ledger: for people and programs that look at it later."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, field, structs

from agent_resolver.core.moment import moment_of
from agent_resolver.core.wire_name import from_wire_name
from agent_resolver.registry.call import ledger_key
from agent_resolver.registry.ledger import open_outcome
from agent_resolver.registry.port import Seal
from agent_resolver.runtime.call_key import call_key
from agent_resolver.runtime.inference import Usage
from agent_resolver.runtime.journal.entry import Entry
from agent_resolver.runtime.journal.fold import (
    DamagedJournal,
    Folded,
    fold_run,
    read_entries,
    runs_before,
)
from agent_resolver.runtime.message import Message, ToolCall
from agent_resolver.runtime.run import NOT_MADE
from agent_resolver.runtime.run_mask import (
    PlanFacts,
    RunMask,
    read_plan_facts,
    secret_values,
)
from agent_resolver.schema.outcome import Failed
from agent_resolver.schema.state import LEDGER, RUNS, JournalRow, Run
from agent_resolver.storage.port import Snapshot

CallOutcome = Literal[
    "done", "failed", "running", "unknown", "pending", "open", "not made", "answered"
]
"""The end of a call. `unknown`: it was interrupted, and only a person knows. `open`: it comes after one that waits.
`answered`: it was not made, and the model read another text in place of its result."""


class AskedModel(Struct, kw_only=True, rename="camel"):
    """One question to a model."""

    round: int
    model: str
    at: str
    outcome: Literal["answered", "failed", "unanswered"] = "unanswered"
    failure: str = ""
    usage: Usage | None = None
    cost: float | None = None
    seconds: float | None = None
    """The seconds that the answer took."""


class MadeCall(Struct, kw_only=True, rename="camel"):
    """One call that a model asked for."""

    round: int
    call: str
    tool: str
    arguments: Any
    """With secret fields masked."""
    outcome: CallOutcome = "open"
    code: str = ""


class RunHistory(Struct, frozen=True, kw_only=True):
    """A run, with what happened in it."""

    folded: Folded
    entries: list[tuple[JournalRow, Entry]]
    questions: list[AskedModel]
    calls: list[MadeCall]
    delegates: list[Run]
    mask: RunMask
    """Hides the values of secret fields of the calls."""
    plan: Any
    """The document of its plan; None where it is gone."""

    @property
    def text(self) -> str:
        """The last text of the agent, without secrets."""
        spoken = (
            message.text
            for message in reversed(self.folded.state.messages)
            if message.role == "assistant"
        )
        return str(self.mask.redact(next((text for text in spoken if text), "")))


def read_history(snapshot: Snapshot, run: str, seal: Seal) -> RunHistory | None:
    """The history of a run so far; None if there is no such run.

    Raises:
        DamagedJournal: Its journal cannot be read.
    """
    folded = fold_run(snapshot, run, seal)
    if folded is None:
        return None
    # The last one is the run itself; the others are those before it in its
    # conversation.
    *before, (_, entries) = runs_before(snapshot, run, seal)
    said_before = [each for _, earlier in before for each in earlier]
    facts = read_plan_facts(snapshot, seal, [*said_before, *entries])
    walk = _Walk(snapshot, seal, folded, facts)
    for _, entry in said_before:
        walk.learn_secrets(entry)
    walk.mask.hide(
        _secrets_of_delegates(snapshot, [*(row.id for row, _ in before), run], seal)
    )
    for row, entry in entries:
        walk.add(row, entry)
    walk.settle_open_calls()
    return RunHistory(
        folded=folded,
        entries=entries,
        questions=walk.questions,
        calls=[each.shown for each in walk.calls],
        delegates=snapshot.find(RUNS, {"parent": run}),
        mask=walk.mask,
        plan=facts.newest,
    )


def _secrets_of_delegates(snapshot: Snapshot, runs: list[str], seal: Seal) -> set[str]:
    """The values of secret fields in the calls of delegated runs, however deep: their results may repeat them.

    Raises:
        DamagedJournal: The journal of a delegate cannot be read.
    """
    found: set[str] = set()
    # Rows can be edited, so that runs may be delegates of each other.
    seen = set(runs)
    waiting = list(runs)
    while waiting:
        for row in snapshot.find(RUNS, {"parent": waiting.pop()}):
            if row.id in seen:
                continue
            seen.add(row.id)
            waiting.append(row.id)
            entries = read_entries(snapshot, row.id, seal)
            found |= secret_values(read_plan_facts(snapshot, seal, entries), entries)
    return found


class _Called(Struct):
    """A call on its way through the journal."""

    asked: ToolCall
    open_count: int
    shown: MadeCall
    answer: str | None = field(default=None)


class _Walk:
    """Goes through the entries of a run, and notes what was asked and called."""

    def __init__(
        self, snapshot: Snapshot, seal: Seal, folded: Folded, facts: PlanFacts
    ) -> None:
        self._snapshot = snapshot
        self._seal = seal
        self._folded = folded
        self._facts = facts
        self._round = 0
        self._asked_at = 0
        self.mask = RunMask(facts)
        self.questions: list[AskedModel] = []
        self.calls: list[_Called] = []

    def add(self, row: JournalRow, entry: Entry) -> None:
        """Note one entry."""
        # An entry has the round only where it changed.
        if entry.change.round is not UNSET:
            self._round = entry.change.round
        if entry.question is not UNSET:
            self._asked_at = row.at
            at = moment_of(row.at)
            self.questions.append(
                AskedModel(round=self._round, model=entry.question.model, at=at)
            )
        # Nothing is asked between a question and its answer, so an answer belongs to
        # the newest question.
        newest = self.questions[-1] if self.questions else None
        if newest is not None and entry.reply is not UNSET:
            newest.outcome = "answered"
            newest.usage = entry.reply.usage
            newest.cost = entry.reply.cost
            newest.model = entry.reply.model or newest.model
            newest.seconds = self._seconds_since(row)
        if newest is not None and entry.failure is not UNSET:
            newest.outcome = "failed"
            newest.failure = entry.failure
            newest.seconds = self._seconds_since(row)
        for message in entry.change.messages:
            self._add_message(message)

    def learn_secrets(self, entry: Entry) -> None:
        """Hide what stands in secret fields of an earlier call of the conversation: it may be said again here."""
        for message in entry.change.messages:
            for call in message.calls:
                self.mask.note_call(
                    from_wire_name(call.name, self._facts.tools) or call.name, call
                )

    def _seconds_since(self, row: JournalRow) -> float:
        """The seconds that the newest question took; 0 where a clock was set back."""
        return max(0, row.at - self._asked_at) / 1000

    def _add_message(self, message: Message) -> None:
        for place, call in enumerate(message.calls):
            tool = from_wire_name(call.name, self._facts.tools) or call.name
            arguments = self.mask.note_call(tool, call)
            shown = MadeCall(
                round=self._round, call=call.id, tool=tool, arguments=arguments
            )
            # The key of a call counts the calls that were open when it was made, itself
            # included.
            self.calls.append(_Called(call, len(message.calls) - place, shown))
        if message.role != "tool":
            return
        # Models number their calls as they like: the oldest call of this id that has no
        # answer is meant.
        answered = next(
            (
                each
                for each in self.calls
                if each.answer is None and each.asked.id == message.call_id
            ),
            None,
        )
        if answered is not None:
            answered.answer = message.text

    def settle_open_calls(self) -> None:
        """Give each call its outcome. The first open one is the call that the run waits for, if it waits."""
        is_first_open = True
        for each in self.calls:
            shown = each.shown
            shown.outcome, shown.code = self._outcome_of(each)
            if (
                shown.outcome == "open"
                and is_first_open
                and self._folded.pending is not None
            ):
                shown.outcome = "pending"
                shown.code = self._folded.pending.code
            is_first_open = is_first_open and shown.outcome not in {"open", "pending"}

    def _outcome_of(self, called: _Called) -> tuple[CallOutcome, str]:
        # The key has the round in which the call was made.
        state = structs.replace(self._folded.state, round=called.shown.round)
        given = call_key(state, called.open_count, called.asked.id)
        key = ledger_key(self._folded.beginning.caller.id, called.shown.tool, given)
        kept = self._snapshot.get(LEDGER, key)
        # The ledger has no ending of such a call, so the text that the model read has
        # to tell.
        if kept is None or kept.state == "waiting":
            return _outcome_by_answer(called.answer)
        if kept.state == "done":
            return "done", ""
        if kept.state == "failed":
            return "failed", self._code_of_failure(kept.result or b"", key)
        _, code = _outcome_by_answer(called.answer)
        return ("unknown" if kept.state == "unknown" else "running"), code

    def _code_of_failure(self, sealed: bytes, key: str) -> str:
        try:
            return str(
                msgspec.json.decode(
                    open_outcome(self._seal, sealed, key, "failed"), type=Failed
                ).code
            )
        except ValueError as error:
            raise DamagedJournal(
                self._folded.row.id, f"the failure of one of its calls: {error}"
            ) from error


def _outcome_by_answer(answer: str | None) -> tuple[CallOutcome, str]:
    """The outcome of a call that the ledger does not know, judged by the text that the model read."""
    if answer is None:
        return "open", ""
    if answer == NOT_MADE:
        return "not made", ""
    try:
        document = msgspec.json.decode(answer)
    except msgspec.DecodeError:
        return "answered", ""
    code = document.get("error") if isinstance(document, dict) else None
    return ("failed", code) if isinstance(code, str) else ("answered", "")
