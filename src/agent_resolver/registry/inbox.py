"""The inbox: actions that wait for a person, and the one way to answer them."""

import msgspec
from msgspec import structs

from agent_resolver.core.approval import (
    AnswerCode,
    AnswerRefusal,
    Verdict,
    refuse_verdict,
    refuse_words,
)
from agent_resolver.core.authorization import is_cleared, is_expired, may_read_action
from agent_resolver.core.context_claim import answers_by_token
from agent_resolver.registry.errors import AnswerRefused, ToolFailure
from agent_resolver.registry.memory import OpenSeal
from agent_resolver.registry.pending_actions import PendingActions
from agent_resolver.registry.port import Clock, Seal, Secrets
from agent_resolver.registry.question import seal_purpose
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.audit import AuditKind, Record
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.pending import CLAIM_NEED, PendingAction, PendingState
from agent_resolver.storage.port import Store
from agent_resolver.storage.trail import append_record

MAX_WORDS = 10_000
"""How long an answer or a reason may be."""
READY = "ready"
"""The answer of a secret that is there now, and of a claim that a token has now."""


class Inbox:
    """Lists what waits, and takes answers from the callers who may give them."""

    def __init__(
        self,
        store: Store,
        secrets: Secrets,
        clock: Clock,
        *,
        seal: Seal | None = None,
        only_verified: bool = False,
    ) -> None:
        self._seal = seal or OpenSeal()
        self._store = store
        self._pending = PendingActions(store)
        self._secrets = secrets
        self._clock = clock
        self.only_verified = only_verified
        """True if an issuer must vouch for the caller who answers."""

    async def list(
        self, context: CallContext, *, is_everything: bool = False
    ) -> list[PendingAction]:
        """The open actions that concern the caller, oldest first; on request all that ever waited."""
        # Arguments are kept no longer than a person can act on them.
        await self._pending.forget_expired(self._clock.now())
        visible = [
            action
            for action in await self._pending.all()
            if may_read_action(action, context.caller)
        ]
        # Settling comes before the filter: an action whose secret has arrived is no
        # longer open.
        actions = [await self._settled(action, context) for action in visible]
        now = self._clock.now()
        return [
            action for action in actions if is_everything or action.state(now) == "open"
        ]

    async def show(self, action_id: str, context: CallContext) -> PendingAction:
        """One action.

        Raises:
            AnswerRefused: There is none with this id that concerns the caller.
        """
        action = await self._pending.get(action_id)
        # A hidden action gets the same error as a missing one, so that ids cannot be
        # probed.
        if action is None or not may_read_action(action, context.caller):
            raise _unknown_action(action_id)
        return await self._settled(action, context)

    def document(self, action: PendingAction, reader: Caller) -> dict[str, object]:
        """An action as a JSON object, with its state and the arguments that an approver has to see."""
        known = msgspec.to_builtins(structs.replace(action, content=None))
        # The content is sealed, and a connection means nothing to a reader.
        del known["content"], known["connection"]
        arguments = self.arguments_of(action, reader)
        shown = {} if arguments is None else {"argumentsShown": arguments}
        return {"state": self.state(action), **known, **shown}

    def arguments_of(self, action: PendingAction, reader: Caller) -> str | None:
        """The arguments of the call that waits, as JSON text with secret fields masked; None where none are kept.

        Text that was cut ends in an ellipsis. A reader who is not cleared for the data learns only that.
        """
        if action.content is None:
            return None
        if not is_cleared(reader, action.classification):
            return f"({reader.id} is not cleared for {action.classification} data)"
        try:
            return self._seal.open(action.content, seal_purpose(action.id)).decode()
        except ValueError:
            # Another process wrote them under a key that this one does not have, or
            # they were edited.
            return "(they cannot be read: the key of the state is another one)"

    def state(self, action: PendingAction) -> PendingState:
        """The state that an action is in now."""
        return action.state(self._clock.now())

    async def decide(
        self,
        action_id: str,
        verdict: Verdict,
        context: CallContext,
        reason: str | None = None,
    ) -> PendingAction:
        """Approve or reject a call.

        Raises:
            AnswerRefused: It may not be answered, or not by this caller.
        """
        action = await self._taken_up(action_id, context)
        if refusal := refuse_verdict(
            action, verdict, context.caller, self._clock.now(), context.connection
        ):
            raise await self._refused(action, refusal, context)
        return await self._keep(action, verdict, reason, context)

    async def answer(
        self,
        action_id: str,
        words: str,
        context: CallContext,
    ) -> PendingAction:
        """Answer a question in words.

        Raises:
            AnswerRefused: It is no question, was answered, or may not be answered by this caller.
        """
        action = await self._taken_up(action_id, context)
        if refusal := refuse_words(
            action, context.caller, self._clock.now(), context.connection
        ):
            raise await self._refused(action, refusal, context)
        return await self._keep(action, words, None, context)

    async def settle_claims(
        self, caller: Caller, context: CallContext
    ) -> tuple[str, ...]:
        """Answer the questions of a caller that wait for a claim which the caller's token has now.

        This is the one way to answer such a question: no words do, no approval, and no token of another person.

        Args:
            caller: The person whose token was just verified.
            context: The run that the trail names.

        Returns:
            The ids of the answered questions, oldest first.
        """
        now = self._clock.now()
        waiting = await self._pending.unanswered_of(caller.id)
        proven = [action for action in waiting if answers_by_token(action, caller, now)]
        settled = []
        for action in proven:
            answered = structs.replace(
                action, answer=READY, answered_by=caller.id, answered_at=now
            )
            body = {**_action_body_by(caller, action), "claim": action.needed_claim}
            # Another process may have settled the question meanwhile: then it is not
            # reported twice.
            if await self._pending.answer(
                answered, Record(context.run, AuditKind.ACTION_SETTLED, body)
            ):
                settled.append(action.id)
        return tuple(settled)

    async def _taken_up(self, action_id: str, context: CallContext) -> PendingAction:
        """The action, for a caller who may answer at all; no other caller learns whether there is one."""
        caller = context.caller
        if not is_expired(caller, self._clock.now()) and (
            caller.is_verified or not self.only_verified
        ):
            action = await self._pending.get(action_id)
            if action is None or not (
                action.is_open or may_read_action(action, caller)
            ):
                # A refusal would quote the answer that was given.
                raise _unknown_action(action_id)
            return await self._settled(action, context)
        message = f"Nobody vouches for {caller.id}, and this project has an issuer"
        refusal = AnswerRefusal(
            AnswerCode.UNAUTHORIZED, message, "give a token of its issuer: AGENT_TOKEN"
        )
        action = await self._pending.get(action_id)
        # The caller gets the same words whether or not there is an action; only one
        # that exists can be recorded.
        raise (
            await self._refused(action, refusal, context)
            if action
            else AnswerRefused(refusal)
        )

    async def _refused(
        self,
        action: PendingAction,
        refusal: AnswerRefusal,
        context: CallContext,
    ) -> AnswerRefused:
        """The error that reports a refusal; the refusal is recorded first."""
        body = {**_action_body_by(context.caller, action), "code": refusal.code.value}
        await append_record(
            self._store, Record(context.run, AuditKind.ACTION_REFUSED, body)
        )
        return AnswerRefused(refusal)

    async def _keep(
        self,
        action: PendingAction,
        answer: str,
        reason: str | None,
        context: CallContext,
    ) -> PendingAction:
        by = context.caller.id
        now = self._clock.now()
        answered = structs.replace(
            action,
            answer=answer,
            reason=reason,
            answered_by=by,
            answered_at=now,
            content=None,
        )
        kind = (
            AuditKind(f"action.{answer}")
            if action.type == "APPROVAL"
            else AuditKind.ACTION_ANSWERED
        )
        # The store decides which of two answers counts that come at the same moment.
        if not await self._pending.answer(
            answered, Record(context.run, kind, _action_body_by(context.caller, action))
        ):
            message = f"{action.id} was answered by another person a moment ago"
            refusal = AnswerRefusal(
                AnswerCode.ALREADY_ANSWERED, message, f"`agent inbox show {action.id}`"
            )
            raise await self._refused(action, refusal, context)
        return answered

    async def _settled(
        self, action: PendingAction, context: CallContext
    ) -> PendingAction:
        """Settle an action that waits for a secret: the secret being there answers it, and nothing else does."""
        # A claim is not a secret: one that happens to be kept under its name proves
        # nothing.
        is_for_secret = action.needs != "" and not action.needs.startswith(CLAIM_NEED)
        if not (
            is_for_secret and action.is_open and await self._is_there(action.needs)
        ):
            return action
        answered = structs.replace(
            action, answer=READY, answered_by=READY, answered_at=self._clock.now()
        )
        # Several processes may see the secret at once; all would write the same answer,
        # so it does not matter whose is kept.
        await self._pending.answer(
            answered,
            Record(context.run, AuditKind.ACTION_SETTLED, _action_body(action)),
        )
        return answered

    async def _is_there(self, name: str) -> bool:
        try:
            return await self._secrets.get(name) is not None
        except ToolFailure:
            # The question stays open while the place of secrets cannot be asked; a list
            # must not fail for that.
            return False


def _unknown_action(action_id: str) -> AnswerRefused:
    message = f"Nothing waits under the id {action_id}"
    return AnswerRefused(
        AnswerRefusal(AnswerCode.UNKNOWN_ACTION, message, "`agent inbox list`")
    )


def _action_body(action: PendingAction) -> dict[str, object]:
    """The facts that the trail keeps of an action."""
    body: dict[str, object] = {
        "trace": action.trace_id,
        "action": action.id,
        "type": action.type,
        "tool": action.subject,
    }
    return {**body, "arguments": action.arguments} if action.arguments else body


def _action_body_by(caller: Caller, action: PendingAction) -> dict[str, object]:
    """The same facts, with the caller who answers the action, or tries to."""
    return {
        **caller.as_recorded(),
        "verified": caller.is_verified,
        **_action_body(action),
    }
