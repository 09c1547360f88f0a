"""Adapters that keep everything in memory: for tests, and for whoever needs no state file."""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Literal

from msgspec import Struct, structs

from agent_resolver.registry.port import Trail
from agent_resolver.schema.audit import Record
from agent_resolver.schema.ledger import Begun, Interrupted, Start
from agent_resolver.schema.pending import PendingAction

_WINDOW_SECONDS = 60.0


class MemoryTrail:
    """Keeps records in a list."""

    def __init__(self) -> None:
        self.records: list[tuple[str, str, dict[str, object]]] = []

    async def append(self, run: str, kind: str, body: Mapping[str, object]) -> None:
        """Add a record."""
        self.records.append((run, kind, dict(body)))


async def _append(trail: Trail | None, record: Record | None) -> None:
    if trail is not None and record is not None:
        await trail.append(record.run, record.kind, record.body)


class MemoryPendingActions:
    """Keeps actions in a dictionary, and what is recorded with them in the trail, if there is one."""

    def __init__(self, trail: Trail | None = None) -> None:
        self.actions: dict[str, PendingAction] = {}
        self.trail = trail

    async def ask(self, action: PendingAction, record: Record | None = None) -> PendingAction:
        """Keep an action and record it, or return the one with its id that is there already."""
        if action.id in self.actions:
            return self.actions[action.id]
        asked = structs.replace(action, answer=None, reason=None, answered_by=None, answered_at=None, used_at=None)
        self.actions[action.id] = asked
        try:
            await _append(self.trail, record)
        except BaseException:
            del self.actions[action.id]
            raise
        return asked

    async def newest(self, binding: str) -> tuple[PendingAction | None, int]:
        """The last action that was asked under a binding, and how many there were."""
        found = [action for action in self.actions.values() if action.binding == binding]
        return (found[-1] if found else None), len(found)

    async def get(self, action_id: str) -> PendingAction | None:
        """The action with this id."""
        return self.actions.get(action_id)

    async def all(self) -> list[PendingAction]:
        """Every action, oldest first."""
        return sorted(self.actions.values(), key=lambda action: (action.asked_at, action.id))

    async def answer(self, answered: PendingAction, record: Record) -> bool:
        """Keep the answer of an action and record it; False when it was answered before."""
        asked = self.actions.get(answered.id)
        if asked is None or not asked.is_open:
            return False
        self.actions[answered.id] = answered
        try:
            await _append(self.trail, record)
        except BaseException:
            self.actions[answered.id] = asked
            raise
        return True

    def use(self, action_id: str, at: str) -> bool:
        """Use up an answer; False when there is none, or it was used before."""
        action = self.actions.get(action_id)
        if action is None or action.is_open or action.used_at is not None:
            return False
        self.actions[action_id] = structs.replace(action, used_at=at)
        return True

    def give_back(self, action_id: str) -> None:
        """Take back that an answer was used: what it was used for could not be recorded."""
        self.actions[action_id] = structs.replace(self.actions[action_id], used_at=None)


class _Kept(Struct, frozen=True):
    """What the ledger knows of a call."""

    start: Start
    state: Literal["started", "done", "unknown"]
    sealed: bytes | None = None


class MemoryLedger:
    """Keeps calls in a dictionary; nothing in it outlives the process, so nothing in it was interrupted."""

    def __init__(self, pending: MemoryPendingActions | None = None, trail: Trail | None = None) -> None:
        self._pending = pending or MemoryPendingActions()
        self._trail = trail
        self._calls: dict[str, _Kept] = {}

    async def start(self, start: Start) -> Begun:
        """Note that a call starts, or say why it may not."""
        kept = self._calls.get(start.key)
        if kept and (refused := _refusal(kept, start)):
            return refused
        is_used = start.uses is not None and self._pending.use(start.uses, start.at)
        # What was interrupted goes on under the approval that it used up when it started.
        if start.uses is not None and not is_used and (kept is None or start.is_new_attempt):
            return Begun("refused")
        self._calls[start.key] = _Kept(start, "started")
        try:
            await _append(self._trail, start.record)
        except BaseException:
            self._restore(start.key, kept)
            if is_used and start.uses is not None:
                self._pending.give_back(start.uses)
            raise
        return Begun("started")

    def _restore(self, key: str, kept: _Kept | None) -> None:
        if kept is None:
            del self._calls[key]
        else:
            self._calls[key] = kept

    async def finish(
        self, key: str, state: Literal["done", "unknown", "forgotten"], sealed: bytes | None, record: Record | None
    ) -> None:
        """Note how it ended and record it."""
        kept = self._calls[key]
        try:
            await _append(self._trail, record)
        except BaseException:
            # Nobody will hear how it ended: it counts as interrupted, as in a process that was ended here.
            self._calls[key] = _Kept(kept.start, "unknown")
            raise
        self._restore(key, None if state == "forgotten" else _Kept(kept.start, state, sealed))

    async def knows(self, key: str) -> bool:
        """Whether a call started under this key and was not forgotten."""
        return key in self._calls

    async def interrupted(self) -> list[Interrupted]:
        """Nothing."""
        return []

    async def give_up(self, key: str, record: Record | None) -> bool:  # noqa: ARG002 - the port
        """Nothing is given up that was not interrupted."""
        return False


def _refusal(kept: _Kept, start: Start) -> Begun | None:
    """What keeps a call from starting again, if anything does."""
    if (kept.start.tool, kept.start.arguments) != (start.tool, start.arguments):
        return Begun("reused")
    if kept.state == "done":
        return Begun("done", kept.sealed)
    if kept.state == "started":
        return Begun("running")
    # What ran and what would run now must both be safe to do twice.
    may_repeat = start.is_idempotent and kept.start.is_idempotent
    return None if may_repeat or start.is_new_attempt else Begun("unknown")


class OpenSeal:
    """Closes nothing: for what never leaves the process."""

    def close(self, content: bytes, purpose: str) -> bytes:  # noqa: ARG002 - the port
        """The content."""
        return content

    def open(self, sealed: bytes, purpose: str) -> bytes:  # noqa: ARG002 - the port
        """The content again."""
        return sealed


class MemorySecrets:
    """Keeps secrets in a dictionary."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self.values = dict(values or {})

    async def get(self, name: str) -> str | None:
        """The value of a secret, or None while it is not there."""
        return self.values.get(name)

    def place(self, name: str) -> str:
        """Where it is looked for."""
        return f"put {name} into memory"


class MemoryRate:
    """Counts the uses of this process."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._uses: defaultdict[str, deque[float]] = defaultdict(deque)

    async def take(self, subject: str, per_minute: float) -> float:
        """Count one use, or say for how many seconds there is none left; 0 means it was counted."""
        now, uses = self._now(), self._uses[subject]
        while uses and uses[0] <= now - _WINDOW_SECONDS:
            uses.popleft()
        if len(uses) + 1 > per_minute:
            return uses[0] + _WINDOW_SECONDS - now if uses else _WINDOW_SECONDS
        uses.append(now)
        return 0.0


class FixedClock:
    """Always tells the same time."""

    def __init__(self, instant: str = "1970-01-01T00:00:00.000Z") -> None:
        self._instant = instant

    def now(self) -> str:
        """The time as ISO 8601 in UTC."""
        return self._instant
