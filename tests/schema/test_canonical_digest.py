"""Digests are over canonical JSON."""

from hashlib import sha256

from agent_resolver.schema import digest


def test_a_digest_is_over_compact_json_with_sorted_keys() -> None:
    canonical = '{"a":[1,"é"],"b":null}'

    assert digest({"b": None, "a": [1, "é"]}) == f"sha256-{sha256(canonical.encode()).hexdigest()}"


def test_the_order_of_keys_does_not_reach_a_digest_and_the_order_of_values_does() -> None:
    assert digest({"a": 1, "b": {"c": 2, "d": 3}}) == digest({"b": {"d": 3, "c": 2}, "a": 1})
    assert digest(["a", "b"]) != digest(["b", "a"])
