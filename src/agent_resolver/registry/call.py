"""One call on its way through the pipeline."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from agent_resolver.core.masking import SecretFields
from agent_resolver.registry.compiled_schema import CompiledSchema
from agent_resolver.registry.content import content_of
from agent_resolver.registry.errors import NeedsAction, ToolFailure
from agent_resolver.registry.secret import Secret
from agent_resolver.registry.tool import CallContext, Tool
from agent_resolver.schema.audit import CONTENT, AuditKind, Record
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.descriptor import Descriptor, Rules
from agent_resolver.schema.outcome import Done, Failed, FailureCode, Outcome, Pending
from agent_resolver.schema.pending import PendingAction

if TYPE_CHECKING:
    from agent_resolver.registry.offer import Offer

MAX_ID: Final = 200
"""The most characters of an id that a message shows: a caller may make up any id."""


class Entry(Struct, frozen=True):
    """A tool, ready to be called: its schemas are compiled once."""

    tool: Tool
    descriptor: Descriptor
    arguments: CompiledSchema
    result: CompiledSchema | None
    find_faults: Callable[[dict[str, Any]], tuple[str, ...]] | None = None
    """What a tool that checks its arguments itself asks besides the schema."""
    changed_file: Callable[[], str | None] | None = None
    """Finds the file of its code that changed since it was loaded, for a tool that runs in a process of its own."""
    secret_arguments: SecretFields = SecretFields()
    """The fields of its arguments that no record shows."""
    secret_results: SecretFields = SecretFields()
    source_secrets: tuple[Secret, ...] = ()
    """What the source of the tool was given, such as the token of a server: no record shows it."""


class Call:
    """A call on its way, with everything that is known of it so far."""

    __slots__ = (
        "approval",
        "approval_reason",
        "arguments",
        "context",
        "digest",
        "entry",
        "given",
        "has_run",
        "is_started",
        "key",
        "offer",
        "secrets",
        "source_problem",
        "tool_id",
        "writer",
    )

    def __init__(
        self,
        tool_id: str,
        arguments: dict[str, Any],
        context: CallContext,
        offer: "Offer",
    ) -> None:
        self.tool_id = tool_id
        self.offer = offer
        """The tools that are offered to the caller of this call."""
        self.arguments = arguments
        self.approval_reason = context.approval_reason
        """Why this call takes an approval, whatever its tool's rules say."""
        # A tool that calls another hands on its context, and its secrets, answers and
        # approval are its own.
        has_more = (
            context.secrets
            or context.answers
            or context.approval_reason
            or context.writer
        )
        without: dict[str, Any] = {
            "secrets": {},
            "answers": {},
            "approval_reason": "",
            "writer": None,
        }
        self.context = structs.replace(context, **without) if has_more else context
        self.writer = context.writer
        """Writes what is kept of the call, together with the steps of its run; None where the store does."""
        self.entry: Entry
        self.digest = ""
        """Of the arguments."""
        self.source_problem: ToolFailure | NeedsAction | None = None
        """Why the source of the tool is not there."""
        self.approval: PendingAction | None = None
        self.secrets: tuple[Secret, ...] = ()
        self.given: tuple[Secret, ...] | None = None
        """What stands in the secret fields of the arguments, once it is looked for: a tool may repeat it in its words.
        """
        self.key = ""
        """What the ledger knows it by."""
        self.is_started = False
        """True while the ledger waits for the end of the call."""
        self.has_run = False
        """True from the moment that the tool is invoked."""

    @property
    def rules(self) -> Rules:
        """The rules of its tool, and of this call: what is asked for it is added to what its tool asks for itself."""
        rules = self.entry.descriptor.rules
        return (
            structs.replace(rules, needs_approval=True)
            if self.approval_reason
            else rules
        )

    def failed(
        self,
        code: FailureCode,
        message: str,
        remedy: str,
        details: tuple[str, ...] = (),
    ) -> Failed:
        """The call ends here."""
        return Failed(
            trace_id=self.context.trace_id,
            code=code,
            message=message,
            remedy=remedy,
            details=details,
        )

    def failed_like(self, failure: ToolFailure) -> Failed:
        """The call ends with a failure that was foreseen."""
        return self.failed(failure.code, str(failure), failure.remedy, failure.details)

    def record(self, kind: AuditKind, **body: object) -> Record:
        """The record that the trail keeps of the call."""
        who = self.context.caller.as_recorded()
        # An unknown id is an arbitrary text of the caller: the trail keeps a bounded
        # part of it.
        what = {"trace": self.context.trace_id, "tool": self.tool_id[:MAX_ID]}
        return Record(self.context.run, kind, {**who, **what, **body})

    def ended(self, outcome: Outcome, *, keeps_content: bool = False) -> Record:
        """The record of its end: enough to prove a result, and what may be shown of it if that is kept."""
        match outcome:
            case Done():
                shown = self.shown_result(outcome.result) if keeps_content else {}
                return self.record(
                    AuditKind.CALL_DONE, result=digest(outcome.result), **shown
                )
            case Failed():
                return self.record(AuditKind.CALL_FAILED, code=outcome.code.value)
            case Pending():
                return self.record(AuditKind.CALL_PENDING, pending=outcome.id)

    def shown_arguments(self) -> dict[str, str]:
        """The excerpt of the arguments that a record shows."""
        return self._excerpt_of(self.arguments, self.entry.secret_arguments)

    def shown_result(self, result: Any) -> dict[str, str]:  # noqa: ANN401 - a JSON value
        """The excerpt of the result that a record shows."""
        return self._excerpt_of(result, self.entry.secret_results)

    def _excerpt_of(self, value: Any, fields: SecretFields) -> dict[str, str]:  # noqa: ANN401 - as above
        return {CONTENT: content_of(value, fields, self.all_secrets())}

    def all_secrets(self) -> tuple[Secret, ...]:
        """Every secret that is kept nowhere: those of the tool and of its source, and those in the arguments."""
        if self.given is None:
            texts = self.entry.secret_arguments.values_in(self.arguments)
            self.given = tuple(Secret("", text) for text in texts)
        return (*self.secrets, *self.entry.source_secrets, *self.given)

    def key_under(self, approval: PendingAction | None) -> str | None:
        """The key that makes it the same call: the caller's own, never another caller's; else its approval."""
        if self.context.key is not None:
            return ledger_key(self.context.caller.id, self.tool_id, self.context.key)
        return approval.id if approval else None


def ledger_key(caller_id: str, tool_id: str, key: str) -> str:
    """The key under which the ledger has a call that its caller gave a key: two callers never share one."""
    return digest([caller_id, tool_id, key])


def place_of(error: BaseException) -> str:
    """The place where an error was raised, without its message, which may hold arguments.

    Frames of Python's own import machinery do not count.
    """
    code, line = None, 0
    trace = error.__traceback__
    # The walk keeps the innermost frame, which is where the error was raised.
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith("<frozen "):
            code = trace.tb_frame.f_code
            line = trace.tb_lineno
        trace = trace.tb_next
    if code is None:
        return ""
    return f" at {os.path.basename(code.co_filename)}:{line} in {code.co_name}"  # noqa: PTH119
