"""Runs a recorded run again with the present agent, without acting, up to the first thing that differs."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct, structs

from agent_resolver.core.count import counted
from agent_resolver.registry.tool import CallContext
from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.errors import RunRefused
from agent_resolver.runtime.executor import LlmExecutor
from agent_resolver.runtime.hook import PhaseContext
from agent_resolver.runtime.journal.difference import (
    Difference,
    describe_end,
    plan_notes,
)
from agent_resolver.runtime.journal.player import (
    Course,
    RecordedCalls,
    RecordedModel,
    ReplayEnded,
)
from agent_resolver.runtime.journal.recording import (
    PlanDocument,
    Recording,
    decode_plan,
)
from agent_resolver.runtime.loop.lifecycle import Lifecycle, Start
from agent_resolver.runtime.mention import Definitions
from agent_resolver.runtime.plan import (
    ResolvedAgent,
    ResolvedBackendAgent,
    ResolvedRunPlan,
)
from agent_resolver.runtime.plan_digest import plan_document
from agent_resolver.runtime.planning import resolve
from agent_resolver.runtime.plugin import TaggedHandler
from agent_resolver.runtime.registry_set import HeldLock, LayeredMapping, ServerTools
from agent_resolver.runtime.run import RunRequest, RunState, Termination
from agent_resolver.schema.descriptor import Descriptor


class Replay(Struct, frozen=True, kw_only=True):
    """The outcome of a replay."""

    run: str
    agent: str
    rounds: int
    """The number of replayed rounds, with the one that differs."""
    entries: int
    """The number of the newest entry of the journal that was replayed."""
    ended: Termination | None
    """The end of the recorded run, or its wait for a person; None if it was interrupted."""
    difference: Difference | None = None
    notes: tuple[str, ...] = ()
    """Parts of the agent that changed without any effect on this run."""
    servers: tuple[str, ...] = ()
    """The servers whose tools were taken as they were recorded."""


Renew = Callable[[Descriptor], Descriptor]
"""Maps what was recorded of a tool of a server to what is known of it now."""


def _as_recorded(descriptor: Descriptor) -> Descriptor:
    return descriptor


async def replay_run(
    recording: Recording,
    plan: ResolvedRunPlan,
    renew: Renew = _as_recorded,
    definitions: Definitions | None = None,
) -> Replay:
    """Replay a run with the present plan of its agent.

    The loop runs as always. Its model answers from the journal, its calls end as they ended then, and what plugins ask
    for as effects is not done. A run that waited or was interrupted is replayed in stretches, each from the state that
    is recorded: hooks of its start run again for each, as they did then.

    Args:
        recording: The run.
        plan: The plan of its agent; its own model and tools are not used.
        renew: Brings the recorded definition of a server's tool up to date, as far as that is known.
        definitions: Where agents that the user mentions are looked up, as for a run.

    Raises:
        RunRefused: Another system runs the agent.
        ResolveError: The agent has no plan with the tools that were recorded.
    """
    difference: Difference | None = None
    rounds = entries = 0
    notes: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    for stretch in recording.stretches:
        agent = _with_recorded_tools(plan, stretch.plan, renew)
        servers = _servers_of(agent)
        document = decode_plan(plan_document(agent))
        course = Course(recording, stretch, _copied(stretch.state), document)
        await _replay_stretch(course, agent, definitions)
        rounds, entries, difference = (
            course.state.round,
            stretch.number,
            course.difference,
        )
        if difference is not None:
            entries = _entries_before_difference(course)
            break
        notes = plan_notes(stretch.plan, document)
    return Replay(
        run=recording.row.id,
        agent=recording.row.agent,
        rounds=rounds,
        entries=entries,
        ended=recording.stretches[-1].termination,
        difference=difference,
        notes=notes if difference is None else (),
        servers=servers,
    )


def _entries_before_difference(course: Course) -> int:
    if course.steps:
        return course.steps[0].number - 1
    return course.stretch.number


def _copied(state: RunState) -> RunState:
    return msgspec.convert(msgspec.to_builtins(state), RunState)


async def _replay_stretch(
    course: Course, agent: ResolvedAgent, definitions: Definitions | None
) -> None:
    """Replay one stretch; its course then says what differs, if anything does."""
    recording = course.recording
    stretch = course.stretch
    state = course.state
    # Of these tools no question can be made: nothing more could be compared.
    if difference := _new_tools_difference(course, agent):
        course.note(difference)
        return
    resumed = state if stretch.is_resumed else None
    lock = agent.lock.digest if agent.lock else ""
    # Only what a person says brings definitions in, not what an agent says to its
    # delegate.
    mentioned = None if recording.row.parent else definitions
    # Whatever acts is replaced: models, effects, calls, the clock, the journal and the
    # events.
    start = Start(
        agent=_without_effects(_asking(agent, RecordedModel(course))),
        request=RunRequest(
            agent_id=agent.spec.id,
            caller=stretch.caller,
            budget=_without_clock(stretch.budget),
            override=recording.beginning.override,
            resume=resumed,
        ),
        state=state,
        registry=RecordedCalls(course),
        context=CallContext(
            run=state.run,
            trace_id=state.trace_id,
            caller=stretch.caller,
            agent=agent.spec.id,
            lock=lock,
        ),
        definitions=mentioned,
        clock=lambda: course.seconds,
    )
    # Without a journal and a sink, the loop writes nothing and sends nothing.
    result = await Lifecycle(start).execute()
    if not course.is_over and course.difference is None:
        _compare_end(course, result.termination)
        # The check notes the difference by itself, and raises only because it usually
        # has to stop the loop.
        with suppress(ReplayEnded):
            course.require_calls_made()


def _compare_end(course: Course, end: Termination) -> None:
    """Note a difference where the run ended by itself, and the recorded one did not, or otherwise."""
    recorded = course.stretch.termination
    # Steps are left over: the run ended earlier than it did then.
    if course.steps:
        before = f"went on to entry {course.stretch.number} of the journal"
    elif (
        recorded is None
        or course.is_from_outside(recorded)
        or (recorded.reason, recorded.code) == (end.reason, end.code)
    ):
        return
    else:
        before = describe_end(recorded)
    course.note(
        Difference(
            round=course.state.round, part="end", before=before, after=describe_end(end)
        )
    )


# The present agent, without what acts -------------------------------------------------


def _asking(agent: ResolvedAgent, model: LlmExecutor) -> ResolvedAgent:
    """The agent with this model in place of every other; its budget of time is compared, and not waited for."""
    changes: dict[str, Any] = {}
    for name in agent.__struct_fields__:
        part = getattr(agent, name)
        # Several parts of a plan ask models: none of them may reach a provider.
        if hasattr(part, "executor"):
            changes[name] = structs.replace(part, executor=model)
    changes["executor"] = model
    changes["seats"] = tuple(
        structs.replace(seat, executor=model) for seat in agent.seats
    )
    changes["spec"] = structs.replace(
        agent.spec, budget=_without_clock(agent.spec.budget)
    )
    return structs.replace(agent, **changes)


def _without_clock(budget: RunBudget) -> RunBudget:
    return (
        structs.replace(budget, max_seconds=None)
        if budget.max_seconds is not None
        else budget
    )


def _without_effects(agent: ResolvedAgent) -> ResolvedAgent:
    """The agent with effects that do nothing; one that no plugin handles still ends the run."""
    handlers = {
        name: TaggedHandler(known.plugin, _do_nothing)
        for name, known in agent.env.effect_handlers.items()
    }
    return structs.replace(
        agent, env=structs.replace(agent.env, effect_handlers=handlers)
    )


def _do_nothing(context: PhaseContext, payload: Any) -> None:  # noqa: ANN401 - the shape of handlers
    """Take what an effect was asked for, and leave it."""


# The tools of servers -----------------------------------------------------------------


def _with_recorded_tools(
    plan: ResolvedRunPlan, recorded: PlanDocument, renew: Renew
) -> ResolvedAgent:
    """The agent, with the tools of its locked servers as they were recorded: no server is connected to ask for them.

    The present lock says which servers and tools there are; only what they take and return comes from the recording.
    """
    agent = plan.execution
    if isinstance(agent, ResolvedBackendAgent):
        raise RunRefused(
            f"agent {plan.agent_id} runs elsewhere, and nothing of its run is recorded here"
        )
    lock = agent.lock or HeldLock(path="")
    tools = msgspec.convert(recorded.get("server_tools", {}), dict[str, Descriptor])
    known = {tool_id: renew(descriptor) for tool_id, descriptor in tools.items()}
    is_same = recorded.get("lock") == lock.digest
    servers = tuple(
        _recorded_server(server, known, is_same_lock=is_same) for server in lock.servers
    )
    with_tools = (
        {plan.agent_id: structs.replace(lock, servers=servers)} if servers else {}
    )
    registries = structs.replace(
        plan.snapshot, locks=LayeredMapping((with_tools, plan.snapshot.locks))
    )
    # Each stretch has a plan of its own, as then: what plugins registered is never
    # shared.
    found = resolve(registries, plan.agent_id, plan.callers, is_dry_run=True).execution
    assert isinstance(found, ResolvedAgent)  # noqa: S101 - it was a moment ago
    return found


def _recorded_server(
    server: ServerTools, known: Mapping[str, Descriptor], *, is_same_lock: bool
) -> ServerTools:
    of_server = {
        tool_id: each
        for tool_id, each in known.items()
        if each.source == f"server {server.server}"
    }
    # Nothing is recorded of this server, and the lock is another one: the present entry
    # is all that is known.
    if not (of_server or is_same_lock):
        return server
    unknown: dict[str, None] = {}
    if not is_same_lock and server.is_mapped:
        of_server = {
            tool_id: each
            for tool_id, each in of_server.items()
            if tool_id in server.tools
        }
        # A tool that the lock opens now and did not open then has no definition yet.
        # Under the recorded lock, it is one that the server did not have.
        unknown = {
            tool_id: None for tool_id in server.tools if tool_id not in of_server
        }
    scopes = {tool_id: each.scopes for tool_id, each in of_server.items()}
    return structs.replace(
        server,
        tools={**of_server, **unknown},
        scopes={**server.scopes, **scopes},
        is_mapped=True,
    )


def _servers_of(agent: ResolvedAgent) -> tuple[str, ...]:
    if not isinstance(agent.lock, HeldLock):
        return ()
    return tuple(server.server for server in agent.lock.servers)


def _new_tools_difference(course: Course, agent: ResolvedAgent) -> Difference | None:
    """The tools of servers that were not there then: a question would show them, if their definitions were known."""
    before = course.stretch.plan
    after = course.plan
    known = {tool_id for tool_id, *_ in before.get("tools", ())}
    added = [
        tool.id
        for tool in agent.tools.values()
        if tool.descriptor is None and tool.id not in known
    ]
    added += [f"tools of {server}" for server in agent.unconnected]
    if not before or not added:
        return None
    return Difference(
        round=course.state.round + 1,
        part="tools",
        before=counted(len(before["tools"]), "tool"),
        after=counted(len(after["tools"]), "tool"),
        lines=tuple(f"+ {name}" for name in added),
    )
