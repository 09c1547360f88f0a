"""The one way in which a tool is called, step by step."""

import asyncio
import secrets as randomness
import time
from collections.abc import Callable
from contextlib import suppress
from math import ceil, inf
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, structs

from agent_resolver.core.approval import is_answered_by_worker
from agent_resolver.core.authorization import is_cleared, is_expired, missing_scopes
from agent_resolver.core.retry_answer import RETRY_ANSWER, asks_for_retry
from agent_resolver.registry.call import MAX_ID, Call, ledger_key, place_of
from agent_resolver.registry.compiled_schema import schema_faults
from agent_resolver.registry.content import without_surrogates
from agent_resolver.registry.errors import NeedsAction, ToolFailure
from agent_resolver.registry.invocation import (
    LOOK_FIRST,
    MAYBE_DONE,
    invoke_tool,
    is_being_cancelled,
    progress_without_secrets,
)
from agent_resolver.registry.ledger import Ledger, open_outcome, seal_outcome
from agent_resolver.registry.memory import FixedClock, MemorySecrets, OpenSeal
from agent_resolver.registry.pending_actions import PendingActions
from agent_resolver.registry.port import Clock, Seal, Secrets, Telemetry
from agent_resolver.registry.question import Questions, pending_of
from agent_resolver.registry.rate_limit import RateLimits
from agent_resolver.registry.secret import Secret, redacted
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.audit import AuditKind, Record
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.classification import CLASSIFICATION_RANK
from agent_resolver.schema.descriptor import Rules
from agent_resolver.schema.ledger import Begun, Ending, LedgerEntry, Start
from agent_resolver.schema.outcome import Done, Failed, FailureCode, Outcome, Pending
from agent_resolver.schema.pending import PendingAction
from agent_resolver.storage.errors import UNUSABLE, FileError
from agent_resolver.storage.joint_writer import JointWriter
from agent_resolver.storage.memory import MemoryStore
from agent_resolver.storage.port import Store
from agent_resolver.storage.trail import append_record

_MAX_KEY: Final = 200
Ended = TypeVar("Ended", Done | Failed | Pending, Failed | Pending)


class Ports(Struct, frozen=True, kw_only=True):
    """The ports that the pipeline is built on."""

    store: Store | None = None
    """Where calls are kept and recorded; without one, nothing is recorded, and all that is kept is in memory."""
    seal: Seal = OpenSeal()
    secrets: Secrets = msgspec.field(default_factory=MemorySecrets)
    telemetry: Telemetry | None = None
    clock: Clock = FixedClock()
    seconds: Callable[[], float] = time.time
    """The time for rate limits."""
    keeps_content: bool = True
    """True if the trail keeps excerpts of arguments and results, False if it keeps their digests alone."""
    only_verified: bool = False
    """True if an issuer must vouch for every caller."""


class Pipeline:
    """Takes calls through the steps; each call knows which tools there are."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._store: Store = ports.store or MemoryStore()
        self.is_recorded = ports.store is not None
        self.telemetry = ports.telemetry
        self._ledger = Ledger(self._store)
        self._rates = RateLimits(self._store, ports.seconds)
        self._questions = Questions(
            PendingActions(self._store),
            ports.clock,
            ports.seal,
            is_recorded=self.is_recorded,
        )

    def now(self) -> str:
        """The time by which tokens expire."""
        return self._ports.clock.now()

    async def run(self, call: Call) -> Outcome:
        """Take a call to its end.

        1. The caller must be known, where callers have to be.
        2. The tool must be known and admitted, and the code of one that runs apart must be what was loaded.
        3. The arguments must follow its schema; every fault is reported.
        4. The caller must hold its scopes.
        5. The caller must be cleared for its data.
        6. Where it takes an approval, or its context asks for one, a person must have approved this very call.
        7. Its secrets must be there; its source's rate limit must leave room.
        8. The ledger must not know the call already; from here on it has started.
        9. It runs under its timeout.
        10. Its result must follow its schema if it has one.
        11. No secret that it was given leaves in what it says.
        12. The outcome is recorded before the caller gets it; a run that nothing watches records it with its next step.
        """
        self._fence(call)
        # Before anything is watched: until its source is there, a tool has no
        # descriptor to tell telemetry of.
        if call.offer.has_sources and self.caller(call) is None:
            call.source_problem = await self._restore_sources(call)
        telemetry = self._ports.telemetry
        entry = call.offer.find(call.tool_id)
        descriptor = entry.descriptor if entry else None
        span = (
            telemetry.begin(call.tool_id, descriptor, call.context)
            if telemetry
            else None
        )
        outcome: Outcome | None = None
        try:
            outcome = await self._ended(call)
        finally:
            if telemetry:
                telemetry.end(span, outcome)
        return (
            structs.replace(outcome, traceparent=telemetry.traceparent(span))
            if telemetry
            else outcome
        )

    async def clarify(self, call: Call, question: str) -> str | Pending | Failed:
        """Ask a person about a call that cannot be made as it is, and return the answer; no tool runs.

        A caller who may not make the call may not ask about it either, so that steps 1, 2, 4 and 5 of `run` come first.
        """
        self._fence(call)
        if call.offer.has_sources and self.caller(call) is None:
            call.source_problem = await self._restore_sources(call)
        try:
            refused = (
                self.caller(call)
                or await self.tool(call)
                or self.scopes(call)
                or self.classification(call)
            )
            answer = refused or await self._answer_to(call, question)
            return answer if isinstance(answer, str) else await self.audit(call, answer)
        except (FileError, OSError) as error:
            return call.failed_like(
                _state_failure(error, "see `agent state info`, then ask again")
            )

    async def authorize(self, call: Call) -> Failed | Pending | None:
        """Take a call through steps 1 to 6 of `run`, and do not make it; None if nothing keeps it from being made.

        An approval that is given here is not used up: the same call under the same trace uses it.
        """
        self._fence(call)
        if call.offer.has_sources and self.caller(call) is None:
            call.source_problem = await self._restore_sources(call)
        try:
            refused = (
                self.caller(call)
                or await self.tool(call)
                or self.check_arguments(call)
                or self.scopes(call)
                or self.classification(call)
                or await self.approval(call)
            )
            return None if refused is None else await self.audit(call, refused)
        except (FileError, OSError) as error:
            return call.failed_like(
                _state_failure(error, "see `agent state info`, then ask again")
            )

    async def deny(self, call: Call, reason: str) -> Failed:
        """Record a call that is not made for a reason outside of the pipeline, such as a permission rule."""
        self._fence(call)
        denied = call.failed(
            FailureCode.FORBIDDEN_ACTION,
            reason,
            "`agent plan` shows the rules of the agent",
        )
        try:
            await self.audit(call, denied)
        except (FileError, OSError) as error:
            return call.failed_like(
                _state_failure(error, "it was not made: see `agent state info`")
            )
        return denied

    def _fence(self, call: Call) -> None:
        """Let nothing of a call be written once another process took its run up."""
        lease = call.context.lease
        if call.writer is None and lease is not None:
            call.writer = JointWriter(self._store, lease=lease)

    async def _answer_to(self, call: Call, question: str) -> str | Pending | Failed:
        # The arguments need not follow their schema, but a person is shown them.
        if faults := schema_faults(None, call.arguments, "arguments"):
            message = f"The arguments for {call.tool_id} cannot be shown to a person"
            return call.failed(
                FailureCode.INPUT_VALIDATION_FAILED,
                message,
                "give them as JSON",
                faults,
            )
        call.digest = digest(call.arguments)
        action = await self._questions.clarification(call, without_surrogates(question))
        if isinstance(action, Failed):
            return action
        return pending_of(action, call) if action.answer is None else action.answer

    async def _restore_sources(self, call: Call) -> ToolFailure | NeedsAction | None:
        """Look for the sources of a tool that are not there; the reason where the tool is still missing."""
        try:
            if call.writer:
                # To start a server takes long, and is an effect.
                await call.writer.flush()
            return await call.offer.restore_sources(call.tool_id, call.context.run)
        except (FileError, OSError) as error:
            return _state_failure(
                error, "see `agent state info`, then make the call again"
            )

    async def _ended(self, call: Call) -> Outcome:
        try:
            return await self.audit(call, await self._outcome(call))
        except (asyncio.CancelledError, GeneratorExit):
            # The loop ends, and mostly the program with it. What was interrupted is
            # found by the next process, and by the next loop of this one.
            if call.is_started:
                self._ledger.lose(call.key)
            raise
        except (FileError, OSError) as error:
            # What a tool raises has become an outcome before: this comes from the
            # state.
            remedy = (
                LOOK_FIRST
                if call.has_run
                else "it was not made: see `agent state info`, then make it again"
            )
            failed = call.failed_like(_state_failure(error, remedy))
            await self._abandon(call, failed)
            return failed
        except BaseException as error:
            message = f"{call.tool_id} failed: {type(error).__name__}{place_of(error)}"
            await self._abandon(
                call, call.failed(FailureCode.RUNNER_ERROR, message, LOOK_FIRST)
            )
            raise

    async def _outcome(self, call: Call) -> Outcome:
        # The order is that of `run`. The limit is counted and the approval used up only
        # once every other check has passed.
        refused: Outcome | None = (
            self.caller(call)
            or await self.tool(call)
            or self.check_arguments(call)
            or self.scopes(call)
            or self.classification(call)
            or await self.approval(call)
            or await self.rate_limit(call)
            or await self.start(call)
        )
        if refused:
            return refused
        call.has_run = True
        outcome = await self.invoke(call)
        if isinstance(outcome, Done):
            outcome = self.output(call, outcome)
        return self.redaction(call, outcome)

    # 1 to 5: what is known at once ----------------------------------------------------

    def caller(self, call: Call) -> Failed | None:
        """Refuse a caller whom no issuer vouches for where one must, and a caller whose token has expired."""
        caller = call.context.caller
        if self._ports.only_verified and not caller.is_verified:
            message = f"{caller.id} is not verified, and this project has an issuer"
            return call.failed(
                FailureCode.UNAUTHORIZED,
                message,
                "give a token of its issuer: AGENT_TOKEN",
            )
        if is_expired(caller, self.now()):
            message = (
                f"The token of {caller.via or caller.id} expired at {caller.expires_at}"
            )
            return call.failed(
                FailureCode.UNAUTHORIZED, message, "get a new one from the issuer"
            )
        return None

    async def tool(self, call: Call) -> Failed | Pending | None:
        """Refuse a tool that does not exist, that may not be called, or whose code changed since it was loaded."""
        # Why the source is away says more than that the tool is unknown, so it comes
        # first.
        if isinstance(call.source_problem, NeedsAction):
            return await self._questions.need(call, call.source_problem)
        if call.source_problem is not None:
            return call.failed_like(call.source_problem)
        if refused := call.offer.refusal_of(call.tool_id):
            return call.failed(
                FailureCode(refused.code.value), refused.message, refused.remedy
            )
        entry = call.offer.find(call.tool_id)
        if entry is None:
            message = f"Unknown tool: {call.tool_id[:MAX_ID]}"
            return call.failed(
                FailureCode.UNKNOWN_TOOL,
                message,
                "list the tools with `agent tools list`",
            )
        call.entry = entry
        file = entry.changed_file() if entry.changed_file is not None else None
        if file is not None:
            message = f"The code of {call.tool_id} changed on disk since it was loaded: {file}"
            return call.failed(
                FailureCode.CODE_CHANGED,
                message,
                "start the command again: it loads the present code",
            )
        return None

    def check_arguments(self, call: Call) -> Failed | None:
        """Refuse arguments that break the schema, or a rule of a tool that checks its arguments itself."""
        entry = call.entry
        faults = schema_faults(entry.arguments, call.arguments, "arguments")
        if not faults and entry.find_faults is not None:
            faults = entry.find_faults(call.arguments)
        if faults:
            message = f"The arguments do not follow the schema of {call.tool_id}"
            remedy = f"see `agent tools show {call.tool_id}`"
            return call.failed(
                FailureCode.INPUT_VALIDATION_FAILED, message, remedy, faults
            )
        key = call.context.key
        if key is not None and not (0 < len(key) <= _MAX_KEY and key.isprintable()):
            message = f"The key of a call has 1 to {_MAX_KEY} printable characters"
            return call.failed(
                FailureCode.INPUT_VALIDATION_FAILED,
                message,
                "give another one, or none",
            )
        return None

    def scopes(self, call: Call) -> Failed | None:
        """Refuse a caller who lacks a scope that the tool asks for."""
        missing = missing_scopes(call.entry.descriptor.rules, call.context.caller)
        if not missing:
            return None
        message = f"{call.context.caller.id} lacks what {call.tool_id} asks for: {', '.join(missing)}"
        return call.failed(
            FailureCode.MISSING_SCOPE,
            message,
            "ask the issuer for a token with these scopes",
        )

    def classification(self, call: Call) -> Failed | None:
        """Refuse a caller who is not cleared for the data of the tool."""
        needed = call.entry.descriptor.rules.classification
        caller = call.context.caller
        if is_cleared(caller, needed):
            return None
        message = f"{call.tool_id} is {needed}, and {caller.id} is cleared for {caller.clearance}"
        return call.failed(
            FailureCode.CLEARANCE_TOO_LOW, message, "ask a person who is cleared for it"
        )

    # 6 and 7: what may have to wait ---------------------------------------------------

    async def approval(self, call: Call) -> Failed | Pending | None:  # noqa: PLR0911 - one for each state
        """Let the call wait until a person has approved this very call; each approval is good for one call."""
        rules = call.rules
        self._add_digest(call)
        if not rules.takes_approval:
            return None
        asked = await self._questions.asked_approvals(call)
        newest = asked.newest
        if newest is None or _is_too_weak(newest, rules):
            return await self._questions.approval(call, asked)
        match newest.state(self._ports.clock.now()):
            case "approved" if not is_answered_by_worker(newest, call.context.caller):
                call.approval = newest
                return None
            case "rejected":
                return _rejected(call, newest)
            case "open":
                return pending_of(newest, call)
            case "used" if await self._ledger.knows(call.key_under(newest) or ""):
                # It was made, waits or was interrupted: the ledger knows how it ended,
                # or whether it may go on.
                call.approval = newest
                return None
        # The approval expired, was used by a call that the ledger forgot, or is the
        # worker's own: it is asked for again.
        return await self._questions.approval(call, asked)

    def _add_digest(self, call: Call) -> None:
        # The digest costs time on every call, so it is made only where a record, a key
        # or an approval needs it.
        is_needed = self.is_recorded or call.context.key is not None
        if is_needed or call.rules.takes_approval:
            call.digest = digest(call.arguments)

    async def rate_limit(self, call: Call) -> Failed | Pending | None:
        """Let the call wait for its secrets, then count it against its limit: what only waits uses nothing up."""
        descriptor = call.entry.descriptor
        if descriptor.rules.secrets and (waits := await self._gather_secrets(call)):
            return waits
        limit = descriptor.rate_limit_per_minute
        # A server has one limit for all its tools; a function of the project has its
        # own.
        subject = (
            descriptor.source if descriptor.labels.kind == "TOOL" else descriptor.id
        )
        if limit is None or await self._is_known(call):
            return None
        if wait := await self._rates.take(subject, limit, call.writer):
            message = f"The rate limit of {subject} is {limit:g} a minute"
            return call.failed(
                FailureCode.RATE_LIMITED, message, f"try again in {ceil(wait)} s"
            )
        return None

    async def _is_known(self, call: Call) -> bool:
        """True if the call was made before: what it came to is returned again, and uses nothing of a limit."""
        key = call.key_under(call.approval)
        return key is not None and await self._ledger.has_made(key, call.digest)

    async def is_under_way(self, tool_id: str, context: CallContext) -> bool:
        """True if a call with this key runs, in any process: a question about it is not a call, and is not recorded."""
        if context.key is None:
            return False
        key = ledger_key(context.caller.id, tool_id, context.key)
        return await self._ledger.is_running(key, context.lease)

    async def _gather_secrets(self, call: Call) -> Failed | Pending | None:
        found = []
        for name in call.entry.descriptor.rules.secrets:
            try:
                value = await self._ports.secrets.get(name)
            except ToolFailure as failure:
                return call.failed_like(failure)
            if value is None:
                message = f"{call.tool_id} needs the secret {name}: {self._ports.secrets.place(name)}"
                return await self._questions.need(
                    call, NeedsAction("SECRET", call.tool_id, message, needs=name)
                )
            found.append(Secret(name, value))
        call.secrets = tuple(found)
        by_name = {secret.name: secret for secret in found}
        progress = progress_without_secrets(call.context.progress, call.secrets)
        call.context = structs.replace(call.context, secrets=by_name, progress=progress)
        return None

    # 8 to 11: the call itself ---------------------------------------------------------

    async def start(self, call: Call) -> Outcome | None:
        """Let the ledger say whether the call is new; then it has started."""
        key = call.key_under(call.approval)
        if not (self.is_recorded or key):
            return None
        # A call that is recorded without a key gets a random one, under which it is
        # found if it is interrupted.
        call.key = key or f"call-{randomness.token_hex(8)}"
        record = self._start_record(call) if self.is_recorded else None
        start = Start(
            key=call.key,
            tool=call.tool_id,
            arguments=call.digest,
            is_idempotent=call.entry.descriptor.rules.is_idempotent,
            caller=call.context.caller.id,
            trace_id=call.context.trace_id,
            uses=call.approval.id if call.approval else None,
            at=self._ports.clock.now(),
            record=record,
        )
        begun = await self._ledger.start(start, call.context.lease, call.writer)
        if begun.state == "unknown":
            return await self._unknown(call, start)
        call.is_started = begun.state == "started"
        return None if call.is_started else await self._not_started(call, begun)

    def _start_record(self, call: Call) -> Record:
        """The record of a call that is about to be made.

        It alone shows the arguments: if refused calls did, any caller who can reach the tools could fill the trail.
        """
        used = {"approval": call.approval.id} if call.approval else {}
        shown = call.shown_arguments() if self._ports.keeps_content else {}
        return call.record(
            AuditKind.CALL_STARTED, arguments=call.digest, **used, **shown
        )

    async def _not_started(self, call: Call, begun: Begun) -> Outcome:
        match begun.state:
            case "done" | "failed":
                return self._told_again(call, begun)
            case "running":
                message = f"The same call of {call.tool_id} is on its way"
                same = "trace" if call.context.key is None else "key"
                return call.failed(
                    FailureCode.ALREADY_RUNNING,
                    message,
                    f"ask again under the same {same} once it ended",
                )
            case "reused":
                message = f"The key was used for another call of {call.tool_id}"
                return call.failed(
                    FailureCode.KEY_REUSED, message, "give each call a key of its own"
                )
            case _:
                # Another attempt at the same call used the same approval a moment ago.
                asked = await self._questions.asked_approvals(call)
                return await self._questions.approval(call, asked)

    def _told_again(self, call: Call, begun: Begun) -> Outcome:
        """The outcome that the call had when it was made."""
        seal = self._ports.seal
        sealed = begun.sealed or b""
        try:
            if begun.state == "failed":
                failed = msgspec.json.decode(
                    open_outcome(seal, sealed, call.key, "failed"), type=Failed
                )
                # The failure was kept under the trace of the first attempt.
                return structs.replace(failed, trace_id=call.context.trace_id)
            result = msgspec.json.decode(open_outcome(seal, sealed, call.key, "done"))
        except ValueError as error:
            # The value was sealed under another key, or edited.
            message = f"{call.tool_id} was done under this key, and its result cannot be read: {error}"
            return call.failed(
                FailureCode.NOT_CONFIGURED,
                message,
                "put back the key of the state: `state.key_env`",
            )
        return Done(trace_id=call.context.trace_id, result=result)

    async def _unknown(self, call: Call, start: Start) -> Outcome | None:
        """Try a call that was interrupted again only when a person says so, and then once."""
        begun = Begun("unknown")

        async def is_still_unknown() -> bool:
            nonlocal begun
            begun = await self._ledger.start(start, call.context.lease, call.writer)
            call.is_started = begun.state == "started"
            return begun.state == "unknown"

        action = await self._questions.interrupted(
            call, start.key, call.rules, is_still_unknown
        )
        if action is None:  # Another attempt made the call with the last answer.
            return None if call.is_started else await self._not_started(call, begun)
        if asks_for_retry(action.answer):
            # The start uses the answer up: it allows one more attempt, even if two
            # processes read it at once.
            again = structs.replace(start, uses=action.id, is_new_attempt=True)
            begun = await self._ledger.start(again, call.context.lease, call.writer)
            call.is_started = begun.state == "started"
            # The state `refused` means that another attempt used this answer up first.
            if begun.state not in {"unknown", "refused"}:
                return None if call.is_started else await self._not_started(call, begun)
        if not action.is_open:
            message = f"{call.tool_id} was interrupted after it had started; {action.answered_by} says: {action.answer}"
            return call.failed(
                FailureCode.OUTCOME_UNKNOWN, message, "another call takes another key"
            )
        message = f"{call.tool_id} was interrupted after it had started, and nobody knows whether it was done"
        remedy = (
            f"look; then `agent inbox answer {action.id} {RETRY_ANSWER}`, or `done`"
        )
        unknown = call.failed(FailureCode.OUTCOME_UNKNOWN, message, remedy)
        return structs.replace(unknown, question=action.id)

    async def invoke(self, call: Call) -> Outcome:
        """Run the tool; whatever it raises, its call ends with an outcome, unless the call itself is cancelled."""
        # A caller may shorten the limit of the tool, and never lengthen it.
        limit = min(
            call.entry.descriptor.timeout_seconds, call.context.timeout_seconds or inf
        )
        deadline = asyncio.timeout(limit)
        try:
            async with deadline:
                said = await invoke_tool(call)
        except BaseException as error:
            # Only a cancellation from outside goes on; the same error, raised by the
            # tool, is a failure of the tool.
            if (
                isinstance(error, asyncio.CancelledError | GeneratorExit)
                and is_being_cancelled()
            ):
                raise
            # A tool may raise a `TimeoutError` of its own, which says nothing about our
            # deadline.
            if isinstance(error, TimeoutError) and deadline.expired():
                message = f"{call.tool_id} did not answer within {limit:g} s"
                return call.failed(FailureCode.TIMEOUT, message, LOOK_FIRST)
            # Its kind and its place are enough to find it.
            message = f"{call.tool_id} failed: {type(error).__name__}{place_of(error)}"
            return call.failed(FailureCode.RUNNER_ERROR, message, LOOK_FIRST)
        if not isinstance(said, NeedsAction):
            return said
        # What has to be there is not a question for words, whatever it is called.
        if said.kind == "CLARIFICATION" and not said.needs:
            return await self._clarified(call, str(said))
        return await self._questions.need(call, said)

    async def _clarified(self, call: Call, question: str) -> Outcome:
        """Run the tool again with the answer to its question, or wait for one."""
        # Questions are matched by their words, so the same answer would be given for
        # ever.
        if question in call.context.answers:
            message = f"{call.tool_id} asks again what was answered"
            return call.failed(
                FailureCode.TOOL_ERROR, message, "let it take the answer: `context.ask`"
            )
        call.digest = call.digest or digest(call.arguments)
        action = await self._questions.clarification(call, question)
        if isinstance(action, Failed):
            return action
        if action.answer is None:
            return pending_of(action, call)
        call.context = structs.replace(
            call.context, answers={**call.context.answers, question: action.answer}
        )
        return await self.invoke(call)

    def output(self, call: Call, done: Done) -> Outcome:
        """Refuse a result that does not follow the schema."""
        faults = schema_faults(call.entry.result, done.result, "result")
        if not faults:
            return done
        message = f"The result of {call.tool_id} does not follow its schema"
        return call.failed(
            FailureCode.OUTPUT_VALIDATION_FAILED, message, LOOK_FIRST, faults
        )

    def redaction(self, call: Call, outcome: Outcome) -> Outcome:
        """The outcome without the secrets that the tool was given."""
        if isinstance(outcome, Failed):
            words = redacted(
                [outcome.message, outcome.remedy, *outcome.details], call.secrets
            )
            message, remedy, *details = map(without_surrogates, words)
            return structs.replace(
                outcome, message=message, remedy=remedy, details=tuple(details)
            )
        if not call.secrets or not isinstance(outcome, Done):
            return outcome
        result = redacted(outcome.result, call.secrets)
        # Masking may have replaced a value that the schema fixes, such as a number.
        faults = (
            ()
            if result == outcome.result
            else schema_faults(call.entry.result, result, "result")
        )
        if not faults:
            return structs.replace(outcome, result=result)
        message = (
            f"{call.tool_id} gave a secret where its schema has no room for the mask"
        )
        failed = call.failed(
            FailureCode.OUTPUT_VALIDATION_FAILED, message, LOOK_FIRST, faults
        )
        # The faults may quote the result. A failure takes the first branch above, so
        # this recursion ends.
        return self.redaction(call, failed)

    # 12: the record -------------------------------------------------------------------

    async def audit(self, call: Call, outcome: Ended) -> Ended:
        """Record the outcome, and with it what the ledger has to know."""
        record = (
            call.ended(outcome, keeps_content=self._ports.keeps_content)
            if self.is_recorded
            else None
        )
        if call.is_started:
            ending = _ledger_ending(call, outcome)
            sealed = (
                self._sealed(call, outcome, ending)
                if ending in {"done", "failed"}
                else None
            )
            # What the ledger cannot write it counts as interrupted by itself.
            call.is_started = False
            now = self._ports.clock.now()
            lease = call.context.lease
            await self._ledger.finish(
                call.key, ending, now, sealed, record, lease, call.writer
            )
        elif record and call.writer:
            # A call waits for a question that was put off only if the question is kept.
            is_with_question = (
                isinstance(outcome, Pending) and call.writer.has_dependent
            )
            await call.writer.put_off(
                lambda transaction: transaction.append(record),
                needs_all_before=is_with_question,
            )
        elif record:
            await append_record(self._store, record)
        return outcome

    async def _abandon(self, call: Call, outcome: Failed) -> None:
        """End a call whose outcome could not be kept, so that no caller waits for it.

        Its own outcome is recorded without its content: sealing it could fail in the same way. If that cannot be
        written either, the ledger counts the call as interrupted.
        """
        if not call.is_started:
            return
        # Nothing asks for a call without a key again, and a call with one must not be
        # repeated unseen.
        ending: Ending = "forgotten" if call.context.key is None else "unknown"
        record = call.ended(outcome) if self.is_recorded else None
        call.is_started = False
        with suppress(Exception):
            await self._ledger.finish(
                call.key,
                ending,
                self._ports.clock.now(),
                None,
                record,
                call.context.lease,
            )

    def _sealed(self, call: Call, outcome: Outcome, ending: Ending) -> bytes:
        content = outcome.result if isinstance(outcome, Done) else outcome
        return seal_outcome(
            self._ports.seal, msgspec.json.encode(content), call.key, ending
        )

    async def interrupted(self) -> list[LedgerEntry]:
        """Every call that started and whose process is gone."""
        if not self.is_recorded:
            return []
        await self._questions.forget_expired()
        return await self._ledger.interrupted()

    async def recover(self, call: Call, interrupted: LedgerEntry) -> None:
        """Note that a call was interrupted; what may not be done twice becomes a question for a person."""
        call.digest = interrupted.arguments
        # An idempotent call may simply be made again, so no person has to look.
        if not interrupted.is_idempotent:
            entry = call.offer.find(call.tool_id)
            # The tool may be gone since then; the usual rules decide who may answer in
            # that case.
            rules = entry.descriptor.rules if entry else Rules()
            await self._questions.interrupted(call, interrupted.key, rules)
        record = (
            call.record(AuditKind.CALL_INTERRUPTED, arguments=call.digest)
            if self.is_recorded
            else None
        )
        await self._ledger.give_up(interrupted.key, self._ports.clock.now(), record)


def _state_failure(error: FileError | OSError, remedy: str) -> ToolFailure:
    """The failure of a call whose state cannot be used; it does not name the place where the state is kept."""
    if isinstance(error, FileError):
        reason = error.problem.removeprefix(f"{UNUSABLE}: ")
    else:
        reason = error.strerror or type(error).__name__
    return ToolFailure(
        FailureCode.STATE_UNAVAILABLE, f"The state cannot be used: {reason}", remedy
    )


def _rejected(call: Call, approval: PendingAction) -> Failed:
    reason = f": {approval.reason}" if approval.reason else ""
    message = f"{approval.answered_by} rejected this call{reason}"
    return call.failed(
        FailureCode.APPROVAL_REJECTED, message, "a call under another trace asks again"
    )


def _is_too_weak(approval: PendingAction, rules: Rules) -> bool:
    """True if the approval was asked for under weaker rules than the tool has now.

    A rejection holds whatever the rules were.
    """
    is_lower = (
        CLASSIFICATION_RANK[approval.classification]
        < CLASSIFICATION_RANK[rules.classification]
    )
    return approval.answer != "rejected" and (
        is_lower or approval.role != rules.approver_role
    )


def _ledger_ending(call: Call, outcome: Outcome) -> Ending:
    """The ending that the ledger keeps; only a call with a key of its own is ever asked for its outcome again.

    A failure is kept as well: a program that is replayed takes the branch that it took.
    """
    is_idempotent = call.entry.descriptor.rules.is_idempotent
    if isinstance(outcome, Pending):
        # Made again, it is the call that was approved: what it waits for must not take
        # a second approval of it.
        return "waiting" if call.approval is not None and is_idempotent else "forgotten"
    if call.context.key is None:
        return "forgotten"
    if isinstance(outcome, Done):
        return "done"
    if outcome.code is FailureCode.KEY_REUSED:
        # The key belongs to another call, which must not get this failure.
        return "forgotten"
    return "unknown" if outcome.code in MAYBE_DONE and not is_idempotent else "failed"
