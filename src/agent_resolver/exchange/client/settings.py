"""The text of a client's settings: its entries, and the text with entries of ours."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from agent_resolver.exchange.client.entry import KEPT_KEYS, Client, ClientEntry
from agent_resolver.exchange.jsonc_edit import (
    CannotEdit,
    Members,
    NotJsonc,
    scan_jsonc,
    with_json_value,
)
from agent_resolver.exchange.toml_edit import NotToml, read_toml, with_toml_table
from agent_resolver.schema.errors import ResolverError


class UnusableSettings(ResolverError):
    """The settings of a client cannot be read or edited; they are left as they are."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"`{path}` is left as it is: {problem}")
        self.path = path
        self.hint = "correct the file, or name another one with `--output`"


def read_entries(client: Client, text: str, path: str) -> list[tuple[str, Any]]:
    """Every entry of the settings, in order; a name that is repeated has several.

    Raises:
        UnusableSettings: The text is not what the client reads.
    """
    try:
        return list(
            _toml_entries(client, text)
            if client.is_toml
            else _json_entries(client, text)
        )
    except (NotJsonc, NotToml, CannotEdit) as error:
        raise UnusableSettings(path, f"it is not valid: {error}") from error


def write_entries(
    client: Client,
    text: str,
    entries: Iterable[ClientEntry],
    path: str,
) -> str:
    """The settings with these entries; every other byte stays, and so does the text where it says all of it already.

    Raises:
        UnusableSettings: The text is not what the client reads, or cannot be edited without touching anything else.
    """
    try:
        for entry in entries:
            values = _with_kept(client, entry, dict(read_entries(client, text, path)))
            if client.is_toml:
                text = with_toml_table(text, client.root, entry.name, values)
            else:
                text = with_json_value(text, (client.root, entry.name), values)
    except (NotJsonc, NotToml) as error:
        raise UnusableSettings(path, f"it is not valid: {error}") from error
    except CannotEdit as error:
        raise UnusableSettings(path, f"it cannot be edited: {error}") from error
    return text


def is_read_by(client: Client, text: str) -> bool:
    """False if the text has comments or trailing commas, and the client reads no settings that have any."""
    if client.is_toml or client.reads_comments or not text:
        return True
    try:
        json.loads(text.removeprefix("\ufeff"))
    except ValueError:
        return False
    return True


def _with_kept(
    client: Client, entry: ClientEntry, before: dict[str, Any]
) -> dict[str, Any]:
    """The entry as the client reads it, with the keys and the values of variables that are the user's to set."""
    values = client.render(entry)
    was = before.get(entry.name)
    if not isinstance(was, dict):
        return values
    kept = {key: value for key, value in was.items() if key in KEPT_KEYS}
    filled = was.get("env")
    if not client.reads_variables and isinstance(filled, dict) and "env" in values:
        kept["env"] = {
            name: filled.get(name) or value for name, value in values["env"].items()
        }
    return {**values, **kept}


def _json_entries(client: Client, text: str) -> Iterator[tuple[str, Any]]:
    if not text.strip("\ufeff \t\r\n"):
        return
    whole = scan_jsonc(text)
    if not isinstance(whole.value, Members):
        raise CannotEdit("it is not an object")
    for servers in whole.value.named(client.root):
        if not isinstance(servers.value, Members):
            raise CannotEdit(f"`{client.root}` is not an object")
        yield from ((member.key, member.node.plain()) for member in servers.value.items)


def _toml_entries(client: Client, text: str) -> Iterator[tuple[str, Any]]:
    servers = read_toml(text).get(client.root, {})
    if not isinstance(servers, dict):
        raise CannotEdit(f"`{client.root}` is not a table")
    yield from servers.items()
