from agent_resolver.registry.compiled_schema import compile_schema
from agent_resolver.schema.planning import CapabilityDraft
from tests.reasoner.planner.manifest import BY_ID, ask
from tests.reasoner.planner.stage import build


def drafts(*missing: str) -> tuple[CapabilityDraft, ...]:
    return build(ask("; ".join(missing), missing=missing)).capabilities


def test_the_id_is_made_of_the_domain_the_verb_and_the_thing() -> None:
    assert [draft.id for draft in drafts("delete ticket 12", "translate the contract")] == [
        "tickets.delete_ticket",
        "contract.translate_contract",
    ]


def test_the_id_is_always_new() -> None:
    first, second = drafts("translate the contract", "translate the contract")

    assert second.id == f"{first.id}_2"
    assert {first.id, second.id}.isdisjoint(BY_ID)


def test_the_values_that_a_clause_states_become_fields() -> None:
    (draft,) = drafts('translate "Hello" for ada@example.com, order 17, pages=3, from https://example.com/x')

    assert draft.input_schema["properties"] == {
        "pages": {"type": "integer"},
        "text": {"type": "string"},
        "email": {"type": "string", "format": "email"},
        "order_id": {"type": "integer"},
        "url": {"type": "string", "format": "uri"},
    }
    compile_schema(draft.input_schema)


def test_no_value_of_the_request_is_in_the_draft() -> None:
    (draft,) = drafts('translate "Hello" for ada@example.com about order 17')

    assert not [value for value in ("Hello", "ada@", "17") if value in str(draft)]


def test_words_without_a_verb_are_drafted_too() -> None:
    (draft,) = drafts("42")

    assert draft.id
    assert draft.description
