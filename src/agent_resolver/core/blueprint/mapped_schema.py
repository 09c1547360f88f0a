"""The JSON Schema of what a template evaluates to, as far as the schemas of what it refers to say.

It errs on one side: every value that `evaluate` can give is valid under it. What cannot be said is anything, `{}`, and
is left to the check of arguments when the call is made.
"""

import re
from collections.abc import Mapping
from itertools import count
from typing import Any, Final

from agent_resolver.core import schema_document
from agent_resolver.core.blueprint import schema_view
from agent_resolver.core.blueprint.expression import (
    Conditional,
    Constant,
    Expression,
    FunctionCall,
    Joined,
    Lookup,
)
from agent_resolver.core.blueprint.expression_value import ResultTooLarge, size_of
from agent_resolver.core.blueprint.schema_view import NULL, SchemaViews, all_of, any_of
from agent_resolver.core.blueprint.template import (
    ComputedValue,
    FixedValue,
    ListTemplate,
    MixedText,
    Reference,
    Template,
    reference_to,
    references,
)
from agent_resolver.core.schema_document import Schema

_BOOLEAN: Final[dict[str, Any]] = {"type": "boolean"}
_COUNTABLE: Final = frozenset({"array", "object", "string"})
_MAX_INLINE: Final = 2_000
"""A larger schema is defined once, however often a template refers to it."""
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,60}")


def schema_of(template: Template, scopes: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of what a template evaluates to: one document without annotations, which refers to nothing outside.

    Args:
        template: The template.
        scopes: A schema for each root, and for `steps` an object of schemas by the id of the step. A root or step
            that is not in it can be anything. A step that may be skipped has a schema that allows null.
    """
    # References are a set, and its order must not reach the names in the document.
    used = sorted(references(template), key=_order_of_references)
    views = SchemaViews(used, scopes)
    found = _Mapping(views).of_template(template)
    # A schema that no value satisfies comes of contradictory scopes, about which
    # nothing can be said.
    if isinstance(found, bool):
        return {}
    return _Extraction(views).document(found)


def is_unknown(schema: Schema) -> bool:
    """True if a schema says nothing about its values."""
    return schema_view.is_anything(schema)


def known_part(schema: Schema) -> Schema:
    """The schema to compare: where nothing is known of a value it has `false`, in which `gaps` finds nothing.

    What is unknown is not a fault: it is checked when the call is made.
    """
    return (
        False
        if is_unknown(schema)
        else schema_document.transform(schema, _without_unknown)
    )


def _without_unknown(node: dict[str, Any]) -> dict[str, Any]:
    found = dict(node)
    if "properties" in node:
        found["properties"] = {
            name: _false_if_unknown(member)
            for name, member in node["properties"].items()
        }
    for keyword in ("prefixItems", "anyOf"):
        if keyword in node:
            found[keyword] = [_false_if_unknown(member) for member in node[keyword]]
    if "items" in node:
        found["items"] = _false_if_unknown(node["items"])
    return found


def _false_if_unknown(schema: Schema) -> Schema:
    if is_unknown(schema):
        return False
    return schema


def _order_of_references(reference: Reference) -> tuple[str, str]:
    return (reference.root, reference.name)


class _Mapping:
    """Schemas of templates and expressions, in terms of the document that the views look into."""

    def __init__(self, views: SchemaViews) -> None:
        self._views = views

    def of_template(self, template: Template) -> Schema:
        match template:
            case FixedValue():
                return schema_view.schema_of_value(template.value)
            case ComputedValue():
                schema = self._of_expression(template.expression)
                return {} if schema is True else schema
            case MixedText():
                return _schema_of_text(template)
            case ListTemplate():
                return schema_view.list_schema(
                    [self.of_template(item) for item in template.items]
                )
        return schema_view.object_schema(
            {name: self.of_template(member) for name, member in template.members}
        )

    def _of_expression(self, expression: Expression) -> Schema:
        match expression:
            case Constant():
                return {"const": expression.value}
            case Lookup():
                return self._of_lookup(expression)
            case Conditional():
                return any_of(
                    [
                        self._of_expression(expression.chosen),
                        self._of_expression(expression.other),
                    ]
                )
            case FunctionCall():
                return self._of_call(expression)
            case Joined(sign="??"):
                return self._of_fallback(expression)
        # What is left is negation, comparison, `&&` and `||`, which always give a truth
        # value.
        return _BOOLEAN

    def _of_lookup(self, expression: Lookup) -> Schema:
        reference = reference_to(expression)
        # The id of a step is the first key, and each step has a schema of its own.
        keys = expression.keys[1:] if expression.root == "steps" else expression.keys
        view = self._views.view(reference, keys)
        schemas = [all_of(each) for each in view.alternatives]
        return any_of([*schemas, NULL] if view.is_absent else schemas)

    def _of_fallback(self, expression: Joined) -> Schema:
        found: list[Schema] = []
        *earlier, last = expression.operands
        for operand in earlier:
            schema = self._of_expression(operand)
            if "null" not in self._views.kinds(schema):
                # Nothing after a value that is never null is reached.
                return any_of([*found, schema])
            found.append(self._views.without_null(schema))
        return any_of([*found, self._of_expression(last)])

    def _of_call(self, expression: FunctionCall) -> Schema:
        argument = self._of_expression(expression.argument)
        kinds = self._views.kinds(argument)
        match expression.function:
            case "unchecked":
                # Nothing is said of the value, so no gap is found: that is the purpose
                # of the function.
                return True
            case "has":
                return _BOOLEAN
            case "text":
                # A text stays as it is, so all that its schema says still holds.
                return argument if kinds == {"string"} else {"type": "string"}
        if not kinds & _COUNTABLE:
            return NULL
        # A value without a length, such as a number, gives null.
        return {
            "type": "integer" if kinds <= _COUNTABLE else ["integer", "null"],
            "minimum": 0,
        }


def _schema_of_text(template: MixedText) -> dict[str, Any]:
    # What is put in may be empty, but the text around it is always there.
    least = sum(len(part) for part in template.parts if isinstance(part, str))
    if least:
        return {"type": "string", "minLength": least}
    return {"type": "string"}


class _Extraction:
    """Makes one document of a schema and of all that it refers to in the document of the views."""

    def __init__(self, views: SchemaViews) -> None:
        self._document = views.document
        self._names: dict[int, str] = {}
        self._pending: list[tuple[str, Schema]] = []

    def document(self, schema: dict[str, Any]) -> dict[str, Any]:
        found = self._extracted(schema)
        # A definition may refer to further ones, which are put behind it until none is
        # left.
        definitions = {}
        while self._pending:
            name, definition = self._pending.pop()
            definitions[name] = (
                definition
                if isinstance(definition, bool)
                else self._extracted(definition)
            )
        return (
            {**found, "$defs": dict(sorted(definitions.items()))}
            if definitions
            else found
        )

    def _extracted(self, schema: dict[str, Any]) -> dict[str, Any]:
        # A copy is not in the document, so that a large schema is not replaced by a
        # reference to itself.
        found: dict[str, Any] = schema_document.transform(dict(schema), self._placed)
        return found

    def _placed(self, node: dict[str, Any]) -> dict[str, Any]:
        """The node with references into the new document."""
        # A large schema that comes from a tool is shared by reference, not copied to
        # each place that reads it.
        if self._document.has(node) and _is_large(node):
            return {"$ref": self._defined(node, "value")}
        kept = {key: value for key, value in node.items() if key not in _DEFINITIONS}
        target = self._document.target(kept["$ref"]) if "$ref" in kept else None
        if target is None:
            return kept
        _, _, last = kept["$ref"].rpartition("/")
        return {**kept, "$ref": self._defined(target, last)}

    def _defined(self, schema: Schema, name: str) -> str:
        """The reference to a schema, which is put among the definitions when it is first referred to."""
        known = self._names.get(id(schema))
        if known is None:
            known = self._new_name(name if _PLAIN_NAME.fullmatch(name) else "value")
            self._names[id(schema)] = known
            self._pending.append((known, schema))
        return f"#/$defs/{known}"

    def _new_name(self, name: str) -> str:
        taken = set(self._names.values())
        if name not in taken:
            return name
        numbered = (f"{name}{number}" for number in count(2))
        return next(each for each in numbered if each not in taken)


def _is_large(schema: Schema) -> bool:
    try:
        size_of(schema, _MAX_INLINE)
    except ResultTooLarge:
        return True
    return False
