"""The client configurations of a project: found, read, and imported as servers of an index."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from agent_resolver.exchange.client.check import decode_settings
from agent_resolver.exchange.client.entry import Client
from agent_resolver.exchange.client.known import CLIENTS
from agent_resolver.exchange.client.settings import read_entries
from agent_resolver.exchange.imported import Note, NoteKind
from agent_resolver.exchange.source_file import SourceReading, read_sources
from agent_resolver.schema.index import IndexEntry
from agent_resolver.schema.limit import MAX_CLIENT_SETTINGS_BYTES
from agent_resolver.storage.file import read_bounded

_FORMATS: Final = {"vscode": "vscode", "codex": "codex"}
_OTHER_FORMAT: Final = "client-config"
_DESKTOP: Final = "claude_desktop_config.json"
_SWITCHES: Final = frozenset({"disabled", "enabled"})
_TOOL_LISTS: Final = frozenset(
    {
        "enabled_tools",
        "disabled_tools",
        "disabledTools",
        "includeTools",
        "excludeTools",
        "allowedTools",
    }
)
_LIMITS: Final = _TOOL_LISTS | {"cwd", "envFile", "headersHelper"}
"""Settings without which a server would do something else, or more, than the client let it do."""


class Missing(Struct, frozen=True):
    """Something that has to be done before a server can be adopted."""

    server: str
    message: str
    hint: str = ""


class ConfigFile(Struct, frozen=True, kw_only=True):
    """One configuration of a client."""

    path: str
    client: Client
    content: bytes
    text: str
    entries: tuple[IndexEntry, ...] = ()
    """The servers to adopt. One that is switched off, or that is ours, is not among them."""
    reading: SourceReading
    left: tuple[str, ...] = ()
    """The names of the servers that are switched off, which stay."""

    @property
    def names(self) -> list[str]:
        """The names of the servers to adopt, as the client has them."""
        return [entry.name or entry.id for entry in self.entries]


def config_paths(folder: str = "", client: str | None = None) -> list[str]:
    """The client configurations that are in a folder, in the order of the clients."""
    places = (
        each.path
        for each in CLIENTS.values()
        if each.path and client in {None, each.name}
    )
    return [
        path for place in places if os.path.isfile(path := os.path.join(folder, place))
    ]


def client_at(path: str) -> Client | None:
    """The client that a configuration belongs to, by its name and folder."""
    if os.path.basename(path) == _DESKTOP:
        return CLIENTS["claude-desktop"]
    place = f"/{os.path.abspath(path).replace(os.sep, '/')}"
    # The longest path first: `.vscode/mcp.json` is not `mcp.json`.
    known = sorted(
        (each for each in CLIENTS.values() if each.path),
        key=lambda each: -len(each.path),
    )
    return next((each for each in known if place.endswith(f"/{each.path}")), None)


def read_client_config(
    path: str, client: Client, users: frozenset[int] = frozenset()
) -> ConfigFile:
    """A configuration with its servers.

    Raises:
        FileError: It cannot be read, or belongs to another user.
        UnusableSettings: It is not what the client reads.
    """
    content = read_bounded(path, MAX_CLIENT_SETTINGS_BYTES, users)
    text = decode_settings(content, path)
    reading = SourceReading(path)
    if read_entries(client, text, path):
        (reading,) = read_sources(
            [path], _FORMATS.get(client.name, _OTHER_FORMAT)
        ).files
    notes = reading.imported.notes
    # A server that its user switched off must not start because of an adoption.
    off = {
        note.server
        for note in notes
        if note.kind is NoteKind.NOT_CARRIED and _SWITCHES.intersection(note.names)
    }
    entries = tuple(
        entry
        for entry in reading.imported.entries
        if (entry.name or entry.id) not in off
    )
    return ConfigFile(
        path=path,
        client=client,
        content=content,
        text=text,
        entries=entries,
        reading=reading,
        left=tuple(sorted(off)),
    )


def missing_in(
    configs: Iterable[ConfigFile], environment: Iterable[str]
) -> list[Missing]:
    """The steps that are left, in the configurations or in the environment, before their servers can start."""
    is_set = frozenset(environment)
    return [missing for config in configs for missing in _missing_in(config, is_set)]


def _missing_in(config: ConfigFile, is_set: frozenset[str]) -> Iterator[Missing]:
    for issue in config.reading.imported.faults:
        # The second part of a place is the name of the server, where the fault is
        # inside of one.
        name = str(issue.at[1]) if len(issue.at) > 1 else config.path
        place = f"{config.path}:{issue.line}:{issue.column}"
        yield Missing(name, f"{issue} ({place})", issue.hint)
    adopted = set(config.names)
    for note in config.reading.imported.notes:
        # A server that is switched off, or that is ours, stays where it is and needs
        # nothing.
        if note.server in adopted:
            yield from _missing_of_note(config.path, note, is_set)


def _missing_of_note(
    path: str, note: Note, is_set: frozenset[str]
) -> Iterator[Missing]:
    """The step that a note on an adopted server leaves to a person, if it leaves one."""
    if note.kind is NoteKind.ENVIRONMENT:
        unset = [name for name in note.names if name not in is_set]
        if unset:
            hint = f"`{path}` has or names the value, which is not carried over"
            yield Missing(note.server, f"set {_listed(unset)} in the environment", hint)
    elif note.kind is NoteKind.MISSING_VALUE:
        hint = f"nothing fills it in when the server starts: write the value itself into `{path}`"
        yield Missing(
            note.server, f"its command or address has {_listed(note.names)}", hint
        )
    elif note.kind is NoteKind.NOT_CARRIED:
        lost = [name for name in note.names if name in _LIMITS]
        if lost:
            hint = _hint_at_lost(path, lost)
            yield Missing(note.server, f"{_listed(lost)} cannot be carried over", hint)


def _hint_at_lost(path: str, lost: Sequence[str]) -> str:
    """A way to do without the limits that cannot be carried over."""
    # Without its list of tools, the server would offer more than the client let the
    # model call.
    if _TOOL_LISTS.intersection(lost):
        return (
            f"take it out of `{path}`, and forbid tools with "
            "`constraints.actions.forbid` in agents.md"
        )
    return (
        f"take it out of `{path}`, and start the server in a way that does not need it"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
