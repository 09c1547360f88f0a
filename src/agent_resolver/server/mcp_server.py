"""The MCP server: what it offers, put together."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.shared.exceptions import MCPError

from agent_resolver._version import __version__
from agent_resolver.server.notification import Notices
from agent_resolver.server.prompt import AgentPrompts
from agent_resolver.server.resource import TTL_MS, AgentResources, Context
from agent_resolver.server.task import EXTENSION, Tasks, UpdateTaskRequestParams
from agent_resolver.server.tool import RegistryTools

Params = TypeVar("Params")
Answer = TypeVar("Answer")

Ready = Callable[[], Awaitable[object]]
"""Returns once the agents are known."""

NAME: Final = "agent-resolver"
_log = logging.getLogger(__name__)
_INSTRUCTIONS: Final = (
    "Agents are resources: list them with resources/list or list_agents, find one with search_agents, and read its "
    "definition with resources/read or get_agent only when you are about to use it."
)


class AgentServer(Server[Any]):
    """A server that tells clients of both eras that it tells them of changes."""

    @property
    def server_info_stamp(self) -> dict[str, Any]:
        """The name and version of the server, as in every answer; the SDK would copy it member by member each time."""
        return {"name": NAME, "version": __version__}

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        *rest: Any,  # noqa: ANN401 - as the SDK has it
        **options: Any,  # noqa: ANN401
    ) -> types.ServerCapabilities:
        """The abilities of the server; over HTTP the SDK asks without saying that lists change."""
        del notification_options
        return super().get_capabilities(
            NotificationOptions(
                resources_changed=True, tools_changed=True, prompts_changed=True
            ),
            *rest,
            **options,
        )


def agent_server(
    resources: AgentResources,
    tools: RegistryTools,
    prompts: AgentPrompts,
    notices: Notices,
    ready: Ready | None = None,
) -> AgentServer:
    """The server over these parts.

    What there is to offer is said at once. Answers that may need the agents wait for `ready`, where it is given.
    """
    guard = partial(_guard_handler, ready=ready)
    notices.is_strict = resources.is_strict
    notices.clearance_of = resources.clearance_of
    hint = CacheHint(ttl_ms=TTL_MS, scope="private")
    server = AgentServer(
        NAME,
        version=__version__,
        instructions=_INSTRUCTIONS,
        cache_hints={
            "server/discover": hint,
            "prompts/list": hint,
            "resources/list": hint,
            "resources/read": hint,
            "resources/templates/list": hint,
            "tools/list": hint,
        },
        get_tool_input_schema=tools.input_schema,
        on_list_prompts=guard(prompts.list),
        on_get_prompt=guard(prompts.get),
        on_list_resources=guard(resources.list),
        on_list_resource_templates=resources.templates,
        on_read_resource=guard(resources.read),
        on_subscribe_resource=notices.subscribe,
        on_unsubscribe_resource=notices.unsubscribe,
        on_subscriptions_listen=notices.listen,
        on_completion=guard(resources.complete),
        on_list_tools=_guard_handler(tools.list),
        on_call_tool=guard(tools.call),  # type: ignore[arg-type] # The extension has a result of its own.
    )
    if tools.tasks is not None:
        _serve_tasks(server, tools.tasks)
    server.add_notification_handler(
        "notifications/initialized", types.NotificationParams, notices.initialized
    )
    return server


def _serve_tasks(server: AgentServer, tasks: Tasks) -> None:
    server.extensions[EXTENSION] = {}
    server.add_request_handler(
        "tasks/get", types.GetTaskRequestParams, _guard_handler(tasks.get)
    )
    server.add_request_handler(
        "tasks/update", UpdateTaskRequestParams, _guard_handler(tasks.update)
    )
    server.add_request_handler(
        "tasks/cancel", types.CancelTaskRequestParams, _guard_handler(tasks.cancel)
    )


def _guard_handler(
    handler: Callable[[Context, Params], Awaitable[Answer]], ready: Ready | None = None
) -> Callable[[Context, Params], Awaitable[Answer]]:
    """The handler, whose failures clients are not shown: the SDK would send their text, with paths of this machine."""

    async def guarded(ctx: Context, params: Params) -> Answer:
        try:
            if ready:
                await ready()
            return await handler(ctx, params)
        except MCPError:
            raise
        except Exception:  # noqa: BLE001 - whatever it is, this is where it ends
            _log.exception("A request failed")
            raise MCPError(types.INTERNAL_ERROR, "Internal error") from None

    return guarded
