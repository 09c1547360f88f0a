"""The official client with the extension of tasks, as far as tests need it."""

from collections.abc import Sequence
from typing import Any, Literal

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from pydantic import ConfigDict

EXTENSION = "io.modelcontextprotocol/tasks"


class Created(types.Result):
    """What a call is answered with that became a task."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str


class Document(types.Result):
    """Any result, as it came."""

    model_config = ConfigDict(extra="allow")


class _TaskRequest(types.Request[dict[str, Any], str]):
    name_param = "taskId"


class TaskExtension(ClientExtension):
    identifier = EXTENSION

    def claims(self) -> Sequence[ResultClaim[Any]]:
        async def resolve(created: Created, context: ClaimContext) -> types.CallToolResult:
            raise AssertionError(f"{created.task_id} of {context.tool_name} is taken as it is")

        return [ResultClaim(result_type="task", model=Created, resolve=resolve)]


async def _elicit(context: Any, params: Any) -> types.ElicitResult:
    raise AssertionError(f"{params} is part of a task: {context}")


def task_client(server: Any, *, has_extension: bool = True, can_ask: bool = False) -> Client:
    """A client of the newest revision that can take tasks."""
    extensions = [TaskExtension()] if has_extension else None
    return Client(server, mode="auto", extensions=extensions, elicitation_callback=_elicit if can_ask else None)


async def start(client: Client, tool: str, arguments: dict[str, Any], **meta: Any) -> str:
    """Call a tool; the id of the task that the call became."""
    created = await client.session.call_tool(tool, arguments, allow_claimed=True, meta=meta or None)  # type: ignore[arg-type]
    assert isinstance(created, Created), created
    return created.task_id


async def ask(client: Client, method: str, task: str, **params: Any) -> dict[str, Any]:
    """The answer to `tasks/…` about a task."""
    request = _TaskRequest(method=method, params={"taskId": task, **params})
    answered = await client.session.send_request(request, Document)
    return answered.model_dump(by_alias=True, mode="json", exclude_none=True)


async def reach(client: Client, task: str, *statuses: str, seconds: float = 15.0) -> dict[str, Any]:
    """Ask for a task until it has one of these statuses."""
    found: dict[str, Any] = {}
    with anyio.move_on_after(seconds):
        while (found := await ask(client, "tasks/get", task))["status"] not in statuses:  # noqa: ASYNC110 - it polls
            await anyio.sleep(0.02)
    assert found["status"] in statuses, found
    return found
