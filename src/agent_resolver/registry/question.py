"""Questions of the pipeline to a person, and how the call that asked goes on."""

from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import structs

from agent_resolver.core.approval import (
    MAX_OPEN_QUESTIONS,
    effects_of,
    expiry,
    is_answered_by_worker,
)
from agent_resolver.core.retry_answer import RETRY_ANSWER
from agent_resolver.core.shorten import shorten
from agent_resolver.registry.call import Call
from agent_resolver.registry.content import arguments_for_approver, without_surrogates
from agent_resolver.registry.errors import NeedsAction
from agent_resolver.registry.pending_actions import Asked, PendingActions
from agent_resolver.registry.port import Clock, Seal
from agent_resolver.registry.secret import redacted
from agent_resolver.schema.audit import AuditKind
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.classification import CLASSIFICATION_RANK
from agent_resolver.schema.descriptor import Rules, definition_digest
from agent_resolver.schema.outcome import Failed, FailureCode, Pending
from agent_resolver.schema.pending import PendingAction, PendingType

_MAX_REASON: Final = 500
_MAX_QUESTION: Final = 4_000
_OPERATOR_ROLE: Final = "approver"
"""The role that sees which secrets and grants are missing."""


class Questions:
    """Asks for approvals, for what a tool cannot do without, and whether something was done."""

    def __init__(
        self,
        pending: PendingActions,
        clock: Clock,
        seal: Seal,
        *,
        is_recorded: bool,
    ) -> None:
        self._pending = pending
        self._clock = clock
        self._seal = seal
        self._is_recorded = is_recorded

    async def asked_approvals(self, call: Call) -> Asked:
        """The questions whether this very call may be made."""
        return await self._pending.look(
            _binding_of_approval(call), call.context.caller.id
        )

    async def approval(self, call: Call, asked: Asked) -> Pending | Failed:
        """Ask whether this very call may be made, after those questions that were asked before."""
        rules = call.rules
        now = self._clock.now()
        binding = _binding_of_approval(call)
        question = f"{_who_asks(call)} to call {call.tool_id} ({rules.classification}){_reason_of(call)}"
        action = self._about_call("APPROVAL", call, binding, asked.count, question)
        expiring = structs.replace(action, expires_at=expiry(now, rules.priority))
        # A run whose call is not approved yet does nothing but wait: the question can
        # be kept with that step.
        return await self._waiting(call, expiring, may_wait=asked.has_room)

    async def need(self, call: Call, needed: NeedsAction) -> Pending | Failed:
        """Ask for what a tool cannot do without."""
        # A tool that asks may have been given secrets already, and what it says is
        # kept.
        subject, message = redacted([needed.subject, str(needed)], call.secrets)
        # The same need of two calls is one question: a secret that is missing is asked
        # for once.
        binding = digest([needed.kind, subject, message])
        newest, count = await self._pending.newest(binding)
        if newest is not None and newest.is_open:
            return pending_of(newest, call)
        action = PendingAction(
            id=_action_id(binding, count),
            type=needed.kind,
            subject=subject,
            message=message,
            asked_at=self._clock.now(),
            binding=binding,
            requester=call.context.caller.id,
            issuer=call.context.caller.issuer,
            via=call.context.caller.via,
            trace_id=call.context.trace_id,
            connection=call.context.connection,
            agent=call.context.agent,
            lock=call.context.lock,
            role=_OPERATOR_ROLE,
            needs=needed.needs,
        )
        return await self._waiting(call, action)

    async def clarification(self, call: Call, question: str) -> PendingAction | Failed:
        """Ask what a tool wants to know in this very call; the tool's rules decide who may answer."""
        # The tool may repeat in it what no record and no list may show.
        (message,) = redacted([question], call.all_secrets())
        binding = _binding_of_call("CLARIFICATION", call, message)
        newest, count = await self._pending.newest(binding)
        if newest is not None and not is_answered_by_worker(
            newest, call.context.caller
        ):
            return newest
        # The answer holds for the whole question, of which a person is shown no more
        # than a person reads.
        action = self._about_call(
            "CLARIFICATION", call, binding, count, message[:_MAX_QUESTION]
        )
        return await self._ask(call, action) or _too_many(call)

    async def interrupted(
        self,
        call: Call,
        key: str,
        rules: Rules,
        is_still_unknown: Callable[[], Awaitable[bool]] | None = None,
    ) -> PendingAction | None:
        """Ask whether what was interrupted under this key was done; None where that has become known.

        An answer that was used up is asked for again, unless it was used a moment ago, and so is one that was given
        under weaker rules than the tool has now: the process that asked first may not have known the tool.
        """
        binding = digest(["OUTCOME_UNKNOWN", key])
        newest, count = await self._pending.newest(binding)
        is_too_weak = newest is not None and (
            _is_too_weak(newest, rules)
            or is_answered_by_worker(newest, call.context.caller)
        )
        if newest and newest.used_at is None and not is_too_weak:
            return newest
        # An answer that was just used may have led to an outcome meanwhile: then there
        # is nothing to ask.
        if (
            newest
            and newest.used_at
            and is_still_unknown
            and not await is_still_unknown()
        ):
            return None
        choice = f"answer `done`, or `{RETRY_ANSWER}` if it was not"
        action = PendingAction(
            id=_action_id(binding, count),
            type="CLARIFICATION",
            subject=call.tool_id,
            message=f"{call.tool_id} was interrupted after it had started: {choice}",
            asked_at=self._clock.now(),
            binding=binding,
            requester=call.context.caller.id,
            issuer=call.context.caller.issuer,
            via=call.context.caller.via,
            trace_id=call.context.trace_id,
            arguments=call.digest,
            connection=call.context.connection,
            classification=rules.classification,
            role=rules.approver_role,
            takes_approver=rules.takes_approval,
        )
        # It is asked however many questions the caller has: otherwise no person would
        # learn of the interruption.
        return await self._ask(call, action, is_bounded=False)

    async def forget_expired(self) -> None:
        """Remove the arguments of questions that expired without an answer."""
        await self._pending.forget_expired(self._clock.now())

    def _about_call(
        self,
        kind: PendingType,
        call: Call,
        binding: str,
        count: int,
        message: str,
    ) -> PendingAction:
        """A question about one call, with all that the person who answers has to know of it."""
        descriptor = call.entry.descriptor
        context = call.context
        action_id = _action_id(binding, count)
        rules = call.rules
        secrets = (*call.secrets, *call.entry.source_secrets)
        text = arguments_for_approver(
            call.arguments, call.entry.secret_arguments, secrets
        )
        return PendingAction(
            id=action_id,
            type=kind,
            subject=call.tool_id,
            message=message,
            asked_at=self._clock.now(),
            binding=binding,
            requester=context.caller.id,
            issuer=context.caller.issuer,
            via=context.caller.via,
            trace_id=context.trace_id,
            arguments=call.digest,
            content=self._seal.close(text.encode(), seal_purpose(action_id)),
            connection=context.connection,
            agent=context.agent,
            lock=context.lock,
            code=definition_digest(descriptor),
            effects=effects_of(descriptor),
            classification=rules.classification,
            role=rules.approver_role,
            takes_approver=rules.takes_approval,
        )

    async def _waiting(
        self,
        call: Call,
        action: PendingAction,
        *,
        may_wait: bool = False,
    ) -> Pending | Failed:
        asked = await self._ask(call, action, may_wait=may_wait)
        return pending_of(asked, call) if asked else _too_many(call)

    async def _ask(
        self,
        call: Call,
        action: PendingAction,
        *,
        is_bounded: bool = True,
        may_wait: bool = False,
    ) -> PendingAction | None:
        record = None
        if self._is_recorded:
            facts = {
                "arguments": action.arguments,
                "agent": action.agent,
                "lock": action.lock,
                "code": action.code,
            }
            known = {name: value for name, value in facts.items() if value}
            record = call.record(
                AuditKind.ACTION_ASKED, action=action.id, type=action.type, **known
            )
        return await self._pending.ask(
            action, record, is_bounded=is_bounded, writer=call.writer, may_wait=may_wait
        )


def seal_purpose(action_id: str) -> str:
    """The purpose that the arguments of an action are sealed for: those of another action cannot take their place."""
    return f"arguments of {action_id}"


def _too_many(call: Call) -> Failed:
    message = f"{call.context.caller.id} has {MAX_OPEN_QUESTIONS} questions open, and no more are asked for one caller"
    remedy = "have the open ones answered first: `agent inbox list`"
    return call.failed(FailureCode.TOO_MANY_QUESTIONS, message, remedy)


def pending_of(action: PendingAction, call: Call) -> Pending:
    """The outcome of a call that waits."""
    # For a restricted call the local user cannot approve, and should not be sent there
    # in vain.
    by = (
        " by a caller with a verified token"
        if action.classification == "RESTRICTED"
        else ""
    )
    remedies = {
        "APPROVAL": f"once `agent inbox approve {action.id}` is done{by}, make the same call under the same trace",
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


def _is_too_weak(question: PendingAction, rules: Rules) -> bool:
    """True if more people could answer a question about an interrupted call than the tool's rules allow now."""
    is_lower = (
        CLASSIFICATION_RANK[question.classification]
        < CLASSIFICATION_RANK[rules.classification]
    )
    lacks_approver = rules.takes_approval and not (
        question.takes_approver and question.role == rules.approver_role
    )
    return is_lower or lacks_approver


def _who_asks(call: Call) -> str:
    """The words by which an approver learns who asks, and who makes the call if that is a worker."""
    caller = call.context.caller
    return f"{caller.via} asks for {caller.id}" if caller.via else f"{caller.id} asks"


def _reason_of(call: Call) -> str:
    """The reason that the approver is given for this one call; a plugin may have quoted arguments in it."""
    if not call.approval_reason:
        return ""
    (reason,) = redacted([call.approval_reason], call.all_secrets())
    return f": {without_surrogates(shorten(reason, _MAX_REASON))}"


def _binding_of_approval(call: Call) -> str:
    """The binding of an approval: the call, and the code or definition that it was asked for."""
    return _binding_of_call("APPROVAL", call, definition_digest(call.entry.descriptor))


def _binding_of_call(kind: PendingType, call: Call, *more: str) -> str:
    return digest(
        [
            kind,
            call.tool_id,
            call.digest,
            call.context.trace_id,
            call.context.caller.id,
            *more,
        ]
    )


def _action_id(binding: str, count: int) -> str:
    """Short enough to type; the first question of its kind has the same one wherever it is asked."""
    return digest([binding, count])[-12:]
