"""The catalogue of mcpm: a file for each server, or one object with all of them by name."""

from collections.abc import Iterator
from typing import Final

from agent_resolver.exchange.entry import (
    Facts,
    Remote,
    check_variable,
    endpoint_transport,
    make_entry,
    note_environment,
    note_headers,
    note_tools,
)
from agent_resolver.exchange.imported import Imported, Note, NoteKind, Source
from agent_resolver.exchange.launch_record import command_version
from agent_resolver.exchange.part import Part, import_each
from agent_resolver.exchange.secret_argument import references_in
from agent_resolver.schema.index import IndexEntry, Launch
from agent_resolver.schema.issue import IssueCode

NAME: Final = "mcpm"


def matches(content: object) -> bool:
    """True if the content is a server of the catalogue, or several by name."""
    if _is_server(content):
        return True
    return isinstance(content, dict) and any(map(_is_server, content.values()))


def _is_server(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("installations"), dict)


def read(source: Source) -> Imported:
    """The servers of the file."""
    if _is_server(source.content):
        return import_each([(source.name, Part(source.content))], _read_server)
    return import_each(Part(source.content).members(), _read_server)


def _read_server(key: str, part: Part, notes: list[Note]) -> IndexEntry:
    name = part.member("name").text() or key
    if not name:
        raise part.member("name").refuse_entry(IssueCode.REQUIRED, "Required")
    tools = [
        tool.member("name").text()
        for tool in part.member("tools").elements()
        if isinstance(tool.value, dict)
    ]
    note_tools(name, [tool for tool in tools if tool], notes)
    reach = _reach_of(name, part, notes)
    facts = Facts(
        name=name,
        source=NAME,
        version=command_version(reach.command, reach.args)
        if isinstance(reach, Launch)
        else None,
        description=part.member("description").prose(),
        words=(*part.member("categories").texts(), *part.member("tags").texts()),
        reach=reach,
    )
    return make_entry(part, facts, notes)


def _reach_of(name: str, part: Part, notes: list[Note]) -> Remote | Launch:
    """The recommended way to reach the server, else the first by name that can be used."""
    ways = sorted(
        part.member("installations").members(),
        key=lambda way: (not _is_recommended(way[1]), way[0]),
    )
    usable = [
        (key, way) for key, way in ways if way.member("command") or way.member("url")
    ]
    if not usable:
        raise part.member("installations").refuse_entry(
            IssueCode.REQUIRED, "No installation has a command or a url"
        )
    kind, way = usable[0]
    # An entry has one way. The others are named, so that a person can choose.
    if len(usable) > 1:
        listed = tuple(key for key, _ in usable)
        notes.append(
            Note(
                NoteKind.OTHER_WAY,
                name,
                f"offers {', '.join(listed)}; the entry has {kind}",
                listed,
            )
        )
    if not way.member("command"):
        note_headers(name, way.member("headers").members(), notes)
        transport = endpoint_transport(way.member("transport"))
        return Remote(_fill_in(way.member("url").required_text()), transport)
    arguments = way.member("args").words()
    required, optional = _environment_of(part, way, arguments)
    note_environment(name, required, optional, notes)
    return Launch(
        command=way.member("command").required_text(),
        args=tuple(map(_fill_in, arguments)),
        env=required,
    )


def _is_recommended(way: Part) -> bool:
    return way.member("recommended").flag()


def _environment_of(
    part: Part, way: Part, arguments: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The variables that must be set, and the others; what goes into an argument is a value to fill in."""
    needed = dict(_stated_arguments(part))
    required: dict[str, None] = {}
    optional: dict[str, None] = {}
    in_arguments: set[str] = set()
    for argument in arguments:
        in_arguments.update(references_in(argument))
    for name, value in way.member("env").members():
        check_variable(value, name)
        sources = references_in(value.text() or "") or (name,)
        # A variable that the file says nothing of is taken for one that must be set.
        is_needed = any(needed.get(source, True) for source in sources)
        if is_needed and name not in in_arguments:
            required[name] = None
        else:
            optional[name] = None
    return tuple(required), tuple(optional)


def _stated_arguments(part: Part) -> Iterator[tuple[str, bool]]:
    """Each argument of the server, and whether it has to be given."""
    for name, argument in part.member("arguments").members():
        yield name, argument.member("required").flag()


def _fill_in(text: str) -> str:
    """The text with `<NAME>` for each `${NAME}` in it: nothing replaces them when a server starts."""
    for name in references_in(text):
        text = text.replace(f"${{{name}}}", f"<{name}>")
    return text
