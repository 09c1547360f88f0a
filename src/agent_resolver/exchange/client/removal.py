"""Takes entries out of the settings of a client."""

from collections.abc import Collection

from agent_resolver.exchange.client.entry import Client
from agent_resolver.exchange.client.settings import UnusableSettings
from agent_resolver.exchange.jsonc_edit import (
    CannotEdit,
    NotJsonc,
    without_json_members,
)
from agent_resolver.exchange.toml_edit import NotToml, without_toml_tables


def without_entries(
    client: Client,
    text: str,
    names: Collection[str],
    path: str,
) -> str:
    """The settings without these entries; comments and everything else stay as they are.

    Raises:
        UnusableSettings: The text is not what the client reads, or cannot be edited without touching anything else.
    """
    try:
        if client.is_toml:
            return without_toml_tables(text, client.root, names)
        return without_json_members(text, client.root, names)
    except (NotJsonc, NotToml, CannotEdit) as error:
        raise UnusableSettings(path, f"it cannot be edited: {error}") from error
