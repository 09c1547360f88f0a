"""The least that something must have to be a tool, looked at wherever one is offered."""

from agent_resolver.core.tool_id import tool_id_fault
from agent_resolver.registry.errors import UnusableTool
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.foreign_error import describe_exception


def usable_descriptor(tool: object) -> Descriptor:
    """The descriptor of something that was offered as a tool.

    Raises:
        UnusableTool: It is not a tool, or its id cannot be one.
    """
    name = type(tool).__name__
    try:
        descriptor = getattr(tool, "descriptor", None)
        invoke = getattr(tool, "invoke", None)
    except (Exception, SystemExit) as raised:
        # An attribute of foreign code may be a property that raises anything; it must
        # not end the process.
        raise UnusableTool(name, describe_exception(raised)) from raised
    if not isinstance(descriptor, Descriptor):
        error = UnusableTool(name, "it has no descriptor")
        error.hint = (
            "make a tool of a function with `tool_of`, or declare it with `@capability`"
        )
        raise error
    if not callable(invoke):
        raise UnusableTool(name, "it has no method `invoke`")
    if fault := tool_id_fault(descriptor.id):
        raise UnusableTool(name, fault)
    return descriptor
