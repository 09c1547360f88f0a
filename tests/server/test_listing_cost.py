"""A listing costs a model less than the definitions that it saves, whatever collection it is of.

A token is taken for four characters on both sides.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from tests.catalog.test_data import DATA
from tests.integration.conftest import ROOT
from tests.server.conftest import ERAS, Serve, Served, write_agent

pytestmark = pytest.mark.anyio

SENTENCE = "Reviews changes to the payment service before they are merged. "
DIALOGUE = 'user: "Is this change safe?" assistant: "Let me ask the reviewer, who knows the payment service." '
TALKATIVE = SENTENCE + 15 * DIALOGUE
GOAL = 0.919
"""The share that the original of this idea saves on its own agents, the first of the published collections."""


def talkative(folder: Path) -> Path:
    """Agents whose descriptions hold whole conversations, and whose instructions are short."""
    for number in range(40):
        write_agent(folder, f"reviewer-{number}", f"description: {json.dumps(TALKATIVE)}", SENTENCE)
    return folder


def ordinary(folder: Path) -> Path:
    """Agents with two sentences of description and a page of instructions."""
    for number in range(40):
        write_agent(folder, f"reviewer-{number}", f"description: {json.dumps(2 * SENTENCE)}", 40 * SENTENCE)
    return folder


def terse(_: Path) -> Path:
    """The agents of the example, which have a line each."""
    return ROOT / "examples" / "catalog" / "agents"


def tokens(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False)) // 4


async def costs(served: Served, mode: str) -> dict[str, int]:
    """What one whole listing takes, as resources and by the tool; every definition; and the largest one."""
    async with Client(served.server, mode=mode) as client:
        resources: list[Any] = []
        agents: list[Any] = []
        cursor: str | None = None
        while cursor is not None or not resources:
            page = await client.list_resources(cursor=cursor)
            asked = {} if cursor is None else {"cursor": cursor}
            twin = (await client.call_tool("list_agents", asked)).structured_content
            assert twin is not None
            resources.append(page.model_dump(mode="json", by_alias=True, exclude_none=True))
            agents.append(twin)
            cursor = page.next_cursor
        listed = [resource for page in resources for resource in page["resources"]]
        read = [await client.read_resource(resource["uri"]) for resource in listed]
    return {
        "resources": sum(map(tokens, resources)),
        "tool": sum(map(tokens, agents)),
        "whole": sum(resource["_meta"]["agent-resolver/tokens"] for resource in listed),
        "one": max(tokens(found.model_dump(mode="json", by_alias=True, exclude_none=True)) for found in read),
    }


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(("make", "listings"), [(talkative, 2), (ordinary, 2), (terse, 1)])
async def test_a_listing_costs_less_than_the_definitions(
    serve: Serve, tmp_path: Path, mode: str, make: Callable[[Path], Path], listings: int
) -> None:
    """What a resource has takes more than an agent of a line: there, only the tool costs less."""
    found = await costs(serve(make(tmp_path / "agents")), mode)

    cheaper = [name for name in ("tool", "resources") if found[name] < found["whole"]]
    assert cheaper == ["tool", "resources"][:listings], found


@pytest.mark.skipif(not DATA.is_dir(), reason="the published agent files are not at hand")
@pytest.mark.parametrize(
    ("name", "least"),
    [("orchestr8", {"resources": GOAL, "tool": GOAL}), ("wshobson", {"resources": 0.9, "tool": GOAL})],
)
async def test_listing_and_reading_one_agent_saves_most_of_a_published_collection(
    serve: Serve, name: str, least: dict[str, float]
) -> None:
    found = await costs(serve(DATA / name), ERAS[1])

    saved = {listing: 1 - (found[listing] + found["one"]) / found["whole"] for listing in least}
    assert {listing for listing in least if saved[listing] < least[listing]} == set(), saved


@pytest.mark.parametrize("mode", ERAS)
async def test_a_long_description_ends_after_a_word_and_is_read_whole(serve: Serve, tmp_path: Path, mode: str) -> None:
    write_agent(tmp_path / "agents", "reviewer", f"description: {json.dumps(TALKATIVE)}")
    async with Client(serve(tmp_path / "agents").server, mode=mode) as client:
        [resource] = (await client.list_resources()).resources
        [prompt] = (await client.list_prompts()).prompts
        calls = [await client.call_tool(tool, {}) for tool in ("list_agents", "search_agents")]
        whole = (await client.call_tool("get_agent", {"agent": "reviewer"})).structured_content
        [contents] = (await client.read_resource(resource.uri)).contents

    shown = [resource.description, prompt.description]
    shown += [each["description"] for call in calls for each in (call.structured_content or {})["agents"]]
    assert set(shown) == {
        f'{SENTENCE}user: "Is this change safe?" assistant: "Let me ask the reviewer, who knows the payment…'
    }
    assert whole is not None
    assert whole["description"] == TALKATIVE.strip()
    assert isinstance(contents, types.TextResourceContents)
    assert json.loads(contents.text)["description"] == TALKATIVE.strip()
