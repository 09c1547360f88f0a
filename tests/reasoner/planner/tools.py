"""Arbitrary tools, for properties."""

from typing import Any

from hypothesis import strategies as st

from agent_resolver.schema import Descriptor, Labels, Rules

_TEXT = (
    "ticket user mail id name title email order invoice status create close delete send get list find update assign "
    "open note team date amount printer report archive and then the a it them all to of"
)
WORDS = _TEXT.split()
NAMES = st.sampled_from(
    ["id", "ticket_id", "user_id", "name", "title", "email", "status", "items", "tickets", "weird key"]
)
SCALARS = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 1, "maxLength": 20},
        {"type": "string", "format": "email"},
        {"type": "string", "pattern": "^[a-z]+-[0-9]+$"},
        {"type": "integer"},
        {"type": "integer", "minimum": 1},
        {"type": "number"},
        {"type": "boolean"},
        {"enum": ["low", "high"]},
        {"type": ["string", "null"]},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        {"$ref": "#/$defs/thing"},
        {"$ref": "#/$defs/nothing"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "string"},
        {},
    ]
)


@st.composite
def objects(draw: st.DrawFn, members: st.SearchStrategy[Any] = SCALARS) -> dict[str, Any]:
    properties = draw(st.dictionaries(NAMES, members, max_size=4))
    required = draw(st.lists(st.sampled_from([*properties]), unique=True)) if properties else []
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": draw(st.booleans()),
        "$defs": {"thing": {"type": "string", "description": "A thing."}},
    }


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    inner = objects().map(lambda schema: {key: value for key, value in schema.items() if key != "$defs"})
    lists = st.one_of(SCALARS, inner).map(lambda items: {"type": "array", "items": items})
    return objects(st.one_of(SCALARS, inner, lists))


SENTENCES = st.lists(
    st.one_of(
        st.sampled_from(WORDS), st.sampled_from(['"quoted text"', "#12", "7", "a@b.example", "title:", ",", ";", "\n"])
    ),
    max_size=14,
).map(" ".join)


@st.composite
def tools(draw: st.DrawFn) -> Descriptor:
    domain = draw(st.sampled_from(["tickets", "users", "mail", "Odd.Domain"]))
    verb = draw(
        st.sampled_from(["create", "close", "get", "list", "delete", "send", "frobnicate", "add_note", "Löschen"])
    )
    return Descriptor(
        id=f"{domain}.{verb}",
        description=draw(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)),
        input_schema=draw(schemas()),
        output_schema=draw(st.one_of(st.none(), schemas())),
        source="module any",
        hints={"readOnlyHint": draw(st.booleans())},
        rules=Rules(
            is_idempotent=draw(st.booleans()),
            classification=draw(st.sampled_from(["PUBLIC", "INTERNAL", "RESTRICTED"])),
        ),
        labels=Labels(kind="CAPABILITY", domain=draw(st.sampled_from([domain, ""]))),
    )


def manifests() -> st.SearchStrategy[tuple[Descriptor, ...]]:
    return st.lists(tools(), max_size=8, unique_by=lambda tool: tool.id).map(tuple)
