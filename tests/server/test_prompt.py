"""Agents as prompts, which clients offer as commands."""

from pathlib import Path

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from agent_resolver.schema import Caller
from tests.server.conftest import ERAS, Serve

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three agents, two of one name."""
    files = {
        "planner.md": "---\nname: planner\ndescription: Plans trips\n---\nYou plan trips.\n",
        "law/reviewer.md": "---\nname: reviewer\ndescription: Reads contracts\n---\nRead slowly.\n",
        "team/reviewer.md": "---\nname: reviewer\ndescription: Reads code\n---\n",
    }
    for name, text in files.items():
        path = tmp_path / "agents" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "agents"


def text_of(result: types.GetPromptResult) -> str:
    [message] = result.messages
    assert message.role == "user"
    assert isinstance(message.content, types.TextContent)
    return message.content.text


@pytest.mark.parametrize("mode", ERAS)
async def test_every_agent_is_a_prompt_with_its_instructions(serve: Serve, folder: Path, mode: str) -> None:
    async with Client(serve(folder).server, mode=mode) as client:
        listed = (await client.list_prompts()).prompts
        found = {prompt.name: text_of(await client.get_prompt(prompt.name)) for prompt in listed}

        assert found == {"planner": "You plan trips.", "reviewer": "Read slowly.", "team____reviewer": "Reads code"}
        assert [prompt.description for prompt in listed] == ["Plans trips", "Reads contracts", "Reads code"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_task_is_added_to_the_instructions(serve: Serve, folder: Path, mode: str) -> None:
    async with Client(serve(folder).server, mode=mode) as client:
        found = await client.get_prompt("planner", {"task": "Rome in May"})

        assert text_of(found) == "You plan trips.\n\nTask: Rome in May"
        assert found.description == "Plans trips"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("nobody", {}), ("", {}), ("../etc", {}), ("planner?version=9", {}), ("planner", {"other": "x"})],
)
async def test_what_is_no_prompt_is_refused(serve: Serve, folder: Path, name: str, arguments: dict[str, str]) -> None:
    async with Client(serve(folder).server) as client:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt(name, arguments)

        assert caught.value.error.code == types.INVALID_PARAMS


async def test_prompts_come_a_page_at_a_time(serve: Serve, folder: Path) -> None:
    async with Client(serve(folder, page_size=2).server) as client:
        first = await client.list_prompts()
        second = await client.list_prompts(cursor=first.next_cursor)

        assert [len(page.prompts) for page in (first, second)] == [2, 1]
        assert second.next_cursor is None
        with pytest.raises(MCPError, match="cursor"):
            await client.list_prompts(cursor="x")


async def test_an_agent_that_the_caller_is_not_cleared_for_is_no_prompt(serve: Serve, folder: Path) -> None:
    secret = "---\nname: medical\nconstraints: { data: { sensitivity: pii.high } }\n---\nSecret\n"
    (folder / "medical.md").write_text(secret)
    caller = Caller(id="ada", is_verified=True, clearance="INTERNAL")
    async with Client(serve(folder, caller_of=lambda _: caller).server) as client:
        assert "medical" not in {prompt.name for prompt in (await client.list_prompts()).prompts}
        with pytest.raises(MCPError, match="not found"):
            await client.get_prompt("medical")
