"""Opens the tools of a run."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from agent_resolver.registry.pipeline import Ports
from agent_resolver.registry.registry import ToolRegistry
from agent_resolver.runtime.plan import ResolvedRunPlan
from agent_resolver.runtime.registry_set import HeldLock
from agent_resolver.runtime.tool_contract import OfferedTool, tool_under_id


class OpenedTools(Struct, frozen=True, kw_only=True):
    """The tools of one run, while it runs."""

    registry: ToolRegistry
    lock: HeldLock | None = None
    """The agent's lock with what its connected servers say of their tools; None where nothing was connected."""


class RunTools(Protocol):
    """Opens what the lock of an agent allows, for one run."""

    def open(
        self, plan: ResolvedRunPlan, run: str
    ) -> AbstractAsyncContextManager[OpenedTools]:
        """The tools of the run with this id; they are closed when it ends."""
        ...


class SnapshotTools(AbstractAsyncContextManager[OpenedTools]):
    """The tools that a program added to its runtime. They need no lock, and nothing has to be connected."""

    def __init__(self, ports: Ports, tools: Mapping[str, OfferedTool]) -> None:
        registry = ToolRegistry(ports)
        for offered in tools.values():
            registry.add(tool_under_id(offered.tool, offered.descriptor))
        self._opened = OpenedTools(registry=registry)

    def open(
        self,
        plan: ResolvedRunPlan,  # noqa: ARG002 - the port
        run: str,  # noqa: ARG002 - the port
    ) -> AbstractAsyncContextManager[OpenedTools]:
        """The same tools for every run."""
        return self

    async def __aenter__(self) -> OpenedTools:
        return self._opened

    async def __aexit__(self, *_: object) -> None:
        """Nothing was opened for one run alone."""
