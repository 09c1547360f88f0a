import asyncio

import pytest

from agent_resolver.reasoner import PLANNER_CHECKS, OfflinePlanner


@pytest.mark.parametrize("name", PLANNER_CHECKS)
def test_the_offline_planner_keeps_the_promises_of_the_port(name: str) -> None:
    asyncio.run(PLANNER_CHECKS[name](OfflinePlanner))
