"""The manifest of tools that a project's own code offers."""

from collections.abc import Iterable

from agent_resolver.core.resolution import EPOCH
from agent_resolver.registry.errors import ToolIdConflict
from agent_resolver.schema.descriptor import Descriptor, ManifestTool
from agent_resolver.schema.manifest import Manifest, manifest_digest


def manifest_of(descriptors: Iterable[Descriptor], generated_at: str = EPOCH) -> Manifest:
    """The manifest of these tools, the same in any order; tools of locked servers are left out.

    Raises:
        ToolIdConflict: Two of them have one id.
    """
    own: dict[str, Descriptor] = {}
    for descriptor in filter(is_own, descriptors):
        if descriptor.id in own:
            raise ToolIdConflict(descriptor.id, *sorted((own[descriptor.id].source, descriptor.source)))
        own[descriptor.id] = descriptor
    tools = tuple(sorted(map(ManifestTool.of, own.values()), key=lambda tool: tool.order))
    return Manifest(generated_at=generated_at, digest=manifest_digest(tools), tools=tools)


def is_own(descriptor: Descriptor) -> bool:
    """True if a tool is made of the project's own code."""
    return descriptor.labels.kind != "TOOL"
