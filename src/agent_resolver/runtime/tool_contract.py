"""What a tool must be like, looked at when a plugin or a program offers it."""

from agent_resolver.schema.descriptor import Descriptor


def descriptor_of(tool: object) -> Descriptor | None:
    """The descriptor of a tool that was offered; None if it does not have one."""
    descriptor = getattr(tool, "descriptor", None)
    return descriptor if isinstance(descriptor, Descriptor) else None
