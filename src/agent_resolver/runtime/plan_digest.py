"""The digest that identifies a plan: whatever a run of it is made of, and nothing of when or where it was made."""

import json
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from agent_resolver.core.masking import SecretFields, secret_fields
from agent_resolver.runtime.plan import PlannedTool, ResolvedAgent
from agent_resolver.runtime.tool_contract import value_digest

_FORM: Final = "plan-1"
"""Part of every digest: raised when the parts change, so that no old digest is taken for a new one."""


class ToolSecrets(Struct, frozen=True):
    """The secret fields of one tool, which are never shown."""

    arguments: SecretFields = SecretFields()
    results: SecretFields = SecretFields()


def plan_document(agent: ResolvedAgent) -> bytes:
    """The parts of a plan as JSON: those that its digest is over, and what is known of its tools.

    That is which of their fields are secret, and what servers say of them: a replay connects to no server. Of every
    other tool the project itself has the definition.
    """
    parts = {**_parts(agent), "secret_fields": _secrets_of_tools(agent)}
    tools = agent.tools.values()
    of_servers = {
        tool.id: tool.descriptor
        for tool in tools
        if tool.source == "server" and tool.descriptor is not None
    }
    try:
        # A model is shown a schema in the order of the server: unlike all others, these
        # keys are not sorted.
        server_tools = msgspec.Raw(msgspec.json.encode(of_servers))
        return msgspec.json.encode(
            {**parts, "server_tools": server_tools}, order="sorted"
        )
    except UnicodeEncodeError:
        # A program may have put lone surrogates into them; Python's own encoder escapes
        # those.
        return json.dumps(msgspec.to_builtins(parts), sort_keys=True).encode()


_NO_SECRETS: Final = ToolSecrets()


def plan_digest(agent: ResolvedAgent) -> str:
    """The digest over prompt, models, tools with their definitions, permissions, sections, limits, budget and lock.

    It is the same in every process, and in every snapshot that gives the same plan. Two plugins of one id are not told
    apart by their code; what they register as tools is.
    """
    return value_digest(_parts(agent))


def _parts(agent: ResolvedAgent) -> dict[str, Any]:
    lock = agent.lock.digest if agent.lock else None
    return {
        "form": _FORM,
        # Where a spec came from decides nothing, and its path differs between machines.
        "spec": structs.replace(agent.spec, registry=None),
        "limits": agent.limits,
        "model": agent.model,
        "pool": agent.pool,
        # Executors are live objects, and nothing of them is written: the models say who
        # answers.
        "seats": [seat.model for seat in agent.seats],
        "modality_guard": agent.modality_guard,
        "context_policy": agent.context_policy,
        "permissions": agent.permissions,
        "lock": lock,
        "unconnected": agent.unconnected,
        "tools": _tool_parts(agent),
    }


def _secrets_of_tools(agent: ResolvedAgent) -> dict[str, ToolSecrets]:
    """The tools with secret fields: a command that shows the run later does not have the tools."""
    found = {}
    for tool in agent.tools.values():
        descriptor = tool.descriptor
        if descriptor is None:
            continue
        arguments = secret_fields(
            descriptor.input_schema, descriptor.rules.secret_fields
        )
        secrets = ToolSecrets(
            arguments, secret_fields(descriptor.output_schema, arguments.names)
        )
        if secrets != _NO_SECRETS:
            found[tool.id] = secrets
    return found


def _tool_parts(agent: ResolvedAgent) -> list[Any]:
    """The tools by id, each with the digest of its definition and where it comes from."""
    servers = agent.lock.servers if agent.lock else ()
    of_servers = {
        tool_id: known
        for server in servers
        for tool_id, known in server.definitions.items()
    }
    tools = sorted(agent.tools.values(), key=lambda tool: tool.id)
    return [
        (tool.id, tool.source, tool.origin, tool.scopes, _definition(tool, of_servers))
        for tool in tools
    ]


def _definition(tool: PlannedTool, of_servers: dict[str, str]) -> str | None:
    """The digest of a tool's definition; None for a tool of a server that is not connected yet."""
    if tool.offered is not None:
        return tool.offered.definition
    if tool.source == "server":
        return of_servers.get(tool.id)
    return None if tool.descriptor is None else value_digest(tool.descriptor)
