"""Takes entries out of the settings of a client, and shows settings without the values that may be secret."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from agent_resolver.exchange.client.entry import Client
from agent_resolver.exchange.client.settings import UnusableSettings, read_entries
from agent_resolver.exchange.jsonc_edit import CannotEdit, NotJsonc, with_json_value
from agent_resolver.exchange.secret_argument import has_secret, masked_arguments
from agent_resolver.exchange.toml_edit import read_toml

_SHOWN: Final = frozenset({"command", "type", "url", "httpUrl", "serverUrl"})
_HIDDEN: Final = "…"


def without_entries(client: Client, text: str, names: Collection[str], path: str) -> str:
    """The settings without these entries; what is around the entries stays byte by byte.

    Raises:
        UnusableSettings: The text is not what the client reads, or cannot be edited without touching anything else.
    """
    kept = {name: values for name, values in read_entries(client, text, path) if name not in names}
    try:
        if client.is_toml:
            return _without_tables(text, client.root, names)
        return with_json_value(text, (client.root,), kept)
    except (NotJsonc, CannotEdit) as error:
        raise UnusableSettings(path, f"it cannot be edited: {error}") from error


def _without_tables(text: str, root: str, names: Collection[str]) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    before = read_toml(text)
    kept = {name: values for name, values in before[root].items() if name not in names}
    wanted = {key: value for key, value in before.items() if key != root} | ({root: kept} if kept else {})
    try:
        document: Any = tomlkit.parse(text.removeprefix("\ufeff"))
        for name in [name for name in document[root] if name in names]:
            document[root].remove(name)
        if not kept:
            document.remove(root)
        edited = tomlkit.dumps(document)
    except (TOMLKitError, RecursionError) as error:
        raise CannotEdit(f"the tables of `{root}` cannot be removed: {error}") from error
    if read_toml(edited) != wanted:
        raise CannotEdit(f"`{root}` is written in a way that tables cannot be removed from")
    return edited


def shown_entries(client: Client, text: str, path: str) -> dict[str, Any]:
    """Every entry for people to see: the command or address, names of variables, and no value that may be secret.

    Raises:
        UnusableSettings: The text is not what the client reads.
    """
    return {name: _shown_entry(values) for name, values in read_entries(client, text, path)}


def _shown_entry(values: object) -> object:
    if not isinstance(values, Mapping):
        return _HIDDEN
    return {key: _shown_value(key, value) for key, value in values.items()}


def _shown_value(key: str, value: object) -> object:
    if key == "args" and isinstance(value, list):
        return masked_arguments([str(word) for word in value])
    if key in _SHOWN and isinstance(value, str):
        return _HIDDEN if has_secret(value) else value
    if isinstance(value, Mapping):
        return dict.fromkeys(value, _HIDDEN)
    if key == "env_vars" and isinstance(value, list):
        return value
    return _HIDDEN
