"""The tool that takes back what another one did, where one clearly does.

It has the opposite verb (close for open, release for reserve, revoke for grant), acts on the same thing in the same
domain, and all that it must be told is in the result or in the arguments of the step.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from agent_resolver.core.schema_document import bare
from agent_resolver.reasoner.planner.data_flow import (
    fits,
    means_same,
    member_fits,
    outputs_of,
    reference,
)
from agent_resolver.reasoner.planner.input_field import InputField, fields_of
from agent_resolver.reasoner.planner.synonym import verb_groups
from agent_resolver.reasoner.planner.tool_profile import domain_of, nouns_of, verbs_of
from agent_resolver.schema.blueprint import Compensation
from agent_resolver.schema.descriptor import Descriptor

_OPPOSITES: Final[dict[str, tuple[str, ...]]] = {
    "create": ("delete", "cancel", "close", "revoke"),
    "write": ("delete",),
    "post": ("delete",),
    "upload": ("delete",),
    "import": ("delete",),
    "copy": ("delete",),
    "schedule": ("cancel", "delete"),
    "reserve": ("release", "cancel"),
    "order": ("cancel",),
    "invite": ("cancel", "revoke"),
    "start": ("cancel",),
    "grant": ("revoke",),
    "deploy": ("rollback",),
    "enable": ("disable",),
    "disable": ("enable",),
    "charge": ("refund",),
    "subscribe": ("unsubscribe",),
}
"""The groups of verbs that take back those of another group, the best first."""


def find_undo(
    tool: Descriptor,
    mapping: Mapping[str, Any],
    tools: Iterable[Descriptor],
) -> Compensation | None:
    """The call that takes back a step, or None if no tool clearly does.

    Args:
        tool: The tool of the step.
        mapping: The arguments of the step.
        tools: The tools that may be used.
    """
    found = []
    for other in tools:
        rank = _opposite_rank(tool, other)
        arguments = None if rank is None else _arguments(tool, mapping, other)
        if rank is not None and arguments is not None:
            # One that can be repeated comes first, then one that needs no approval.
            order = (
                not other.rules.is_idempotent,
                other.rules.takes_approval,
                rank,
                other.id,
            )
            found.append(
                (order, Compensation(capability=other.id, input_mapping=arguments))
            )
    return min(found, key=lambda each: each[0])[1] if found else None


def _opposite_rank(tool: Descriptor, other: Descriptor) -> int | None:
    """The rank of a tool that takes back another, 0 for the best; None if it does not, or acts on something else."""
    if (
        tool.id == other.id
        or domain_of(tool) != domain_of(other)
        or {*nouns_of(tool)} != {*nouns_of(other)}
    ):
        return None
    groups = frozenset[str]().union(*map(verb_groups, verbs_of(other)))
    # The best opposite has the smallest rank: `delete` takes back a creation better
    # than `close` does.
    ranks = [
        rank
        for verb in verbs_of(tool)
        for group in sorted(verb_groups(verb))
        for rank, opposite in enumerate(_OPPOSITES.get(group, ()))
        if opposite in groups
    ]
    return min(ranks, default=None)


def _arguments(
    tool: Descriptor,
    mapping: Mapping[str, Any],
    other: Descriptor,
) -> dict[str, Any] | None:
    required = [field for field in fields_of(other.input_schema) if field.is_required]
    # Without an identifier it would take back more than this step did.
    if not any(field.is_identifier for field in required):
        return None
    found = {field.name: _source(tool, mapping, field, other) for field in required}
    return None if None in found.values() else found


def _source(
    tool: Descriptor,
    mapping: Mapping[str, Any],
    field: InputField,
    other: Descriptor,
) -> Any:  # noqa: ANN401 - a template
    """The source of an argument: the result of the step, else its own arguments; None if neither has it."""
    # The result knows the identifier that the step gave to a new thing. Arguments have
    # only what was known before.
    for member in outputs_of(tool):
        is_same = not member.is_item and means_same(member, tool, field, other)
        if is_same and member_fits(member, tool, field):
            return reference("result", member.path)
    for own in fields_of(tool.input_schema):
        if (
            own.name == field.name
            and own.name in mapping
            and fits(bare(own.schema), field)
        ):
            return mapping[own.name]
    return None
