"""A run as its journal and the ledger have it, in the order in which things happened: what a replay goes by."""

import json
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct, field

from agent_resolver.registry.call import ledger_key
from agent_resolver.registry.port import Seal
from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.errors import RunRefused
from agent_resolver.runtime.inference import ChatAnswer, Finish
from agent_resolver.runtime.journal.change import apply_change
from agent_resolver.runtime.journal.entry import (
    Beginning,
    Entry,
    Question,
    Reply,
    plan_purpose,
    unpack,
)
from agent_resolver.runtime.journal.fold import (
    DamagedJournal,
    UnknownRun,
    fold_run,
    kept_result,
    read_entries,
)
from agent_resolver.runtime.message import MediaBlock, Message
from agent_resolver.runtime.result_text import text_of_result
from agent_resolver.runtime.run import RunState, Spent, Termination
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.outcome import Pending
from agent_resolver.schema.state import PLANS, RUNS, JournalRow, Run
from agent_resolver.storage.port import Snapshot

PlanDocument = Mapping[str, Any]
"""The parts of a plan, as `plan_document` wrote them."""


def decode_plan(document: bytes) -> PlanDocument:
    """Reads a document that `plan_document` wrote.

    Raises:
        ValueError: It is not that.
    """
    # Python's own decoder: a program may have made a plan of what is not a character.
    plan: PlanDocument = json.loads(document)
    return plan


class Asked(Struct, frozen=True, kw_only=True):
    """A question to the model."""

    number: int
    """The number of its entry."""
    question: Question
    place: int
    """The number of messages of the conversation."""
    seconds: float
    delegated: Mapping[str, Spent]


class Answered(Struct, frozen=True, kw_only=True):
    """An answer of the model."""

    number: int
    answer: ChatAnswer
    seconds: float
    delegated: Mapping[str, Spent]


class NotAnswered(Struct, frozen=True, kw_only=True):
    """A question that the model did not answer."""

    number: int
    kind: str
    seconds: float
    delegated: Mapping[str, Spent]


Step = Asked | Answered | NotAnswered


class Stretch(Struct, kw_only=True):
    """A run from where it started or went on, until it ended, had to wait, or was interrupted."""

    state: RunState
    """The state that it started from."""
    plan: PlanDocument
    caller: Caller
    budget: RunBudget
    is_resumed: bool
    steps: list[Step] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    """The conversation after its last step."""
    delegated: Mapping[str, Spent] = {}
    termination: Termination | None = None
    """None if it was interrupted."""
    pending: Pending | None = None
    number: int
    """The number of its newest entry."""


class Recording(Struct, frozen=True, kw_only=True):
    """A whole run."""

    row: Run
    beginning: Beginning
    stretches: list[Stretch]
    results: Mapping[int, Any]
    """The results of calls, by the place of their messages in the conversation."""
    waited: frozenset[tuple[str, str]]
    """The calls that had to wait, each with its name and its arguments as the model wrote them."""


def read_recording(snapshot: Snapshot, run: str, seal: Seal) -> Recording:
    """The recording of a run.

    Raises:
        RunRefused: There is no such run.
        DamagedJournal: Its journal cannot be read.
    """
    known = snapshot.get(RUNS, run)
    if known is not None and known.kind != "agent":
        raise RunRefused(
            f"run {run} is a {known.kind}, not a run of an agent",
            "name one of the runs that it started",
        )
    # The first entry alone gives the state that the run began with.
    first = fold_run(snapshot, run, seal, through=1)
    if first is None:
        raise UnknownRun(run)
    reader = _Reader(snapshot, first.row, seal, first.state)
    beginning_row, *rows = read_entries(snapshot, run, seal)
    reader.begin(beginning_row[0], first.caller, first.budget, is_resumed=False)
    for row, entry in rows:
        reader.take(row, entry)
    return Recording(
        row=first.row,
        beginning=first.beginning,
        stretches=reader.stretches,
        results=reader.results,
        waited=frozenset(reader.waited),
    )


class _Reader:
    """Takes one entry after the other, and keeps the state of the run as it was then."""

    def __init__(
        self, snapshot: Snapshot, row: Run, seal: Seal, state: RunState
    ) -> None:
        self._snapshot = snapshot
        self._row = row
        self._seal = seal
        self._state = state
        self.stretches: list[Stretch] = []
        self.results: dict[int, Any] = {}
        self.waited: set[tuple[str, str]] = set()

    def begin(
        self, row: JournalRow, caller: Caller, budget: RunBudget, *, is_resumed: bool
    ) -> None:
        """The run starts, or goes on."""
        stretch = Stretch(
            # A copy: the reader goes on to change its own state.
            state=msgspec.convert(msgspec.to_builtins(self._state), RunState),
            plan=self._read_plan(),
            caller=caller,
            budget=budget,
            is_resumed=is_resumed,
            number=row.number,
        )
        self.stretches.append(stretch)
        self._note_state(stretch)

    def take(self, row: JournalRow, entry: Entry) -> None:
        """The next entry."""
        # Once the answer is whole, the state no longer has the pieces that came before
        # it.
        pieces = self._state.pieces
        # Before a stretch begins with it: a run that goes on starts from the state
        # after this entry.
        self._apply(entry)
        stretch = self.stretches[-1]
        if row.kind == "run.resumed":
            budget = RunBudget(**entry.budget) if entry.budget else stretch.budget
            self.begin(row, entry.caller or stretch.caller, budget, is_resumed=True)
            return
        stretch.number = row.number
        if entry.question is not UNSET:
            stretch.steps.append(self._asked(row, entry.question))
        elif entry.reply is not UNSET:
            stretch.steps.append(self._answered(row, entry, entry.reply, pieces))
        elif entry.failure is not UNSET:
            stretch.steps.append(
                NotAnswered(
                    number=row.number,
                    kind=entry.failure,
                    seconds=self._state.seconds,
                    delegated=dict(self._state.delegated),
                )
            )
        elif entry.termination is not UNSET and stretch.termination is None:
            # A run that waits may be cancelled later: that says nothing of what its
            # agent does.
            stretch.termination = entry.termination
            self._note_pending(stretch, entry)
        self._note_state(stretch)

    def _note_pending(self, stretch: Stretch, entry: Entry) -> None:
        """Note the question that a stretch ends with, and the call that it is about."""
        stretch.pending = entry.pending or None
        # The first open call is the one that the run waits for.
        if entry.pending is not UNSET and self._state.open_calls:
            call = self._state.open_calls[0]
            self.waited.add((call.name, call.arguments))

    def _apply(self, entry: Entry) -> None:
        state = self._state

        def read_result(tool_id: str, key: str) -> str:
            # Its message is the next one of the conversation.
            place = len(state.messages)
            # The row of a run can be edited; the caller of its beginning is sealed.
            in_ledger = ledger_key(self.stretches[0].caller.id, tool_id, key)
            self.results[place] = kept_result(
                self._snapshot, self._row.id, in_ledger, self._seal
            )
            return text_of_result(self.results[place])

        apply_change(state, entry.change, read_result)

    def _note_state(self, stretch: Stretch) -> None:
        # Copies: the next entries change the state.
        stretch.messages = list(self._state.messages)
        stretch.delegated = dict(self._state.delegated)

    def _read_plan(self) -> PlanDocument:
        """The parts of the plan; empty if they are not kept any longer."""
        digest = self._state.plan
        kept = self._snapshot.get(PLANS, digest)
        if kept is None:
            return {}
        try:
            return decode_plan(unpack(self._seal.open(kept.body, plan_purpose(digest))))
        except ValueError as error:
            raise DamagedJournal(
                self._row.id, f"what its plan was made of: {error}"
            ) from error

    def _asked(self, row: JournalRow, question: Question) -> Asked:
        state = self._state
        return Asked(
            number=row.number,
            question=question,
            place=len(state.messages),
            seconds=state.seconds,
            delegated=dict(state.delegated),
        )

    def _answered(
        self, row: JournalRow, entry: Entry, reply: Reply, pieces: list[Message]
    ) -> Answered:
        state = self._state
        answer = _answer_of(entry, reply, pieces)
        return Answered(
            number=row.number,
            answer=answer,
            seconds=state.seconds,
            delegated=dict(state.delegated),
        )


def _answer_of(entry: Entry, reply: Reply, pieces: list[Message]) -> ChatAnswer:
    """An answer as the model gave it. The conversation has it in one message with the pieces before it."""
    change = entry.change
    # Between a question and its answer nothing else is added to the conversation.
    answer = ChatAnswer(
        text=reply.text,
        usage=reply.usage,
        finish=cast("Finish", reply.finish or "stop"),
        model_id=reply.model,
    )
    if change.messages:
        message = change.messages[-1]
        before = pieces
    elif change.pieces:
        # A piece holds its own words alone.
        message = change.pieces[-1]
        before = []
    else:
        return answer
    # The whole message repeats the text and the media of its pieces, which earlier
    # replies had.
    known_text = sum(len(piece.text) for piece in before)
    known_media = sum(len(_media_of(piece)) for piece in before)
    return msgspec.structs.replace(
        answer,
        text=message.text[known_text:],
        media=_media_of(message)[known_media:],
        calls=message.calls,
    )


def _media_of(message: Message) -> tuple[MediaBlock, ...]:
    return tuple(block for block in message.content if isinstance(block, MediaBlock))
