"""Offers: the tools that can be called in a whole registry, and in one run of an agent."""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import Struct

from agent_resolver.core.admission import AdmissionCode, Refused
from agent_resolver.registry.call import MAX_ID, Entry
from agent_resolver.registry.errors import NeedsAction, ToolFailure
from agent_resolver.registry.source import Source, owners_of
from agent_resolver.schema.frozen import FrozenDict

_NOTHING: Final = FrozenDict()


class Offer(Struct):
    """The tools that can be called, as the registry keeps them up to date."""

    entries: dict[str, Entry] = msgspec.field(default_factory=dict)
    """The tools that may be called, by id."""
    refused: dict[str, dict[str, Refused]] = msgspec.field(default_factory=dict)
    """Why tools may not be called, by id, and then by the name of the source that has the tool."""
    sources: dict[str, Source] = msgspec.field(default_factory=dict)
    """Where tools come from that are not there all the time, by name."""

    def put(self, entry: Entry) -> None:
        """Offer a tool."""
        self.entries[entry.descriptor.id] = entry

    def refuse(self, tool_id: str, source: str, why: Refused) -> None:
        """Remember why a tool of a source may not be called."""
        self.refused.setdefault(tool_id, {})[source] = why

    def attach(self, source: Source) -> None:
        """Remember where tools come from that are not there all the time."""
        self.sources[source.name] = source

    @property
    def has_sources(self) -> bool:
        """True if a tool that is not there may come back."""
        return bool(self.sources)

    def find(self, tool_id: str) -> Entry | None:
        """The tool with this id, if it may be called."""
        return self.entries.get(tool_id)

    def ids(self) -> Iterator[str]:
        """The ids of the tools that may be called, each once and in any order."""
        return iter(self.entries)

    def refusals(self) -> Mapping[str, Mapping[str, Refused]]:
        """The reasons why tools may not be called, as `refused` has them."""
        return self.refused

    def refusal_of(self, tool_id: str) -> Refused | None:
        """The reason why a tool may not be called. What one source refuses never shuts the tool of another."""
        refusals = self.refused.get(tool_id, {})
        entry = self.entries.get(tool_id)
        if entry is not None:
            return refusals.get(entry.descriptor.source)
        # Several sources may refuse one id: the answer names the same one each time.
        return refusals[min(refusals)] if refusals else None

    async def restore_sources(
        self, tool_id: str, run: str
    ) -> ToolFailure | NeedsAction | None:
        """Look again for each source that is not there and that a tool comes from, or would come from.

        Returns:
            Why one is not there, if the tool is not there either.
        """
        first_problem = None
        for source in self._lost_sources(tool_id):
            problem = await source.restore(run)
            # A source that is back may have lost the tool meanwhile; then the next
            # source is asked.
            if problem is None and tool_id in self.entries:
                return None
            first_problem = first_problem or problem
        return first_problem

    def _lost_sources(self, tool_id: str) -> list[Source]:
        entry = self.entries.get(tool_id)
        if entry is not None:
            owner = self.sources.get(entry.descriptor.source)
            owners = [owner] if owner else []
        elif all(source in self.sources for source in self.refused.get(tool_id, ())):
            # Only sources that can come back refuse the tool, or none does: each that
            # may own the id is looked for.
            owners = owners_of(tool_id, self.sources.values())
        else:
            # The tool is the project's own: no source has it.
            owners = []
        return [source for source in owners if not source.is_there]


class RunOffer(Offer, kw_only=True):
    """The tools that one run may call: those of the offer around it that are allowed, and tools of its own.

    Nothing is copied. Each question goes on to the offer around it, so that a tool which comes or goes there comes or
    goes here.
    """

    around: Offer
    allowed: Collection[str]
    """The ids that may be called, of tools around and of the run's own."""
    # Few runs have anything of their own, and thousands may wait at once: until then
    # they share empty tables.
    entries: dict[str, Entry] = _NOTHING
    refused: dict[str, dict[str, Refused]] = _NOTHING
    sources: dict[str, Source] = _NOTHING

    def put(self, entry: Entry) -> None:
        """Offer a tool of the run's own."""
        # The empty table is shared with other runs, so an addition makes a new one.
        self.entries = {**self.entries, entry.descriptor.id: entry}

    def refuse(self, tool_id: str, source: str, why: Refused) -> None:
        """Remember why a tool of a source may not be called in this run."""
        refusals = self.refused.get(tool_id, {})
        self.refused = {**self.refused, tool_id: {**refusals, source: why}}

    def attach(self, source: Source) -> None:
        """Remember where tools of this run come from that are not there all the time."""
        self.sources = {**self.sources, source.name: source}

    def end(self) -> None:
        """Offer nothing any longer, even if sources are added afterwards."""
        self.around, self.allowed = _ENDED, frozenset()
        self.entries = self.refused = _NOTHING

    @property
    def has_sources(self) -> bool:
        """True if a tool that is not there may come back."""
        return self.around.has_sources

    def find(self, tool_id: str) -> Entry | None:
        """The tool with this id, if it may be called. The run was planned with its own tools: they come first."""
        if tool_id not in self.allowed:
            return None
        return self.entries.get(tool_id) or self.around.find(tool_id)

    def ids(self) -> Iterator[str]:
        """The ids of the tools that may be called, each once and in any order."""
        # There may be many more tools around than a run is allowed to call.
        return (tool_id for tool_id in self.allowed if self.find(tool_id) is not None)

    def refusals(self) -> Mapping[str, Mapping[str, Refused]]:
        """The reasons why tools may not be called, as `refused` has them."""
        return {**self.around.refusals(), **self.refused}

    def refusal_of(self, tool_id: str) -> Refused | None:
        """The reason why a tool may not be called; one that is there and not allowed is forbidden."""
        is_own = tool_id in self.entries or tool_id in self.refused
        if tool_id in self.allowed:
            return (
                Offer.refusal_of(self, tool_id)
                if is_own
                else self.around.refusal_of(tool_id)
            )
        # A refusal of the offer around says more than that the run may not call the
        # tool.
        if not is_own and (refused := self.around.refusal_of(tool_id)):
            return refused
        is_there = is_own or self.around.find(tool_id) is not None
        return _not_allowed(tool_id) if is_there else None

    async def restore_sources(
        self, tool_id: str, run: str
    ) -> ToolFailure | NeedsAction | None:
        """Look again for the sources of a tool that may be called; a run cannot start any others."""
        if tool_id not in self.allowed or tool_id in self.entries:
            # A tool of the run's own comes from no source that could be restored.
            return None
        return await self.around.restore_sources(tool_id, run)


class EndedOffer(Offer):
    """The offer of a run that ended: no tool at all."""

    def refusal_of(self, tool_id: str) -> Refused | None:
        """Every tool is forbidden, those that there never were as well."""
        message = f"The run has ended, and {tool_id[:MAX_ID]} was called in it"
        return Refused(AdmissionCode.FORBIDDEN_ACTION, message, "start another run")


_ENDED: Final = EndedOffer()


def _not_allowed(tool_id: str) -> Refused:
    message = f"The agent that runs may not call {tool_id[:MAX_ID]}"
    return Refused(
        AdmissionCode.FORBIDDEN_ACTION,
        message,
        "`agent plan` lists the tools that it may call",
    )


def kept_ids(allowed: Collection[str]) -> Collection[str]:
    """The ids in a form that can be asked quickly; what cannot change is not copied."""
    return (
        allowed
        if isinstance(allowed, frozenset | MappingProxyType)
        else frozenset(allowed)
    )
