"""Takes the servers of client configurations over: into the index, an agent file and a lock, behind one governed entry.

Everything is planned first. What is missing stops the plan, and then no file changes.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import UNSET, Struct

from agent_resolver.core.resolution import Resolution, resolve
from agent_resolver.core.rule import judge
from agent_resolver.exchange.client.check import command_of, served_agent
from agent_resolver.exchange.client.entry import NAME, ClientEntry, filled_in
from agent_resolver.exchange.client.removal import shown_entries, without_entries
from agent_resolver.exchange.client.settings import read_entries, write_entries
from agent_resolver.exchange.imported import NoteKind
from agent_resolver.exchange.jsonc_edit import json_text
from agent_resolver.exchange.merge import Batch, Merged, merge_entries
from agent_resolver.exchange.proposed_requirement import (
    ProposedRequirement,
    Wish,
    agent_file_text,
    missing_lines,
    propose_requirements,
    with_own_categories,
)
from agent_resolver.project.adopted_config import ConfigFile, Missing
from agent_resolver.project.config import variables_of
from agent_resolver.project.definition import pinned_files
from agent_resolver.project.file_change import FileChange
from agent_resolver.project.index import overlaid_servers, overlay_vouching
from agent_resolver.project.probe import Pinned, Probed, pin_tools
from agent_resolver.project.session import Session
from agent_resolver.schema.agent_file import read_agent_file
from agent_resolver.schema.index import UNVERSIONED, Index, IndexEntry, Server
from agent_resolver.schema.index_reader import is_object, parse_index, read_index
from agent_resolver.schema.issue import IssueCode
from agent_resolver.schema.limit import (
    MAX_AGENT_FILE_BYTES,
    MAX_CLIENT_SETTINGS_BYTES,
    MAX_INDEX_BYTES,
    MAX_LOCKFILE_BYTES,
)
from agent_resolver.schema.lockfile import Lockfile, to_json
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.file import read_bounded
from agent_resolver.storage.ownership import require_own

BACKUP_SUFFIX: Final = ".before-agent-resolver"
_MADE_BY: Final = "agent adopt"
_OWNER_ONLY: Final = 0o600
_MOST_BACKUPS: Final = 100


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
    """What the operator asks for."""

    command: tuple[str, ...]
    """The command line that serves the agent under its lock."""
    agent_name: str
    allowed: tuple[str, ...] = ("*",)
    """Patterns of the scopes that the agent file may ask for."""
    resolved_at: str


class Adoption(Struct, frozen=True, kw_only=True):
    """What would be written, or what is missing."""

    missing: tuple[Missing, ...] = ()
    requirements: tuple[ProposedRequirement, ...] = ()
    changes: tuple[FileChange, ...] = ()
    variables: tuple[str, ...] = ()
    """The environment variables that the servers read."""
    resolution: Resolution | None = None


def read_or_none(path: str, limit: int) -> bytes | None:
    """The bytes of a file; None if there is none."""
    try:
        return read_bounded(path, limit)
    except UnreadableFile as error:
        if error.missing:
            return None
        raise


def merge_configs(configs: Sequence[ConfigFile], index_path: str) -> Merging:
    """The index with the servers of the configurations.

    Raises:
        InvalidIndex: With every error in the index that is there.
        InvalidOverlay: With every error in the overlay beside it.
    """
    raw = read_or_none(index_path, MAX_INDEX_BYTES)
    existing = parse_index(raw) if raw else ()
    batches = [Batch(config.path, config.entries) for config in configs]
    merged = merge_entries(existing, batches, overlay_vouching(index_path))
    wishes = [Wish(merged.ids[name], config.path) for config in configs for name in config.names]
    entries = with_own_categories(merged.entries, [wish.server_id for wish in wishes])
    return Merging(
        content=_index_content(raw, existing, entries),
        before=raw,
        wishes=tuple(wishes),
        ids=merged.ids,
        added=merged.added,
        missing=(*_conflicts(merged), *_unknown_keys(raw, index_path)),
    )


def _index_content(raw: bytes | None, existing: Index, entries: Sequence[IndexEntry]) -> bytes:
    if raw and sorted(existing, key=lambda entry: (entry.id, entry.version or UNVERSIONED)) == list(entries):
        return raw
    content = to_json({"servers": entries} if raw and is_object(raw) else entries)
    parse_index(content)  # What is written can be read: a fault in an importer stops here.
    return content


def _conflicts(merged: Merged) -> Iterator[Missing]:
    """Two servers of one name: only one of them could be adopted."""
    for conflict in merged.conflicts:
        if conflict.fact == "reach":
            yield Missing(conflict.server, str(conflict), "give one of the two another name, and adopt again")


def _unknown_keys(raw: bytes | None, path: str) -> Iterator[Missing]:
    issues = read_index(raw).issues if raw else ()
    for issue in issues:
        if issue.code is IssueCode.UNKNOWN_KEY:
            message = f"`{issue.path}` ({issue.line}:{issue.column}) is not known and would be lost"
            yield Missing(path, message, "remove it from the index")
            return


def missing_tokens(session: Session, configs: Sequence[ConfigFile], merging: Merging) -> Iterator[Missing]:
    """The servers that need a bearer token, and whose token the settings do not name."""
    for config in configs:
        tokens = [note for note in config.reading.imported.notes if note.kind is NoteKind.TOKEN]
        for note in tokens:
            server_id = merging.ids.get(note.server, "")
            access = session.config.servers.get(server_id)
            if note.server in config.names and not (access and access.token_env):
                lines = f'[servers."{server_id}"] and below it token_env = "{note.names[0]}"'
                yield Missing(server_id, "it is called with a bearer token", f"write into agent.toml: {lines}")


def require_adopting(session: Session, configs: Sequence[ConfigFile]) -> None:
    """Stop before servers of a client configuration are started or called, unless a person trusts the folder.

    Raises:
        ForeignFile: A file or folder belongs to another user.
        UntrustedFolder: No person trusts one of the folders.
    """
    decisive = (*session.files_of_index, session.agent_path, session.lock_path)
    for path in (*(config.path for config in configs), *decisive):
        require_own(path, session.users)
    outside = [config.path for config in configs if not _is_below(config.path, session.root)]
    known = [path for path in session.files_of_index if os.path.lexists(path)]
    session.require_trust("its client configuration starts commands and names addresses", files=[*outside, *known])


def _is_below(path: str, folder: str) -> bool:
    real = os.path.realpath(path)
    return os.path.commonpath([real, folder]) == folder


def positions_to_probe(session: Session, merging: Merging) -> list[int]:
    """The places of the servers to adopt in the index."""
    ids = {wish.server_id for wish in merging.wishes}
    return [position for position, server in enumerate(session.servers) if server.id in ids]


def plan_adoption(
    session: Session,
    configs: Sequence[ConfigFile],
    merging: Merging,
    probed: Sequence[Probed] | None,
    order: AdoptionOrder,
) -> Adoption:
    """What to write: index, agent file, lock and configurations.

    Args:
        session: The project, with the index that is not written yet.
        configs: The configurations to adopt.
        merging: Where that index comes from.
        probed: What the servers said; None if they were not asked.
        order: What the operator asks for.
    """
    pinned = Pinned(session.index_content, {}, {}) if probed is None else pin_tools(session, probed, replaces=False)
    servers = overlaid_servers(parse_index(pinned.index), session.overlay_content, session.index_path)
    requirements = tuple(propose_requirements(servers, merging.wishes, order.allowed))
    missing = list(_failed(probed or ())) or list(_without_permissions(requirements))
    if missing:
        return Adoption(missing=tuple(missing), requirements=requirements)
    agent = _agent_change(session.agent_path, order.agent_name, requirements)
    reading = read_agent_file(agent.after or b"")
    if reading.agent is None:
        return Adoption(
            missing=tuple(_not_required(session.agent_path, requirements, frozenset())), requirements=requirements
        )
    resolution = resolve(reading.agent, servers, resolved_at=order.resolved_at)
    locked = frozenset(choice.server.id for choice in resolution.choices if choice.server)
    missing = list(_unresolved(resolution, servers)) or list(_not_required(session.agent_path, requirements, locked))
    lockfile = resolution.lockfile
    if missing or lockfile is None:
        return Adoption(missing=tuple(missing), requirements=requirements, resolution=resolution)
    variables = _variables(session, lockfile)
    entry = ClientEntry(name=NAME, command=order.command, variables=variables)
    missing = [found for config in configs for found in _not_exported(config, entry)]
    changes = [*_index_changes(session, pinned), agent, _change_of(session.lock_path, to_json(lockfile))]
    for config in configs:
        changes += _config_changes(config, entry)
    return Adoption(
        missing=tuple(missing),
        requirements=requirements,
        changes=() if missing else tuple(changes),
        variables=variables,
        resolution=resolution,
    )


def _failed(probed: Sequence[Probed]) -> Iterator[Missing]:
    for each in probed:
        if each.listing is None:
            yield Missing(each.server.id, each.problem, each.hint)
        elif each.changes:
            named = ", ".join(f"{change.tool} ({change.kind})" for change in each.changes[:3])
            hint = "look at them with `agent index probe`, and pin them with `--replace`"
            yield Missing(each.server.id, f"its tools are not what the index pins: {named}", hint)


def _without_permissions(requirements: Sequence[ProposedRequirement]) -> Iterator[Missing]:
    for requirement in requirements:
        if not requirement.permissions:
            hint = "let it be asked for its tools, or state its scopes in mcp.overlay.yaml"
            yield Missing(requirement.server, requirement.why, hint)


def _agent_change(path: str, name: str, requirements: Sequence[ProposedRequirement]) -> FileChange:
    """The agent file: what is there stays as it is."""
    before = read_or_none(path, MAX_AGENT_FILE_BYTES)
    after = before if before is not None else agent_file_text(name, _MADE_BY, requirements).encode()
    return FileChange(path=path, before=before, after=after)


def _unresolved(resolution: Resolution, servers: Sequence[Server]) -> Iterator[Missing]:
    """What keeps the servers of each category from being chosen."""
    for requirement in resolution.failed:
        first_broken = judge(requirement, resolution.limits)
        offering = [server for server in servers if requirement.category in server.categories]
        if not offering:
            yield Missing(requirement.category, "no server has this category", "see `requires` in the agent file")
        for server in offering:
            reason = first_broken(server)
            if reason is not None:
                yield Missing(server.id, reason.message)


def _not_required(path: str, requirements: Sequence[ProposedRequirement], locked: frozenset[str]) -> Iterator[Missing]:
    for requirement in requirements:
        if requirement.server not in locked:
            hint = f"add below `requires: mcp:`  {missing_lines(requirement)}"
            yield Missing(requirement.server, f"`{path}` does not require it", hint)


def _variables(session: Session, lockfile: Lockfile) -> tuple[str, ...]:
    launched = {name for server in lockfile.servers if server.launch is not UNSET for name in server.launch.env}
    token = {"AGENT_TOKEN"} if session.has_issuer else set()
    return tuple(sorted({*variables_of(session.config, session.environment), *launched, *token}))


def _not_exported(config: ConfigFile, entry: ClientEntry) -> Iterator[Missing]:
    for word in filled_in(config.client, entry):
        message = f"{config.client.title} fills in part of `{word}`, so it would start something else"
        yield Missing(NAME, message, "move the project to another folder")
    for name, values in read_entries(config.client, config.text, config.path):
        is_other = served_agent(command_of(values)) != served_agent(entry.command)
        if name == NAME and name not in config.names and is_other:
            message = f"`{config.path}` has an entry of this name that serves something else"
            yield Missing(NAME, message, "give that entry another name, or remove it")


def _index_changes(session: Session, pinned: Pinned) -> list[FileChange]:
    contents = pinned_files(session.index_path, pinned.index, pinned.definitions)
    return [_change_of(path, content) for path, content in contents.items()]


def _change_of(path: str, content: bytes) -> FileChange:
    before = read_or_none(path, max(MAX_INDEX_BYTES, MAX_LOCKFILE_BYTES))
    return FileChange(path=path, before=before, after=content)


def _config_changes(config: ConfigFile, entry: ClientEntry) -> list[FileChange]:
    """The configuration with the governed entry in place of the adopted ones, and a copy of what it was."""
    text = without_entries(config.client, config.text, config.names, config.path)
    text = write_entries(config.client, text, [entry], config.path)
    shown = [
        json_text({config.client.root: shown_entries(config.client, each, config.path)}, "  ") + "\n"
        for each in (config.text, text)
    ]
    changed = FileChange(path=config.path, before=config.content, after=text.encode(), shown=(shown[0], shown[1]))
    return [_backup(config), changed]


def _backup(config: ConfigFile) -> FileChange:
    """A copy that only its owner may read, and that replaces no other copy."""
    mode = os.stat(config.path).st_mode & _OWNER_ONLY
    for number in range(1, _MOST_BACKUPS):
        path = f"{config.path}{BACKUP_SUFFIX}" + (f"-{number}" if number > 1 else "")
        if os.path.islink(path):
            continue  # It leads to wherever its author likes.
        before = read_or_none(path, MAX_CLIENT_SETTINGS_BYTES)
        if before in {None, config.content}:
            shown = f"(a copy of {config.path})\n"
            old = "" if before is None else shown
            return FileChange(
                path=path, before=before, after=config.content, shown=(old, shown), mode=mode, is_private=True
            )
    raise UnreadableFile(f"{config.path}{BACKUP_SUFFIX}", "is there too many times: move old copies away")
