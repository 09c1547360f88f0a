"""The manifest of tools that a project's own code offers."""

from collections.abc import Iterable

from msgspec import UNSET

from agent_resolver.core import EPOCH
from agent_resolver.registry.errors import ToolIdConflict
from agent_resolver.registry.tool import Descriptor
from agent_resolver.schema.manifest import Manifest, ManifestTool, manifest_digest


def manifest_of(descriptors: Iterable[Descriptor], generated_at: str = EPOCH) -> Manifest:
    """The manifest of these tools, the same in whatever order they come; those of locked servers are not in it.

    Raises:
        ToolIdConflict: Two of them have one id.
    """
    own: dict[str, Descriptor] = {}
    for descriptor in filter(is_own, descriptors):
        if descriptor.id in own:
            raise ToolIdConflict(descriptor.id, *sorted((own[descriptor.id].source, descriptor.source)))
        own[descriptor.id] = descriptor
    tools = tuple(sorted(map(_entry, own.values()), key=lambda tool: tool.order))
    return Manifest(generated_at=generated_at, digest=manifest_digest(tools), tools=tools)


def is_own(descriptor: Descriptor) -> bool:
    """Whether a tool is made of the project's own code."""
    return descriptor.labels.kind != "TOOL"


def _entry(descriptor: Descriptor) -> ManifestTool:
    rules, labels = descriptor.rules, descriptor.labels
    return ManifestTool(
        id=descriptor.id,
        type="BLUEPRINT" if labels.kind == "BLUEPRINT" else "CAPABILITY",
        description=descriptor.description,
        data_classification=rules.classification,
        json_schema=descriptor.input_schema,
        output_schema=UNSET if descriptor.output_schema is None else descriptor.output_schema,
        domain=labels.domain,
        subdomain=labels.subdomain,
        tags=labels.tags,
        maintainer=labels.maintainer,
        required_scopes=tuple(sorted(rules.required_scopes)),
        allow_outbound=labels.allow_outbound,
        is_idempotent=rules.is_idempotent,
        cost_factor=UNSET if labels.cost_factor is None else labels.cost_factor,
        needs_approval=rules.needs_approval,
        approver_role=rules.approver_role if rules.needs_approval else "",
        secrets=tuple(sorted(rules.secrets)),
        examples=labels.examples,
    )
