"""What a tool must be like, looked at when a plugin or a program offers it."""

import json
import types
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from agent_resolver.core.tool_id import tool_id_fault
from agent_resolver.registry.errors import UnusableTool
from agent_resolver.registry.tool import CallContext, Tool
from agent_resolver.registry.tool_check import usable_descriptor
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.foreign_error import describe_exception
from agent_resolver.schema.frozen import freeze

_MAX_KEPT: Final = 20_000
"""Of how many tools the descriptors are kept: a plugin may name its tools otherwise for every plan."""


class OfferedTool(Struct, frozen=True, dict=True):
    """A tool, and its descriptor as it was when the tool was offered: the tool may say something else later."""

    descriptor: Descriptor
    tool: Tool

    @cached_property
    def definition(self) -> str:
        """The digest of its descriptor, for the digest of plans: every plan of the snapshot needs it again."""
        return value_digest(self.descriptor)


class KeptDescriptors:
    """The descriptors that tools had when they were last offered, as they were checked and copied then.

    A plugin offers its tools for every plan. To check and to copy a descriptor takes many times longer than to see that
    it still says what it said.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, tuple[bytes, Descriptor]] = {}

    def keep(self, descriptor: Descriptor, tool_id: str) -> Descriptor:
        """The copy of a descriptor under an id; the one that was made before where the two say the same.

        Raises:
            UnusableTool: A part of it is not of the type that it should be.
        """
        # That it is the same object says nothing: its schemas may be dictionaries,
        # which the plugin can change. MessagePack also tells apart what Python takes
        # for equal, such as 1 and True.
        try:
            content = msgspec.msgpack.encode(descriptor)
        except Exception:  # noqa: BLE001 - the check below says what is wrong, or that only MessagePack cannot hold it
            return _kept_descriptor(descriptor, tool_id)
        before = self._by_id.get(tool_id)
        if before is not None and before[0] == content:
            return before[1]
        kept = _kept_descriptor(descriptor, tool_id)
        # A known id may always be written again: only new ones can fill the table.
        if before is not None or len(self._by_id) < _MAX_KEPT:
            self._by_id[tool_id] = (content, kept)
        return kept


def check_tool(
    offered: Tool | Callable[..., Any],
    tool_id: str | None = None,
    known: KeptDescriptors | None = None,
) -> OfferedTool:
    """The tool that was offered, or that a plain typed function makes.

    Args:
        offered: A tool, or a function that `tool_of` of the capabilities makes one of.
        tool_id: The id that it is offered under; left out, its own.
        known: The descriptors of earlier plans, for a tool that is offered again and again.

    Raises:
        UnusableTool: It cannot be a tool.
    """
    if tool_id is not None and (fault := tool_id_fault(tool_id)):
        raise UnusableTool(type(offered).__name__, fault)
    tool: Any = offered
    # Only functions and methods: a tool may be an object that can be called, too.
    if isinstance(offered, (types.FunctionType, types.MethodType)):
        tool = _tool_of_function(offered, tool_id or "")
    descriptor = usable_descriptor(tool)
    own_id = tool_id or descriptor.id
    kept = (
        known.keep(descriptor, own_id)
        if known
        else _kept_descriptor(descriptor, own_id)
    )
    return OfferedTool(kept, tool)


def value_digest(value: object) -> str:
    """The digest of a value that programs may have made, which may hold what is no character."""
    try:
        return digest(value)
    except UnicodeEncodeError:
        # Python's own encoder escapes it.
        return digest(json.dumps(msgspec.to_builtins(value), sort_keys=True))


def _tool_of_function(
    function: types.FunctionType | types.MethodType, tool_id: str
) -> Tool:
    from agent_resolver.capability.errors import UnsafeCapability
    from agent_resolver.capability.plain_function import tool_of

    try:
        return tool_of(function, tool_id)
    except UnsafeCapability as error:
        raise UnusableTool(
            error.capability_id, "; ".join(map(str, error.details))
        ) from error


def _kept_descriptor(descriptor: Descriptor, tool_id: str) -> Descriptor:
    """A copy that cannot be changed, once all of it is of the types that it should be."""
    try:
        copied = msgspec.convert(msgspec.to_builtins(descriptor), Descriptor)
    except ResolverError:
        raise
    except Exception as error:
        fault = f"its descriptor is not one: {describe_exception(error)}"
        raise UnusableTool(tool_id, fault) from error
    # Frozen to the depth: all runs share the descriptor, and the tool could change its
    # schemas later.
    return structs.replace(
        copied,
        id=tool_id,
        input_schema=freeze(copied.input_schema),
        output_schema=freeze(copied.output_schema),
        hints=freeze(copied.hints),
        labels=structs.replace(
            copied.labels, examples=tuple(map(freeze, copied.labels.examples))
        ),
    )


def tool_under_id(tool: Tool, descriptor: Descriptor) -> Tool:
    """The tool as it was offered: under the id of `descriptor`, which need not be its own."""
    return (
        tool if tool.descriptor.id == descriptor.id else RenamedTool(descriptor, tool)
    )


class RenamedTool(Struct, frozen=True):
    """A tool under another id than its own."""

    descriptor: Descriptor
    tool: Tool

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Let the tool do it."""
        return await self.tool.invoke(arguments, context)
