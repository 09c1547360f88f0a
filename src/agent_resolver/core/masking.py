"""Hides secret fields of arguments and results before people read them or the trail keeps them."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Struct

MASK: Final = "[redacted]"
MAX_EXCERPT_BYTES: Final = 4096
"""How much of one value is shown or kept."""

_APPLICATORS: Final = (
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "dependentSchemas",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
"""The keywords of JSON Schema whose schemas speak about a value, or about parts of it that have no fixed name."""
_NAMED_MAPS: Final = frozenset({"dependentSchemas", "patternProperties"})
"""Those that hold schemas by name, where a name could look like a keyword."""
_USUAL_NAMES: Final = frozenset(
    {
        "accesskey",
        "accesstoken",
        "apikey",
        "authorization",
        "clientsecret",
        "cookie",
        "credential",
        "credentials",
        "passphrase",
        "passwd",
        "password",
        "privatekey",
        "refreshtoken",
        "secret",
        "secretkey",
        "token",
    }
)
"""Names that fields with secrets usually have. Servers rarely mark them, so they are hidden without a mark."""
_PLAIN: Final = (str, int, float)
_SEPARATORS: Final = str.maketrans("", "", "_- ")


class SecretFields(Struct, frozen=True):
    """The fields of one schema whose values are hidden."""

    names: frozenset[str] = frozenset()
    """The names of properties, at whatever depth they are."""
    is_whole: bool = False
    """True if the schema marks the whole value."""

    def joined(self, other: "SecretFields") -> "SecretFields":
        """The fields that one of both hides."""
        return SecretFields(self.names | other.names, self.is_whole or other.is_whole)

    def mask(self, value: Any) -> Any:  # noqa: ANN401 - a JSON value
        """The value with a mask in place of each secret field.

        A field is found by its name alone, so one with the same name elsewhere in the value is hidden too: it is better
        to hide too much than to follow a schema wrongly.
        """
        if self.is_whole:
            return MASK
        try:
            return self._mask_fields(value)
        except RecursionError:
            # It is nested too deeply to be searched, so nothing of it is shown.
            return MASK

    def _mask_fields(self, value: Any) -> Any:  # noqa: ANN401 - a JSON value
        # Most values are plain, and asking whether they are mappings takes longer than
        # all the rest.
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, Mapping):
            shown = {
                key: self._mask_fields(item)
                for key, item in value.items()
                if not self._is_secret(key)
            }
            # All keys come first, so that the fields keep their order.
            return {**dict.fromkeys(value, MASK), **shown}
        if isinstance(value, list | tuple):
            return [self._mask_fields(item) for item in value]
        return value

    def count_in(self, value: Any) -> int:  # noqa: ANN401 - a JSON value
        """The number of fields that the mask hides."""
        count = 0
        # A list of what waits takes the place of recursion: a value may nest deeper
        # than calls can.
        waiting = [value]
        while waiting:
            item = waiting.pop()
            if isinstance(item, Mapping):
                shown = [
                    each for name, each in item.items() if not self._is_secret(name)
                ]
                count += len(item) - len(shown)
                waiting += shown
            elif isinstance(item, list | tuple):
                waiting += item
        return count

    def values_in(self, value: Any) -> frozenset[str]:  # noqa: ANN401 - a JSON value
        """The values of the secret fields, each text or number as text: they may be repeated elsewhere."""
        found: set[str] = set()
        waiting = [(value, self.is_whole)]
        while waiting:
            item, is_hidden = waiting.pop()
            if isinstance(item, _PLAIN):
                # `true` and `false` give nothing away, and would be found in many other
                # texts.
                if is_hidden and not isinstance(item, bool):
                    found.add(str(item))
            elif isinstance(item, Mapping):
                waiting += [
                    (each, is_hidden or self._is_secret(name))
                    for name, each in item.items()
                ]
            elif isinstance(item, list | tuple):
                waiting += [(each, is_hidden) for each in item]
        return frozenset(found)

    def _is_secret(self, name: object) -> bool:
        text = str(name)
        return text in self.names or _is_usual(text)


@lru_cache(1024)
def _is_usual(name: str) -> bool:
    # `api_key`, `API-Key` and `apiKey` are one name.
    return name.lower().translate(_SEPARATORS) in _USUAL_NAMES


def secret_fields(
    schema: Mapping[str, Any] | None,
    declared: Iterable[str] = (),
) -> SecretFields:
    """The fields that a schema marks with `writeOnly` or `format: password`, and those that a tool declares secret."""
    if schema is None:
        return SecretFields(frozenset(declared))
    marked = {
        name
        for name, property_schema in _properties_in(schema)
        if _is_marked(property_schema, schema)
    }
    return SecretFields(
        frozenset(marked | set(declared)), is_whole=_is_marked(schema, schema)
    )


def excerpt(value: Any, limit: int = MAX_EXCERPT_BYTES) -> str:  # noqa: ANN401 - a JSON value
    """The value as JSON text of at most `limit` bytes; an ellipsis at its end says that it was cut."""
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return MASK
    if len(encoded) <= limit:
        return encoded.decode()
    ellipsis = "…"
    # The cut may fall inside a character, whose first bytes are then left out.
    return (
        encoded[: limit - len(ellipsis.encode())].decode("utf-8", "ignore") + ellipsis
    )


def _properties_in(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every named property in a schema, its definitions included."""
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, Mapping):
            # Definitions and unknown keywords are searched too: a reference may apply
            # any of them.
            waiting += node.values()
            properties = node.get("properties")
            if isinstance(properties, Mapping):
                yield from properties.items()


def _is_marked(subschema: Any, root: Mapping[str, Any]) -> bool:  # noqa: ANN401 - a JSON value
    """True if a schema, or one that it applies to the same value or to unnamed parts of it, has the mark."""
    waiting = [subschema]
    followed = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
            continue
        if not isinstance(node, Mapping):
            continue
        if node.get("writeOnly") is True or node.get("format") == "password":
            return True
        waiting += _applied_schemas(node)
        reference = node.get("$ref")
        # A schema may refer to itself, so each reference is followed once.
        if isinstance(reference, str) and reference not in followed:
            followed.add(reference)
            waiting.append(_resolve_reference(reference, root))
    return False


def _applied_schemas(node: Mapping[str, Any]) -> list[Any]:
    """The schemas that the keywords of a schema apply to the same value, or to unnamed parts of it."""
    found: list[Any] = []
    for keyword in _APPLICATORS:
        if keyword not in node:
            continue
        applied = node[keyword]
        if keyword not in _NAMED_MAPS:
            found.append(applied)
        elif isinstance(applied, Mapping):
            found += applied.values()
    return found


def _resolve_reference(reference: str, root: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a JSON value
    """The schema that a reference within the document points to; None for any other, which no tool may have."""
    node: Any = root
    for part in reference.removeprefix("#").split("/")[1:]:
        # RFC 6901, section 4: `~1` is decoded first, or `~01` would become a slash.
        key = part.replace("~1", "/").replace("~0", "~")
        node = node.get(key) if isinstance(node, Mapping) else None
    return node
