"""What an agent file asks for, in the one order and form that every decision uses."""

from hypothesis import given

from agent_resolver import AgentFile
from agent_resolver.core.constraint import position_of, requirements_of
from agent_resolver.schema import Requirement
from agent_resolver.schema.agent_file import Requires
from tests.core.strategies import LAW, agent_files


@LAW
@given(agent_files)
def test_each_requirement_is_found_again_where_the_agent_file_has_it(agent: AgentFile) -> None:
    for need in requirements_of(agent):
        found = agent.requires.mcp[position_of(need, agent)]

        assert (found.category, sorted(found.permissions)) == (need.category, list(need.permissions))


def test_of_two_requirements_of_one_category_each_has_its_own_position() -> None:
    writes = Requirement(category="files", permissions=("write", "read"))
    reads = Requirement(category="files", permissions=("read",))
    agent = AgentFile(name="a", version="1", requires=Requires(mcp=(writes, reads)))

    assert [position_of(need, agent) for need in requirements_of(agent)] == [1, 0]
