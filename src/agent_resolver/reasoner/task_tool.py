"""The tools through which a task asks people. Each call goes through the one pipeline, and is recorded there."""

from typing import Any, Final

from agent_resolver.registry.errors import NeedsAction, ToolFailure
from agent_resolver.registry.port import Secrets
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.descriptor import Descriptor, Labels, Rules
from agent_resolver.schema.outcome import FailureCode
from agent_resolver.schema.pending import CLAIM_NEED

PREFIX: Final = "reasoner."
ASK: Final = f"{PREFIX}ask"
REQUIRE: Final = f"{PREFIX}require"
INSTALL: Final = f"{PREFIX}install"
SCAFFOLD: Final = f"{PREFIX}scaffold"

_TEXT: Final = {"type": "string", "maxLength": 4_000}
_SOURCE: Final = "the reasoner"
OWN_RULES: Final = Rules(classification="PUBLIC", is_idempotent=True)
"""The rules of the reasoner's own tools. They handle references alone, and every caller may be asked a question: above
all one whose token lacks a clearance."""


class AskTool:
    """Stands for the questions of a task, which `ToolRegistry.clarify` asks; it is never called."""

    descriptor = Descriptor(
        id=ASK,
        description="A question that a task asks before it goes on.",
        input_schema={
            "type": "object",
            "properties": {
                "task": _TEXT,
                "key": _TEXT,
                "asked": {"type": "integer", "minimum": 0},
            },
            "required": ["task", "key"],
            "additionalProperties": False,
        },
        source=_SOURCE,
        rules=OWN_RULES,
        labels=Labels(kind="CAPABILITY"),
    )

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401, ARG002 - the port
        """Refuse: there is nothing to do but ask."""
        raise ToolFailure(
            FailureCode.NOT_CONFIGURED, "A question of a task is asked, and not called"
        )


class RequireTool:
    """Asks for something that has to be there before a task goes on: a secret, a grant, a claim of a token."""

    descriptor = Descriptor(
        id=REQUIRE,
        description="Something that has to be there before a task goes on.",
        input_schema={
            "type": "object",
            "properties": {
                "kind": {"enum": ["CLARIFICATION", "OAUTH", "SECRET"]},
                "subject": _TEXT,
                "message": _TEXT,
                "needs": _TEXT,
            },
            "required": ["kind", "subject", "message", "needs"],
            "additionalProperties": False,
        },
        source=_SOURCE,
        rules=OWN_RULES,
        labels=Labels(kind="CAPABILITY"),
    )

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Return if it is there.

        Raises:
            NeedsAction: It is not.
        """
        needs = arguments["needs"]
        if needs.startswith(CLAIM_NEED):
            is_there = (
                needs.removeprefix(CLAIM_NEED) not in context.caller.absent_claims
            )
        else:
            is_there = await self._secrets.get(needs) is not None
        if not is_there:
            raise NeedsAction(
                arguments["kind"],
                arguments["subject"],
                arguments["message"],
                needs=needs,
            )
        return {"ready": True}
