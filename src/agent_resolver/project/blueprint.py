"""The blueprints of a project: read, checked against the tools that they call, and described as tools themselves."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from msgspec import UNSET, Struct, structs

from agent_resolver.core.admission import grants_of
from agent_resolver.project.blueprint_file import blueprint_files
from agent_resolver.project.capability import load_capabilities
from agent_resolver.project.definition import kept_definitions
from agent_resolver.project.errors import InvalidBlueprints
from agent_resolver.project.session import Session
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.blueprint_file import BlueprintReading, read_blueprint
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.issue import Issue, IssueCode, only_errors
from agent_resolver.schema.limit import MAX_BLUEPRINT_BYTES
from agent_resolver.schema.tree import find
from agent_resolver.storage.file import read_bounded


class ExaminedBlueprint(Struct, frozen=True, kw_only=True):
    """A file of a blueprint, with all that was found in it."""

    file: str
    blueprint: Blueprint | None
    """None if the file does not hold one."""
    issues: tuple[Issue, ...]
    descriptor: Descriptor | None = None
    """The tool that it is; None if it has a fault."""


class CheckedBlueprint(Struct, frozen=True, kw_only=True):
    """A blueprint without a fault, and the tool that it is."""

    file: str
    blueprint: Blueprint
    descriptor: Descriptor


def load_blueprints(session: Session, own: Sequence[Descriptor], forbid: Sequence[str] = ()) -> list[CheckedBlueprint]:
    """The blueprints in `[tools] blueprints` of the settings; each comes after those that it calls.

    Args:
        session: The project.
        own: The tools of the project's own code.
        forbid: What the agent that they are loaded for forbids.

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
    faults = {each.file: only_errors(each.issues) for each in examined if each.descriptor is None}
    if faults:
        raise InvalidBlueprints(faults)
    return [
        CheckedBlueprint(file=each.file, blueprint=each.blueprint, descriptor=each.descriptor)
        for each in examined
        if each.blueprint is not None and each.descriptor is not None
    ]


def examine_blueprints(session: Session, more: Iterable[str] = ()) -> list[ExaminedBlueprint]:
    """Read and check the blueprints of the settings, and `more` files; each comes after those that it calls.

    Raises:
        UntrustedFolder: The project has code of its own, and no person trusts it.
        UnreadableFile: One of the files cannot be read.
        LockRefused: A step calls a tool of a locked server, and the lock does not hold.
    """
    files = {os.path.realpath(file): file for file in (*more, *blueprint_files(session))}
    own = [capability.descriptor for capability in load_capabilities(session)]
    return _examine(session, list(files.values()), own)


def _examine(session: Session, files: Sequence[str], own: Sequence[Descriptor]) -> list[ExaminedBlueprint]:
    readings = {file: _read(session, file) for file in files}
    known = {descriptor.id: descriptor for descriptor in own}
    repeated = _repeated_ids(readings, known)
    by_id = {reading.blueprint.id: file for file, reading in readings.items() if reading.blueprint is not None}
    calls = {file: _called_blueprints(reading, by_id) for file, reading in readings.items()}
    cyclic = _cyclic_files(calls)
    tools = {**_locked_tools(session, readings.values(), {*known, *by_id}), **known}
    examined: dict[str, ExaminedBlueprint] = {}
    for file in _in_order(calls, cyclic):
        reading = readings[file]
        issues = [*reading.issues, *repeated.get(file, ()), *cyclic.get(file, ())]
        if reading.blueprint is None or only_errors(issues):
            examined[file] = ExaminedBlueprint(file=file, blueprint=reading.blueprint, issues=tuple(issues))
            continue
        examined[file] = each = _check(file, reading, reading.blueprint, issues, tools)
        if each.descriptor is not None:
            tools[each.descriptor.id] = each.descriptor
    return [examined[file] for file in examined]


def _read(session: Session, file: str) -> BlueprintReading:
    raw = read_bounded(file, MAX_BLUEPRINT_BYTES, session.users)
    return read_blueprint(raw, is_json=file.endswith(".json"))
