"""The lists of tools in an agent file, under whatever spelling: what they allow, and what they shut."""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import UNSET, structs

from agent_resolver.runtime.spec import AgentSpec, Names
from agent_resolver.runtime.spec_reader import refused
from agent_resolver.schema.governing_key import ALLOW_LISTS, DENY_LISTS, TOOL_LISTS
from agent_resolver.schema.issue import Issue, IssueCode
from agent_resolver.schema.tool_list import is_tool_name, tool_list_faults, tool_names
from agent_resolver.schema.tree import Item, Scalar, Sequence, located
from agent_resolver.schema.walker import walk

_EVERY_TOOL: Final = "*"
_SPLIT_AT_BLANKS: Final = {*DENY_LISTS, "allowed-tools", "allowed_tools"}
"""Skills separate the names of `allowed-tools` by blanks, and a name too many in a deny list shuts no less."""
_MCP_PREFIX: Final = "mcp__"
"""Other tools call the tool `read` of the server `notes` `mcp__notes__read`; here it is `notes.read`."""


def restrict_tools(spec: AgentSpec, said: dict[str, Item]) -> AgentSpec:
    """The spec with every list of tools in the file: a tool must be in each allow list, and in no deny list."""
    return _shut_denied(_narrow_allowed(spec, said), said)


def _narrow_allowed(spec: AgentSpec, said: dict[str, Item]) -> AgentSpec:
    """The spec with the tools that each allow list of the file allows.

    Names that `runtime` allows are one more list. Its patterns are not: they say which tools there are besides names.
    """
    # A list with `*` allows every tool, and so narrows nothing.
    allow_lists = [
        names for names in _lists_of(said, ALLOW_LISTS) if _EVERY_TOOL not in names
    ]
    if not allow_lists:
        return spec
    # Written as null or empty, the list allows nothing; only an absent one says
    # nothing.
    if spec.allowed_tools is not UNSET:
        allow_lists.append(spec.allowed_tools or ())
    first, *others = allow_lists
    allowed = [name for name in first if all(name in other for other in others)]
    return structs.replace(spec, allowed_tools=tuple(allowed))


def _shut_denied(spec: AgentSpec, said: dict[str, Item]) -> AgentSpec:
    """The spec without the tools in the deny lists of the file."""
    denied = [
        name
        for names in _lists_of(said, DENY_LISTS)
        for entry in names
        for name in _denied_names(entry)
    ]
    names = [name for name in denied if _EVERY_TOOL not in name]
    # A backslash is an escape in patterns, and a plain character in the names that a
    # file lists.
    patterns = [name.replace("\\", "\\\\") for name in denied if _EVERY_TOOL in name]
    return structs.replace(
        spec,
        excluded_tools=_joined(spec.excluded_tools, names),
        excluded_tool_patterns=_joined(spec.excluded_tool_patterns, patterns),
    )


def list_faults(said: dict[str, Item]) -> Iterator[Issue]:
    """The faults of the lists of tools among the keys of a file."""
    for key in TOOL_LISTS:
        for fault in _faults_of_list(said[key]) if key in said else ():
            yield fault.within(key)


def _lists_of(said: dict[str, Item], keys: Iterable[str]) -> Iterator[Names]:
    for key in keys:
        if key in said:
            yield tool_names(said[key].value, splits_at_blanks=key in _SPLIT_AT_BLANKS)


def _denied_names(entry: str) -> Iterator[str]:
    """The tools that an entry of a deny list shuts.

    Nothing here tells the calls of a tool apart, so that `Bash(rm *)` shuts all of `Bash`.
    """
    name = entry.partition("(")[0].strip()
    yield name
    if name.startswith(_MCP_PREFIX):
        server, _, tool = name.removeprefix(_MCP_PREFIX).partition("__")
        yield f"{server}.{tool or _EVERY_TOOL}"


def _joined(before: Names | None, more: Iterable[str]) -> Names | None:
    # Where nothing is added, the field stays as it was, null included.
    return tuple(dict.fromkeys((*(before or ()), *more))) or before


def _faults_of_list(item: Item) -> Iterator[Issue]:
    yield from tool_list_faults(item.value)
    (names,) = _lists_of({item.key: item}, [item.key])
    # The names of one text have no places of their own, so all of them get the place of
    # the list.
    written = Sequence(
        tuple(Scalar(name, item.line, item.column) for name in names),
        item.line,
        item.column,
    )
    yield from refused(walk(written, Names))
    for position, name in enumerate(names if item.key in DENY_LISTS else ()):
        if not is_tool_name(name):
            message = f"`{name}` cannot be the name of a tool"
            yield located(
                item, IssueCode.SYNTAX, message, hint="list the names of the tools"
            ).within(position)
