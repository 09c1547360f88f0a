"""Frozen JSON values: equal to what they were made of, and nobody can change them."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from agent_resolver.schema import freeze, freeze_fields

VALUE = {"a": [1, {"b": [2, None]}], "c": {"d": "e"}}


@pytest.mark.parametrize(
    "change",
    [
        lambda frozen: frozen.update(x=1),
        lambda frozen: frozen.__setitem__("a", 1),
        lambda frozen: frozen.__delitem__("a"),
        lambda frozen: frozen.__ior__({"x": 1}),
        lambda frozen: frozen.clear(),
        lambda frozen: frozen.pop("a"),
        lambda frozen: frozen.popitem(),
        lambda frozen: frozen.setdefault("x", 1),
        lambda frozen: frozen["c"].update(x=1),
        lambda frozen: frozen["a"].append(1),
        lambda frozen: frozen["a"].__setitem__(0, 1),
        lambda frozen: frozen["a"].__delitem__(0),
        lambda frozen: frozen["a"].__iadd__([1]),
        lambda frozen: frozen["a"].__imul__(2),
        lambda frozen: frozen["a"].clear(),
        lambda frozen: frozen["a"].extend([1]),
        lambda frozen: frozen["a"].insert(0, 1),
        lambda frozen: frozen["a"].pop(),
        lambda frozen: frozen["a"].remove(1),
        lambda frozen: frozen["a"].reverse(),
        lambda frozen: frozen["a"].sort(),
        lambda frozen: frozen["a"][1]["b"].append(3),
    ],
)
def test_no_part_of_a_frozen_value_can_be_changed(change: Callable[[Any], None]) -> None:
    frozen = freeze(VALUE)

    with pytest.raises(TypeError, match="cannot be changed"):
        change(frozen)
    assert frozen == VALUE


def test_a_frozen_value_does_not_follow_what_it_was_made_of() -> None:
    original: dict[str, Any] = {"a": [1]}
    frozen = freeze(original)
    original["a"].append(2)

    assert frozen == {"a": [1]}


def test_a_frozen_value_is_written_copied_and_frozen_again_as_it_is() -> None:
    frozen = freeze(VALUE)

    assert msgspec.json.encode(frozen) == msgspec.json.encode(VALUE)
    assert freeze(frozen) is frozen
    for other in (copy.copy(frozen), copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen))):  # noqa: S301 - ours
        assert other == VALUE
        with pytest.raises(TypeError):
            other["a"].append(1)


class Holder(Struct, frozen=True):
    """A struct with a field that is frozen as it is made."""

    content: Any

    def __post_init__(self) -> None:
        freeze_fields(self, "content")


def test_a_field_that_nests_without_end_is_left_for_the_check_of_its_struct() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless

    assert Holder(endless).content is endless
    with pytest.raises(TypeError):
        Holder({"a": {}}).content["a"]["b"] = 1
