"""What the pipeline asks a person, and how the call that asked goes on."""

from collections.abc import Awaitable, Callable
from typing import Final

from agent_resolver.core.approval import expiry
from agent_resolver.registry.call import Call
from agent_resolver.registry.errors import NeedsAction
from agent_resolver.registry.pending_actions import PendingActions
from agent_resolver.registry.port import Clock
from agent_resolver.registry.secret import redacted
from agent_resolver.schema.audit import AuditKind
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.classification import CLASSIFICATION_RANK
from agent_resolver.schema.descriptor import Rules
from agent_resolver.schema.outcome import Pending
from agent_resolver.schema.pending import PendingAction, PendingType

RETRY: Final = "retry"
"""The answer that lets an interrupted call be made again."""


class Questions:
    """Asks for approvals, for what a tool cannot do without, and whether something was done."""

    def __init__(self, pending: PendingActions, clock: Clock, *, is_recorded: bool) -> None:
        self._pending = pending
        self._clock = clock
        self._is_recorded = is_recorded

    async def newest_approval(self, call: Call) -> tuple[PendingAction | None, int]:
        """The last question whether this very call may be made, and how many there were."""
        return await self._pending.newest(_binding_of_call("APPROVAL", call))

    async def approval(self, call: Call, count: int) -> Pending:
        """Ask whether this very call may be made."""
        rules, now, binding = call.entry.descriptor.rules, self._clock.now(), _binding_of_call("APPROVAL", call)
        action = PendingAction(
            id=_action_id(binding, count),
            type="APPROVAL",
            subject=call.tool_id,
            message=f"{call.context.caller.id} asks to call {call.tool_id} ({rules.classification})",
            asked_at=now,
            binding=binding,
            expires_at=expiry(now, rules.priority),
            requester=call.context.caller.id,
            trace_id=call.context.trace_id,
            arguments=call.digest,
            classification=rules.classification,
            role=rules.approver_role,
        )
        return pending_of(await self._ask(call, action), call)

    async def need(self, call: Call, needed: NeedsAction) -> Pending:
        """Ask for what a tool cannot do without."""
        # A tool that asks may have been given secrets already, and what it says is kept.
        subject, message = redacted([needed.subject, str(needed)], call.secrets)
        binding = digest([needed.kind, subject, message])
        newest, count = await self._pending.newest(binding)
        if newest is None or not newest.is_open:
            action = PendingAction(
                id=_action_id(binding, count),
                type=needed.kind,
                subject=subject,
                message=message,
                asked_at=self._clock.now(),
                binding=binding,
                requester=call.context.caller.id,
                trace_id=call.context.trace_id,
                needs=needed.needs,
            )
            newest = await self._ask(call, action)
        return pending_of(newest, call)

    async def clarification(self, call: Call, question: str) -> PendingAction:
        """Ask what a tool wants to know in this very call; what it deals with decides who may answer."""
        (message,) = redacted([question], call.secrets)
        binding = _binding_of_call("CLARIFICATION", call, message)
        newest, count = await self._pending.newest(binding)
        if newest is not None:
            return newest
        rules = call.entry.descriptor.rules
        action = PendingAction(
            id=_action_id(binding, count),
            type="CLARIFICATION",
            subject=call.tool_id,
            message=message,
            asked_at=self._clock.now(),
            binding=binding,
            requester=call.context.caller.id,
            trace_id=call.context.trace_id,
            arguments=call.digest,
            classification=rules.classification,
            role=rules.approver_role,
        )
        return await self._ask(call, action)

    async def interrupted(
        self, call: Call, key: str, rules: Rules, is_still_unknown: Callable[[], Awaitable[bool]] | None = None
    ) -> PendingAction | None:
        """Ask whether what was interrupted under this key was done; None where that is known by now.

        An answer that was used up is asked for anew, unless it was used a moment ago, and so is one that others could
        give than the tool's rules say: whoever asked first may not have known the tool.
        """
        binding = digest(["OUTCOME_UNKNOWN", key])
        newest, count = await self._pending.newest(binding)
        strictness = CLASSIFICATION_RANK[rules.classification]
        if newest and newest.used_at is None and CLASSIFICATION_RANK[newest.classification] >= strictness:
            return newest
        if newest and newest.used_at and is_still_unknown and not await is_still_unknown():
            return None
        action = PendingAction(
            id=_action_id(binding, count),
            type="CLARIFICATION",
            subject=call.tool_id,
            message=f"{call.tool_id} was interrupted after it had started: answer `done`, or `{RETRY}` if it was not",
            asked_at=self._clock.now(),
            binding=binding,
            requester=call.context.caller.id,
            trace_id=call.context.trace_id,
            arguments=call.digest,
            classification=rules.classification,
            role=rules.approver_role,
        )
        return await self._ask(call, action)

    async def _ask(self, call: Call, action: PendingAction) -> PendingAction:
        if not self._is_recorded:
            return await self._pending.ask(action)
        asked = {"arguments": action.arguments} if action.arguments else {}
        record = call.record(AuditKind.ACTION_ASKED, action=action.id, type=action.type, **asked)
        return await self._pending.ask(action, record)


def pending_of(action: PendingAction, call: Call) -> Pending:
    """The outcome of a call that waits."""
    remedies = {
        "APPROVAL": f"once `agent inbox approve {action.id}` is done, make the same call under the same trace",
        "CLARIFICATION": f"`agent inbox answer {action.id} TEXT`, then make the same call under the same trace",
    }
    return Pending(
        trace_id=call.context.trace_id,
        id=action.id,
        type=action.type,
        code=f"{action.type}_REQUIRED",
        message=action.message,
        remedy=remedies.get(action.type, "make the same call once it is there"),
        expires_at=action.expires_at,
    )


def _binding_of_call(kind: PendingType, call: Call, *more: str) -> str:
    return digest([kind, call.tool_id, call.digest, call.context.trace_id, call.context.caller.id, *more])


def _action_id(binding: str, count: int) -> str:
    """Short enough to type; the first question of its kind has the same one wherever it is asked."""
    return digest([binding, count])[-12:]
