"""The manifest of tools that a project's own code offers."""

from collections.abc import Iterable
from typing import Final

from msgspec import UNSET

from agent_resolver.core.resolution import EPOCH
from agent_resolver.registry.errors import ToolIdConflict
from agent_resolver.schema.descriptor import (
    PRIORITY_WHEN_ABSENT,
    TIMEOUT_SECONDS_WHEN_ABSENT,
    Descriptor,
    Labels,
    ManifestTool,
    Rules,
)
from agent_resolver.schema.manifest import MANIFEST_NAME, Manifest, manifest_digest

_NO_RULES: Final = Rules()


def manifest_of(
    descriptors: Iterable[Descriptor], generated_at: str = EPOCH
) -> Manifest:
    """The manifest of these tools, the same in any order; tools of locked servers are left out.

    Raises:
        ToolIdConflict: Two of them have one id.
    """
    own: dict[str, Descriptor] = {}
    for descriptor in filter(is_own, descriptors):
        if descriptor.id in own:
            # Sorted, so that the message is the same in whatever order the tools come.
            raise ToolIdConflict(
                descriptor.id, *sorted((own[descriptor.id].source, descriptor.source))
            )
        own[descriptor.id] = descriptor
    tools = tuple(
        sorted(map(ManifestTool.of, own.values()), key=lambda tool: tool.order)
    )
    return Manifest(
        generated_at=generated_at, digest=manifest_digest(tools), tools=tools
    )


def is_own(descriptor: Descriptor) -> bool:
    """True if a tool is made of the project's own code."""
    return descriptor.labels.kind != "TOOL"


def descriptors_of(manifest: Manifest) -> tuple[Descriptor, ...]:
    """The tools of a manifest, for a planner: they can be planned with, and there is no code behind them to call."""
    return tuple(_descriptor(tool) for tool in manifest.tools)


def _descriptor(tool: ManifestTool) -> Descriptor:
    labels = Labels(
        kind=tool.type,
        domain=tool.domain,
        subdomain=tool.subdomain,
        tags=tool.tags,
        maintainer=tool.maintainer,
        allow_outbound=tool.allow_outbound,
        hosts=tool.hosts,
        cost_factor=None if tool.cost_factor is UNSET else tool.cost_factor,
        examples=tool.examples,
    )
    # A manifest leaves out what is usual; a descriptor states it.
    output_schema = None if tool.output_schema is UNSET else tool.output_schema
    rate_limit = (
        None if tool.rate_limit_per_minute is UNSET else tool.rate_limit_per_minute
    )
    timeout_seconds = (
        TIMEOUT_SECONDS_WHEN_ABSENT
        if tool.timeout_seconds is UNSET
        else tool.timeout_seconds
    )
    return Descriptor(
        id=tool.id,
        description=tool.description,
        input_schema=tool.json_schema,
        output_schema=output_schema,
        source=MANIFEST_NAME,
        rate_limit_per_minute=rate_limit,
        timeout_seconds=timeout_seconds,
        hints={"readOnlyHint": tool.is_read_only, "idempotentHint": tool.is_idempotent},
        rules=_rules(tool),
        labels=labels,
        code=tool.code,
    )


def _rules(tool: ManifestTool) -> Rules:
    return Rules(
        required_scopes=tool.required_scopes,
        classification=tool.data_classification,
        needs_approval=tool.needs_approval,
        approver_role=tool.approver_role or _NO_RULES.approver_role,
        priority=PRIORITY_WHEN_ABSENT if tool.priority is UNSET else tool.priority,
        is_idempotent=tool.is_idempotent,
        secrets=tool.secrets,
        is_isolated=tool.is_isolated,
        secret_fields=tool.secret_fields,
    )
