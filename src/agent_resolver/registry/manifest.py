"""The manifest of tools that a project's own code offers."""

from collections.abc import Iterable

from msgspec import UNSET, UnsetType

from agent_resolver.core.resolution import EPOCH
from agent_resolver.registry.errors import ToolIdConflict
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.manifest import (
    DEFAULT_PRIORITY,
    DEFAULT_TIMEOUT_SECONDS,
    Manifest,
    ManifestTool,
    manifest_digest,
)


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
    rules, labels, hints = descriptor.rules, descriptor.labels, descriptor.hints or {}
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
        is_read_only=hints.get("readOnlyHint", False),
        is_isolated=rules.is_isolated,
        cost_factor=_number(labels.cost_factor),
        timeout_seconds=_number(descriptor.timeout_seconds, DEFAULT_TIMEOUT_SECONDS),
        rate_limit_per_minute=_number(descriptor.rate_limit_per_minute),
        needs_approval=rules.takes_approval,
        approver_role=rules.approver_role if rules.takes_approval else "",
        priority=rules.priority if rules.takes_approval and rules.priority != DEFAULT_PRIORITY else UNSET,
        secrets=tuple(sorted(rules.secrets)),
        examples=labels.examples,
    )


def _number(value: float | None, default: float | None = None) -> float | UnsetType:
    """A number as it is read back, `2.0` for a `2`: the digest is over how it is written."""
    return UNSET if value is None or value == default else float(value)
