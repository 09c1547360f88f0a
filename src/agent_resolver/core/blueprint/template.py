"""Templates: JSON values with expressions in their texts, and what they evaluate to.

A text that is exactly one `${…}` gives the value of the expression itself. Inside of other text the value is put in as
text. `$${` is a literal `${`. Names of members are never expressions.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import Any, Final, TypeAlias

from msgspec import Struct

from agent_resolver.core import shorten
from agent_resolver.core.blueprint.expression import (
    Expression,
    ExpressionFault,
    Lookup,
    Root,
    operands_of,
    parse_expression,
)
from agent_resolver.core.blueprint.expression_value import (
    MAX_RESULT_BYTES,
    ResultTooLarge,
    size_of,
    text_of,
    value_of,
)
from agent_resolver.schema.limit import MAX_DEPTH

Place = tuple[str | int, ...]
"""Where in a template something is: names of members and positions in lists."""

# A closing brace inside of quotes does not end an expression. The quantifiers are
# possessive: nothing is tried twice. Three kinds of mark: the escape, a whole
# expression, and an opening that is never closed.
_MARK = re.compile(
    r"""\$\$\{|\$\{(?P<inside>(?:[^}'"]|'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")*+)\}|\$\{""",
    re.DOTALL,
)
_UNCLOSED: Final = "`${` is not closed: add `}` after the expression, or write `$${` for the characters themselves"

_MAX_SHOWN: Final = 60


class FixedValue(Struct, frozen=True):
    """A JSON value without any expression in it."""

    value: Any


class ComputedValue(Struct, frozen=True):
    """A text that is one expression, in whose place its value comes."""

    expression: Expression


class MixedText(Struct, frozen=True):
    """A text with expressions in it."""

    parts: tuple[str | Expression, ...]


class ListTemplate(Struct, frozen=True):
    """A list, some items of which hold expressions."""

    items: tuple["Template", ...]


class ObjectTemplate(Struct, frozen=True):
    """An object, some members of which hold expressions."""

    members: tuple[tuple[str, "Template"], ...]


Template: TypeAlias = (
    FixedValue | ComputedValue | MixedText | ListTemplate | ObjectTemplate
)


class Reference(Struct, frozen=True):
    """A value outside of the template that it depends on."""

    root: Root
    name: str = ""
    """The id of the step for `steps`; empty for the other roots."""


class TemplateFault(Exception):
    """Some texts of a template are not right; holds every fault with its place, not only the first."""

    def __init__(self, faults: tuple[tuple[Place, str], ...]) -> None:
        lines = (
            f"{'.'.join(map(str, place)) or 'value'}: {message}"
            for place, message in faults
        )
        super().__init__("\n".join(lines))
        self.faults = faults


# Reading ------------------------------------------------------------------------------


def parse_template(value: Any) -> Template:  # noqa: ANN401 - a JSON value
    """The template that a JSON value is.

    Raises:
        TemplateFault: An expression in it has a fault, it nests too deep, or something in it is not JSON.
    """
    reader = _Reader()
    found = reader.template(value, ())
    if reader.faults:
        raise TemplateFault(tuple(reader.faults))
    return found


def parse_condition(text: str) -> Expression:
    """The expression of a condition: bare, or inside of one `${…}`.

    Raises:
        ExpressionFault: It is not an expression.
    """
    mark = _MARK.fullmatch(text.strip())
    if mark is None or mark["inside"] is None:
        return parse_expression(text)
    # Blanks in place of the mark keep the offset of a fault what it is in the text.
    return parse_expression(text.rstrip()[:-1].replace("${", "  ", 1))


class _Reader:
    """Reads a template, and goes on after a fault to find the others."""

    def __init__(self) -> None:
        self.faults: list[tuple[Place, str]] = []

    def template(self, value: Any, place: Place) -> Template:  # noqa: ANN401 - a JSON value
        if fault := _fault_of(value, len(place)):
            # The fault is kept, and any value in its place lets the search for further
            # faults go on.
            self.faults.append((place, fault))
            return FixedValue(None)
        match value:
            case str():
                return self._parse_text(value, place)
            case list():
                return self._list(value, place)
            case dict():
                return self._object(value, place)
        return FixedValue(value)

    def _list(self, value: list[Any], place: Place) -> Template:
        items = tuple(
            self.template(item, (*place, position))
            for position, item in enumerate(value)
        )
        if all(isinstance(item, FixedValue) for item in items):
            # Nothing in it is computed, so that a run need not build it again.
            return FixedValue([_fixed(item) for item in items])
        return ListTemplate(items)

    def _object(self, value: dict[Any, Any], place: Place) -> Template:
        members = tuple(
            (self._name(name, place), self.template(member, (*place, str(name))))
            for name, member in value.items()
        )
        if all(isinstance(member, FixedValue) for _, member in members):
            return FixedValue({name: _fixed(member) for name, member in members})
        return ObjectTemplate(members)

    def _name(self, name: object, place: Place) -> str:
        if not isinstance(name, str):
            self.faults.append(
                (place, f"the name {name!r} of a member is not a text: quote it")
            )
        return str(name)

    def _parse_text(self, text: str, place: Place) -> Template:
        parts = list(self._parts(text, place))
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) == len(parts):
            return FixedValue("".join(texts))
        # A single expression keeps its type; beside other text, its value becomes text.
        only = parts[0] if len(parts) == 1 else ""
        if isinstance(only, str):
            return MixedText(tuple(parts))
        return ComputedValue(only)

    def _parts(self, text: str, place: Place) -> Iterator[str | Expression]:
        end = 0
        for mark in _MARK.finditer(text):
            if mark.start() > end:
                yield text[end : mark.start()]
            end = mark.end()
            if mark[0] == "$${":
                yield "${"
            elif mark["inside"] is None:
                self.faults.append((place, _UNCLOSED))
            else:
                yield from self._expression(mark["inside"], place)
        # What is behind the last mark is text, or all of it where there is no mark.
        if end < len(text):
            yield text[end:]

    def _expression(self, text: str, place: Place) -> Iterator[Expression]:
        try:
            yield parse_expression(text)
        except ExpressionFault as fault:
            shown = shorten.shorten(text, _MAX_SHOWN)
            self.faults.append(
                (
                    place,
                    f"{fault.message} (at character {fault.offset + 1} of `{shown}`)",
                )
            )


def _fault_of(value: object, level: int) -> str | None:
    """The reason why a value cannot be a part of a template, or None."""
    if level > MAX_DEPTH:
        return f"lists and objects nest deeper than {MAX_DEPTH} levels: make it flatter"
    if isinstance(value, float) and not isfinite(value):
        return "the number is not finite: JSON has no such number"
    if value is None or isinstance(value, bool | int | float | str | list | dict):
        return None
    return f"a value of the type {type(value).__name__} is not JSON: quote it to make it a text"


def _fixed(template: Template) -> Any:  # noqa: ANN401 - a JSON value
    return template.value if isinstance(template, FixedValue) else None


# Evaluating ---------------------------------------------------------------------------


def evaluate(template: Template, scope: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a JSON value
    """The value of a template, given a JSON value for each root; `steps` is an object of results by id.

    The result shares its parts with the scope and the template: it must not be changed.

    Raises:
        ResultTooLarge: It would take more than 1,000,000 bytes as JSON, or nest too deep.
    """
    return _Evaluation(scope).result(template, 0)


class _Evaluation:
    """Builds one result, and stops when all parts so far are larger than a result may be."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self._scope = scope
        self._left = MAX_RESULT_BYTES

    def result(self, template: Template, level: int) -> Any:  # noqa: ANN401 - a JSON value
        match template:
            case FixedValue():
                return self._counted(template.value, level)
            case ComputedValue():
                return self._counted(value_of(template.expression, self._scope), level)
            case MixedText():
                return self._counted(self._joined(template), level)
            case ListTemplate():
                # Two brackets, and a comma after each item but the last.
                self._take(len(template.items) + 1)
                return [self.result(item, level + 1) for item in template.items]
        # Two braces, and for each member a colon and a comma, but the last comma.
        self._take(2 * len(template.members) + 1)
        return {
            self._counted(name, level): self.result(member, level + 1)
            for name, member in template.members
        }

    def _joined(self, template: MixedText) -> str:
        texts = []
        # The bound is checked part by part, before a text is joined that may be too
        # long for memory.
        left = self._left
        for part in template.parts:
            text = (
                part if isinstance(part, str) else text_of(value_of(part, self._scope))
            )
            # Each character takes a byte at least.
            left -= len(text)
            if left < 0:
                raise ResultTooLarge
            texts.append(text)
        return "".join(texts)

    def _counted(self, value: Any, level: int) -> Any:  # noqa: ANN401 - a JSON value
        self._take(size_of(value, self._left, level))
        return value

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ResultTooLarge


# Dependencies -------------------------------------------------------------------------


def references(template: Template | Expression) -> frozenset[Reference]:
    """Everything that a template, or the expression of a condition, reads."""
    return frozenset(reference_to(found) for found in _lookups_in(template))


def reference_to(found: Lookup) -> Reference:
    """The value outside of the template that a lookup begins with."""
    name = str(found.keys[0]) if found.root == "steps" else ""
    return Reference(found.root, name)


def _lookups_in(node: Template | Expression) -> Iterator[Lookup]:
    if isinstance(node, Lookup):
        yield node
    for inner in inside(node):
        yield from _lookups_in(inner)


def inside(node: Template | Expression) -> Iterable[Template | Expression]:
    """The templates and expressions directly inside of one."""
    match node:
        case ComputedValue():
            return (node.expression,)
        case MixedText():
            return (part for part in node.parts if not isinstance(part, str))
        case ListTemplate():
            return node.items
        case ObjectTemplate():
            return (member for _, member in node.members)
        case FixedValue():
            return ()
    return operands_of(node)
