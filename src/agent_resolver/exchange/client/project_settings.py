"""Finds every server that the settings of a project's clients start."""

import os
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from agent_resolver.exchange.client.check import (
    ClientFinding,
    Governing,
    decode_settings,
    judge_entry,
)
from agent_resolver.exchange.client.entry import Client
from agent_resolver.exchange.client.gemini import GEMINI
from agent_resolver.exchange.client.known import CLIENTS
from agent_resolver.exchange.client.settings import UnusableSettings, read_entries
from agent_resolver.exchange.client.vscode import VSCODE
from agent_resolver.exchange.jsonc_edit import JsonNode, Members, NotJsonc, scan_jsonc
from agent_resolver.schema.limit import MAX_CLIENT_SETTINGS_BYTES
from agent_resolver.storage.errors import FileError, UnreadableFile
from agent_resolver.storage.file import read_bounded

Entries = Iterator[tuple[str, Any]]
"""Names of servers, each with what the settings say of it."""


class ClientProblem(Struct, frozen=True, kw_only=True):
    """Settings that cannot be read, so that they may start anything."""

    path: str
    client: str
    problem: str


class _Place(Struct, frozen=True):
    """A file that one client takes servers from."""

    client: Client
    path: str
    entries_of: Callable[[JsonNode], Entries] | None = None
    """Reads the servers of a file that has them elsewhere than the file to which they are exported."""


def check_clients(
    governing: Governing,
) -> tuple[list[ClientFinding], list[ClientProblem]]:
    """Every server that clients start which are opened in a folder, and the settings that cannot be read."""
    findings: list[ClientFinding] = []
    problems: dict[str, ClientProblem] = {}
    for place in _PLACES:
        path = os.path.relpath(
            os.path.join(governing.folder or governing.project, place.path)
        )
        try:
            entries = list(_entries_in(place, path))
        except (FileError, UnusableSettings) as error:
            problems[path] = ClientProblem(
                path=path, client=place.client.name, problem=str(error)
            )
            continue
        findings += (
            judge_entry(place.client, name, values, governing, path)
            for name, values in entries
        )
    return findings, list(problems.values())


def _entries_in(place: _Place, path: str) -> Entries:
    try:
        raw = read_bounded(path, MAX_CLIENT_SETTINGS_BYTES)
    except UnreadableFile as error:
        if error.missing:
            return
        raise
    if place.entries_of is None:
        yield from read_entries(place.client, decode_settings(raw, path), path)
    elif b"mcp" in raw.lower() or b"\\u" in raw:
        # Most such files are about other things, and need not be read to the end.
        try:
            yield from place.entries_of(scan_jsonc(decode_settings(raw, path)))
        except NotJsonc as error:
            raise UnusableSettings(path, f"it is not valid: {error}") from error


def _in_settings_of_vscode(whole: JsonNode) -> Entries:
    """The servers that older versions of VS Code keep among the other settings, under `mcp` or `mcp.servers`."""
    sections = [*_all_named(whole, "mcp", "servers"), *_all_named(whole, "mcp.servers")]
    for section in sections:
        members = section.value.items if isinstance(section.value, Members) else ()
        yield from ((member.key, member.node.plain()) for member in members)


def _commands_of_gemini(whole: JsonNode) -> Entries:
    """The command line that Gemini CLI starts as one more server."""
    for path in (("mcp", "serverCommand"), ("mcpServerCommand",)):
        yield from (
            (".".join(path), {"command": node.plain()})
            for node in _all_named(whole, *path)
        )


def _all_named(node: JsonNode, *path: str) -> list[JsonNode]:
    """The values at a path of keys; more than one if a key is repeated."""
    found = [node]
    for key in path:
        objects = [each.value for each in found if isinstance(each.value, Members)]
        found = [value for members in objects for value in members.named(key)]
    return found


_PLACES: Final = (
    *(_Place(client, client.path) for client in CLIENTS.values() if client.path),
    _Place(VSCODE, ".vscode/settings.json", _in_settings_of_vscode),
    _Place(GEMINI, GEMINI.path, _commands_of_gemini),
)
