"""Types and functions that are declared for a test."""

from typing import Annotated, Any

import msgspec
import pydantic
from msgspec import Meta, Struct

from agent_resolver.capability import Capability, UnsafeCode, capability, typed
from agent_resolver.registry import CallContext
from agent_resolver.schema import local_caller

CONTEXT = CallContext(run="run-1", trace_id="0" * 32, caller=local_caller("ada"))

Words = Annotated[str, Meta(description="Some words.", examples=["two words"])]


class Question(Struct, frozen=True, kw_only=True):
    """A request that is safe."""

    words: Words = "none"


class Answer(Struct, frozen=True, kw_only=True):
    """A result that is safe."""

    words: Words


Found = list[tuple[str, UnsafeCode]]


def unsafe(annotation: Any) -> Found:
    """Where a type is not safe as a request, and why."""
    _, found = typed(annotation, "input", ("request",))
    return [(each.path, each.code) for each in found]


def struct(annotation: Any, *default: Any, **config: Any) -> Any:
    """A Struct with one field, which says about itself what it must."""
    field = Annotated[annotation, Meta(description="A field.", examples=_examples(annotation))]
    return msgspec.defstruct("Request", [("field", field, *default)], **config)


def model(annotation: Any, *default: Any, **config: Any) -> Any:
    """A model of pydantic's with one field, which says about itself what it must."""
    field = pydantic.Field(*default, description="A field.", examples=_examples(annotation))
    return pydantic.create_model("Request", field=(annotation, field), **config)


def _examples(annotation: Any) -> list[Any]:
    """An example that the type takes, if there is one of these; else another fault shows as well."""
    candidates: list[Any] = ["x", 1, [], {}, None, True]
    for candidate in candidates:
        try:
            pydantic.TypeAdapter(annotation).validate_python(candidate, strict=True)
        except Exception:  # noqa: BLE001, S112 - the type may be anything
            continue
        return [candidate]
    return ["x"]


async def answer(request: Question) -> Answer:
    """Give back the words."""
    return Answer(words=request.words)


def declare(function: Any = answer, capability_id: str = "tests.echo", **declared: Any) -> Capability[..., Any]:
    """A capability, safe but for what is declared otherwise."""
    return capability(capability_id, **{"examples": [{"words": "two words"}], **declared})(function)
