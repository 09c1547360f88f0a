"""How the settings of a client would change, without the secrets that they hold."""

from collections.abc import Iterator

from agent_resolver.exchange.client.entry import Client
from agent_resolver.exchange.client.settings import read_entries
from agent_resolver.exchange.jsonc_edit import json_text

_HOLDERS = ("env", "headers", "http_headers")


def render_difference(client: Client, path: str, before: str, after: str) -> str:
    """A unified diff. It has no lines around the change: those belong to others, and may hold secrets."""
    from difflib import unified_diff

    values = {value for text in (before, after) for value in _values_in(client, text, path)}
    old, new = (_masked(text, values).splitlines(keepends=True) for text in (before, after))
    lines = unified_diff(old, new, fromfile=path, tofile=f"{path} (exported)", n=0)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _values_in(client: Client, text: str, path: str) -> Iterator[str]:
    """Every value of a variable or header, unless it refers to a variable."""
    for _, entry in read_entries(client, text, path):
        holders = [entry.get(key) for key in _HOLDERS] if isinstance(entry, dict) else []
        for holder in holders:
            held = holder.values() if isinstance(holder, dict) else ()
            yield from (value for value in held if isinstance(value, str) and value and "$" not in value)


def _masked(text: str, values: set[str]) -> str:
    for value in sorted(values):
        for literal in (json_text(value), f"'{value}'"):
            text = text.replace(literal, '"***"')
    return text
