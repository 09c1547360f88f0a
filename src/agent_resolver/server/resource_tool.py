"""Tool twins of the resources, for the many clients that show tools alone."""

import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from agent_resolver.catalog.catalog import DEFAULT_PAGE, MAX_PAGE, Catalog
from agent_resolver.catalog.entry import Definition
from agent_resolver.catalog.errors import BadCursor, MalformedUri, UnknownAgent
from agent_resolver.catalog.listing import Listed
from agent_resolver.catalog.query import Query, View
from agent_resolver.catalog.uri import Format, agent_uri, parse_uri
from agent_resolver.core.choice import rejections, selection
from agent_resolver.core.resolution import Resolution
from agent_resolver.registry.errors import ToolFailure
from agent_resolver.registry.tool import CallContext, Tool
from agent_resolver.schema.agent_file import AgentFile, parse_agent_file
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.descriptor import Descriptor, Rules
from agent_resolver.schema.errors import (
    InvalidAgentFile,
    InvalidIndex,
    InvalidOverlay,
    ResolverError,
)
from agent_resolver.schema.outcome import FailureCode

Resolve = Callable[[AgentFile], Resolution | None]
"""What an agent file resolves to; None where there is no index."""
Arguments = dict[str, Any]

SOURCE: Final = "catalog"
_log = logging.getLogger(__name__)
_MOST_REJECTIONS: Final = 50
_HINTS: Final = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}


def _object_schema(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _text_schema(description: str) -> dict[str, Any]:
    return {
        "type": "string",
        "minLength": 1,
        "maxLength": 2048,
        "description": description,
    }


_LIMIT: Final = {
    "type": "integer",
    "minimum": 1,
    "maximum": MAX_PAGE,
    "description": "How many agents at most",
}
_AGENT: Final = _text_schema(
    "The name of an agent, or its address, such as agent://name"
)
_FILTERS: Final = {
    "capability": _text_schema("Only agents with this capability"),
    "role": _text_schema("Only agents that play this role"),
    "model": _text_schema("Only agents for this model"),
}
_AGENTS: Final = {
    "type": "array",
    "description": "The agents",
    "items": {
        "type": "object",
        "description": "An agent",
        "properties": {
            "name": {"type": "string", "description": "Its name"},
            "uri": {
                "type": "string",
                "description": "Its address, for get_agent and resources/read",
            },
            "description": {
                "type": "string",
                "description": "What it is for; after … get_agent has more",
            },
            "model": {"type": "string", "description": "The model it asks for"},
            "capabilities": {
                "type": "array",
                "items": {"type": "string"},
                "description": "What it can do",
            },
            "capabilitiesDerived": {
                "const": True,
                "description": "Its description alone says what it can do",
            },
            "tokens": {
                "type": "integer",
                "description": "About how many tokens its definition takes",
            },
            "status": {
                "type": "string",
                "description": "Whether its `requires` resolve",
            },
            "reason": {"type": "string", "description": "Why they do not"},
        },
        "required": ["name", "uri", "description", "tokens", "status"],
    },
}


class CatalogTool:
    """A tool over the catalog."""

    def __init__(
        self, descriptor: Descriptor, action: Callable[[Arguments, Caller], object]
    ) -> None:
        self.descriptor = descriptor
        self._action = action

    async def invoke(self, arguments: Arguments, context: CallContext) -> Any:  # noqa: ANN401 - the port
        """Do it."""
        try:
            return msgspec.to_builtins(self._action(arguments, context.caller))
        except UnknownAgent as error:
            remedy = (
                "list the agents with `list_agents`, or find one with `search_agents`"
            )
            raise ToolFailure(FailureCode.TOOL_ERROR, str(error), remedy) from None
        except (BadCursor, MalformedUri) as error:
            raise ToolFailure(FailureCode.TOOL_ERROR, str(error)) from None
        except InvalidAgentFile as error:
            message = f"The agent file is invalid: {error}"
            raise ToolFailure(
                FailureCode.TOOL_ERROR, message, "`agent validate` says where"
            ) from None
        except (InvalidIndex, InvalidOverlay):
            remedy = "`agent validate` says where"
            raise ToolFailure(
                FailureCode.TOOL_ERROR, "The index of servers is invalid", remedy
            ) from None
        except ResolverError:
            # What is wrong with the disk is for whoever runs the server, not for a
            # model to read.
            _log.exception("%s failed", self.descriptor.id)
            raise ToolFailure(
                FailureCode.TOOL_ERROR, "The agents cannot be read", "try again later"
            ) from None


class ResourceTools:
    """The work of the tools. Each caller sees the agents that their clearance allows.

    A strict one hides the agents whose `requires` do not resolve.
    """

    def __init__(
        self,
        catalog: Catalog,
        resolve: Resolve,
        page_size: int = DEFAULT_PAGE,
        *,
        is_strict: bool = False,
    ) -> None:
        self._catalog = catalog
        self._resolve = resolve
        self._page_size = page_size
        self._is_strict = is_strict

    def tools(self) -> tuple[Tool, ...]:
        """The four tools."""
        found = _object_schema(["agents"], agents=_AGENTS)
        page = _object_schema(
            ["agents", "total"],
            agents=_AGENTS,
            total={
                "type": "integer",
                "description": "How many agents there are in all",
            },
            nextCursor={
                "type": "string",
                "description": "What to give as `cursor` for the next page",
            },
        )
        cursor = _text_schema("`nextCursor` of the page before")
        limit = {**_LIMIT, "default": self._page_size}
        return (
            _make_tool(
                "list_agents",
                "List the agents by name, a page at a time.",
                _object_schema([], cursor=cursor, limit=limit),
                page,
                self.list,
            ),
            _make_tool(
                "search_agents",
                "Find agents by words, capability, role or model; the best first.",
                _object_schema(
                    [], query=_text_schema("Words to look for"), limit=limit, **_FILTERS
                ),
                found,
                self.search,
            ),
            _make_tool(
                "get_agent",
                "Read the whole definition of one agent; do so only when you are about to use it.",
                _object_schema(
                    ["agent"],
                    agent=_AGENT,
                    format={
                        "enum": ["json", "markdown"],
                        "default": "json",
                        "description": "How to return it",
                    },
                    version=_text_schema("The version it must have"),
                ),
                None,
                self.get,
            ),
            _make_tool(
                "resolve_agent",
                "Say which MCP servers an agent would be locked to, with the reason for each choice and rejection.",
                _object_schema(["agent"], agent=_AGENT),
                None,
                self.resolve,
            ),
        )

    def list(self, arguments: Arguments, caller: Caller) -> object:
        """A page of agents."""
        limit = arguments.get("limit", self._page_size)
        page = self._catalog.page(
            arguments.get("cursor"), limit, view=self._view_of(caller)
        )
        more = {"nextCursor": page.next_cursor} if page.next_cursor else {}
        return {
            "agents": list(map(_listing_document, page.agents)),
            "total": page.total,
            **more,
        }

    def search(self, arguments: Arguments, caller: Caller) -> object:
        """The agents that fit."""
        query = Query(
            text=arguments.get("query", ""),
            capability=arguments.get("capability"),
            role=arguments.get("role"),
            model=arguments.get("model"),
        )
        limit = arguments.get("limit", self._page_size)
        found = self._catalog.search(query, limit, view=self._view_of(caller))
        return {"agents": list(map(_listing_document, found))}

    def get(self, arguments: Arguments, caller: Caller) -> object:
        """One agent, whole."""
        definition, format_asked = self._definition(arguments, caller)
        if arguments.get("format", format_asked) == "markdown":
            return definition.raw.decode(errors="replace")
        return definition.to_dict()

    def resolve(self, arguments: Arguments, caller: Caller) -> object:
        """The lock that an agent would get, and why."""
        definition, _ = self._definition(arguments, caller)
        if not definition.entry.requires:
            return {
                "agent": definition.uri,
                "status": "not-required",
                "lock": None,
                "requirements": [],
            }
        resolution = self._resolve(parse_agent_file(definition.raw))
        if resolution is None:
            reason = "there is no index of servers"
            return {
                "agent": definition.uri,
                "status": "unresolved",
                "reason": reason,
                "lock": None,
                "requirements": [],
            }
        document: dict[str, object] = {
            "agent": definition.uri,
            "status": "resolved" if resolution.success else "unresolved",
            "lock": resolution.lockfile,
            "requirements": _requirement_documents(resolution),
        }
        if not resolution.success:
            document["failed"] = resolution.failures
        return document

    def _view_of(self, caller: Caller) -> View:
        return View(is_strict=self._is_strict, clearance=caller.clearance)

    def _definition(
        self, arguments: Arguments, caller: Caller
    ) -> tuple[Definition, Format]:
        text = arguments["agent"]
        uri = parse_uri(text if "://" in text else agent_uri(text))
        if "version" in arguments:
            uri = msgspec.structs.replace(uri, version=arguments["version"])
        return self._catalog.definition(uri, view=self._view_of(caller)), uri.format


def _make_tool(
    name: str,
    description: str,
    takes: dict[str, Any],
    gives: dict[str, Any] | None,
    action: Callable[[Arguments, Caller], object],
) -> CatalogTool:
    descriptor = Descriptor(
        id=name,
        description=description,
        input_schema=takes,
        output_schema=gives,
        source=SOURCE,
        hints=_HINTS,
        rules=Rules(classification="PUBLIC"),
    )
    return CatalogTool(descriptor, action)


def _listing_document(agent: Listed) -> dict[str, object]:
    """An agent for a model to choose by; whatever else is known of it comes with its definition."""
    document = {
        "name": agent.name,
        "uri": agent.uri,
        "description": agent.summary,
        "model": agent.model,
        "capabilities": agent.capabilities,
        "capabilitiesDerived": bool(agent.capabilities) and agent.is_derived,
        "tokens": agent.tokens,
        "status": agent.status,
        "reason": agent.reason,
    }
    optional = {"model", "capabilities", "capabilitiesDerived", "reason"}
    return {
        key: value for key, value in document.items() if value or key not in optional
    }


def _requirement_documents(resolution: Resolution) -> list[dict[str, object]]:
    """The outcome of each requirement; servers of other categories are only counted."""
    shown: list[dict[str, object]] = []
    for choice in resolution.choices:
        offering = resolution.pool.offering(choice.requirement.category)
        rejected = list(rejections(choice, resolution.limits, offering))
        shown.append(
            {
                "category": choice.requirement.category,
                "permissions": choice.requirement.permissions,
                "selected": selection(choice),
                "rejected": rejected[:_MOST_REJECTIONS],
                "moreRejected": max(0, len(rejected) - _MOST_REJECTIONS),
                "otherServers": len(resolution.pool) - len(offering),
            }
        )
    return shown
