"""What an agent file asks for, in the one order and form that every decision uses."""

from random import Random

import pytest
from hypothesis import given, strategies as st
from msgspec import UNSET, UnsetType, structs

from agent_resolver import AgentFile
from agent_resolver.core import RunLimits, broken_data_rules, limits_of, positions_of, requirements_of
from agent_resolver.schema import (
    ActionConstraints,
    Constraints,
    DataConstraints,
    Limits,
    Requirement,
    Requires,
    Residency,
    Sensitivity,
    TrustConstraints,
    limits_in,
)
from tests.core.strategies import LAW, RESIDENCIES, SENSITIVITIES, agent_files, constraints as some_constraints


@LAW
@given(agent_files)
def test_each_requirement_is_found_again_where_the_agent_file_has_it(agent: AgentFile) -> None:
    needs = requirements_of(agent)

    positions = positions_of(needs, agent)

    found = [agent.requires.mcp[position] for position in positions]
    assert [(need.category, sorted(need.permissions)) for need in found] == [
        (need.category, list(need.permissions)) for need in needs
    ]
    assert sorted(positions) == list(range(len(needs)))


def test_of_two_requirements_of_one_category_each_has_its_own_position() -> None:
    writes = Requirement(category="files", permissions=("write", "read"))
    reads = Requirement(category="files", permissions=("read",))
    agent = AgentFile(name="a", version="1", requires=Requires(mcp=(writes, reads)))

    assert positions_of(requirements_of(agent), agent) == [1, 0]


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        (Constraints(), Limits()),
        (Constraints(data=DataConstraints(), actions=ActionConstraints(), trust=TrustConstraints()), Limits()),
        (Constraints(data=DataConstraints(residency="eu-only")), Limits(residency="eu-only")),
        (Constraints(data=DataConstraints(sensitivity="pii.low")), Limits(sensitivity="pii.low")),
        (Constraints(actions=ActionConstraints(forbid=("a*", "b"))), Limits(forbid=("a*", "b"))),
        (Constraints(trust=TrustConstraints(require_signed=True)), Limits(require_signed=True)),
        (Constraints(trust=TrustConstraints(require_signed=False)), Limits(require_signed=False)),
    ],
)
def test_constraints_limit_the_same_with_and_without_requirements(constraints: Constraints, expected: Limits) -> None:
    agent = AgentFile(name="a", version="1", requires=Requires(mcp=()), constraints=constraints)

    assert limits_in(constraints) == limits_of(agent) == expected
    assert limits_of(structs.replace(agent, constraints=UNSET)) == Limits()


@pytest.mark.parametrize("rules", [(UNSET, True), (True, UNSET), (True, True), (True, False), (False, True)])
def test_either_rule_about_signed_servers_is_enough(rules: tuple[bool | UnsetType, bool | UnsetType]) -> None:
    inner, outer = (TrustConstraints(require_signed=rule) for rule in rules)
    needs = Requires(mcp=())
    agent = AgentFile(name="a", version="1", requires=needs, constraints=Constraints(trust=inner), trust=outer)

    assert limits_of(agent).require_signed is True


# Limits that travel with a delegation ---------------------------------------------------------------------------------

limits = some_constraints.map(limits_in)
chains = st.lists(limits, max_size=4)
facts = st.tuples(
    st.none() | st.lists(st.sampled_from(RESIDENCIES), max_size=2).map(tuple),
    st.none() | st.sampled_from(SENSITIVITIES),
)


def limits_after(chain: list[Limits]) -> RunLimits:
    found = RunLimits()
    for each in chain:
        found = found.narrowed_by(each)
    return found


@LAW
@given(chains, st.randoms(use_true_random=False))
def test_the_limits_of_callers_do_not_depend_on_their_order_or_number(chain: list[Limits], shuffle: Random) -> None:
    shuffled = [*chain, *chain]
    shuffle.shuffle(shuffled)

    assert limits_after(shuffled) == limits_after(chain)


@LAW
@given(chains, chains)
def test_the_limits_of_two_runs_together_are_those_of_all_their_agents(one: list[Limits], other: list[Limits]) -> None:
    assert limits_after(one).joined(limits_after(other)) == limits_after([*one, *other])


@LAW
@given(chains, limits, facts)
def test_one_caller_more_never_lets_anything_see_the_data(
    chain: list[Limits], caller: Limits, known: tuple[tuple[Residency, ...] | None, Sensitivity | None]
) -> None:
    before, after = limits_after(chain), limits_after([caller, *chain])
    broken = broken_data_rules("model", *known, before)

    assert {reason.code for reason in broken} <= {reason.code for reason in broken_data_rules("model", *known, after)}
    assert {*before.residencies} <= {*after.residencies}
    assert {*before.forbid} <= {*after.forbid}
    assert after.govern_data >= before.govern_data


@LAW
@given(chains, facts)
def test_what_every_caller_lets_see_the_data_they_do_together(
    chain: list[Limits], known: tuple[tuple[Residency, ...] | None, Sensitivity | None]
) -> None:
    alone = [broken_data_rules("model", *known, RunLimits().narrowed_by(each)) for each in chain]

    assert bool(broken_data_rules("model", *known, limits_after(chain))) is any(alone)
