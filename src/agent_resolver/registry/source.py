"""Sources: the origin of tools that are not there all the time, such as a locked server."""

from collections.abc import Iterable
from typing import Protocol

from agent_resolver.registry.errors import NeedsAction, ToolFailure


class Source(Protocol):
    """Offers tools in a registry while it is there, and withdraws them when it is lost.

    It can be down at the start, lost and regained. When one of its tools is called and it is not there, the registry
    asks it to look again; whatever else it offers and withdraws comes from the source itself.
    """

    @property
    def name(self) -> str:
        """The name that the descriptors of its tools have in `source`."""
        ...

    @property
    def prefix(self) -> str:
        """The text that the ids of all its tools begin with."""
        ...

    @property
    def is_there(self) -> bool:
        """True while its tools can be called."""
        ...

    async def restore(self, run: str) -> ToolFailure | NeedsAction | None:
        """Look for what the source stands for, unless it is there, or was looked for a moment ago.

        Args:
            run: The run that the attempt is recorded under.

        Returns:
            Why it is not there; None if it is, and its tools are offered.
        """
        ...


def owners_of(tool_id: str, sources: Iterable[Source]) -> list[Source]:
    """The sources that may have a tool of this id. Ids of servers may hold dots, so the longest prefix counts.

    There is more than one only if two versions of a server are locked.
    """
    owners = [source for source in sources if tool_id.startswith(source.prefix)]
    longest = max((len(source.prefix) for source in owners), default=0)
    return [source for source in owners if len(source.prefix) == longest]
