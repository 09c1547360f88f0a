"""Replays a run of a project with its agents as they are on the disk now. Nothing is written, asked or called."""

from agent_resolver.catalog.catalog import Catalog
from agent_resolver.project.plan import agents_of, runtime_builder
from agent_resolver.project.session import Session
from agent_resolver.runtime.agent_runtime import AgentRuntime
from agent_resolver.runtime.delegation import MAX_DEPTH
from agent_resolver.runtime.journal.recording import read_recording
from agent_resolver.runtime.journal.replay import Replay, replay_run
from agent_resolver.runtime.plan import ResolvedRunPlan
from agent_resolver.runtime.planning import resolve_delegate
from agent_resolver.schema.state import RUNS, Run
from agent_resolver.storage.port import Snapshot


async def replay_of_project(session: Session, catalog: Catalog, run: str, model: str | None = None) -> Replay:
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
    recording = await session.store.read(lambda snapshot: read_recording(snapshot, run, session.seal))
    chain = await session.store.read(lambda snapshot: _delegating_agents(snapshot, recording.row))
    models = {recording.row.agent: model} if model else {}
    builder = runtime_builder(session, catalog, agents_of(session, catalog, models))
    plan = _plan_below(builder.build_unchecked(), chain)
    return await replay_run(recording, plan)


def _delegating_agents(snapshot: Snapshot, row: Run) -> list[str]:
    """The agent of a run, after those that delegated to it, the first of all in front."""
    agents = [row.agent]
    parent = row.parent
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
