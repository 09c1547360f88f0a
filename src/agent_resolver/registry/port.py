"""What the registry asks of the world around it."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.audit import Record
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.ledger import Begun, Interrupted, Start
from agent_resolver.schema.outcome import Outcome
from agent_resolver.schema.pending import PendingAction


class Trail(Protocol):
    """Keeps what was decided and done."""

    async def append(self, run: str, kind: str, body: Mapping[str, object]) -> None:
        """Add a record; it is safe when this returns."""
        ...


class PendingActions(Protocol):
    """Keeps what waits for a person."""

    async def ask(self, action: PendingAction, record: Record | None = None) -> PendingAction:
        """Keep an action and record it, or return the one with its id that is there already."""
        ...

    async def newest(self, binding: str) -> tuple[PendingAction | None, int]:
        """The last action that was asked under a binding, and how many there were."""
        ...

    async def get(self, action_id: str) -> PendingAction | None:
        """The action with this id."""
        ...

    async def all(self) -> list[PendingAction]:
        """Every action, oldest first."""
        ...

    async def answer(self, answered: PendingAction, record: Record) -> bool:
        """Keep the answer of an action and record it; False when it was answered before."""
        ...


class Rate(Protocol):
    """Counts uses, over all processes that share the state."""

    async def take(self, subject: str, per_minute: float) -> float:
        """Count one use, or say for how many seconds there is none left; 0 means it was counted."""
        ...


class Ledger(Protocol):
    """Keeps which calls started and which were finished, so that what was done is not done again."""

    async def start(self, start: Start) -> Begun:
        """Note that a call starts, use up what lets it, and record it, all at once; or say why it may not."""
        ...

    async def finish(
        self, key: str, state: Literal["done", "unknown", "forgotten"], sealed: bytes | None, record: Record | None
    ) -> None:
        """Note how it ended and record it, all at once; what is forgotten may start again under the same key."""
        ...

    async def knows(self, key: str) -> bool:
        """Whether a call started under this key and was not forgotten."""
        ...

    async def interrupted(self) -> list[Interrupted]:
        """Every call that started and whose process is gone."""
        ...

    async def give_up(self, key: str, record: Record | None) -> bool:
        """Note that an interrupted call ended nobody knows how, and record it; False when it was taken up again."""
        ...


class Seal(Protocol):
    """Closes what nobody may read in the state."""

    def close(self, content: bytes, purpose: str) -> bytes:
        """The content, readable only with the key and for this purpose."""
        ...

    def open(self, sealed: bytes, purpose: str) -> bytes:
        """The content again.

        Raises:
            ValueError: It was changed, or closed with another key or for another purpose.
        """
        ...


class Secrets(Protocol):
    """Knows where secrets are."""

    async def get(self, name: str) -> str | None:
        """The value of a secret, or None while it is not there.

        Raises:
            ToolFailure: Where it should be cannot be asked.
        """
        ...

    def place(self, name: str) -> str:
        """Where it is looked for, in words for a person."""
        ...


class Telemetry(Protocol):
    """Lets others watch calls. It never sees arguments or results."""

    def begin(self, tool_id: str, descriptor: Descriptor | None, context: CallContext) -> Any:  # noqa: ANN401
        """A call begins; what it returns is given back when the call ends."""
        ...

    def end(self, span: Any, outcome: Outcome | None) -> None:  # noqa: ANN401
        """The call ends; without an outcome where it could not be recorded."""
        ...

    def traceparent(self, span: Any) -> str:  # noqa: ANN401
        """The call's own place in its trace, in W3C's words."""
        ...


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> str:
        """The time as ISO 8601 in UTC with milliseconds."""
        ...
