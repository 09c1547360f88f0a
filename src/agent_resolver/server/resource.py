"""`resources/*`: agents as `agent://` resources, a page at a time, each definition when it is asked for."""

from collections.abc import Callable
from typing import Any, Final

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from msgspec import structs

from agent_resolver.catalog.cache import Cache
from agent_resolver.catalog.catalog import (
    CACHED_DEFINITIONS,
    DEFAULT_PAGE,
    MAX_PAGE,
    Catalog,
)
from agent_resolver.catalog.entry import Definition
from agent_resolver.catalog.errors import (
    BadCursor,
    BadLimit,
    MalformedUri,
    UnknownAgent,
)
from agent_resolver.catalog.listing import Listed
from agent_resolver.catalog.query import View
from agent_resolver.catalog.uri import SCHEME, agent_uri, parse_uri
from agent_resolver.schema.classification import Classification
from agent_resolver.server.protocol_revision import is_modern

JSON_TYPE: Final = "application/vnd.agent-resolver.agent+json"
MARKDOWN_TYPE: Final = "text/markdown"
TTL_MS: Final = 1000
"""How long a client may take an answer for fresh."""
LIMIT_KEY: Final = "agent-resolver/limit"
_NOT_FOUND_BEFORE_2026: Final = -32002
_NAME_TEMPLATE: Final = "agent://{name}{?format,version}"
_PATH_TEMPLATE: Final = "agent://{+path}{?format,version}"
_KEPT_PAGES: Final = 256
_KEPT_BYTES: Final = 8 * 1024 * 1024

Context = ServerRequestContext[Any, Any]
_PageKey = tuple[str, str | None, int, View]
"""The digest of the listing, the cursor, the limit, and what the client sees."""


class AgentResources:
    """Answers what clients ask of the catalog as resources."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        page_size: int = DEFAULT_PAGE,
        is_strict: bool = False,
        clearance_of: Callable[[Context], Classification] = lambda _: "RESTRICTED",
    ) -> None:
        """Resources for clients, each of which sees the agents that its caller is cleared for.

        Args:
            catalog: The agents.
            page_size: The number of agents on a page.
            is_strict: True to hide the agents whose `requires` do not resolve.
            clearance_of: Finds the clearance of a request's caller.
        """
        self._catalog = catalog
        self.page_size = page_size
        self.is_strict = is_strict
        self.clearance_of = clearance_of
        # A page or definition that has not changed need not be made again.
        self._pages: Cache[_PageKey, types.ListResourcesResult] = Cache(
            _KEPT_PAGES, _KEPT_BYTES
        )
        # No more than the catalog keeps: of a definition that it let go of, this would
        # not be used.
        self._reads: Cache[
            tuple[str, str], tuple[Definition, types.ReadResourceResult]
        ] = Cache(CACHED_DEFINITIONS, _KEPT_BYTES)

    async def list(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """A page of agents, by name."""
        limit = limit_of(ctx, self.page_size)
        cursor = params.cursor if params else None
        view = self.view_of(ctx)
        key = (self._catalog.listing, cursor, limit, view)
        if known := self._pages.get(key):
            return known
        try:
            page = self._catalog.page(cursor, limit, view=view)
        except (BadCursor, BadLimit) as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        result = types.ListResourcesResult(
            resources=list(map(_make_resource, page.agents)),
            next_cursor=page.next_cursor,
            ttl_ms=TTL_MS,
            cache_scope="private",
            _meta={
                "agent-resolver/total": page.total,
                "agent-resolver/count": len(page.agents),
            },
        )
        self._pages.put(key, result, 1024 * len(page.agents))
        return result

    async def read(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """One agent, whole: as JSON, or the file itself with `?format=markdown`."""
        try:
            uri = parse_uri(params.uri)
            definition = self._catalog.definition(uri, view=self.view_of(ctx))
        except MalformedUri as error:
            raise MCPError(
                types.INVALID_PARAMS, str(error), {"uri": params.uri}
            ) from None
        except UnknownAgent:
            code = types.INVALID_PARAMS if is_modern(ctx) else _NOT_FOUND_BEFORE_2026
            raise MCPError(code, "Resource not found", {"uri": params.uri}) from None
        known = self._reads.get((params.uri, uri.format))
        if known and known[0] is definition:
            return known[1]
        result = _read_result(
            params.uri, definition, is_markdown=uri.format == "markdown"
        )
        self._reads.put(
            (params.uri, uri.format), (definition, result), 2 * definition.entry.size
        )
        return result

    async def templates(
        self, _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """The templates of addresses; their `_meta` has the uses of the cache of definitions so far."""
        return types.ListResourceTemplatesResult(
            _meta={"agent-resolver/cache": structs.asdict(self._catalog.counters)},
            resource_templates=[
                types.ResourceTemplate(
                    name="agent",
                    title="An agent by name",
                    uri_template=_NAME_TEMPLATE,
                    description="The definition of an agent; `format` is json or markdown, `version` must match",
                    mime_type=JSON_TYPE,
                ),
                types.ResourceTemplate(
                    name="agent-by-path",
                    title="An agent by folder and name",
                    uri_template=_PATH_TEMPLATE,
                    description="As `agent`, for an agent whose name another one has too",
                    mime_type=JSON_TYPE,
                ),
            ],
        )

    async def complete(
        self, ctx: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """The names, formats or versions that start like what is written so far."""
        ref = params.ref
        argument = params.argument
        is_template = isinstance(ref, types.ResourceTemplateReference) and ref.uri in {
            _NAME_TEMPLATE,
            _PATH_TEMPLATE,
        }
        if not is_template:
            raise MCPError(types.INVALID_PARAMS, "There is nothing to complete there")
        if argument.name in {"name", "path"}:
            is_path = argument.name == "path"
            values, total = self._catalog.completions(
                argument.value, MAX_PAGE, is_path=is_path, view=self.view_of(ctx)
            )
        elif argument.name == "format":
            values = tuple(
                word
                for word in ("json", "markdown")
                if word.startswith(argument.value.lower())
            )
            total = len(values)
        elif argument.name == "version":
            versions = self._versions(params.context, self.view_of(ctx))
            values = tuple(word for word in versions if word.startswith(argument.value))
            total = len(values)
        else:
            values = ()
            total = 0
        completion = types.Completion(
            values=list(values), total=total, has_more=total > len(values)
        )
        return types.CompleteResult(completion=completion)

    def view_of(self, ctx: Context) -> View:
        """The part of the catalog that the caller of a request sees."""
        return View(is_strict=self.is_strict, clearance=self.clearance_of(ctx))

    def _versions(
        self, context: types.CompletionContext | None, view: View
    ) -> tuple[str, ...]:
        """The version of the agent that the other arguments name."""
        given = (context.arguments if context else None) or {}
        address = (
            agent_uri(given["name"])
            if "name" in given
            else f"{SCHEME}{given.get('path', '')}"
        )
        try:
            version = self._catalog.definition(
                parse_uri(address), view=view
            ).entry.version
        except (MalformedUri, UnknownAgent):
            return ()
        return (version,) if version else ()


def limit_of(ctx: Context, otherwise: int) -> int:
    """The size of page that a request asks for; anything but a whole number of the right size is refused."""
    asked = (ctx.meta or {}).get(LIMIT_KEY, otherwise)
    if type(asked) is not int or not 1 <= asked <= MAX_PAGE:
        raise MCPError(
            types.INVALID_PARAMS, str(BadLimit(MAX_PAGE)), {"key": LIMIT_KEY}
        )
    return asked


def _make_resource(agent: Listed) -> types.Resource:
    return types.Resource(
        uri=agent.uri,
        name=agent.name,
        description=agent.summary or None,
        mime_type=JSON_TYPE,
        size=agent.size,
        _meta=listed_meta(agent),
    )


def listed_meta(agent: Listed) -> dict[str, Any]:
    """The properties of an agent that a listing gives beyond the fields of the standard."""
    meta: dict[str, Any] = {
        "agent-resolver/digest": agent.digest,
        "agent-resolver/tokens": agent.tokens,
        "agent-resolver/status": agent.status,
    }
    if agent.reason:
        meta["agent-resolver/reason"] = agent.reason
    return meta


def _read_result(
    uri: str, definition: Definition, *, is_markdown: bool
) -> types.ReadResourceResult:
    entry = definition.entry
    text = (
        definition.raw.decode(errors="replace")
        if is_markdown
        else msgspec.json.encode(definition.to_dict()).decode()
    )
    meta = {
        "agent-resolver/digest": entry.digest,
        "agent-resolver/size": entry.size,
        "agent-resolver/tokens": entry.tokens,
    }
    contents = types.TextResourceContents(
        uri=uri,
        mime_type=MARKDOWN_TYPE if is_markdown else JSON_TYPE,
        text=text,
        _meta=meta,
    )
    return types.ReadResourceResult(
        contents=[contents], ttl_ms=TTL_MS, cache_scope="private"
    )
