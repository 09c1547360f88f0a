"""Models and pools: what they cost, what all members can do, and who starts with which."""

import math
from collections import Counter
from random import Random

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from agent_resolver.runtime import (
    DataFacts,
    Modalities,
    ModelPool,
    ModelSpec,
    PoolMember,
    Routing,
    fnv1a,
    home_of,
    in_turn,
    pooled,
    share_of,
)
from agent_resolver.schema import Residency, Sensitivity
from tests.core.strategies import LAW, RESIDENCIES, SENSITIVITIES

MODEL = ModelSpec(id="m", provider_id="p", upstream_model="u")


def pool(*members: PoolMember) -> ModelPool:
    return ModelPool(id="pool", members=members)


def member(model_id: str, weight: int = 1) -> PoolMember:
    return PoolMember(model_id=model_id, weight=weight)


@pytest.mark.parametrize(
    ("prices", "expected"),
    [((3.0, 15.0), 3.0 * 2 + 15.0), ((0.0, 0.0), 0.0), ((3.0, None), None), ((None, 15.0), None), ((None, None), None)],
)
def test_a_request_has_a_cost_where_both_prices_are_known(
    prices: tuple[float | None, float | None], expected: float | None
) -> None:
    model = structs.replace(MODEL, input_price=prices[0], output_price=prices[1])

    assert model.cost(2_000_000, 1_000_000) == expected


@pytest.mark.parametrize(
    ("cutoff", "is_fine"),
    [
        ("2024-01", True),
        ("2024-12", True),
        ("2024-02-29", True),
        ("2023-02-29", False),
        ("2024-13", False),
        ("2024-00", False),
        ("2024", False),
        ("2024-1", False),
        ("24-01", False),
        ("2024-01-01T00:00", False),
        ("٢٠٢٤-٠١", False),  # noqa: RUF001 - digits, and none of ours
        ("", False),
    ],
)
def test_a_cutoff_is_a_month_or_a_day_that_exists(cutoff: str, is_fine: bool) -> None:  # noqa: FBT001 - a column
    faults = list(structs.replace(MODEL, knowledge_cutoff=cutoff).faults())

    assert faults == ([] if is_fine else ["knowledge_cutoff must be YYYY-MM or YYYY-MM-DD"])


def test_a_pool_without_members_is_none() -> None:
    assert list(pool().faults()) == ["members must not be empty"]
    assert list(pool(member("a"), member("b")).faults()) == []


# Homes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    # The vectors that the authors of the hash publish.
    [(b"", 0xCBF29CE484222325), (b"a", 0xAF63DC4C8601EC8C), (b"foobar", 0x85944171F73967E8)],
)
def test_the_hash_is_the_published_one(content: bytes, expected: int) -> None:
    assert fnv1a(content) == expected


def test_each_member_is_the_home_of_its_share_of_agents_though_names_are_alike() -> None:
    models = pool(member("model-a", 3), member("model-b"), member("model-c", 2))

    homes = Counter(home_of(models, f"agent-{number}").model_id for number in range(3000))

    assert {name: round(count / 500) for name, count in homes.items()} == {"model-a": 3, "model-b": 1, "model-c": 2}


def test_a_new_member_moves_only_the_agents_that_it_takes() -> None:
    before, after = pool(member("a"), member("b")), pool(member("a"), member("b"), member("c"))
    agents = [f"agent-{number}" for number in range(500)]

    moved = {home_of(after, agent).model_id for agent in agents if home_of(before, agent) != home_of(after, agent)}

    assert moved == {"c"}


def test_the_order_of_members_decides_nothing_but_ties() -> None:
    forwards, backwards = pool(member("a"), member("b"), member("c")), pool(member("c"), member("b"), member("a"))
    agents = [f"agent-{number}" for number in range(100)]

    assert [home_of(forwards, agent) for agent in agents] == [home_of(backwards, agent) for agent in agents]
    twins = pool(member("a"), structs.replace(member("a")))
    assert home_of(twins, "x") is twins.members[0]


def test_the_home_is_tried_first_and_members_for_failures_last() -> None:
    backup = PoolMember(model_id="z", role="failover_only", weight=1_000_000)
    models = pool(backup, member("a"), member("b", 1_000_000))

    assert [each.model_id for each in in_turn(models, "agent")] == ["b", "a", "z"]
    healthy = structs.replace(models, routing=Routing(home="first_healthy"))
    assert [each.model_id for each in in_turn(healthy, "agent")] == ["a", "b", "z"]
    assert home_of(pool(backup), "agent") is backup


def test_an_agent_may_be_called_anything() -> None:
    assert home_of(pool(member("a"), member("b")), "\udcff\0é").model_id in {"a", "b"}


# What all members can do ----------------------------------------------------------------------------------------------

facts = st.builds(
    ModelSpec,
    id=st.just("m"),
    provider_id=st.just("p"),
    upstream_model=st.just("u"),
    context_window=st.none() | st.integers(1, 5),
    max_output_tokens=st.none() | st.integers(1, 5),
    modalities=st.builds(
        Modalities, input=st.lists(st.sampled_from(["text", "image", "pdf"]), unique=True, max_size=3).map(tuple)
    ),
    data=st.builds(
        DataFacts,
        residency=st.none() | st.lists(st.sampled_from(RESIDENCIES), unique=True).map(tuple),
        max_sensitivity=st.none() | st.sampled_from(SENSITIVITIES),
    ),
)


@LAW
@given(st.lists(facts, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_a_pool_promises_what_every_member_keeps(models: list[ModelSpec], shuffle: Random) -> None:
    whole = pooled(pool(), models)
    shuffled = list(models)
    shuffle.shuffle(shuffled)

    for one in models:
        assert whole.context_window is None or whole.context_window <= (one.context_window or 0)
        assert set(whole.modalities.input) <= set(one.modalities.input)
        for asked in RESIDENCIES:
            assert not allows(whole.data.residency, asked) or allows(one.data.residency, asked)
    known = [one.context_window for one in models if one.context_window]
    assert whole.context_window == (min(known) if len(known) == len(models) else None)
    assert pooled(pool(), shuffled) == whole


def allows(residency: tuple[Residency, ...] | None, asked: Residency) -> bool:
    return residency is not None and (asked in residency or "any" in residency)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (("pii.high", "internal", "confidential"), "internal"),
        (("public",), "public"),
        (("public", None), None),
    ],
)
def test_a_pool_may_see_what_its_least_trusted_member_may(
    levels: tuple[Sensitivity | None, ...], expected: Sensitivity | None
) -> None:
    models = [structs.replace(MODEL, data=DataFacts(max_sensitivity=level)) for level in levels]

    assert pooled(pool(), models).data.max_sensitivity == expected


@pytest.mark.parametrize("hashed", [0, 1, 2**32, 2**63, 2**64 - 2, 2**64 - 1])
def test_a_share_is_never_all_or_nothing(hashed: int) -> None:
    assert 0 < share_of(hashed) < 1
    assert math.isfinite(1 / -math.log(share_of(hashed)))
