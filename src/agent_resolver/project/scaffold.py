"""The source of a capability that is still to be written, made of what a request said of it."""

import keyword
import re
from collections.abc import Iterator
from typing import Any, Final

from agent_resolver.schema.planning import CapabilityDraft

_TYPES: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
}
_EXAMPLES: Final[dict[str, Any]] = {"str": "text", "int": 1, "float": 1.0, "bool": True}
_MOST_FIELDS: Final = 50
_NOT_A_NAME: Final = re.compile("[^a-z0-9_]+")


def scaffold_source(draft: CapabilityDraft) -> str:
    """A Python module with the declaration of the capability, whose function refuses to run until it is written."""
    function = _identifier(draft.id.rpartition(".")[2])
    request = list(_fields(draft.input_schema))
    answer = list(_fields(draft.output_schema))
    # The tools of a project are certified only if every field that a caller gives has
    # an example.
    example = {name: _EXAMPLES[kind] for name, kind, _ in request}
    lines = [
        f'"""{_words(draft.description)}',
        "",
        "A draft: implement it, name this module in `[tools] modules` of agent.toml, then run `agent tools certify`.",
        '"""',
        "",
        "from typing import Annotated",
        "",
        "from msgspec import Meta, Struct",
        "",
        "from agent_resolver.capability import capability",
        "from agent_resolver.registry import ToolFailure",
        "from agent_resolver.schema import FailureCode",
        "",
        "",
        *_struct("Request", "What the capability is given.", request),
        "",
        "",
        *_struct("Answer", "What it returns.", answer),
        "",
        "",
        # `!r` quotes each text of the draft, so that none of it becomes code.
        f"@capability({draft.id!r}, examples=[{example!r}])",
        f"def {function}(request: Request) -> Answer:",
        f'    """{_words(draft.description)}"""',
        f"    raise ToolFailure(FailureCode.NOT_CONFIGURED, {f'{draft.id} is a draft'!r}, 'implement it')",
        "",
    ]
    return "\n".join(lines)


def _struct(name: str, words: str, fields: list[tuple[str, str, str]]) -> Iterator[str]:
    yield f"class {name}(Struct, frozen=True, kw_only=True):"
    yield f'    """{words}"""'
    yield ""
    for field, kind, description in fields:
        example = _EXAMPLES[kind]
        yield f"    {field}: Annotated[{kind}, Meta(description={description!r}, examples=[{example!r}])]"


def _fields(schema: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The name, type and description of each field; a capability without any has one that says whether it is done."""
    properties = schema.get("properties") or {
        "done": {"type": "boolean", "description": "True once it is done."}
    }
    # The draft is made of a request, so the number of its fields is bounded.
    for name, field in sorted(properties.items())[:_MOST_FIELDS]:
        # A type without a counterpart here becomes text.
        kind = (
            _TYPES.get(field.get("type", "string"), "str")
            if isinstance(field, dict)
            else "str"
        )
        description = (
            str(field.get("description") or name) if isinstance(field, dict) else name
        )
        yield _identifier(name), kind, _words(description)


def _identifier(text: str) -> str:
    """A name that Python takes. What a person wrote never gets into the source as code."""
    name = _NOT_A_NAME.sub("_", text.lower()).strip("_")
    return (
        f"{name or 'value'}_"
        if name in keyword.kwlist or not name[:1].isalpha()
        else name
    )


def _words(text: str) -> str:
    """Words for a docstring: on one line, without anything that could end it."""
    line = " ".join(text.split())[:200]
    # A backslash begins an escape in a docstring, and quotation marks may end it.
    return line.replace("\\", "/").replace('"', "'")
