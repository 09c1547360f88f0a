"""The blueprints of a project: read, checked against the tools that they call, and described as tools themselves."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, Final

from msgspec import Struct

from agent_resolver._extra import install_hint
from agent_resolver.core.admission import AdmissionCode, Grant, Refused, grants_of
from agent_resolver.core.blueprint.call_check import BlueprintLimits
from agent_resolver.core.blueprint.check import check_blueprint, located_findings
from agent_resolver.core.blueprint.template import Place
from agent_resolver.core.blueprint.tool_rule import calls_of
from agent_resolver.core.tool_definition import definition_digest
from agent_resolver.engine.tool import describe_blueprint
from agent_resolver.project.blueprint_file import blueprint_files
from agent_resolver.project.capability import load_capabilities
from agent_resolver.project.definition import kept_definitions
from agent_resolver.project.errors import InvalidBlueprints
from agent_resolver.project.session import Session
from agent_resolver.registry.errors import ToolFailure
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.blueprint_file import BlueprintReading, read_blueprint
from agent_resolver.schema.classification import CLASSIFICATION_OF
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.issue import Issue, IssueCode, only_errors
from agent_resolver.schema.limit import MAX_BLUEPRINT_BYTES
from agent_resolver.schema.outcome import FailureCode
from agent_resolver.storage.file import read_bounded

_BEYOND_AGENT: Final = frozenset(
    {IssueCode.BEYOND_LIMITS, IssueCode.FORBIDDEN_CAPABILITY}
)
"""What an agent may not use, and another one may."""
_BEYOND_OTHER_AGENT: Final = _BEYOND_AGENT | {IssueCode.UNKNOWN_CAPABILITY}
"""The same for an agent that has a lock of its own: a tool may come from a server that only other locks have."""


class ExaminedBlueprint(Struct, frozen=True, kw_only=True):
    """A file of a blueprint, with all that was found in it."""

    file: str
    blueprint: Blueprint | None
    """None if the file does not hold one."""
    issues: tuple[Issue, ...]
    descriptor: Descriptor | None = None
    """The tool that it is; None if it has a fault that lies in itself."""


class CheckedBlueprint(Struct, frozen=True, kw_only=True):
    """A blueprint without a fault of its own, and the tool that it is."""

    file: str
    blueprint: Blueprint
    descriptor: Descriptor
    refused: Refused | None = None
    """Why the agent at hand may not use it; None if it may."""


def load_blueprints(
    session: Session, own: Sequence[Descriptor]
) -> list[CheckedBlueprint]:
    """The blueprints in `[tools] blueprints` of the settings; each comes after those that it calls.

    One that calls what the agent of the session may not use is not at fault: it is refused to this agent.

    Args:
        session: The project.
        own: The tools of the project's own code.

    Raises:
        UntrustedFolder: No person trusts the project, and its blueprints decide what is called.
        ForeignFile: A file belongs to another user.
        InvalidBlueprints: With every fault of each of them.
        LockRefused: A step calls a tool of a locked server, and the lock does not hold.
    """
    files = blueprint_files(session)
    if not files:
        return []
    session.require_trust("its settings load blueprints", modules=files)
    examined = _examine(session, files, own)
    faults = {
        each.file: only_errors(each.issues)
        for each in examined
        if each.descriptor is None
    }
    if faults:
        raise InvalidBlueprints(faults)
    checked: dict[str, CheckedBlueprint] = {}
    for each in examined:
        blueprint = each.blueprint
        descriptor = each.descriptor
        if blueprint is None or descriptor is None:
            continue
        # Blueprints that this one calls come before it, so their refusals are known
        # here.
        refused = _refusal_of(each, blueprint, checked)
        checked[blueprint.id] = CheckedBlueprint(
            file=each.file, blueprint=blueprint, descriptor=descriptor, refused=refused
        )
    return list(checked.values())


def _refusal_of(
    examined: ExaminedBlueprint,
    blueprint: Blueprint,
    others: Mapping[str, CheckedBlueprint],
) -> Refused | None:
    """The reason why an agent may not use a blueprint: what it calls, or what the blueprints that it calls call."""
    if beyond := only_errors(examined.issues):
        place = f"{examined.file}:{beyond[0].line}:{beyond[0].column}"
        return Refused(
            AdmissionCode.FORBIDDEN_ACTION,
            f"{beyond[0].message} ({place})",
            beyond[0].hint,
        )
    called = (
        others[call.tool].refused for call in calls_of(blueprint) if call.tool in others
    )
    return next((refused for refused in called if refused is not None), None)


def examine_blueprints(
    session: Session, more: Iterable[str] = ()
) -> list[ExaminedBlueprint]:
    """Read and check the blueprints of the settings, and `more` files; each comes after those that it calls.

    Raises:
        UntrustedFolder: The project has code of its own, and no person trusts it.
        UnreadableFile: One of the files cannot be read.
        LockRefused: A step calls a tool of a locked server, and the lock does not hold.
    """
    # A file that is named twice, here and in the settings, is examined once.
    files = {
        os.path.realpath(file): file for file in (*more, *blueprint_files(session))
    }
    own = [capability.descriptor for capability in load_capabilities(session)]
    return _examine(session, list(files.values()), own)


def _examine(
    session: Session, files: Sequence[str], own: Sequence[Descriptor]
) -> list[ExaminedBlueprint]:
    readings = {file: _read(session, file) for file in files}
    blueprints = {
        file: reading.blueprint
        for file, reading in readings.items()
        if reading.blueprint is not None
    }
    by_id = {blueprint.id: file for file, blueprint in blueprints.items()}
    calls = {
        file: _called_blueprints(reading, by_id) for file, reading in readings.items()
    }
    # The order leaves out one call of each circle, since it would have none otherwise.
    # The circles become faults.
    order, cycles = _without_cycles(calls)
    tools = {descriptor.id: descriptor for descriptor in own}
    faults = _repeated_ids(readings, tools)
    for file, issues in _cycle_faults(readings, calls, cycles).items():
        faults.setdefault(file, []).extend(issues)
    called = _called_tools(blueprints.values())
    # What neither the project's code nor another blueprint is can only be a tool of a
    # locked server.
    locked = _locked_tools(session, called - set(tools) - set(by_id))
    tools |= locked.opened
    limits = _limits(session)
    examined: list[ExaminedBlueprint] = []
    # A blueprint comes after those that it calls: their schemas and scopes must be
    # known by its check.
    for file in TopologicalSorter(order).static_order():
        blueprint = readings[file].blueprint
        issues = list(readings[file].issues)
        if blueprint is not None:
            found = check_blueprint(blueprint, tools, limits, locked.refused)
            issues += located_findings(readings[file], [*found, *faults.get(file, ())])
            # One fault is reported once: a blueprint that calls a faulty one need not
            # have one itself.
            tools.setdefault(
                blueprint.id,
                describe_blueprint(
                    blueprint, tools.get, f"blueprint {os.path.basename(file)}"
                ),
            )
        examined.append(_examined(session, file, blueprint, issues, tools))
    return examined


def _called_tools(blueprints: Iterable[Blueprint]) -> set[str]:
    return {call.tool for blueprint in blueprints for call in calls_of(blueprint)}


def _examined(
    session: Session,
    file: str,
    blueprint: Blueprint | None,
    issues: Sequence[Issue],
    tools: Mapping[str, Descriptor],
) -> ExaminedBlueprint:
    """A blueprint with its issues in the order of the file; as a tool, if it is one."""
    # What another agent may use is a tool all the same; this one is refused it.
    beyond = _BEYOND_AGENT if session.is_of_project else _BEYOND_OTHER_AGENT
    is_good = all(issue.code in beyond for issue in only_errors(issues))
    descriptor = None
    if blueprint is not None and is_good:
        descriptor = tools[blueprint.id]
    in_order = sorted(issues, key=lambda issue: (issue.line, issue.column))
    return ExaminedBlueprint(
        file=file, blueprint=blueprint, issues=tuple(in_order), descriptor=descriptor
    )


def _limits(session: Session) -> BlueprintLimits:
    """The limits that the agent file of the project sets; none where there is no agent file."""
    if not session.has_agent:
        return BlueprintLimits()
    limits = session.limits
    # A file that does not limit the sensitivity of data allows the highest class.
    level = (
        CLASSIFICATION_OF[limits.sensitivity] if limits.sensitivity else "RESTRICTED"
    )
    return BlueprintLimits(classification=level, forbid=limits.forbid)


class DescribedBlueprint:
    """A blueprint as a tool that can be looked at, and not called: for plans, and where there is no engine."""

    def __init__(self, descriptor: Descriptor) -> None:
        self.descriptor = descriptor

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401, ARG002 - the port
        """Refuse: the engine that would run it is not here."""
        message = f"Nothing here runs {self.descriptor.id}: the extra `engine` is not installed"
        raise ToolFailure(FailureCode.NOT_CONFIGURED, message, install_hint("engine"))


def own_descriptors(session: Session) -> list[Descriptor]:
    """The tools of the project itself: its capabilities, then its blueprints.

    Raises:
        ResolverError: As for `load_capabilities` and `load_blueprints`.
    """
    own = [capability.descriptor for capability in load_capabilities(session)]
    return [*own, *(each.descriptor for each in load_blueprints(session, own))]


def _read(session: Session, file: str) -> BlueprintReading:
    raw = read_bounded(file, MAX_BLUEPRINT_BYTES, session.users)
    return read_blueprint(raw, is_json=file.endswith(".json"))


# Between blueprints -------------------------------------------------------------------


def _repeated_ids(
    readings: Mapping[str, BlueprintReading], known: Mapping[str, Descriptor]
) -> dict[str, list[Issue]]:
    """Maps each file whose blueprint has the id of another tool to that fault."""
    first: dict[str, str] = {
        tool: descriptor.source for tool, descriptor in known.items()
    }
    found: dict[str, list[Issue]] = {}
    for file, reading in readings.items():
        if reading.blueprint is None:
            continue
        # The first file with an id keeps it, and each later one has the fault.
        other = first.setdefault(reading.blueprint.id, file)
        if other != file:
            message = f"Another tool has this id: that of {other}"
            found[file] = [
                Issue(
                    at=("blueprint_metadata", "id"),
                    code=IssueCode.DUPLICATE_KEY,
                    message=message,
                )
            ]
    return found


def _called_blueprints(
    reading: BlueprintReading, by_id: Mapping[str, str]
) -> dict[str, Place]:
    """Maps each file whose blueprint is called to the place of the first call."""
    found: dict[str, Place] = {}
    blueprint = reading.blueprint
    if blueprint is None:
        return found
    for call in calls_of(blueprint):
        # One that calls itself is a fault that the check of the blueprint alone finds.
        if call.tool in by_id and call.tool != blueprint.id:
            found.setdefault(by_id[call.tool], call.at)
    return found


Calls = Mapping[str, Mapping[str, Place]]
"""Maps each file to the files whose blueprints it calls, and where."""


def _without_cycles(calls: Calls) -> tuple[dict[str, set[str]], list[list[str]]]:
    """The calls between files but for one of each cycle, and the cycles."""
    left = {file: set(called) for file, called in calls.items()}
    cycles: list[list[str]] = []
    while True:
        try:
            # Sorted, since sets have no fixed order and the same circle is to be found
            # each time.
            TopologicalSorter(
                {file: sorted(called) for file, called in left.items()}
            ).prepare()
        except CycleError as error:
            # Each of them calls the one before it in the list, and the first one is
            # also the last.
            cycle: list[str] = error.args[1]
            cycles.append(cycle)
            left[cycle[1]].discard(cycle[0])
        else:
            return left, cycles


def _cycle_faults(
    readings: Mapping[str, BlueprintReading],
    calls: Calls,
    cycles: Sequence[Sequence[str]],
) -> dict[str, list[Issue]]:
    """Maps each file of a cycle to the fault, at the call of the next blueprint in the cycle."""
    found: dict[str, list[Issue]] = {}
    for cycle in cycles:
        blueprints = [readings[file].blueprint for file in reversed(cycle)]
        path = " → ".join(
            blueprint.id for blueprint in blueprints if blueprint is not None
        )
        message = f"Blueprints call each other in a circle: {path}"
        for called, file in pairwise(cycle):
            fault = Issue(
                at=calls[file][called], code=IssueCode.STEP_CYCLE, message=message
            )
            found.setdefault(file, []).append(fault)
    return found


# Tools of locked servers --------------------------------------------------------------


class _LockedTools(Struct, frozen=True):
    """The tools of locked servers that steps call: those that the lock opens, and those that it refuses."""

    opened: dict[str, Descriptor]
    refused: dict[str, Refused]


def _locked_tools(session: Session, called: Collection[str]) -> _LockedTools:
    """The tools of locked servers among those that are called.

    No server is asked: what a tool takes and gives is known where its definition is pinned. A step that calls another
    one is checked when it is taken.
    """
    found = _LockedTools({}, {})
    if not called or not (session.has_agent and session.has_requirements):
        return found
    entries = session.lockfile.servers
    grants = grants_of(entries, session.limits.forbid, session.config.tools.admit)
    has_pins = any(entry.tools for entry in entries)
    # The definitions are read from the disk only where the lock pins some.
    kept = kept_definitions(session.index_path) if has_pins else {}
    for name, grant in sorted(grants.items()):
        prefix = f"{grant.server}."
        for tool_id in sorted(each for each in called if each.startswith(prefix)):
            tool = tool_id.removeprefix(prefix)
            refused = grant.refuse_as_pinned(tool)
            if refused:
                found.refused[tool_id] = refused
            else:
                definition = _pinned_definition(grant, tool, kept.get(name, {}))
                found.opened[tool_id] = _locked_tool(
                    tool_id, f"server {name}", definition
                )
    return found


def _pinned_definition(
    grant: Grant, tool: str, kept: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any]:
    """The kept definition of a tool; an empty one, unless it is the pinned one."""
    definition = kept.get(tool, {})
    # A text that was edited is not what is pinned, and says nothing.
    is_pinned = definition_digest(definition) == (grant.tools or {}).get(tool)
    return definition if is_pinned else {}


def _locked_tool(
    tool_id: str, source: str, definition: Mapping[str, Any]
) -> Descriptor:
    # A person has seen what a pinned definition says of its effects, such as that the
    # tool only reads.
    annotations = definition.get("annotations") or {}
    return Descriptor(
        id=tool_id,
        description=str(definition.get("description") or tool_id),
        input_schema=definition.get("inputSchema") or {"type": "object"},
        output_schema=definition.get("outputSchema"),
        source=source,
        hints={
            name: value
            for name, value in annotations.items()
            if isinstance(value, bool)
        },
    )
