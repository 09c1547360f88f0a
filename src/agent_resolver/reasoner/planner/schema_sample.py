"""An example of a value for a schema: what its author gives as one, else the smallest value that fits."""

from collections.abc import Iterator
from math import ceil, floor, isfinite
from typing import Any, Final

from agent_resolver.core.schema_document import is_number
from agent_resolver.reasoner.planner.input_field import plain_schema, types_in
from agent_resolver.reasoner.planner.pattern_sample import text_matching
from agent_resolver.registry.compiled_schema import CompiledSchema, compile_once

_FORMATS: Final = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "duration": "P1D",
    "email": "person@example.com",
    "hostname": "host.example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "time": "00:00:00Z",
    "uri": "https://example.com/",
    "uri-reference": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_TEXT: Final = "example"
_MAX_DEPTH: Final = 8
_MAX_LENGTH: Final = 2_000


def sample_value(schema: dict[str, Any]) -> Any:  # noqa: ANN401 - a JSON value
    """An example of a value; the first guess where none is found that fits."""
    return _sample(plain_schema(schema), 0)


def _sample(schema: Any, level: int) -> Any:  # noqa: ANN401 - a schema
    if not isinstance(schema, dict) or level > _MAX_DEPTH:
        return _TEXT
    guesses = [*_guesses(schema, level)]
    valid = _compiled(schema)
    # A schema that cannot be compiled cannot judge a guess either.
    if valid is None:
        return guesses[0]
    return next((guess for guess in guesses if valid.is_valid(guess)), guesses[0])


def _compiled(schema: dict[str, Any]) -> CompiledSchema | None:
    try:
        return compile_once(schema)
    except ValueError:
        return None


def _guesses(schema: dict[str, Any], level: int) -> Iterator[Any]:
    """Values that may fit; at least one."""
    # An example of the author says more than the smallest value that fits, and comes
    # first.
    yield from _declared(schema)
    yield from _samples_of_options(schema, level)
    types = sorted(types_in(schema))
    for name in types:
        yield from _of_type(name, schema, level)
    if "properties" in schema and not types:
        yield from _of_type("object", schema, level)
    if not types:
        yield from (_TEXT, 1, True, None)
    # The last resort keeps the promise that there is at least one guess.
    yield None


def _declared(schema: dict[str, Any]) -> Iterator[Any]:
    """The values that a schema lists itself."""
    for keyword in ("examples", "enum"):
        listed = schema.get(keyword)
        if isinstance(listed, list):
            yield from listed[:3]
    for keyword in ("default", "const"):
        if keyword in schema:
            yield schema[keyword]


def _samples_of_options(schema: dict[str, Any], level: int) -> Iterator[Any]:
    """A sample of each schema that a value may, or has to, follow as well."""
    for keyword in ("anyOf", "oneOf", "allOf"):
        options = schema.get(keyword)
        for option in options[:5] if isinstance(options, list) else ():
            # Null would fit a nullable value, and show nothing of it.
            is_null = isinstance(option, dict) and option.get("type") == "null"
            if not is_null:
                yield _sample(option, level + 1)


def _of_type(name: str, schema: dict[str, Any], level: int) -> Iterator[Any]:
    match name:
        case "string":
            yield from _texts(schema)
        case "integer":
            yield from _numbers(schema)
        case "number":
            yield from _numbers(schema)
            yield from (_middle(schema),)
        case "boolean":
            yield from (True, False)
        case "array":
            yield from _lists(schema, level)
        case "object":
            yield _object(schema, level)


def _texts(schema: dict[str, Any]) -> Iterator[str]:
    named = schema.get("format")
    if isinstance(named, str) and named in _FORMATS:
        yield _FORMATS[named]
    least = schema.get("minLength", 0)
    most = schema.get("maxLength", _MAX_LENGTH)
    if isinstance(least, int) and isinstance(most, int):
        yield _TEXT.ljust(min(least, _MAX_LENGTH), "e")[: max(most, 0)]
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        found = text_matching(pattern)
        # A pattern such as `[a-z]+` takes more of its last letter, where the text has
        # to be longer.
        yield from (
            () if found is None else (found, found.ljust(least, found[-1:] or "a"))
        )
    yield _TEXT


def _bounds(schema: dict[str, Any]) -> tuple[float | None, float | None]:
    """The least and the greatest number that a schema names, whether or not they are allowed themselves."""

    def named(*keywords: str) -> list[float]:
        values = [schema.get(key) for key in keywords]
        return [value for value in values if is_number(value) and isfinite(value)]

    least = named("minimum", "exclusiveMinimum")
    most = named("maximum", "exclusiveMaximum")
    return max(least, default=None), min(most, default=None)


def _numbers(schema: dict[str, Any]) -> Iterator[int]:
    least, most = _bounds(schema)
    step = schema.get("multipleOf")
    yield 1
    if least is not None:
        # The second one fits where the bound itself is excluded.
        yield from (ceil(least), floor(least) + 1)
    if most is not None:
        yield from (floor(most), ceil(most) - 1)
    if isinstance(step, int) and step > 0:
        yield ceil((least or 0) / step) * step
        yield (floor((least or 0) / step) + 1) * step
    yield 0


def _middle(schema: dict[str, Any]) -> float:
    least, most = _bounds(schema)
    if least is not None and most is not None:
        return (least + most) / 2
    return 0.5


def _lists(schema: dict[str, Any], level: int) -> Iterator[list[Any]]:
    least = schema.get("minItems", 0)
    most = schema.get("maxItems", 1)
    # A schema may demand a million items. Where the bound leaves too few, the check
    # refuses this guess.
    count = min(max(least, 1) if isinstance(least, int) else 1, 100)
    item = _sample(schema.get("items", {}), level + 1)
    if isinstance(most, int) and most > 0:
        yield [item] * count
    yield []


def _object(schema: dict[str, Any], level: int) -> dict[str, Any]:
    members = schema.get("properties", {})
    names = schema.get("required", [])
    known = members if isinstance(members, dict) else {}
    required = names if isinstance(names, list) else []
    return {
        name: _sample(known.get(name, {}), level + 1)
        for name in required
        if isinstance(name, str)
    }
