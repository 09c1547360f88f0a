"""What an agent file asks for, in the one order and form that every decision uses."""

import pytest
from hypothesis import given
from msgspec import UNSET, structs

from agent_resolver import AgentFile
from agent_resolver.core import limits_of, positions_of, requirements_of
from agent_resolver.schema import (
    ActionConstraints,
    Constraints,
    DataConstraints,
    Limits,
    Requirement,
    Requires,
    TrustConstraints,
    limits_in,
)
from tests.core.strategies import LAW, agent_files


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
