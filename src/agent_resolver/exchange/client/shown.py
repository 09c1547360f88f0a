"""Settings of a client for people to see: the entries that change, without what may be a secret."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from agent_resolver.exchange.client.entry import Client
from agent_resolver.exchange.jsonc_edit import json_text

_HIDDEN: Final = "***"
_PLAIN: Final = frozenset({"stdio", "http", "sse", ""})


def words_in(value: object) -> Iterator[str]:
    """Every text in a value, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for held in value.values():
            yield from words_in(held)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from words_in(item)


def shown_settings(
    client: Client, entries: Mapping[str, Any], known: Collection[str]
) -> str:
    """The text of settings that have these entries alone; empty without entries.

    Keys are shown, and of values only those that are known. Any other may be a secret.

    Args:
        client: Whose settings they are.
        entries: Each name, with what the settings say.
        known: The texts that the project has in files of its own, which hold no secrets.
    """
    if not entries:
        return ""
    plain = _PLAIN.union(known)
    shown = {
        client.root: {
            name: _hide_values(values, plain) for name, values in entries.items()
        }
    }
    if not client.is_toml:
        return f"{json_text(shown, '  ')}\n"
    import tomlkit

    return tomlkit.dumps(shown)


def _hide_values(value: object, known: frozenset[str]) -> object:
    if isinstance(value, bool) or (isinstance(value, str) and value in known):
        return value
    if isinstance(value, Mapping):
        return {key: _hide_values(held, known) for key, held in value.items()}
    if isinstance(value, list):
        return [_hide_values(item, known) for item in value]
    return _HIDDEN
