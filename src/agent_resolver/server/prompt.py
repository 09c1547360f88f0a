"""`prompts/*`: each agent as a prompt, so that clients offer it as a command."""

import sys
from collections.abc import Iterator
from typing import Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from agent_resolver.catalog.catalog import Catalog
from agent_resolver.catalog.errors import (
    BadCursor,
    BadLimit,
    MalformedUri,
    UnknownAgent,
)
from agent_resolver.catalog.listing import Listed
from agent_resolver.catalog.query import View
from agent_resolver.catalog.uri import SCHEME, parse_uri
from agent_resolver.core.wire_name import from_wire_name, to_wire_name
from agent_resolver.server.resource import TTL_MS, AgentResources, Context, limit_of

_TASK: Final = "task"
_ARGUMENTS: Final = [
    types.PromptArgument(
        name=_TASK, description="What the agent is to do", required=False
    )
]


class AgentPrompts:
    """Answers what clients ask of the catalog as prompts. Each caller sees the agents that they see as resources."""

    def __init__(self, catalog: Catalog, resources: AgentResources) -> None:
        self._catalog = catalog
        self._resources = resources

    async def list(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """A page of agents, by name; the name of a prompt stands for what follows `agent://` in its agent's address."""
        limit = limit_of(ctx, self._resources.page_size)
        try:
            page = self._catalog.page(
                params.cursor if params else None,
                limit,
                view=self._resources.view_of(ctx),
            )
        except (BadCursor, BadLimit) as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        return types.ListPromptsResult(
            prompts=list(map(_make_prompt, page.agents)),
            next_cursor=page.next_cursor,
            ttl_ms=TTL_MS,
            cache_scope="private",
        )

    async def get(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """The instructions of one agent, and the task if there is one, as a message of the user."""
        arguments = params.arguments or {}
        if unknown := sorted(arguments.keys() - {_TASK}):
            message = f"Unknown argument `{unknown[0]}`: a prompt takes `{_TASK}` alone"
            raise MCPError(types.INVALID_PARAMS, message, {"argument": unknown[0]})
        view = self._resources.view_of(ctx)
        try:
            uri = parse_uri(f"{SCHEME}{self._path_of(params.name, view)}")
            definition = self._catalog.definition(uri, view=view)
        except (MalformedUri, UnknownAgent):
            raise MCPError(
                types.INVALID_PARAMS, "Prompt not found", {"name": params.name}
            ) from None
        task = arguments.get(_TASK, "").strip()
        parts = [
            definition.content.strip() or definition.entry.description,
            f"Task: {task}" if task else "",
        ]
        content = types.TextContent(type="text", text="\n\n".join(filter(None, parts)))
        return types.GetPromptResult(
            description=definition.entry.description or None,
            messages=[types.PromptMessage(role="user", content=content)],
        )

    def _path_of(self, name: str, view: View) -> str:
        """The path that a client means by the name of a prompt, or by the path itself; empty if there is none."""
        return from_wire_name(name, self._known_paths(view)) or ""

    def _known_paths(self, view: View) -> Iterator[str]:
        # Asked for only when a name has a digest: there may be many agents.
        yield from self._catalog.completions("", sys.maxsize, is_path=True, view=view)[
            0
        ]


def _make_prompt(agent: Listed) -> types.Prompt:
    return types.Prompt(
        name=to_wire_name(agent.uri.removeprefix(SCHEME)),
        title=agent.name,
        description=agent.summary or None,
        arguments=_ARGUMENTS,
    )
