"""The files that `agent init` writes: a small project to begin with, or a proposal made of what the folder has."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from agent_resolver.exchange.agent_use import (
    KnownNames,
    ServerMention,
    inline_servers,
    server_mentions,
)
from agent_resolver.exchange.client_config import read as read_client_servers
from agent_resolver.exchange.imported import Imported, NoteKind, Source
from agent_resolver.exchange.jsonc_edit import json_text
from agent_resolver.exchange.merge import Batch, merge_entries
from agent_resolver.exchange.proposed_requirement import (
    Certainty,
    ProposedRequirement,
    Wish,
    agent_file_text,
    propose_requirements,
    with_own_categories,
)
from agent_resolver.project.adopted_config import ConfigFile
from agent_resolver.project.agent_files import FoundAgent
from agent_resolver.project.file_change import FileChange
from agent_resolver.project.index import (
    overlaid_servers,
    read_overlay_bytes,
    refuse_compiled,
)
from agent_resolver.schema.index import IndexEntry, Server
from agent_resolver.schema.index_reader import parse_index
from agent_resolver.schema.lockfile import to_json

_MADE_BY: Final = "agent init"

_STARTER_AGENT: Final = """\
---
# What the agent needs and what it must not do. Everything below the second line of dashes is for the model.
name: {name}
version: 0.1.0
requires:
  mcp:
    # A category of servers, and the scopes that the agent needs there. `agent discover` lists what the index has.
    - category: notes
      permissions: ["read:notes"]
constraints:
  actions:
    # Scopes and tools that no server may open to the agent, whatever is locked.
    forbid: ["delete:*"]
---

# {title}

Describe here what the agent is for, and how it works.
"""
_STARTER_SERVER: Final = {
    "id": "example-notes",
    "version": "1.0.0",
    "endpoint": "http://127.0.0.1:8931/mcp",
    "categories": ["notes"],
    "scopes": ["read:notes", "write:notes"],
    "toolScopes": {"read_note": ["read:notes"], "write_note": ["write:notes"]},
    "description": "An example that is not running. Replace it by your servers: see `agent index import --help`",
}


class ProposedLine(Struct, frozen=True):
    """One thing that a proposal says, and how certain it is."""

    what: str
    certainty: Certainty
    why: str


class Proposal(Struct, frozen=True, kw_only=True):
    """Files to write, and where each line of them comes from."""

    is_starter: bool = False
    changes: tuple[FileChange, ...] = ()
    used: tuple[str, ...] = ()
    """Files that are there already, and are used as they are."""
    lines: tuple[ProposedLine, ...] = ()
    problems: tuple[str, ...] = ()
    """What could not be taken over."""
    unknown: tuple[str, ...] = ()
    """The servers whose scopes are not known, so that nothing can be required of them yet."""


class Surroundings(Struct, frozen=True, kw_only=True):
    """The content of the folder, as far as a proposal goes by it."""

    agent_name: str
    agent_path: str
    index_path: str
    index: bytes | None = None
    """None if there is no index."""
    has_agent: bool = False
    configs: tuple[ConfigFile, ...] = ()
    agents: tuple[FoundAgent, ...] = ()


def propose(found: Surroundings) -> Proposal:
    """A starter for a folder that has nothing to go by, else files made of what it has.

    Raises:
        InvalidIndex: With every error in the index that is there.
        InvalidOverlay: With every error in its overlay.
    """
    inline = {agent.path: _inline_of(agent) for agent in found.agents}
    if not _names_servers(found):
        return _starter(found)
    batches = [*(Batch(config.path, config.entries) for config in found.configs)]
    # Servers of agent files are merged with those of configurations, so one that is in
    # both counts once.
    batches += [Batch(path, imported.entries) for path, imported in inline.items()]
    refuse_compiled(found.index_path, found.index)
    # An index that is there is used as it is, and nothing is merged into it.
    entries = parse_index(found.index) if found.index is not None else _merge(batches)
    mentions = {agent.path: _mentions_of(agent, entries) for agent in found.agents}
    servers = _servers_of(entries, found)
    requirements = propose_requirements(servers, _wishes(batches, entries, mentions))
    return Proposal(
        changes=tuple(_changes(found, entries, requirements)),
        used=tuple(_used(found)),
        lines=(
            *_server_lines(found, batches, entries),
            *map(_requirement_line, requirements),
            *_mention_lines(mentions),
        ),
        problems=tuple(_problems(found.configs, inline)),
        unknown=tuple(each.server for each in requirements if not each.permissions),
    )


def _names_servers(found: Surroundings) -> bool:
    """True if a configuration or an agent file names a server."""
    # A configuration that cannot be read is no reason for a starter: its faults are to
    # be reported.
    has_configured = any(
        config.entries or config.reading.imported.faults for config in found.configs
    )
    return has_configured or any(_names_a_server(agent) for agent in found.agents)


def _starter(found: Surroundings) -> Proposal:
    index = None if found.index is not None else to_json([_STARTER_SERVER])
    agent = None
    if not found.has_agent:
        agent = _STARTER_AGENT.format(
            name=json_text(found.agent_name), title=found.agent_name
        ).encode()
    contents = {found.index_path: index, found.agent_path: agent}
    # An agent file that is there asks for servers of its own, and an index that is
    # there has other servers.
    has_either = bool(_used(found))
    changes = [
        FileChange(path=path, after=content)
        for path, content in contents.items()
        if content
    ]
    return Proposal(
        is_starter=True,
        changes=() if has_either else tuple(changes),
        used=tuple(_used(found)),
    )


def _used(found: Surroundings) -> list[str]:
    present = {
        found.agent_path: found.has_agent,
        found.index_path: found.index is not None,
    }
    return [path for path, is_there in present.items() if is_there]


def _names_a_server(agent: FoundAgent) -> bool:
    # No server is known here, so only mentions count that the file itself makes
    # certain.
    nothing = KnownNames(())
    mentions = server_mentions(
        agent.entry.tools, agent.entry.front_matter, agent.body, nothing
    )
    return any(mention.certainty != "guessed" for mention in mentions)


def _inline_of(agent: FoundAgent) -> Imported:
    servers = inline_servers(agent.entry.front_matter)
    # Servers that an agent file declares have the form of a client configuration, and
    # are read as one.
    return (
        read_client_servers(Source({"mcpServers": servers})) if servers else Imported()
    )


def _merge(batches: Sequence[Batch]) -> tuple[IndexEntry, ...]:
    merged = merge_entries((), batches)
    return with_own_categories(merged.entries, [entry.id for entry in merged.entries])


def _mentions_of(
    agent: FoundAgent, entries: Sequence[IndexEntry]
) -> list[ServerMention]:
    known = KnownNames((entry.name or entry.id, entry.id) for entry in entries)
    return server_mentions(
        agent.entry.tools, agent.entry.front_matter, agent.body, known
    )


def _servers_of(
    entries: tuple[IndexEntry, ...], found: Surroundings
) -> tuple[Server, ...]:
    return overlaid_servers(
        entries, read_overlay_bytes(found.index_path), found.index_path
    )


def _wishes(
    batches: Sequence[Batch],
    entries: Sequence[IndexEntry],
    mentions: dict[str, list[ServerMention]],
) -> Iterator[Wish]:
    """The wishes of agent files, then those of configurations for the servers that no agent file names."""
    of_agents = list(_wishes_of_agents(mentions))
    yield from of_agents
    named = {wish.server_id for wish in of_agents}
    known = KnownNames((entry.name or entry.id, entry.id) for entry in entries)
    for batch in batches:
        for entry in batch.entries:
            # Merging may have given the server another id, so it is looked up by the
            # name that its source has.
            server_id = known.find(entry.name or entry.id)
            if server_id is not None and server_id not in named:
                yield Wish(server_id, batch.label)


def _wishes_of_agents(mentions: dict[str, list[ServerMention]]) -> Iterator[Wish]:
    for path, found in mentions.items():
        for mention in filter(_is_required, found):
            tools = (mention.tool,) if mention.tool else ()
            yield Wish(mention.name, path, tools, mention.certainty)


def _is_required(mention: ServerMention) -> bool:
    # A guess may mean a tool of the client, so nothing is required for it.
    return mention.is_known and mention.certainty != "guessed"


def _changes(
    found: Surroundings,
    entries: Sequence[IndexEntry],
    requirements: Sequence[ProposedRequirement],
) -> Iterator[FileChange]:
    if found.index is None and entries:
        yield FileChange(path=found.index_path, after=to_json(entries))
    # An agent file has to ask for permissions, and without a known scope there is none
    # to ask for.
    if not found.has_agent and any(
        requirement.permissions for requirement in requirements
    ):
        text = agent_file_text(found.agent_name, _MADE_BY, requirements)
        yield FileChange(path=found.agent_path, after=text.encode())


def _server_lines(
    found: Surroundings, batches: Sequence[Batch], entries: Sequence[IndexEntry]
) -> Iterator[ProposedLine]:
    known = {entry.name or entry.id: entry for entry in entries}
    for batch in batches:
        for read in batch.entries:
            entry = known.get(read.name or read.id)
            if entry is None:
                hint = f"add it with `agent index import {batch.label}`"
                why = f"{batch.label} has it, and {os.path.basename(found.index_path)} does not: {hint}"
                yield ProposedLine(f"server {read.id}", "stated", why)
                continue
            yield ProposedLine(
                f"server {entry.id}", "stated", f"{batch.label} says how it is reached"
            )
            listed = ", ".join(entry.categories)
            yield ProposedLine(
                f"categories of {entry.id}: {listed}", "derived", "from its name"
            )


def _requirement_line(requirement: ProposedRequirement) -> ProposedLine:
    listed = ", ".join(requirement.permissions) or "not known yet"
    return ProposedLine(
        f"requires {requirement.category}: {listed}",
        requirement.certainty,
        requirement.why,
    )


def _mention_lines(mentions: dict[str, list[ServerMention]]) -> Iterator[ProposedLine]:
    """The mentions that nothing is required for."""
    for path, found in mentions.items():
        for mention in found:
            # These are required, and have their lines among the requirements.
            if _is_required(mention):
                continue
            tool = f" ({mention.tool})" if mention.tool else ""
            doubt = (
                "it may be a tool of the client"
                if mention.certainty == "guessed"
                else "no file says how it is reached"
            )
            why = f"{path} names it, and {doubt}; left out"
            yield ProposedLine(f"server {mention.name}{tool}", mention.certainty, why)


def _problems(
    configs: Iterable[ConfigFile], inline: dict[str, Imported]
) -> Iterator[str]:
    for config in configs:
        yield from (
            f"{config.path}: {issue}" for issue in config.reading.imported.faults
        )
        for note in config.reading.imported.notes:
            if note.kind is not NoteKind.ENVIRONMENT:
                yield f"{config.path}: {note.server}: {note.message}"
    for path, imported in inline.items():
        yield from (f"{path}: {issue}" for issue in imported.faults)
