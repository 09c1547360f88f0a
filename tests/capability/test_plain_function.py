"""Plain typed functions as tools: their arguments, their results, and the rules where nothing was declared."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from msgspec import Meta

from agent_resolver.capability import UnsafeCapability, UnsafeCode, tool_of
from agent_resolver.registry import CallContext, ToolRegistry, UnusableTool
from agent_resolver.schema import Caller, Done, Failed, Outcome, local_caller

CALLER = local_caller("tester")


@dataclass
class Place:
    """Where something is."""

    city: str
    country: str = "NL"


def search(query: Annotated[str, Meta(description="Words to look for")], limit: int = 2) -> list[str]:
    """Search the notes.

    It finds everything.
    """
    return [query] * limit


async def locate(name: str, *, near: Place | None = None) -> Place:
    """Find a place."""
    await asyncio.sleep(0)
    return near or Place(name)


def whoami(context: CallContext, greeting: str = "hello") -> str:
    """Say who calls."""
    return f"{greeting} {context.caller.id}"


def forget() -> None:
    """Forget everything."""


class Shelf:
    """Holds books."""

    def __init__(self) -> None:
        self.books = ["Emma"]

    def find(self, title: str) -> bool:
        """Say whether a book is there."""
        return title in self.books


def call(function: Any, arguments: dict[str, Any], caller: Caller = CALLER) -> Outcome:
    async def work() -> Outcome:
        registry = ToolRegistry()
        registry.add(tool_of(function))
        context = CallContext(run="r", trace_id="0" * 32, caller=caller)
        return await registry.call(function.__name__, arguments, context)

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("function", "arguments", "result"),
    [
        (search, {"query": "x"}, {"result": ["x", "x"]}),
        (search, {"query": "x", "limit": 1}, {"result": ["x"]}),
        (locate, {"name": "Delft"}, {"city": "Delft", "country": "NL"}),
        (locate, {"name": "x", "near": {"city": "Ghent", "country": "BE"}}, {"city": "Ghent", "country": "BE"}),
        (whoami, {}, {"result": "hello local:tester"}),
        (forget, {}, {"result": None}),
        (Shelf().find, {"title": "Emma"}, {"result": True}),
    ],
)
def test_a_plain_function_is_called_with_its_parameters(function: Any, arguments: Any, result: Any) -> None:
    outcome = call(function, arguments)

    assert isinstance(outcome, Done), outcome
    assert outcome.result == result


@pytest.mark.parametrize("arguments", [{}, {"query": 5}, {"query": "x", "limit": "many"}, {"query": "x", "more": 1}])
def test_arguments_that_the_parameters_do_not_take_are_refused(arguments: dict[str, Any]) -> None:
    outcome = call(search, arguments)

    assert isinstance(outcome, Failed)
    assert outcome.code == "INPUT_VALIDATION_FAILED"


def test_the_context_cannot_be_given_as_an_argument() -> None:
    outcome = call(whoami, {"context": {}})

    assert isinstance(outcome, Failed)
    assert outcome.code == "INPUT_VALIDATION_FAILED"


def test_a_function_that_declares_nothing_has_the_strictest_rules() -> None:
    descriptor = tool_of(search).descriptor

    assert descriptor.rules.classification == "CONFIDENTIAL"
    assert (descriptor.rules.is_idempotent, descriptor.rules.secrets, descriptor.rules.required_scopes) == (
        False,
        (),
        (),
    )
    assert descriptor.hints == {"destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
    assert descriptor.labels.allow_outbound


def test_a_caller_without_the_clearance_cannot_call_a_plain_function() -> None:
    outcome = call(search, {"query": "x"}, Caller(id="guest", scopes=frozenset(), clearance="INTERNAL"))

    assert isinstance(outcome, Failed)
    assert outcome.code == "CLEARANCE_TOO_LOW"


def test_a_plain_function_is_described_by_its_docstring_and_annotations() -> None:
    descriptor = tool_of(search, "notes.search").descriptor

    assert descriptor.id == "notes.search"
    assert descriptor.description == "Search the notes.\n\nIt finds everything."
    assert descriptor.input_schema["properties"]["query"]["description"] == "Words to look for"
    assert descriptor.input_schema["properties"]["limit"]["default"] == 2
    assert descriptor.input_schema["required"] == ["query"]
    assert descriptor.input_schema["additionalProperties"] is False
    assert descriptor.code


def test_a_tool_of_a_function_is_still_the_function() -> None:
    assert tool_of(search)("x", limit=1) == ["x"]


def untyped(query) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Search."""
    return str(query)


def silent(query: str) -> str:
    return query


def unending(query: str) -> Any:
    """Search."""
    yield query


def variadic(*queries: str) -> str:
    """Search."""
    return "".join(queries)


def positional(query: str, /) -> str:
    """Search."""
    return query


def without_result(query: str):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Search."""


def of_a_type_that_is_not_there(query: "Missing") -> str:  # type: ignore[name-defined]  # noqa: F821
    """Search."""
    return str(query)


def of_anything(query: Any) -> str:
    """Search."""
    return str(query)


def of_bytes(query: bytes) -> str:
    """Search."""
    return str(query)


def with_a_default_that_is_no_json(query: str = object()) -> str:  # type: ignore[assignment]
    """Search."""
    return query


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (untyped, UnsafeCode.MISSING_ANNOTATION),
        (without_result, UnsafeCode.MISSING_ANNOTATION),
        (silent, UnsafeCode.MISSING_DESCRIPTION),
        (unending, UnsafeCode.BAD_SIGNATURE),
        (variadic, UnsafeCode.VARIADIC_PARAMETERS),
        (positional, UnsafeCode.VARIADIC_PARAMETERS),
        (of_a_type_that_is_not_there, UnsafeCode.UNRESOLVED_ANNOTATION),
        (of_anything, UnsafeCode.UNTYPED),
        (of_bytes, UnsafeCode.BINARY),
        (with_a_default_that_is_no_json, UnsafeCode.NON_JSON_DEFAULT),
        (print, UnsafeCode.BAD_SIGNATURE),
        (Shelf, UnsafeCode.BAD_SIGNATURE),
        (5, UnsafeCode.BAD_SIGNATURE),
    ],
)
def test_a_function_that_cannot_be_a_tool_says_why(function: Any, code: UnsafeCode) -> None:
    with pytest.raises(UnsafeCapability) as caught:
        tool_of(function)

    assert code in {fault.code for fault in caught.value.details}


@pytest.mark.parametrize("tool_id", ["x" * 257, "a\nb", "a\u200bb"])
def test_an_id_that_cannot_be_one_is_refused(tool_id: str) -> None:
    with pytest.raises(UnsafeCapability) as caught:
        tool_of(search, tool_id)

    assert [fault.code for fault in caught.value.details] == [UnsafeCode.BAD_ID]


@pytest.mark.parametrize("junk", [5, print, search, object()])
def test_a_registry_refuses_what_is_not_a_tool(junk: Any) -> None:
    with pytest.raises(UnusableTool, match="it has no descriptor"):
        ToolRegistry().add(junk)
