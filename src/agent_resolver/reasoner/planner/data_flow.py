"""Connects the outputs of earlier steps with the inputs of later ones.

A value flows where both sides mean the same and the schemas agree. They mean the same if both identify a thing of the
same name (`id` of a ticket, `ticket_id`), or if they have the same name, which must be more than a word such as `title`
that everything has. The schemas agree if every value of the output is one of the input: `gaps` finds nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from agent_resolver.core.blueprint.expression import Lookup
from agent_resolver.core.blueprint.mapped_schema import is_unknown, schema_of
from agent_resolver.core.blueprint.template import ComputedValue
from agent_resolver.core.schema_document import Document, bare
from agent_resolver.core.schema_inclusion import gaps
from agent_resolver.reasoner.planner.input_field import InputField, fields_of, types_in
from agent_resolver.reasoner.planner.synonym import verb_groups
from agent_resolver.reasoner.planner.tool_profile import domain_of, nouns_of
from agent_resolver.reasoner.planner.word import singular, split_words, stem
from agent_resolver.schema.blueprint import MAX_ITEMS, MAX_UNBATCHED_ITEMS
from agent_resolver.schema.descriptor import Descriptor

_GENERIC_TEXT: Final = """\
name title text body description status state type kind date time count amount total message value data result
content summary url link reason note label priority limit
"""
GENERIC: Final = frozenset(_GENERIC_TEXT.split())
"""Names that say nothing about which thing is meant."""
_ROLES: Final = frozenset(
    {"to", "recipient", "receiver", "address", "email", "mail", "attendee"}
)
_MAX_LEVELS: Final = 2


class OutputMember(Struct, frozen=True, kw_only=True):
    """A value inside of what a tool returns."""

    path: tuple[str, ...]
    """The names that lead to it; for a list, those that lead to an item follow in `inside`."""
    inside: tuple[str, ...] = ()
    field: InputField
    """Its name and schema."""
    thing: str
    """What it would identify, in the singular: the noun of its name, of what it is in, or of its tool."""
    is_item: bool = False
    """True if it is one for each item of a list."""
    max_items: int = MAX_UNBATCHED_ITEMS


def outputs_of(tool: Descriptor) -> tuple[OutputMember, ...]:
    """The values that a tool returns, two levels deep."""
    if tool.output_schema is None:
        return ()
    thing = nouns_of(tool)[-1] if nouns_of(tool) else ""
    return tuple(_members(tool.output_schema, (), thing, 1))


def _members(
    schema: dict[str, Any],
    path: tuple[str, ...],
    thing: str,
    level: int,
) -> Iterator[OutputMember]:
    for field in fields_of(schema):
        here = (*path, field.name)
        types = types_in(field.schema)
        if types == {"array"}:
            yield from _item_members(field, here)
        elif types == {"object"} and level < _MAX_LEVELS:
            yield from _members(
                field.schema, here, _singular_name(field.name), level + 1
            )
        else:
            yield OutputMember(path=here, field=field, thing=field.noun or thing)


def _item_members(field: InputField, path: tuple[str, ...]) -> Iterator[OutputMember]:
    """The values that each item of a list has."""
    items = field.schema.get("items")
    if not isinstance(items, dict):
        return
    most = field.schema.get("maxItems", MAX_UNBATCHED_ITEMS)
    # A schema may promise more items than a blueprint may ever run over.
    limit = (
        min(most, MAX_ITEMS)
        if isinstance(most, int) and most > 0
        else MAX_UNBATCHED_ITEMS
    )
    name = _singular_name(field.name)
    if types_in(items) == {"object"}:
        for member in fields_of(items):
            thing = member.noun or name
            yield OutputMember(
                path=path,
                inside=(member.name,),
                field=member,
                thing=thing,
                is_item=True,
                max_items=limit,
            )
    else:
        item = InputField(name=name, schema=items, is_required=True)
        yield OutputMember(
            path=path,
            field=item,
            thing=item.noun or name,
            is_item=True,
            max_items=limit,
        )


def _singular_name(name: str) -> str:
    words = split_words(name)
    if not words:
        return name
    words[-1] = singular(words[-1])
    return "_".join(words)


# What means the same ------------------------------------------------------------------


def means_same(
    member: OutputMember,
    maker: Descriptor,
    field: InputField,
    taker: Descriptor,
) -> bool:
    """True if an output of one tool is what an input of another asks for, by their names."""
    if field.is_identifier:
        # A bare `id` is that of the thing which the tool acts on, or of its domain.
        things = (
            {field.noun}
            if field.noun
            else {*nouns_of(taker), singular(domain_of(taker))}
        )
        return member.field.is_identifier and member.thing in things
    if [*map(stem, field.words)] != [*map(stem, member.field.words)]:
        return False
    # A `title` of one thing is not that of another, unless both tools are about the
    # same domain.
    if field.name.lower() not in GENERIC:
        return True
    return domain_of(maker) == domain_of(taker) and not _creates(taker)


def is_recipient(member: OutputMember, field: InputField) -> bool:
    """True if an output is an address and an input says only what an address is for: `email` and `to`.

    Their names differ, so this is enough only where a clause says that it is about what came before: "send them …".
    """
    fields = (field, member.field)
    is_address = all(each.schema.get("format") == "email" for each in fields)
    return is_address and all(_ROLES.issuperset(each.words) for each in fields)


def _creates(tool: Descriptor) -> bool:
    """True for a tool that makes something new, which does not take over the title of something else."""
    words = split_words(tool.id.rpartition(".")[2])
    return any("create" in verb_groups(stem(word)) for word in words[:1])


# What fits ----------------------------------------------------------------------------


def fits(narrow: dict[str, Any], field: InputField) -> bool:
    """True if every value of a schema is one that a field takes; what is not known does not fit."""
    # A schema that is not known may allow anything, and the run would fail at the step
    # that takes the value.
    if is_unknown(narrow):
        return False
    return not gaps(Document(narrow), Document(bare(field.schema)))


def schema_at(schema: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """The schema of a part of a value, which may be null where the part may not be there."""
    # The same rules that check a blueprint derive the schema, so that planner and check
    # agree.
    return schema_of(ComputedValue(Lookup("result", tuple(path))), {"result": schema})


def item_schema_at(schema: dict[str, Any], member: OutputMember) -> dict[str, Any]:
    """The schema of what a member is in each item of its list."""
    found = schema_at(schema, member.path)
    # There is an item only if the list has one; its last may be any of them.
    filled = {**found, "type": "array", "minItems": max(1, found.get("minItems", 0))}
    return schema_of(
        ComputedValue(Lookup("item", (-1, *member.inside))), {"item": filled}
    )


def member_fits(member: OutputMember, maker: Descriptor, field: InputField) -> bool:
    """True if every value of an output is one that a field takes."""
    schema = maker.output_schema
    if schema is None:
        return False
    if not member.is_item:
        return fits(schema_at(schema, member.path), field)
    # A value that may be null instead of a list cannot be run over: the run would fail
    # at that step.
    is_list = "array" in types_in(
        schema_at(schema, member.path)
    ) and "null" not in _names(schema, member.path)
    return is_list and fits(item_schema_at(schema, member), field)


def _names(schema: dict[str, Any], path: Sequence[str]) -> set[str]:
    """The types that a part of a value may have, as they are written."""
    found = schema_at(schema, path)
    declared = found.get("type", [])
    names = {declared} if isinstance(declared, str) else {*declared}
    return names | {
        option.get("type", "")
        for option in found.get("anyOf", [])
        if isinstance(option, dict)
    }


def reference(root: str, path: Sequence[str]) -> str:
    """The template of a value: `${steps.find.tickets}`."""
    return "${" + root + "".join(_step_into(name) for name in path) + "}"


def _step_into(name: str) -> str:
    is_plain = name.isidentifier() and name.isascii()
    # A name comes from the schema of a tool, and must not be able to end the expression
    # that it is in.
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f".{name}" if is_plain else f'["{quoted}"]'
