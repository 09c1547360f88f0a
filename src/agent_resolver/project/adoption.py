"""Takes the servers of client configurations over: into the index, an agent file and a lock, behind one governed entry.

Everything is planned first. What is missing stops the plan, and then no file changes.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import UNSET, Struct

from agent_resolver.core.resolution import Resolution, resolve
from agent_resolver.core.rule import judge
from agent_resolver.exchange.client.check import command_of, served_agent
from agent_resolver.exchange.client.entry import NAME, ClientEntry, filled_in
from agent_resolver.exchange.client.settings import read_entries
from agent_resolver.exchange.imported import NoteKind
from agent_resolver.exchange.merge import Batch, Merged, merge_entries
from agent_resolver.exchange.proposed_requirement import (
    ProposedRequirement,
    Wish,
    missing_lines,
    propose_requirements,
    with_own_categories,
)
from agent_resolver.project.adopted_config import ConfigFile, Missing
from agent_resolver.project.adoption_change import (
    agent_change,
    change_of,
    config_changes,
    index_changes,
    read_or_none,
)
from agent_resolver.project.config import variables_of
from agent_resolver.project.definition import definitions_path
from agent_resolver.project.file_change import FileChange
from agent_resolver.project.index import (
    overlaid_servers,
    overlay_vouching,
    refuse_compiled,
)
from agent_resolver.project.probe import Pinned, Probed, pin_tools
from agent_resolver.project.session import Session
from agent_resolver.schema.agent_file import read_agent_file
from agent_resolver.schema.index import (
    UNVERSIONED,
    Index,
    IndexEntry,
    Server,
    is_object,
)
from agent_resolver.schema.index_reader import parse_index, read_index
from agent_resolver.schema.issue import Issue, IssueCode, only_errors
from agent_resolver.schema.limit import MAX_INDEX_BYTES
from agent_resolver.schema.lockfile import Lockfile, to_json
from agent_resolver.storage.ownership import require_own, require_safe_target


class Merging(Struct, frozen=True, kw_only=True):
    """The index that holds the servers of the configurations, not written yet."""

    content: bytes
    before: bytes | None = None
    """The index that is there; None if there is none."""
    wishes: tuple[Wish, ...] = ()
    """The servers to adopt, by id."""
    ids: Mapping[str, str] = {}
    """The id of each name that a configuration has."""
    added: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()


class AdoptionOrder(Struct, frozen=True, kw_only=True):
    """The order of an operator: how to serve the agent, and which scopes it may ask for."""

    command: tuple[str, ...]
    """The command line that serves the agent under its lock."""
    agent_name: str
    allowed: tuple[str, ...] = ("*",)
    """Patterns of the scopes that the agent file may ask for."""
    resolved_at: str


class Adoption(Struct, frozen=True, kw_only=True):
    """The outcome of a plan: the files to write, or what is missing."""

    missing: tuple[Missing, ...] = ()
    requirements: tuple[ProposedRequirement, ...] = ()
    changes: tuple[FileChange, ...] = ()
    variables: tuple[str, ...] = ()
    """The environment variables that the servers read."""
    resolution: Resolution | None = None


def merge_configs(configs: Sequence[ConfigFile], index_path: str) -> Merging:
    """The index with the servers of the configurations.

    Raises:
        InvalidIndex: With every error in the index that is there.
        InvalidOverlay: With every error in the overlay beside it.
    """
    raw = read_or_none(index_path, MAX_INDEX_BYTES)
    refuse_compiled(index_path, raw)
    existing = parse_index(raw) if raw else ()
    batches = [Batch(config.path, config.entries) for config in configs]
    merged = merge_entries(existing, batches, overlay_vouching(index_path))
    wishes = [
        Wish(merged.ids[name], config.path)
        for config in configs
        for name in config.names
    ]
    entries = with_own_categories(merged.entries, [wish.server_id for wish in wishes])
    return Merging(
        content=_index_content(raw, existing, entries),
        before=raw,
        wishes=tuple(wishes),
        ids=merged.ids,
        added=merged.added,
        missing=(*_conflicts(merged), *_unknown_keys(raw, index_path)),
    )


def _index_content(
    raw: bytes | None, existing: Index, entries: Sequence[IndexEntry]
) -> bytes:
    # An index that has all of it keeps its bytes, so that adopting again changes
    # nothing.
    if raw and sorted(
        existing, key=lambda entry: (entry.id, entry.version or UNVERSIONED)
    ) == list(entries):
        return raw
    content = to_json({"servers": entries} if raw and is_object(raw) else entries)
    parse_index(
        content
    )  # What is written can be read: a fault in an importer stops here.
    return content


def _conflicts(merged: Merged) -> Iterator[Missing]:
    """Two servers of one name: only one of them could be adopted."""
    for conflict in merged.conflicts:
        # Conflicts about other facts, such as descriptions, keep no server from being
        # adopted.
        if conflict.fact == "reach":
            yield Missing(
                conflict.server,
                str(conflict),
                "give one of the two another name, and adopt again",
            )


def _unknown_keys(raw: bytes | None, path: str) -> Iterator[Missing]:
    issues = read_index(raw).issues if raw else ()
    for issue in issues:
        if issue.code is IssueCode.UNKNOWN_KEY:
            message = f"`{issue.path}` ({issue.line}:{issue.column}) is not known and would be lost"
            yield Missing(path, message, "remove it from the index")
            # One unknown key is enough to stop the adoption, which would lose all of
            # them.
            return


def missing_tokens(
    session: Session, configs: Sequence[ConfigFile], merging: Merging
) -> Iterator[Missing]:
    """The servers that need a bearer token, and whose token the settings do not name."""
    for config in configs:
        tokens = [
            note
            for note in config.reading.imported.notes
            if note.kind is NoteKind.TOKEN
        ]
        for note in tokens:
            server_id = merging.ids.get(note.server, "")
            access = session.config.servers.get(server_id)
            if note.server in config.names and not (access and access.token_env):
                lines = f'[servers."{server_id}"] and below it token_env = "{note.names[0]}"'
                yield Missing(
                    server_id,
                    "it is called with a bearer token",
                    f"write into agent.toml: {lines}",
                )


def require_adopting(session: Session, configs: Sequence[ConfigFile]) -> None:
    """Stop before servers of a client configuration are started or called, unless a person trusts the folder.

    Raises:
        ForeignFile: A file or folder belongs to another user.
        UntrustedFolder: No person trusts one of the folders.
    """
    decisive = (*session.files_of_index, session.agent_path, session.lock_path)
    for path in (*(config.path for config in configs), *decisive):
        require_own(path, session.users)
    # A configuration outside of the project, such as that of the user, lies in a folder
    # that needs trust as well.
    outside = [
        config.path for config in configs if not _is_below(config.path, session.root)
    ]
    known = [path for path in session.files_of_index if os.path.lexists(path)]
    session.require_trust(
        "its client configuration starts commands and names addresses",
        files=[*outside, *known],
    )


def require_targets(session: Session, folder: str) -> None:
    """Stop before anything is started if a file that is written leads elsewhere, or belongs to another user.

    Raises:
        ForeignFile: A file or folder belongs to another user.
        LinkedAway: A link leads out of the folder.
    """
    index = session.index_path
    for path in (index, definitions_path(index), session.agent_path, session.lock_path):
        require_safe_target(path, folder, session.users, is_named=True)


def _is_below(path: str, folder: str) -> bool:
    # A link in the folder may lead out of it.
    real = os.path.realpath(path)
    return os.path.commonpath([real, folder]) == folder


def positions_to_probe(session: Session, merging: Merging) -> list[int]:
    """The places of the servers to adopt in the index."""
    ids = {wish.server_id for wish in merging.wishes}
    return [
        position
        for position, server in enumerate(session.listed_servers)
        if server.id in ids
    ]


def plan_adoption(
    session: Session,
    configs: Sequence[ConfigFile],
    merging: Merging,
    probed: Sequence[Probed] | None,
    order: AdoptionOrder,
) -> Adoption:
    """Plan what to write: index, agent file, lock and configurations.

    Args:
        session: The project, with the index that is not written yet.
        configs: The configurations to adopt.
        merging: Where that index comes from.
        probed: What the servers said; None if they were not asked.
        order: What the operator asks for.
    """
    pinned = _pin(session, probed)
    servers = overlaid_servers(
        parse_index(pinned.index), session.overlay_content, session.index_path
    )
    requirements = tuple(propose_requirements(servers, merging.wishes, order.allowed))
    unknown = _unknown(probed or (), requirements)
    if unknown:
        return Adoption(missing=tuple(unknown), requirements=requirements)
    agent = agent_change(session.agent_path, order.agent_name, requirements)
    # The agent file is read as it will be written, so that a fault in it stops the
    # plan.
    reading = read_agent_file(agent.after or b"")
    if reading.agent is None:
        faults = _faults_of(
            session.agent_path, only_errors(reading.issues), requirements
        )
        return Adoption(missing=tuple(faults), requirements=requirements)
    resolution = resolve(reading.agent, servers, resolved_at=order.resolved_at)
    unlocked = _unlocked(session, resolution, servers, requirements)
    if unlocked or resolution.lockfile is None:
        return Adoption(
            missing=tuple(unlocked), requirements=requirements, resolution=resolution
        )
    entry = _governed_entry(session, resolution.lockfile, order)
    refused = list(_not_exported(configs, entry))
    lock = change_of(session.lock_path, to_json(resolution.lockfile))
    changes = [*index_changes(session.index_path, pinned), agent, lock]
    changes += [
        change for config in configs for change in config_changes(config, entry)
    ]
    return Adoption(
        missing=tuple(refused),
        requirements=requirements,
        changes=() if refused else tuple(changes),
        variables=entry.variables,
        resolution=resolution,
    )


def _pin(session: Session, probed: Sequence[Probed] | None) -> Pinned:
    """The index with the tools of the servers that were asked; as it is, if none was."""
    if probed is None:
        return Pinned(session.index_content, {}, {})
    return pin_tools(session, probed, replaces=False)


def _unknown(
    probed: Sequence[Probed], requirements: Sequence[ProposedRequirement]
) -> list[Missing]:
    """The servers that failed; if none did, those without known permissions."""
    # A server that did not answer has no known permissions either: its failure alone is
    # reported.
    return list(_failed(probed)) or list(_without_permissions(requirements))


def _failed(probed: Sequence[Probed]) -> Iterator[Missing]:
    for each in probed:
        if each.listing is None:
            yield Missing(each.server.id, each.problem, each.hint)
        elif each.changes:
            named = ", ".join(
                f"{change.tool} ({change.kind})" for change in each.changes[:3]
            )
            hint = (
                "look at them with `agent index probe`, and pin them with `--replace`"
            )
            yield Missing(
                each.server.id, f"its tools are not what the index pins: {named}", hint
            )


def _without_permissions(
    requirements: Sequence[ProposedRequirement],
) -> Iterator[Missing]:
    for requirement in requirements:
        if not requirement.permissions:
            hint = (
                "let it be asked for its tools, or state its scopes in mcp.overlay.yaml"
            )
            yield Missing(requirement.server, requirement.why, hint)


def _unlocked(
    session: Session,
    resolution: Resolution,
    servers: Sequence[Server],
    requirements: Sequence[ProposedRequirement],
) -> list[Missing]:
    """The reasons that keep servers from being locked."""
    unresolved = list(_unresolved(resolution, servers))
    if unresolved:
        return unresolved
    # If every requirement was resolved and a server still is not locked, then the agent
    # file does not ask for it.
    locked = {choice.server.id for choice in resolution.choices if choice.server}
    lacking = [
        requirement for requirement in requirements if requirement.server not in locked
    ]
    return list(_not_required(session.agent_path, lacking))


def _unresolved(resolution: Resolution, servers: Sequence[Server]) -> Iterator[Missing]:
    """The reasons that keep the servers of each category from being chosen."""
    for requirement in resolution.failed:
        first_broken = judge(requirement, resolution.limits)
        offering = [
            server for server in servers if requirement.category in server.categories
        ]
        if not offering:
            yield Missing(
                requirement.category,
                "no server has this category",
                "see `requires` in the agent file",
            )
        for server in offering:
            reason = first_broken(server)
            if reason is not None:
                yield Missing(server.id, reason.message)


def _faults_of(
    path: str, issues: Iterable[Issue], requirements: Sequence[ProposedRequirement]
) -> Iterator[Missing]:
    """The faults of an agent file that is there already; all that is proposed if it only asks for nothing."""
    others = [issue for issue in issues if issue.at[:1] != ("requires",)]
    for issue in others:
        yield Missing(path, f"{issue} ({path}:{issue.line}:{issue.column})", issue.hint)
    if not others:
        yield from _not_required(path, requirements)


def _not_required(
    path: str, requirements: Sequence[ProposedRequirement]
) -> Iterator[Missing]:
    """The servers that an agent file, which is there already, does not ask for."""
    for requirement in requirements:
        hint = f"add below `requires: mcp:`  {missing_lines(requirement)}"
        yield Missing(requirement.server, f"`{path}` does not require it", hint)


def _governed_entry(
    session: Session, lockfile: Lockfile, order: AdoptionOrder
) -> ClientEntry:
    """The one entry that takes the place of the adopted ones."""
    launched = {
        name
        for server in lockfile.servers
        if server.launch is not UNSET
        for name in server.launch.env
    }
    # Where callers need a token, the client has to hand it on to the governed entry.
    token = {"AGENT_TOKEN"} if session.has_issuer else set()
    variables = {*variables_of(session.config, session.environment), *launched, *token}
    return ClientEntry(
        name=NAME, command=order.command, variables=tuple(sorted(variables))
    )


def _not_exported(
    configs: Sequence[ConfigFile], entry: ClientEntry
) -> Iterator[Missing]:
    """The steps that are left before each configuration can have the governed entry."""
    for config in configs:
        for word in filled_in(config.client, entry):
            message = f"{config.client.title} fills in part of `{word}`, so it would start something else"
            yield Missing(NAME, message, "move the project to another folder")
        for name, values in read_entries(config.client, config.text, config.path):
            # An entry under our name may serve another agent, and must not be replaced
            # by this one.
            is_other = served_agent(command_of(values)) != served_agent(entry.command)
            if name == NAME and name not in config.names and is_other:
                message = f"`{config.path}` has an entry of this name that serves something else"
                yield Missing(
                    NAME, message, "give that entry another name, or remove it"
                )
