"""What `agent tools` does; apart from its declaration, because it needs the extra `tools`."""

import argparse
import asyncio
import getpass
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from agent_resolver.cli.errors import Refusal, Usage
from agent_resolver.cli.option import project_of
from agent_resolver.cli.output import err, out, out_json, safe
from agent_resolver.project.tools import OpenTools, open_tools
from agent_resolver.registry import Descriptor, Done, Failed, Outcome, Pending
from agent_resolver.registry.errors import ToolFailure
from agent_resolver.schema import Issue
from agent_resolver.schema.issue import errors
from agent_resolver.schema.json_tree import parse_json
from agent_resolver.schema.source import Unreadable, decode
from agent_resolver.schema.tree import plain
from agent_resolver.schema.walker import walk

_MAX_ARGUMENT_BYTES = 4 * 1024 * 1024

Work = Callable[[OpenTools], Awaitable[int]]


def run_list(options: argparse.Namespace) -> int:
    """Print every tool that may be called; the refused ones only in JSON."""

    async def work(tools: OpenTools) -> int:
        if options.json:
            out_json(_listing(tools))
        else:
            for descriptor in tools.registry.list():
                out(_line(descriptor))
            if refused := tools.registry.refused():
                err(f"hint: {len(refused)} tool(s) are refused; `agent tools list --json` says why")
        return _err_problems(tools)

    return _with_tools(options, work)


def run_show(options: argparse.Namespace) -> int:
    """Print one descriptor."""

    async def work(tools: OpenTools) -> int:
        if refused := tools.registry.refused().get(options.id):
            raise Refusal(f"{options.id} is refused: {refused.code}: {refused.message}", refused.remedy)
        found = next((item for item in tools.registry.list() if item.id == options.id), None)
        if found is None:
            _err_problems(tools)
            raise Refusal(f"Unknown tool: {options.id}", "list the tools with `agent tools list`")
        if options.json:
            out_json(found)
        else:
            _print_descriptor(found)
        return 0

    return _with_tools(options, work, for_tool=options.id)


def run_call(options: argparse.Namespace) -> int:
    """Call a tool and print its structured result."""
    arguments = _arguments(options.arguments)

    async def work(tools: OpenTools) -> int:
        outcome = await _call(tools, options.id, arguments)
        if options.json:
            out_json(outcome)
        elif isinstance(outcome, Done):
            out_json(outcome.result)
        else:
            _err_outcome(outcome)
        return 0 if isinstance(outcome, Done) else 1

    return _with_tools(options, work, for_tool=options.id)


def _with_tools(options: argparse.Namespace, work: Work, for_tool: str | None = None) -> int:
    if not options.timeout > 0:
        raise Usage("`--timeout` must be more than 0 seconds")
    project = project_of(options)
    caller = f"local:{_user()}"

    async def session() -> int:
        _end_on_sigterm()
        opened = open_tools(project, caller=caller, for_tool=for_tool, seconds=options.timeout, verbose=options.verbose)
        async with opened as tools:
            return await work(tools)

    try:
        return asyncio.run(session())
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM
    finally:
        project.close()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A container may run under a number that has no name.
        return str(os.getuid())


def _end_on_sigterm() -> None:
    """Whoever ends us ends the servers that we started: they have sessions of their own, and hear of nothing."""
    task = asyncio.current_task()
    with suppress(NotImplementedError):  # Windows has no such signal.
        if task is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


async def _call(tools: OpenTools, tool_id: str, arguments: dict[str, Any]) -> Outcome:
    """Call a tool; a server that is not there is the outcome of a call to one of its tools."""
    owner = tools.servers.owner_of(tool_id)
    problem = tools.servers.problems.get(owner) if owner else None
    if problem is None:
        return await tools.registry.call(tool_id, arguments, tools.context)
    return await tools.registry.unavailable(tool_id, problem, tools.context)


def _arguments(text: str) -> dict[str, Any]:
    content = sys.stdin.buffer.read(_MAX_ARGUMENT_BYTES + 1) if text == "-" else os.fsencode(text)
    if len(content) > _MAX_ARGUMENT_BYTES:
        raise Usage(f"The arguments are longer than {_MAX_ARGUMENT_BYTES:,} bytes")
    try:
        tree = parse_json(decode(content))
    except Unreadable as stop:
        raise _bad_arguments([stop.issue]) from None
    if faults := errors(walk(tree, dict[str, Any])):
        raise _bad_arguments(faults)
    arguments: dict[str, Any] = plain(tree)
    return arguments


def _bad_arguments(issues: Sequence[Issue]) -> Usage:
    listed = "; ".join(f"{issue} ({issue.line}:{issue.column})" for issue in issues)
    return Usage(f"The arguments are no JSON object: {listed}", """write them as '{"name": "value"}'""")


def _listing(tools: OpenTools) -> dict[str, object]:
    return {
        "tools": tools.registry.list(),
        "refused": [
            {"id": tool_id, "code": refused.code, "message": refused.message, "remedy": refused.remedy}
            for tool_id, refused in tools.registry.refused().items()
        ],
        "unavailable": [
            {"server": server, "message": str(problem)} for server, problem in sorted(tools.servers.problems.items())
        ],
    }


def _line(descriptor: Descriptor) -> str:
    summary = safe(descriptor.description.strip().partition("\n")[0])
    scopes = f" [{', '.join(descriptor.scopes)}]" if descriptor.scopes else ""
    return f"{safe(descriptor.id + scopes)}: {summary[:100]}"


def _print_descriptor(descriptor: Descriptor) -> None:
    out(safe(descriptor.id))
    out(f"  Source: {safe(descriptor.source)}")
    out(f"  Scopes: {safe(', '.join(descriptor.scopes)) or '(none)'}")
    if descriptor.rate_limit_per_minute is not None:
        out(f"  Rate limit: {descriptor.rate_limit_per_minute:g} a minute")
    for line in descriptor.description.strip().splitlines():
        out(f"  {safe(line)}")
    out("  Arguments:")
    for line in msgspec.json.format(msgspec.json.encode(descriptor.input_schema)).decode().splitlines():
        out(f"    {safe(line)}")


def _err_problems(tools: OpenTools) -> int:
    for server, problem in sorted(tools.servers.problems.items()):
        err(f"✗ {safe(f'{server}: {problem}')}")
        if isinstance(problem, ToolFailure) and problem.remedy:
            err(f"  hint: {safe(problem.remedy)}")
    return 1 if tools.servers.problems else 0


def _err_outcome(outcome: Failed | Pending) -> None:
    if isinstance(outcome, Pending):
        err(f"✗ PENDING: {safe(outcome.message)}")
        err(f"  Waiting for {outcome.type} {outcome.id} (trace {outcome.trace_id})")
        return
    err(f"✗ {outcome.code}: {safe(outcome.message)}")
    for detail in outcome.details:
        err(f"  - {safe(detail)}")
    if outcome.remedy:
        err(f"  hint: {safe(outcome.remedy)}")
    err(f"  trace: {outcome.trace_id}")
