"""A registry with its inbox, a clock that is moved by hand, and all that they keep."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from agent_resolver.core import Verdict, instant
from agent_resolver.project import StatePorts
from agent_resolver.registry import (
    AnswerRefused,
    CallContext,
    Inbox,
    MemoryPendingActions,
    MemoryRate,
    MemorySecrets,
    MemoryTrail,
    PendingActions,
    Ports,
    Tool,
    ToolRegistry,
)
from agent_resolver.schema import Caller, Done, Failed, Outcome, PendingAction
from agent_resolver.storage import Database, SqliteTrail
from tests.registry.sample import TRACE

NOW = "2026-03-01T12:00:00.000Z"
Records = list[tuple[str, str, dict[str, Any]]]
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

    def __init__(self, make_ports: Callable[["Stage"], Ports], records: Callable[[], Records]) -> None:
        self.clock = HandClock()
        self.secrets = MemorySecrets()
        self.ports = make_ports(self)
        self.registry = ToolRegistry(self.ports)
        self.inbox = Inbox(self.ports.pending, self.secrets, self.clock, only_verified=self.ports.only_verified)
        self._records = records

    def add(self, *tools: Tool) -> "Stage":
        for tool in tools:
            self.registry.add(tool)
        return self

    @property
    def pending(self) -> PendingActions:
        return self.ports.pending

    def actions(self) -> list[PendingAction]:
        return run(self.pending.all())

    def records(self, after: int = 0) -> list[tuple[str, dict[str, Any]]]:
        """What was recorded, each with its kind."""
        return [(kind, body) for _, kind, body in self._records()[after:]]

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
        return run(self.inbox.show(action_id, answering(Caller(id="anybody"))))

    def listed(self, *, is_everything: bool = False) -> list[PendingAction]:
        return run(self.inbox.list(answering(Caller(id="anybody")), is_everything=is_everything))

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
    """Everything in memory."""
    trail = MemoryTrail()

    def ports(stage: Stage) -> Ports:
        seconds = lambda: datetime.fromisoformat(stage.clock.now()).timestamp()  # noqa: E731
        given = {"pending": MemoryPendingActions(trail), "rate": MemoryRate(seconds), "trail": trail, **more}
        return Ports(secrets=stage.secrets, clock=stage.clock, **given)

    return Stage(ports, lambda: trail.records)


@contextmanager
def in_state_file(path: Path, **more: Any) -> Iterator[Stage]:
    """Everything in a state file."""
    database = Database(str(path))
    kept = StatePorts(database, None)

    def ports(stage: Stage) -> Ports:
        given = {"trail": kept, "pending": kept, "rate": kept, "ledger": kept, "seal": kept.seal, **more}
        return Ports(secrets=stage.secrets, clock=stage.clock, **given)

    trail = SqliteTrail(database)
    try:
        yield Stage(ports, lambda: [(each.run, each.kind, each.body) for each in trail.records()])
    finally:
        kept.close()
        database.close()
