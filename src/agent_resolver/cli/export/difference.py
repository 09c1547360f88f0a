"""The change that an export would make to the settings of a client, without the secrets that they hold."""

from collections.abc import Sequence

from agent_resolver.exchange.client.entry import Client, ClientEntry
from agent_resolver.exchange.client.settings import read_entries
from agent_resolver.exchange.client.shown import shown_settings, words_in


def render_difference(
    client: Client, path: str, before: str, after: str, entries: Sequence[ClientEntry]
) -> str:
    """A unified diff of the entries that are exported; the rest of the file stays, and is not shown.

    Args:
        client: Whose settings they are.
        path: What to call the file.
        before: Its text.
        after: Its text with the entries.
        entries: What is exported.
    """
    from difflib import unified_diff

    names = {entry.name for entry in entries}
    # What is exported was made of files of the project, so these words may be shown.
    # Any other may be a secret.
    known = {word for entry in entries for word in words_in(client.render(entry))}
    old, new = (
        shown_settings(
            client, _entries_named(client, text, names, path), known
        ).splitlines(keepends=True)
        for text in (before, after)
    )
    return "".join(unified_diff(old, new, fromfile=path, tofile=f"{path} (exported)"))


def _entries_named(
    client: Client, text: str, names: set[str], path: str
) -> dict[str, object]:
    return {
        name: values
        for name, values in read_entries(client, text, path)
        if name in names
    }
