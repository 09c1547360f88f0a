"""The promise about changes of schemas, held against a validator: what is called compatible breaks no value."""

from typing import Any

import jsonschema_rs
from hypothesis import example, given

from agent_resolver.core import schema_changes
from tests.core.schemas import DOCUMENTS, VALUES, changed
from tests.strategies import law

# Schemas are slow to draw.
LAW = law(100)

Pair = tuple[dict[str, Any], dict[str, Any]]


def taken(schema: dict[str, Any]) -> list[bool] | None:
    """Which of the values a schema takes; None where it is no schema."""
    try:
        validator = jsonschema_rs.validator_for(schema, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError):
        return None
    return list(map(validator.is_valid, VALUES))


def is_compatible(before: Any, after: Any, side: Any) -> bool:
    return not any(change.is_breaking for change in schema_changes(before, after, side))


@LAW
@given(pair=changed())
@example(pair=({"type": "integer"}, {"type": "number"}))
@example(pair=({"type": "number"}, {"type": "integer"}))
@example(pair=({"enum": [True]}, {"enum": [1]}))
def test_a_compatible_change_takes_all_old_inputs_and_gives_no_new_outputs(
    pair: Pair,
) -> None:
    before, after = map(taken, pair)

    for side, old, new in (("input", before, after), ("output", after, before)):
        if old and new and is_compatible(*pair, side):
            assert [value for value, was, now in zip(VALUES, old, new, strict=True) if was and not now] == []


@LAW
@given(pair=changed())
def test_whatever_changed_is_told_and_in_one_order(pair: Pair) -> None:
    """Also where it is no schema any more."""
    for side in ("input", "output"):
        changes = schema_changes(*pair, side)
        assert changes == tuple(
            sorted(changes, key=lambda change: (change.path, change.keyword, not change.is_breaking))
        )
        assert len(set(changes)) == len(changes)


@LAW
@given(schema=DOCUMENTS)
def test_nothing_changes_between_a_schema_and_itself(schema: dict[str, Any]) -> None:
    assert schema_changes(schema, schema, "input") == schema_changes(schema, schema, "output") == ()


@LAW
@given(pair=changed())
def test_an_input_takes_back_what_an_output_gains(pair: Pair) -> None:
    """A change breaks an output exactly when taking it back breaks an input."""
    before, after = pair

    assert is_compatible(before, after, "output") == is_compatible(after, before, "input")
