"""MCP tasks in one process: whose they are, what they say, and what becomes of bad requests."""

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from msgspec import structs

from agent_resolver import Project
from agent_resolver.project import open_tools
from agent_resolver.schema import ANONYMOUS, Caller, local_caller
from agent_resolver.schema.state import RUNS
from agent_resolver.server import AgentPrompts, AgentResources, AgentServer, Notices, RegistryTools, agent_server
from agent_resolver.server.inbox import inbox_tools
from agent_resolver.server.task import Tasks
from agent_resolver.server.task_run import BlueprintTaskRuns
from tests.cli.blueprint_project import MODULE, BlueprintProject, write_packing_shop
from tests.server.conftest import write_agent
from tests.server.task_client import ask, reach, start, task_client

pytestmark = pytest.mark.anyio
ADA = Caller(id="ada", is_verified=True, issuer="https://one", clearance="RESTRICTED", scopes=None)
WIPE = """\
blueprint_metadata: { id: shop.wipe_all, version: 1.0.0, description: Forget an order. }
dag:
  output_schema: { type: object, properties: { wiped: { type: string, pattern: "^x" } }, required: [wiped] }
  steps:
    - { id: wipe, capability: shop.pack, input_mapping: { id: lamp-1 } }
  output_mapping: { wiped: "${steps.wipe.id}" }
"""


class Shop:
    """A server over the shop in this process, whose caller a test can change."""

    def __init__(self, project: BlueprintProject, server: AgentServer, store: Any, inbox: Any) -> None:
        self.project = project
        self.server = server
        self.store = store
        self.inbox = inbox
        self.caller: Caller = ADA

    def client(self, **more: Any) -> Client:
        return task_client(self.server, **more)


@asynccontextmanager
async def opened(folder: Path, *, has_inbox: bool = False) -> AsyncIterator[Shop]:
    async with AsyncExitStack() as stack:
        project = stack.enter_context(Project.open(folder, trust=True))
        session = project.session
        tools = await stack.enter_async_context(open_tools(session, caller=local_caller("t"), is_governed=False))
        if has_inbox:
            for tool in inbox_tools(tools.inbox):
                tools.registry.add(tool)
        shop: Shop
        served = RegistryTools(tools.registry, tools.context, lambda _: shop.caller)
        assert tools.engine is not None
        runs = {"blueprint": BlueprintTaskRuns(tools.engine.runs)}
        served.tasks = Tasks(tools.registry, session.store, tools.context, served.caller_of, runs)
        stack.callback(served.tasks.stop)
        resources = AgentResources(project.catalog, page_size=20)
        server = agent_server(resources, served, AgentPrompts(project.catalog, resources), Notices())
        shop = Shop(BlueprintProject(folder), server, session.store, tools.inbox)
        yield shop


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Each shop has a module of its own under the same name.
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_packing_shop(tmp_path)
    write_agent(tmp_path / "agents", "keeper")
    return tmp_path


async def refusal(client: Client, method: str, task: str, **params: Any) -> tuple[int, str]:
    with pytest.raises(MCPError) as refused:
        await ask(client, method, task, **params)
    return refused.value.error.code, refused.value.error.message


async def test_a_task_outlives_its_connection_and_returns_the_result_of_the_call(folder: Path) -> None:
    async with opened(folder) as shop:
        async with shop.client() as client:
            assert "io.modelcontextprotocol/tasks" in (client.server_capabilities.extensions or {})
            listed = {tool.name: tool.meta or {} for tool in (await client.list_tools()).tools}
            task = await start(client, "shop__pack_and_send", {})
            working = await reach(client, task, "working")
        (folder / "packed").touch()
        async with shop.client() as client:
            done = await reach(client, task, "completed")
            again = await ask(client, "tasks/get", task)

    assert listed["shop__pack_and_send"]["agent-resolver/task"] is True
    assert "agent-resolver/task" not in listed["shop__send"]
    assert working["pollIntervalMs"] > 0
    assert "steps done" in working["statusMessage"]
    assert done["result"]["structuredContent"] == {"sent": "lamp-1"}
    assert done["result"]["isError"] is False
    assert done["resultType"] == "complete"
    assert again == {**done, "result": again["result"]}
    assert shop.project.notes == ["pack lamp-1", "send lamp-1"]


async def test_a_client_without_the_extension_waits_as_before(folder: Path) -> None:
    (folder / "packed").touch()
    async with opened(folder) as shop:
        async with shop.client(has_extension=False) as client:
            result = await client.call_tool("shop__pack_and_send", {})
            refused = await refusal(client, "tasks/get", "0" * 32)
        async with Client(shop.server, mode="legacy") as client:
            older = await client.call_tool("shop__pack_and_send", {})
            unknown = await refusal(client, "tasks/get", "0" * 32)

    assert result.structured_content == older.structured_content == {"sent": "lamp-1"}
    assert refused[0] == -32021
    assert unknown[0] == -32601


async def test_calls_that_start_no_run_are_answered_at_once(folder: Path) -> None:
    async with opened(folder) as shop, shop.client() as client:
        sent = await client.call_tool("shop__send", {"id": "lamp-1"})
        invalid = await client.call_tool("shop__order", {"itme": "lamp"})

    assert sent.structured_content == {"id": "lamp-1"}
    assert invalid.is_error
    assert invalid.structured_content["code"] == "INPUT_VALIDATION_FAILED"


async def started_again(client: Client, tool: str, arguments: dict[str, Any], **meta: Any) -> str:
    """The task of a call that is made again under its key; until its first attempt is over, it is refused."""
    while True:
        try:
            return await start(client, tool, arguments, **meta)
        except AssertionError as refused:
            assert "ALREADY_RUNNING" in str(refused)  # noqa: PT017 - any other refusal is one


async def test_the_same_key_is_the_same_task(folder: Path) -> None:
    async with opened(folder) as shop, shop.client() as client:
        meta = {"agent-resolver/key": "order-1"}
        first = await start(client, "shop__ask", {"item": "lamp"}, **meta)
        await reach(client, first, "input_required")
        with anyio.fail_after(15):
            again = await started_again(client, "shop__ask", {"item": "lamp"}, **meta)
        other = await start(client, "shop__ask", {"item": "lamp"})
        await reach(client, other, "input_required")

    assert first == again != other
    assert shop.project.notes == ["reserve lamp", "reserve lamp"]


async def test_a_failed_run_is_a_completed_task_with_an_error_for_the_model(folder: Path) -> None:
    BlueprintProject(folder).write("wipe.yaml", WIPE)
    (folder / "packed").touch()
    async with opened(folder) as shop, shop.client() as client:
        broken = await reach(client, await start(client, "shop__order", {"item": "broken"}), "completed")
        odd = await reach(client, await start(client, "shop__wipe_all", {}), "completed")

    assert broken["result"]["isError"] is True
    assert "It is broken" in broken["result"]["structuredContent"]["message"]
    assert odd["result"]["structuredContent"]["code"] == "OUTPUT_VALIDATION_FAILED"


@pytest.mark.parametrize(
    "other",
    [
        structs.replace(ADA, id="eve"),
        structs.replace(ADA, issuer="https://two"),
        structs.replace(ADA, issuer="", is_verified=False),
        structs.replace(ADA, clearance="PUBLIC"),
        structs.replace(ADA, scopes=frozenset()),
        local_caller("operator"),
        ANONYMOUS,
    ],
    ids=["another name", "another issuer", "no issuer", "less clearance", "fewer scopes", "the operator", "anonymous"],
)
async def test_the_task_of_another_caller_looks_like_none(folder: Path, other: Caller) -> None:
    async with opened(folder) as shop, shop.client() as client:
        task = await start(client, "shop__ask", {"item": "lamp"})
        await reach(client, task, "input_required")
        shop.caller = other
        unknown = await refusal(client, "tasks/get", "0" * 32)
        answers = {task: {"action": "accept", "content": {"answer": "yes"}}}
        found = {
            await refusal(client, "tasks/get", task),
            await refusal(client, "tasks/cancel", task),
            await refusal(client, "tasks/update", task, inputResponses=answers),
        }
        shop.caller = ADA
        kept = await ask(client, "tasks/get", task)

    assert found == {unknown}
    assert unknown[0] == -32602
    assert kept["status"] == "input_required"


@pytest.mark.parametrize("task", ["", "x", "0" * 65, "9" * 100_000, "\x00", "../run", "run/0"])
async def test_an_id_that_no_task_can_have_is_not_found(folder: Path, task: str) -> None:
    async with opened(folder) as shop, shop.client() as client:
        assert (await refusal(client, "tasks/get", task))[0] == -32602
        assert (await refusal(client, "tasks/cancel", task))[0] == -32602


async def test_a_row_that_names_another_caller_opens_no_run_to_them(folder: Path) -> None:
    """The row is not sealed: an edited one must not hand a run over."""
    async with opened(folder) as shop, shop.client() as client:
        task = await start(client, "shop__ask", {"item": "lamp"})
        await reach(client, task, "input_required")
        row = await shop.store.read(lambda snapshot: snapshot.get(RUNS, task))
        await shop.store.write(lambda work: work.put(RUNS, structs.replace(row, caller="eve")))
        shop.caller = structs.replace(ADA, id="eve")

        assert (await refusal(client, "tasks/get", task))[0] == -32602


async def test_a_cancelled_task_takes_back_what_it_did_and_stays_cancelled(folder: Path) -> None:
    async with opened(folder) as shop, shop.client() as client:
        task = await start(client, "shop__ask", {"item": "lamp"})
        await reach(client, task, "input_required")
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(ask, client, "tasks/cancel", task)
        ended = await reach(client, task, "cancelled")
        acknowledged = await ask(client, "tasks/cancel", task)
        again = await ask(client, "tasks/get", task)

    assert "result" not in ended
    assert set(acknowledged) <= {"resultType", "_meta"}
    assert again["status"] == "cancelled"
    assert shop.project.notes == ["reserve lamp", "release lamp-1"]


async def test_cancelling_a_task_that_has_ended_changes_nothing(folder: Path) -> None:
    async with opened(folder) as shop, shop.client() as client:
        task = await start(client, "shop__order", {"item": "lamp"})
        await reach(client, task, "completed")
        await ask(client, "tasks/cancel", task)

        assert (await ask(client, "tasks/get", task))["status"] == "completed"


async def test_a_client_answers_a_question_where_the_inbox_is_served(folder: Path) -> None:
    async with opened(folder, has_inbox=True) as shop, shop.client(can_ask=True) as client:
        task = await start(client, "shop__ask", {"item": "lamp"})
        waiting = await reach(client, task, "input_required")
        [(key, asked)] = waiting["inputRequests"].items()
        for useless in ({"nothing": 1}, {key: "yes"}, {key: {"action": "decline"}}, {key: {"action": "accept"}}):
            await ask(client, "tasks/update", task, inputResponses=useless)
        still = await ask(client, "tasks/get", task)
        await ask(
            client, "tasks/update", task, inputResponses={key: {"action": "accept", "content": {"answer": "yes"}}}
        )
        done = await reach(client, task, "completed")

    assert asked["params"]["message"] == "Send lamp?"
    assert waiting["_meta"]["agent-resolver/pending"]["id"] == key
    assert still["status"] == "input_required"
    assert done["result"]["structuredContent"] == {"answer": "yes", "sent": "lamp-1"}


@pytest.mark.parametrize(("has_inbox", "can_ask"), [(False, True), (True, False)])
async def test_nothing_is_asked_of_a_client_that_may_not_or_cannot_answer(
    folder: Path,
    has_inbox: bool,  # noqa: FBT001
    can_ask: bool,  # noqa: FBT001
) -> None:
    async with opened(folder, has_inbox=has_inbox) as shop, shop.client(can_ask=can_ask) as client:
        task = await start(client, "shop__ask", {"item": "lamp"})
        waiting = await reach(client, task, "input_required")
        key = waiting["_meta"]["agent-resolver/pending"]["id"]
        if not has_inbox:
            answer = {key: {"action": "accept", "content": {"answer": "yes"}}}
            await ask(client, "tasks/update", task, inputResponses=answer)
        still = await ask(client, "tasks/get", task)

    assert waiting["inputRequests"] == {}
    assert "CLARIFICATION_REQUIRED" in waiting["statusMessage"]
    assert still["status"] == "input_required"


async def test_tasks_of_an_earlier_revision_are_no_methods_of_this_one(folder: Path) -> None:
    """The extension dropped them: a list would show each caller what others behind the same client started."""
    async with opened(folder) as shop, shop.client() as client:
        refusals = [await refusal(client, method, "0" * 32) for method in ("tasks/list", "tasks/result")]

    assert [code for code, *_ in refusals] == [-32601, -32601]
