"""Gemini CLI: `.gemini/settings.json` in the folder of the project."""

from typing import Any, Final

from agent_resolver.exchange.client.entry import Client, ClientEntry, headers, started

_REFERENCE: Final = "${{{}}}"
_ADDRESS_KEYS: Final = {"http": "httpUrl", "sse": "url"}


def _render(entry: ClientEntry) -> dict[str, Any]:
    if entry.command:
        settings = started(entry, _REFERENCE)
    else:
        settings = {_ADDRESS_KEYS[entry.wire]: entry.url, **headers(entry, _REFERENCE)}
    if entry.tools is not None:
        settings["includeTools"] = list(entry.tools)
    return settings


GEMINI: Final = Client(
    name="gemini",
    title="Gemini CLI",
    path=".gemini/settings.json",
    root="mcpServers",
    wires=frozenset({"stdio", "http", "sse"}),
    filters_tools=True,
    reads_variables=True,
    expands=r"\$[\w{]",
    render=_render,
)
