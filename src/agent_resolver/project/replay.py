"""Replays a run of a project with its agents as they are on the disk now. Nothing is written, asked or called."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec import structs

from agent_resolver.catalog.catalog import Catalog
from agent_resolver.catalog.entry import Definition
from agent_resolver.connection.locked_servers import MAX_DESCRIPTION
from agent_resolver.core.tool_definition import definition_digest
from agent_resolver.project.definition import kept_definitions
from agent_resolver.project.mention import CatalogDefinitions
from agent_resolver.project.plan import agents_of, runtime_builder
from agent_resolver.project.session import Session
from agent_resolver.runtime.agent_runtime import AgentRuntime
from agent_resolver.runtime.delegation import MAX_DEPTH
from agent_resolver.runtime.journal.recording import read_recording
from agent_resolver.runtime.journal.replay import Replay, replay_run
from agent_resolver.runtime.plan import ResolvedRunPlan
from agent_resolver.runtime.planning import resolve_delegate
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.state import RUNS, Run
from agent_resolver.storage.port import Snapshot


async def replay_of_project(
    session: Session, catalog: Catalog, run: str, model: str | None = None
) -> Replay:
    """Replay a run.

    Args:
        session: The project.
        catalog: Where its agent files are.
        run: The id of the run.
        model: A model in place of the one that the agent of the run names.

    Raises:
        RunRefused: There is no such run, or its journal cannot be read.
        ResolveError: The agent has no plan now.
        UntrustedFolder: The project has code of its own, and no person trusts it.
    """
    recording = await session.store.read(
        lambda snapshot: read_recording(snapshot, run, session.seal)
    )
    chain = await session.store.read(
        lambda snapshot: _delegating_agents(snapshot, recording.row)
    )
    models = {recording.row.agent: model} if model else {}
    agents = agents_of(session, catalog, models)
    plan = _plan_below(
        runtime_builder(session, catalog, agents).build_unchecked(), chain
    )
    definition = agents.definition(plan.agent_id)
    pinned = {}
    # Only an agent that requires servers has a lock.
    if definition and definition.entry.requires:
        pinned = _pinned_definitions(session, definition)
    return await replay_run(
        recording, plan, partial(_as_pinned, pinned), CatalogDefinitions(catalog)
    )


def _delegating_agents(snapshot: Snapshot, row: Run) -> list[str]:
    """The agent of a run, after those that delegated to it, the first of all in front."""
    agents = [row.agent]
    parent = row.parent
    # No delegation is deeper than this, so the bound only ends a circle among rows that
    # were edited.
    while parent and len(agents) <= MAX_DEPTH:
        known = snapshot.get(RUNS, parent)
        # What was removed can no longer be asked for its limits.
        if known is None:
            break
        agents.append(known.agent)
        parent = known.parent
    return agents[::-1]


def _plan_below(runtime: AgentRuntime, chain: list[str]) -> ResolvedRunPlan:
    """The plan of the last agent of a chain, under the limits of those before it."""
    first, *others = chain
    # A dry run builds no backend of a remote agent.
    plan = runtime.resolve(first, is_dry_run=True)
    for agent_id in others:
        plan = resolve_delegate(plan, agent_id, is_dry_run=True)
    return plan


# Tools of servers ---------------------------------------------------------------------


def _pinned_definitions(
    session: Session, agent: Definition
) -> dict[str, dict[str, Any]]:
    """The definitions that the lock of an agent pins, by the id of the tool, as far as their texts are kept."""
    with session.for_agent(agent.file) as governed:
        entries = governed.lockfile.servers
        kept = kept_definitions(governed.index_path)
    found = {}
    for entry in entries:
        texts = kept.get(f"{entry.server_id}@{entry.version}", {})
        for name, pinned in (entry.tools or {}).items():
            text = texts.get(name)
            # A text with another digest was edited, and says nothing of the tool.
            if text is not None and _digest_of(text) == pinned:
                found[f"{entry.server_id}.{name}"] = text
    return found


def _digest_of(definition: Mapping[str, Any]) -> str:
    try:
        return definition_digest(definition)
    except (ValueError, RecursionError):
        return ""


def _as_pinned(
    pinned: Mapping[str, Mapping[str, Any]], recorded: Descriptor
) -> Descriptor:
    """A tool as the lock pins it now; as it was recorded, where that is the same or nothing is pinned."""
    text = pinned.get(recorded.id)
    if text is None:
        return recorded
    description = text.get("description") or text.get("title") or text["name"]
    renewed = structs.replace(
        recorded,
        description=description[:MAX_DESCRIPTION],
        input_schema=text["inputSchema"],
        output_schema=text.get("outputSchema"),
    )
    # The order of keys may differ in what is kept, and a model is shown the order of
    # the server.
    return recorded if renewed == recorded else renewed
