"""Twenty calls in flight over a state file, in a process that can end itself at any step of any of them.

As a script: `killed.py FOLDER STEP NUMBER` makes the calls and kills itself where call NUMBER reaches STEP, such as
`start:before`; a number that is never reached lets it come to its end.
"""

import asyncio
import os
import secrets
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, Final

from agent_resolver.registry import CallContext, Pipeline, Ports, ToolRegistry
from agent_resolver.schema import Descriptor, Outcome, Rules, local_caller
from agent_resolver.storage import AesSeal, SqliteStore, SystemClock, key_beside

STEPS: Final = (
    "caller",
    "tool",
    "check_arguments",
    "scopes",
    "classification",
    "approval",
    "rate_limit",
    "start",
    "invoke",
    "output",
    "redaction",
    "audit",
)
TOOLS: Final = {
    "safe.write": Rules(is_idempotent=True),
    "once.write": Rules(),
    "safe.approved": Rules(is_idempotent=True, needs_approval=True),
    "once.approved": Rules(needs_approval=True),
}
CALLS: Final = {f"key-{number:02}": [*TOOLS][number % 4] for number in range(20)}
"""The tool of each call, by its key."""


def trace_of(key: str) -> str:
    """Under which trace a call is made, each time."""
    return f"{[*CALLS].index(key):032x}"


class Death:
    """Ends the process at a step, once so many calls have reached it."""

    def __init__(self, step: str = "", number: int = 0) -> None:
        self._step, self._number = step, number
        self._reached: Counter[str] = Counter()

    def at(self, step: str) -> None:
        self._reached[step] += 1
        if step == self._step and self._reached[step] == self._number:
            os.kill(os.getpid(), signal.SIGKILL)


class WritingTool:
    """Leaves a file for each time it has its effect, and another for each time it was tried.

    What is idempotent finds its own file and leaves it; what is not makes a new one each time.
    """

    def __init__(self, tool_id: str, folder: Path, death: Death) -> None:
        schema = {"type": "object", "required": ["name"]}
        self.descriptor = Descriptor(
            id=tool_id,
            description="Writes.",
            input_schema=schema,
            output_schema=schema,
            source="kill",
            rules=TOOLS[tool_id],
        )
        self._folder, self._death = folder, death

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ARG002
        name = arguments["name"]
        (self._folder / "tried" / f"{name}.{secrets.token_hex(8)}").touch()
        await asyncio.sleep(0)
        self._death.at("effect:before")
        mark = "" if self.descriptor.rules.is_idempotent else secrets.token_hex(8)
        (self._folder / "effects" / f"{name}.{mark}").touch(exist_ok=True)
        self._death.at("effect:after")
        await asyncio.sleep(0)
        return {"name": name}


def dying(death: Death) -> type[Pipeline]:
    """A pipeline that can end the process before and after each of its steps."""
    steps = {step: _wrapped(getattr(Pipeline, step), step, death) for step in STEPS}
    return type("DyingPipeline", (Pipeline,), steps)


def _wrapped(method: Callable[..., Any], step: str, death: Death) -> Callable[..., Any]:
    if iscoroutinefunction(method):

        @wraps(method)
        async def awaited(*arguments: Any) -> Any:
            death.at(f"{step}:before")
            result = await method(*arguments)
            death.at(f"{step}:after")
            return result

        return awaited

    @wraps(method)
    def called(*arguments: Any) -> Any:
        death.at(f"{step}:before")
        result = method(*arguments)
        death.at(f"{step}:after")
        return result

    return called


@contextmanager
def opened(folder: Path, death: Death | None = None) -> Iterator[tuple[ToolRegistry, SqliteStore]]:
    """The registry of one process on the state in this folder."""
    death = death or Death()
    store = SqliteStore(str(folder / "state.db"))
    ports = Ports(store=store, seal=AesSeal(key_beside(str(folder / "state.key"))), clock=SystemClock())
    registry = ToolRegistry(ports, pipeline=dying(death))
    for tool_id in TOOLS:
        registry.add(WritingTool(tool_id, folder, death))
    try:
        yield registry, store
    finally:
        store.close()


def context_of(key: str) -> CallContext:
    """In which a call is made, each time; whatever process makes it."""
    return CallContext(run=f"run-{key}", trace_id=trace_of(key), caller=local_caller("ada"), key=key)


def call(registry: ToolRegistry, key: str) -> Awaitable[Outcome]:
    """Make one of the calls."""
    return registry.call(CALLS[key], {"name": key}, context_of(key))


async def call_all(registry: ToolRegistry) -> dict[str, Outcome]:
    """Find what an earlier process left, and make all calls at the same time."""
    await registry.recover(CallContext(run="recovery", trace_id="f" * 32, caller=local_caller("root")))
    outcomes = await asyncio.gather(*(call(registry, key) for key in CALLS))
    return dict(zip(CALLS, outcomes, strict=True))


if __name__ == "__main__":
    folder, step, number = sys.argv[1:]
    with opened(Path(folder), Death(step, int(number))) as (registry, _):
        asyncio.run(call_all(registry))
