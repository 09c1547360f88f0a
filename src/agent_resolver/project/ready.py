"""Finds the runs that can go on now: those that were interrupted, and those whose question was answered.

The runs of blueprints are not among them: the state has a queue of those, from which workers take them.
"""

import time
from collections.abc import Collection

from msgspec import Struct

from agent_resolver.registry.errors import AnswerRefused
from agent_resolver.registry.inbox import Inbox
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.pending import PendingAction
from agent_resolver.schema.state import FINISHED, RUNS, RunKind
from agent_resolver.storage.clock import SystemClock
from agent_resolver.storage.port import Snapshot, Store
from agent_resolver.storage.run_listing import (
    ListedRun,
    RunFilter,
    ShownStatus,
    list_runs,
)

_ANSWERED = frozenset({"approved", "rejected", "answered"})


class ReadyRuns(Struct, frozen=True, kw_only=True):
    """Looks for runs that can go on, in the state of a project."""

    store: Store
    inbox: Inbox

    async def find(
        self, kinds: Collection[RunKind], context: CallContext
    ) -> list[ListedRun]:
        """All that can go on now, the oldest first. Parts of other runs go on with those."""
        found = [*await self.interrupted(kinds), *await self.answered(kinds, context)]
        return sorted(found, key=lambda each: (each.row.started_at, each.row.id))

    async def interrupted(self, kinds: Collection[RunKind]) -> list[ListedRun]:
        """The runs whose process is gone, or lost them."""
        return await self._list("interrupted", kinds)

    async def answered(
        self, kinds: Collection[RunKind], context: CallContext
    ) -> list[ListedRun]:
        """The runs that waited for something which has happened; `context` says who looks for secrets."""
        waiting = await self._list("waiting", kinds)
        return [each for each in waiting if await self._may_go_on(each, context)]

    async def _list(
        self, status: ShownStatus, kinds: Collection[RunKind]
    ) -> list[ListedRun]:
        found: list[ListedRun] = []
        for kind in sorted(kinds):
            found += await list_runs(
                self.store, time.time(), RunFilter(status=status, kind=kind)
            )
        # A part goes on with the run that it belongs to, and never by itself.
        return [each for each in found if not each.is_part]

    async def _may_go_on(self, listed: ListedRun, context: CallContext) -> bool:
        action = listed.action
        if listed.row.kind == "task":
            return await self._may_task_go_on(listed)
        return action is not None and await self._is_answered(action, context)

    async def _may_task_go_on(self, listed: ListedRun) -> bool:
        action = listed.action
        if action is not None:
            # A task finds out itself whether what it needs is there.
            return action.state(SystemClock().now()) != "open" or bool(action.needs)
        return await self.store.read(
            lambda snapshot: _has_ended(snapshot, listed.row.waits_for)
        )

    async def _is_answered(self, action: PendingAction, context: CallContext) -> bool:
        if action.needs and action.is_open:
            # It is answered by a secret that is there, which the inbox looks for.
            try:
                action = await self.inbox.show(action.id, context)
            except AnswerRefused:
                return False
        # A process may have used the answer and ended before the run went on.
        return (
            action.state(SystemClock().now()) in _ANSWERED or action.used_at is not None
        )


def _has_ended(snapshot: Snapshot, run_id: str | None) -> bool:
    """True if the run of a plan has ended, which a task waits for; a task that a limit halted waits for none."""
    row = snapshot.get(RUNS, run_id) if run_id else None
    return row is not None and row.status in FINISHED
