"""`agent index show`: every fact of a server, and where it comes from."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct

from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.fact_place import FactPlaces
from agent_resolver.cli.index.listed import Listed, listed_in
from agent_resolver.cli.index.template import template_line
from agent_resolver.cli.input import INDEX, load_index
from agent_resolver.cli.option import Commands, add_command, add_index, add_json
from agent_resolver.cli.output import out, out_json
from agent_resolver.core.index_coverage import unknown_facts
from agent_resolver.exchange.secret_argument import has_secret, masked_arguments
from agent_resolver.schema.index import OVERLAY_NAME, IndexEntry, Server

_EXAMPLES = """\
  agent index show github
  agent index show github@2.1.0
  agent index show github --json | jq -r '.servers[].facts[].name'
"""
_ENTRY_KEYS: Final = (
    "name",
    "description",
    "source",
    "status",
    "version",
    "endpoint",
    "transport",
    "launch",
)
_WIDTH: Final = 15


class ShownFact(Struct, frozen=True):
    """A fact of a server, and where it is stated; `at` is None for one that is not known."""

    name: str
    value: object
    at: str | None


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "show",
        "show every fact of a server, and where it is stated",
        _EXAMPLES,
    )
    parser.add_argument(
        "server",
        metavar="ID[@VERSION]",
        help="the server; without a version, every version",
    )
    add_index(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the facts of each version that is asked for."""
    index = load_index(options.index or INDEX)
    listed = listed_in(index)
    found = [each for each in listed if options.server in _names_of(each)]
    if not found:
        raise _refuse_unknown(options.server, listed)
    # Positions are looked up only for the servers shown: finding them means parsing the
    # index file once more.
    places = FactPlaces(index)
    places.read_entries(each.server for each in found)
    shown = [(each, list(_facts_of(each, places))) for each in found]
    if options.json:
        documents = [_server_document(each, facts) for each, facts in shown]
        out_json({"servers": documents})
        return 0
    for position, (each, facts) in enumerate(shown):
        if position:
            out()
        _print_server(each, facts)
    return 0


def _names_of(listed: Listed) -> set[str]:
    """The names by which a person may call a server: its id, with its version, or its name in the source."""
    # A client calls a server by the name in its configuration, which importing may have
    # mapped to another id.
    return {listed.server.id, str(listed.server), listed.entry.name or listed.server.id}


def _refuse_unknown(word: str, listed: Sequence[Listed]) -> Refusal:
    from agent_resolver.schema.walker import suggestion

    known = {name for each in listed for name in (each.server.id, str(each.server))}
    return Refusal(
        f"The index has no server `{word}`",
        suggestion(word, known) or "`agent index search` finds some",
    )


def _facts_of(listed: Listed, places: FactPlaces) -> Iterator[ShownFact]:
    entry = listed.entry
    server = listed.server
    yield from _stated_facts(entry, server, places)
    yield from _facts_of_rules(server, places)
    # A scope may come from the overlay or the index, so each tool has a place of its
    # own.
    for tool, scopes in sorted((server.tool_scopes or {}).items()):
        drafted = " (drafted)" if tool in server.drafted else ""
        yield ShownFact(
            f"toolScopes.{tool}{drafted}",
            scopes,
            places.of_fact(server, ("toolScopes", tool)),
        )
    if entry.tools is not UNSET:
        yield ShownFact(
            "tools", sorted(entry.tools), places.in_index(server, ("tools",))
        )


def _stated_facts(
    entry: IndexEntry, server: Server, places: FactPlaces
) -> Iterator[ShownFact]:
    """The keys that the entry itself states, without secrets, in their fixed order."""
    # A copy as plain values, in which secrets are masked below without touching the
    # entry itself.
    stated: dict[str, Any] = msgspec.to_builtins(entry)
    # A hand-written entry may have a secret among its arguments, or in its address.
    if entry.launch:
        # The command goes in with the arguments, since an option is a secret only in
        # the light of what precedes it.
        stated["launch"]["args"] = masked_arguments(
            [entry.launch.command, *entry.launch.args]
        )[1:]
    if entry.endpoint and has_secret(entry.endpoint):
        stated["endpoint"] = "***"
    for key in _ENTRY_KEYS:
        if key in stated:
            yield ShownFact(key, stated[key], places.in_index(server, (key,)))


def _facts_of_rules(server: Server, places: FactPlaces) -> Iterator[ShownFact]:
    """The facts that the rules look at, each of which is shown also where it is not known."""
    # They come from the server and not from its entry, since an overlay may state them.
    facts = (
        (("categories",), server.categories or None),
        (("scopes",), server.scopes),
        (("data", "residency"), server.residency),
        (("data", "maxSensitivity"), server.max_sensitivity),
        (("trust", "signed"), server.signed),
        (("trust", "publisher"), server.publisher),
        (("policy", "rateLimitPerMin"), server.rate_limit_per_minute),
    )
    for path, value in facts:
        name = path[-1]
        if value is not None:
            yield ShownFact(name, value, places.of_fact(server, path))
        # A rate limit is optional, so one that is not stated is not missing.
        elif name != "rateLimitPerMin":
            yield ShownFact(name, None, None)


def _server_document(listed: Listed, facts: Sequence[ShownFact]) -> dict[str, object]:
    unknown = [fact.name for fact in facts if fact.at is None]
    return {
        "id": listed.server.id,
        "version": listed.entry.version or None,
        "facts": facts,
        "unknown": unknown,
        "overlay": template_line(listed.server)
        if unknown_facts(listed.server)
        else None,
    }


def _print_server(listed: Listed, facts: Sequence[ShownFact]) -> None:
    out(str(listed.server))
    for fact in facts:
        if fact.at is not None:
            out(f"  {fact.name:<{_WIDTH}} {_render_fact(fact.value)} ({fact.at})")
    unknown = [fact.name for fact in facts if fact.at is None]
    if unknown:
        out(f"  {'not known':<{_WIDTH}} {', '.join(unknown)}")
    if unknown_facts(listed.server):
        out(f"  If you know them, write in {OVERLAY_NAME}:")
        out(f"    {template_line(listed.server)}")


def _render_fact(value: object) -> str:
    match value:
        # The only mapping among the facts is `launch`.
        case dict():
            return _render_launch(value)
        case list() | tuple():
            return ", ".join(map(str, value)) or "(none)"
        # Booleans are spelled as in JSON, which is how the operator would write them,
        # and not as in Python.
        case bool():
            return "true" if value else "false"
    return str(value)


def _render_launch(launch: dict[str, Any]) -> str:
    """The command line, and the names of the variables that it reads, never their values."""
    command = [str(launch.get("command")), *map(str, launch.get("args", ()))]
    names = ", ".join(map(str, launch.get("env", ())))
    if names:
        return f"{' '.join(command)}; reads {names}"
    return " ".join(command)
