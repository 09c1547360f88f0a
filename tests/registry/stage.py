"""A registry with its inbox, a clock that is moved by hand, and all that they keep."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from agent_resolver.core import Verdict, instant
from agent_resolver.registry import (
    AnswerRefused,
    CallContext,
    Inbox,
    MemorySecrets,
    PendingActions,
    Ports,
    Tool,
    ToolRegistry,
)
from agent_resolver.schema import Caller, Done, Failed, Outcome, PendingAction, local_caller
from agent_resolver.storage import AesSeal, MemoryStore, SqliteStore, Store, key_beside
from tests.registry.sample import TRACE

NOW = "2026-03-01T12:00:00.000Z"
Value = TypeVar("Value")


class HandClock:
    """Tells the time that it was set to."""

    def __init__(self) -> None:
        self._now = NOW

    def now(self) -> str:
        return self._now

    def forward(self, minutes: float) -> None:
        self._now = instant(datetime.fromisoformat(self._now) + timedelta(minutes=minutes))


class Stage:
    """What a story needs; each of its steps runs in a loop of its own."""

    def __init__(self, store: Store | None, **more: Any) -> None:
        self.clock = HandClock()
        self.secrets = MemorySecrets()
        self.ports = Ports(store=store, secrets=self.secrets, clock=self.clock, seconds=self._seconds, **more)
        self.registry = ToolRegistry(self.ports)
        # Without a store, the registry has one of its own, and records nothing in it.
        self.store = self.registry._pipeline._store
        self.inbox = Inbox(
            self.store, self.secrets, self.clock, seal=self.ports.seal, only_verified=self.ports.only_verified
        )
        self.pending = PendingActions(self.store)

    def _seconds(self) -> float:
        return datetime.fromisoformat(self.clock.now()).timestamp()

    def add(self, *tools: Tool) -> "Stage":
        for tool in tools:
            self.registry.add(tool)
        return self

    def actions(self) -> list[PendingAction]:
        return run(self.pending.all())

    def records(self, after: int = 0) -> list[tuple[str, dict[str, Any]]]:
        """What was recorded, each with its kind."""
        if isinstance(self.store, SqliteStore):
            found = self.store.read_now(lambda snapshot: list(snapshot.records()))
        else:
            assert isinstance(self.store, MemoryStore)
            found = self.store.trail
        return [(record.kind, record.body) for record in found[after:]]

    def kinds(self, after: int = 0) -> list[str]:
        return [kind for kind, _ in self.records(after)]

    def call(
        self, tool_id: str, by: Caller, arguments: dict[str, Any] | None = None, trace: str = TRACE, **more: Any
    ) -> Outcome:
        context = CallContext(run="run-call", trace_id=trace, caller=by, **more)
        return run(self.registry.call(tool_id, arguments or {}, context))

    def decide(self, action_id: str, verdict: Verdict, by: Caller, reason: str | None = None) -> str:
        """The state of the action, or the code of the refusal."""
        return self._told(self.inbox.decide(action_id, verdict, answering(by), reason))

    def answer(self, action_id: str, words: str, by: Caller) -> str:
        return self._told(self.inbox.answer(action_id, words, answering(by)))

    def show(self, action_id: str) -> PendingAction:
        return run(self.inbox.show(action_id, answering(local_caller("viewer"))))

    def listed(self, *, is_everything: bool = False) -> list[PendingAction]:
        return run(self.inbox.list(answering(local_caller("viewer")), is_everything=is_everything))

    def _told(self, answer: Coroutine[Any, Any, PendingAction]) -> str:
        try:
            return run(answer).state(self.clock.now())
        except AnswerRefused as refused:
            return refused.refusal.code.value


def run(work: Coroutine[Any, Any, Value]) -> Value:
    return asyncio.run(work)


def answering(by: Caller) -> CallContext:
    return CallContext(run="run-answer", trace_id="f" * 32, caller=by)


def code_of(outcome: Outcome) -> str:
    match outcome:
        case Done():
            return "DONE"
        case Failed():
            return outcome.code.value
        case _:
            return outcome.code


def in_memory(**more: Any) -> Stage:
    """Everything in memory; with `store=None` nothing is recorded."""
    return Stage(**{"store": MemoryStore(), **more})


@contextmanager
def in_state_file(path: Path, **more: Any) -> Iterator[Stage]:
    """Everything in a state file."""
    store = SqliteStore(str(path))
    try:
        yield Stage(store, **{"seal": seal_beside(path), **more})
    finally:
        store.close()


@contextmanager
def in_place(place: str, folder: Path) -> Iterator[Stage]:
    """Everything in the place of this name: `memory`, `state file`, or `nothing recorded`."""
    if place == "state file":
        with in_state_file(folder / "state.db") as made:
            yield made
    elif place == "nothing recorded":
        yield in_memory(store=None)
    else:
        yield in_memory()


def seal_beside(path: Path, key: bytes | None = None) -> AesSeal:
    """What closes results in a state file, with the key that is given or else with one that is kept beside it."""
    return AesSeal(key or key_beside(str(path.with_suffix(".key"))))
