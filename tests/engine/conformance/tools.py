"""Tools that leave a line in a file for each time they were tried and for each effect, and may end their process."""

import asyncio
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from agent_resolver.registry import CallContext, ToolFailure
from agent_resolver.schema import Descriptor, FailureCode, Rules, digest
from tests.dying import Death, Effects

SCHEMA: Final = {
    "type": "object",
    "properties": {"at": {"type": "string"}, "of": {}, "turns": {"type": "integer"}, "seconds": {"type": "number"}},
}
RULES: Final = {
    "once": Rules(),
    "safe": Rules(is_idempotent=True),
    "slow": Rules(is_idempotent=True),
    "flaky": Rules(is_idempotent=True),
    "undo": Rules(is_idempotent=True),
    "refuse": Rules(is_idempotent=True),
    "ask": Rules(needs_approval=True),
    "inquire": Rules(),
    "stubborn": Rules(is_idempotent=True),
    "crash": Rules(is_idempotent=True),
}
QUESTION: Final = "Shall it go on?"
"""The question of every step and tool that asks a person."""
REPAIRED: Final = "repaired"
"""The file whose presence lets the tool `crash` work."""


def path_of(key: str) -> str:
    """The path of a call in its run, from its key."""
    return key.partition("/")[2]


class WritingTool:
    """Leaves a line `tried` for each time it was tried, and one `effect` for each effect, with the key of the call."""

    def __init__(self, name: str, folder: Path, death: Death) -> None:
        self.descriptor = Descriptor(
            id=name, description=name, input_schema=SCHEMA, source="test", rules=RULES[name], timeout_seconds=60
        )
        self._folder, self._death = folder, death
        self._effects = Effects(folder)

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:
        """Do it, under the key of the call."""
        key = context.key or ""
        name = self.descriptor.id
        if name == "inquire":
            # It starts from its beginning with the answer: what came before was no attempt.
            context.ask(QUESTION)
        self._effects.note("tried", name, key, str(os.getpid()))
        for _ in range(arguments.get("turns", 1)):
            await asyncio.sleep(0)
        await asyncio.sleep(arguments.get("seconds", 0))
        self._fail(name, key)
        self._death.at("tool:before", context.run)
        # A service that keeps its promise about keys does what it has done no second time.
        if not (self.descriptor.rules.is_idempotent and self._is_done(key)):
            self._effects.note("effect", name, key, digest(arguments))
        self._death.at("tool:after", context.run)
        return {"path": path_of(key)}

    def _fail(self, name: str, key: str) -> None:
        if name == "refuse":
            raise ToolFailure(FailureCode.TOOL_ERROR, "It never works", "do without it")
        if name == "stubborn" and not key.endswith("#2"):
            raise ToolFailure(FailureCode.TOOL_ERROR, "It cannot be taken back yet", "try again")
        if name == "flaky" and not key.endswith("#3"):
            raise ToolFailure(FailureCode.TOOL_ERROR, "It does not work yet", "try again")
        if name == "crash" and not (self._folder / REPAIRED).exists():
            os.kill(os.getpid(), signal.SIGKILL)

    def _is_done(self, key: str) -> bool:
        return any(line[0] == "effect" and line[2] == key for line in self._effects.read())


def writing_tools(folder: Path, death: Death) -> Iterable[WritingTool]:
    """Every tool that the blueprints of the tests call."""
    return [WritingTool(name, folder, death) for name in RULES]
