"""What waits for a person, and the one way to answer it."""

from msgspec import structs

from agent_resolver.core.approval import AnswerCode, AnswerRefusal, Verdict, refuse_verdict, refuse_words
from agent_resolver.registry.errors import AnswerRefused, ToolFailure
from agent_resolver.registry.port import Clock, PendingActions, Record, Secrets
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.pending import PendingAction, PendingState

MAX_WORDS = 10_000
"""How long an answer or a reason may be."""
READY = "ready"
"""The answer of a secret that is there now."""


class Inbox:
    """Lists what waits, and takes answers from whoever may give them."""

    def __init__(self, pending: PendingActions, secrets: Secrets, clock: Clock, *, only_verified: bool = False) -> None:
        self._pending = pending
        self._secrets = secrets
        self._clock = clock
        self._only_verified = only_verified

    async def list(self, context: CallContext, *, is_everything: bool = False) -> list[PendingAction]:
        """What is open, oldest first; on request all that ever waited."""
        actions = [await self._settled(action, context) for action in await self._pending.all()]
        now = self._clock.now()
        return [action for action in actions if is_everything or action.state(now) == "open"]

    async def show(self, action_id: str, context: CallContext) -> PendingAction:
        """One action.

        Raises:
            AnswerRefused: There is none with this id.
        """
        action = await self._pending.get(action_id)
        if action is None:
            message = f"Nothing waits under the id {action_id}"
            raise AnswerRefused(AnswerRefusal(AnswerCode.UNKNOWN_ACTION, message, "`agent inbox list`"))
        return await self._settled(action, context)

    def state(self, action: PendingAction) -> PendingState:
        """Where an action stands now."""
        return action.state(self._clock.now())

    async def decide(
        self, action_id: str, verdict: Verdict, context: CallContext, reason: str | None = None
    ) -> PendingAction:
        """Approve or reject a call.

        Raises:
            AnswerRefused: It may not be answered, or not by this caller.
        """
        self._check_caller(context.caller)
        action = await self.show(action_id, context)
        if refusal := refuse_verdict(action, verdict, context.caller, self._clock.now()):
            raise AnswerRefused(refusal)
        return await self._keep(action, verdict, reason, context)

    async def answer(self, action_id: str, words: str, context: CallContext) -> PendingAction:
        """Answer a question in words.

        Raises:
            AnswerRefused: It is no question, was answered, or may not be answered by this caller.
        """
        self._check_caller(context.caller)
        action = await self.show(action_id, context)
        if refusal := refuse_words(action, context.caller, self._clock.now()):
            raise AnswerRefused(refusal)
        return await self._keep(action, words, None, context)

    def _check_caller(self, caller: Caller) -> None:
        is_expired = caller.expires_at is not None and caller.expires_at <= self._clock.now()
        if is_expired or (self._only_verified and not caller.is_verified):
            message = f"Nobody vouches for {caller.id}, and this project has an issuer"
            refusal = AnswerRefusal(AnswerCode.UNAUTHORIZED, message, "give a token of its issuer: AGENT_TOKEN")
            raise AnswerRefused(refusal)

    async def _keep(
        self, action: PendingAction, answer: str, reason: str | None, context: CallContext
    ) -> PendingAction:
        by = context.caller.id
        answered = structs.replace(action, answer=answer, reason=reason, answered_by=by, answered_at=self._clock.now())
        kind = f"action.{answer}" if action.type == "APPROVAL" else "action.answered"
        body: dict[str, object] = {
            "caller": by,
            "verified": context.caller.is_verified,
            "trace": action.trace_id,
            "action": action.id,
            "type": action.type,
            "tool": action.subject,
        }
        if not await self._pending.answer(answered, Record(context.run, kind, body)):
            message = f"{action.id} was answered by somebody else a moment ago"
            raise AnswerRefused(AnswerRefusal(AnswerCode.ALREADY_ANSWERED, message, f"`agent inbox show {action.id}`"))
        return answered

    async def _settled(self, action: PendingAction, context: CallContext) -> PendingAction:
        """What waits for a secret is answered by the secret being there, and by nothing else."""
        if not (action.needs and action.is_open and await self._is_there(action.needs)):
            return action
        answered = structs.replace(action, answer=READY, answered_by=READY, answered_at=self._clock.now())
        body: dict[str, object] = {
            "trace": action.trace_id,
            "action": action.id,
            "type": action.type,
            "tool": action.subject,
        }
        await self._pending.answer(answered, Record(context.run, "action.settled", body))
        return answered

    async def _is_there(self, name: str) -> bool:
        try:
            return await self._secrets.get(name) is not None
        except ToolFailure:
            return False
