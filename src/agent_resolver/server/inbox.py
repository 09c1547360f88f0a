"""The inbox over MCP: what waits for a person, as tools beside all others."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import structs

from agent_resolver.registry.errors import AnswerRefused, ToolFailure
from agent_resolver.registry.inbox import MAX_WORDS, Inbox
from agent_resolver.registry.tool import CallContext, Tool
from agent_resolver.schema.descriptor import Descriptor, Rules
from agent_resolver.schema.outcome import FailureCode

SOURCE: Final = "inbox"
Arguments = dict[str, Any]
Act = Callable[[Arguments, CallContext], Awaitable[object]]

_LOOKS: Final = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
_ANSWERS: Final = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": False,
}


def _object_schema(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _text_schema(description: str, longest: int) -> dict[str, Any]:
    return {
        "type": "string",
        "minLength": 1,
        "maxLength": longest,
        "description": description,
    }


_ID: Final = _text_schema("The waiting thing, as inbox_list names it", 64)
_REASON: Final = _text_schema("Why; kept with the answer", MAX_WORDS)


class InboxTool:
    """A tool over the inbox."""

    def __init__(self, descriptor: Descriptor, act: Act) -> None:
        self.descriptor = descriptor
        self._act = act

    async def invoke(self, arguments: Arguments, context: CallContext) -> Any:  # noqa: ANN401 - the port
        """Do it, as the caller."""
        try:
            return msgspec.to_builtins(await self._act(arguments, context))
        except AnswerRefused as refused:
            refusal = refused.refusal
            message = f"{refusal.code}: {refusal.message}"
            raise ToolFailure(FailureCode.TOOL_ERROR, message, refusal.remedy) from None


def inbox_tools(inbox: Inbox) -> tuple[Tool, ...]:
    """The same five commands as `agent inbox`."""

    async def listing(arguments: Arguments, context: CallContext) -> object:
        found = await inbox.list(context, is_everything=arguments.get("all", False))
        return {
            "actions": [
                inbox.document(structs.replace(action, content=None), context.caller)
                for action in found
            ]
        }

    async def show(arguments: Arguments, context: CallContext) -> object:
        return inbox.document(
            await inbox.show(arguments["id"], context), context.caller
        )

    async def approve(arguments: Arguments, context: CallContext) -> object:
        return inbox.document(
            await inbox.decide(
                arguments["id"], "approved", context, arguments.get("reason")
            ),
            context.caller,
        )

    async def reject(arguments: Arguments, context: CallContext) -> object:
        return inbox.document(
            await inbox.decide(
                arguments["id"], "rejected", context, arguments.get("reason")
            ),
            context.caller,
        )

    async def answer(arguments: Arguments, context: CallContext) -> object:
        return inbox.document(
            await inbox.answer(arguments["id"], arguments["text"], context),
            context.caller,
        )

    everything = {
        "type": "boolean",
        "default": False,
        "description": "Also what was answered, used or has expired",
    }
    text = _text_schema("The answer in words; never a secret", MAX_WORDS)
    decision = _object_schema(["id"], id=_ID, reason=_REASON)
    # Whoever an issuer vouches for may answer without a clearance; without one,
    # `anonymous` comes from anywhere. What people write here is kept with the entry,
    # and not in the trail; nor are the arguments that it shows.
    hidden = ("answer", "argumentsShown", "reason", "text")
    rules = Rules(
        classification="PUBLIC" if inbox.only_verified else "INTERNAL",
        secret_fields=hidden,
    )
    looks = partial(Descriptor, source=SOURCE, rules=rules, hints=_LOOKS)
    answers = partial(Descriptor, source=SOURCE, rules=rules, hints=_ANSWERS)
    return (
        _make_tool(
            looks,
            "inbox_list",
            "List what waits for a person, oldest first.",
            _object_schema([], all=everything),
            listing,
        ),
        _make_tool(
            looks,
            "inbox_show",
            "Show one waiting thing whole.",
            _object_schema(["id"], id=_ID),
            show,
        ),
        _make_tool(
            answers,
            "inbox_approve",
            "Let one call of another caller happen, once. A person decides this.",
            decision,
            approve,
        ),
        _make_tool(
            answers,
            "inbox_reject",
            "Refuse a call that asks for approval.",
            decision,
            reject,
        ),
        _make_tool(
            answers,
            "inbox_answer",
            "Answer a question in words.",
            _object_schema(["id", "text"], id=_ID, text=text),
            answer,
        ),
    )


def _make_tool(
    kind: Callable[..., Descriptor],
    tool_id: str,
    description: str,
    schema: dict[str, Any],
    act: Act,
) -> InboxTool:
    return InboxTool(
        kind(id=tool_id, description=description, input_schema=schema), act
    )
