"""Runs `agent tools`; apart from its declaration, because it needs the extra `tools`."""

import argparse
import asyncio
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from agent_resolver.cli.errors import Refusal, Usage
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import condense, err, out, out_json, safe
from agent_resolver.cli.progress import StatusLine, status_line
from agent_resolver.core.admission import AdmissionCode
from agent_resolver.core.count import counted
from agent_resolver.core.shorten import shorten
from agent_resolver.project.identity import caller_of
from agent_resolver.project.tools import OpenTools, open_tools
from agent_resolver.registry.errors import ToolFailure
from agent_resolver.schema.caller import ANONYMOUS
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.issue import Issue, only_errors
from agent_resolver.schema.json_tree import parse_json
from agent_resolver.schema.outcome import Done, Failed, FailureCode, Pending
from agent_resolver.schema.source import Unreadable, decode
from agent_resolver.schema.tree import plain
from agent_resolver.schema.walker import suggestion, walk

if TYPE_CHECKING:
    from agent_resolver.project.session import Session
    from agent_resolver.registry.registry import RefusedTool

_MAX_ARGUMENT_BYTES = 4 * 1024 * 1024
_MOST_CHARACTERS = 100
"""Of the description of a tool in a listing."""

Work = Callable[[OpenTools], Awaitable[int]]


def run_list(options: argparse.Namespace) -> int:
    """Print the tools that may be called, then those that are refused, with the code of each refusal."""

    async def work(tools: OpenTools) -> int:
        if options.json:
            out_json(_listing_document(tools, options.tag))
        else:
            _print_listing(tools, options.tag)
            _err_changed(tools)
        return err_problems(tools)

    return with_tools(options, work)


def run_show(options: argparse.Namespace) -> int:
    """Print one descriptor."""

    async def work(tools: OpenTools) -> int:
        with status_line(
            f"Connecting the server of {options.id}", is_shown=_has_status(options)
        ):
            found = await tools.registry.look_up(options.id, tools.context.run)
        refused = next(
            (tool.why for tool in tools.registry.refused() if tool.id == options.id),
            None,
        )
        # A refused tool is there: the operator should learn why it may not be called,
        # instead of that it is unknown.
        if found is None and refused is not None:
            refusal = Refusal(
                f"{options.id} is refused: {refused.code}: {refused.message}",
                refused.remedy,
            )
            refusal.details = refused.details
            raise refusal
        if found is None:
            err_problems(tools)
            raise Refusal(
                f"Unknown tool: {options.id}",
                _hint_at_similar(tools, options.id)
                or "list the tools with `agent tools list`",
            )
        if options.json:
            out_json(found)
        else:
            _print_descriptor(found)
        return 0

    return with_tools(options, work, is_connected=False)


def run_call(options: argparse.Namespace) -> int:
    """Call a tool and print its structured result."""
    arguments = _parse_arguments(options.arguments)
    if options.trace_id is not None and not re.fullmatch(
        "[0-9a-f]{32}", options.trace_id
    ):
        raise Usage(
            "`--trace-id` has 32 hexadecimal digits",
            "the call that waits has printed it",
        )

    async def work(tools: OpenTools) -> int:
        # An approval is bound to the trace of the call that asked for it, which the
        # operator gives here.
        trace_id = options.trace_id or tools.context.trace_id
        with status_line(
            f"Calling {options.id}", is_shown=_has_status(options)
        ) as status:
            context = structs.replace(
                tools.context,
                trace_id=trace_id,
                key=options.key,
                progress=partial(_show_progress, status, options.id),
            )
            outcome = await tools.registry.call(options.id, arguments, context)
        # The registry knows no spelling: which tool may have been meant is said here.
        if isinstance(outcome, Failed) and outcome.code is FailureCode.UNKNOWN_TOOL:
            outcome = structs.replace(
                outcome, remedy=_hint_at_similar(tools, options.id) or outcome.remedy
            )
        if options.json:
            out_json(outcome)
        elif isinstance(outcome, Done):
            out_json(outcome.result)
        else:
            err_outcome(outcome)
        return 0 if isinstance(outcome, Done) else 1

    return with_tools(options, work, is_connected=False, needs_caller=True)


def with_tools(
    options: argparse.Namespace,
    work: Work,
    *,
    is_connected: bool = True,
    needs_caller: bool = False,
    opened: "Session | None" = None,
) -> int:
    """Do something with the tools; unless they are connected, only the server of a tool that is asked for is."""
    if not options.timeout > 0:
        raise Usage("`--timeout` must be more than 0 seconds")

    async def work_with_tools(session: "Session") -> int:
        end_on_sigterm()
        # To look at tools takes no right, and so no token.
        is_known = needs_caller or not session.has_issuer
        caller = (
            await caller_of(session, options.token_file, session.environment)
            if is_known
            else ANONYMOUS
        )
        opening = open_tools(
            session,
            caller=caller,
            is_connected=is_connected,
            seconds=options.timeout,
            verbose=options.verbose,
        )
        # The status line is for connecting alone, while the servers stay open until the
        # work is done.
        async with AsyncExitStack() as stack:
            with status_line(
                "Connecting the servers of the lock", is_shown=_has_status(options)
            ):
                tools = await stack.enter_async_context(opening)
            return await work(tools)

    with opened or session_of(options) as session:
        try:
            return asyncio.run(work_with_tools(session))
        except asyncio.CancelledError:
            return 128 + signal.SIGTERM


def end_on_sigterm() -> None:
    """A signal that ends us ends the servers that we started: they have sessions of their own, and hear of nothing."""
    task = asyncio.current_task()
    with suppress(NotImplementedError):  # Windows has no such signal.
        if task is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


async def _show_progress(
    status: StatusLine,
    tool_id: str,
    done: float,
    total: float | None = None,
    message: str | None = None,
) -> None:
    """Show how far a tool is, as it reports."""
    of_total = "" if total is None else f" of {total:g}"
    words = f": {message}" if message else ""
    status.text = f"Calling {tool_id}: {done:g}{of_total}{words}"


def _has_status(options: argparse.Namespace) -> bool:
    """True if a status line may be shown: not beside data for a program, nor among what servers log."""
    return not (options.json or options.verbose)


def _hint_at_similar(tools: OpenTools, tool_id: str) -> str:
    """A hint at the tool that the user may have meant."""
    return suggestion(tool_id, [descriptor.id for descriptor in tools.registry.list()])


def _parse_arguments(text: str) -> dict[str, Any]:
    content = (
        sys.stdin.buffer.read(_MAX_ARGUMENT_BYTES + 1)
        if text == "-"
        else os.fsencode(text)
    )
    if len(content) > _MAX_ARGUMENT_BYTES:
        raise Usage(f"The arguments are longer than {_MAX_ARGUMENT_BYTES:,} bytes")
    try:
        # JSON is parsed to a tree first, so that a fault is reported with its line and
        # column.
        tree = parse_json(decode(content))
    except Unreadable as stop:
        raise _bad_arguments([stop.issue]) from None
    if faults := only_errors(walk(tree, dict[str, Any])):
        raise _bad_arguments(faults)
    arguments: dict[str, Any] = plain(tree)
    return arguments


def _bad_arguments(issues: Sequence[Issue]) -> Usage:
    listed = "; ".join(map(_render_fault, issues))
    return Usage(
        f"The arguments are not a JSON object: {listed}",
        """write them as '{"name": "value"}'""",
    )


def _render_fault(issue: Issue) -> str:
    # The arguments are not a file: only a fault inside of them has a path.
    named = str(issue) if issue.at else issue.message
    return f"{named} ({issue.line}:{issue.column})"


def _listing_document(tools: OpenTools, tag: str | None) -> dict[str, object]:
    return {
        "tools": tools.registry.list(tag),
        "refused": list(map(_refused_document, tools.registry.refused())),
        "unavailable": [
            {"server": server, "message": str(problem)}
            for server, problem in sorted(tools.servers.problems.items())
        ],
    }


def _refused_document(tool: "RefusedTool") -> dict[str, object]:
    # Few refusals have details; the key is left out where there are none.
    change = {"change": tool.why.details} if tool.why.details else {}
    return {
        "id": tool.id,
        "source": tool.source,
        "code": tool.why.code,
        "message": tool.why.message,
        "remedy": tool.why.remedy,
        **change,
    }


def _print_listing(tools: OpenTools, tag: str | None) -> None:
    offered = tools.registry.list(tag)
    tagged = "" if tag is None else f" with the tag `{tag}`"
    out(f"{counted(len(offered), 'open tool')}{tagged}")
    for descriptor in offered:
        out(f"  {_render_descriptor_line(descriptor)}")
    # A refused tool has no tags: what a server says of it is not used.
    refused = tools.registry.refused() if tag is None else ()
    if refused:
        out(counted(len(refused), "refused tool"))
        for tool in refused:
            out(f"  {tool.id}: {tool.why.code}")
        err("hint: `agent tools show ID` says why a tool is refused")


def _render_descriptor_line(descriptor: Descriptor) -> str:
    # Only the first line is shown: descriptions come from servers and may run over
    # pages.
    summary = shorten(
        descriptor.description.strip().partition("\n")[0], _MOST_CHARACTERS
    )
    scopes = f" [{', '.join(descriptor.scopes)}]" if descriptor.scopes else ""
    return f"{safe(descriptor.id + scopes)}: {safe(summary)}"


def _print_descriptor(descriptor: Descriptor) -> None:
    out(safe(descriptor.id))
    out(f"  Source: {safe(descriptor.source)}")
    if descriptor.labels.kind == "TOOL":
        out(f"  Locked scopes: {safe(', '.join(descriptor.scopes)) or '(none)'}")
    rules = descriptor.rules
    out(
        f"  Classification: {rules.classification}{', takes an approval' if rules.takes_approval else ''}"
    )
    for label, names in (
        ("Caller needs", rules.required_scopes),
        ("Secrets", rules.secrets),
    ):
        if names:
            out(f"  {label}: {safe(', '.join(names))}")
    if descriptor.rate_limit_per_minute is not None:
        out(f"  Rate limit: {descriptor.rate_limit_per_minute:g} a minute")
    for line in descriptor.description.strip().splitlines():
        out(f"  {safe(line)}")
    out("  Arguments:")
    for line in (
        msgspec.json.format(msgspec.json.encode(descriptor.input_schema))
        .decode()
        .splitlines()
    ):
        out(f"    {safe(line)}")


def _err_changed(tools: OpenTools) -> None:
    """Warn of tools that are not what the lock pins, few of many."""
    changed = [
        tool
        for tool in tools.registry.refused()
        if tool.why.code is AdmissionCode.TOOL_CHANGED
    ]
    shown, left_out = condense(changed, lambda _tool: None)
    for tool in shown:
        err(f"warning: {safe(tool.id)} is refused: {safe(tool.why.message)}")
    if left_out:
        err(f"… and {len(left_out[None])} more like these")
    if changed:
        err("hint: `agent tools accept` shows what changed, old against new")


def err_problems(tools: OpenTools) -> int:
    """Print why servers are not there; the exit code."""
    for server, problem in sorted(tools.servers.problems.items()):
        err(f"✗ {safe(f'{server}: {problem}')}")
        if isinstance(problem, ToolFailure) and problem.remedy:
            err(f"  hint: {safe(problem.remedy)}")
    return 1 if tools.servers.problems else 0


def err_outcome(outcome: Failed | Pending) -> None:
    """Say why a call has no result, and what to do about it."""
    if isinstance(outcome, Pending):
        err(f"✗ {outcome.code}: {safe(outcome.message)}")
        until = f", until {outcome.expires_at}" if outcome.expires_at else ""
        err(
            f"  Waiting for {outcome.type} {outcome.id} (trace {outcome.trace_id}){until}"
        )
        err(f"  hint: {safe(outcome.remedy)}")
        return
    err(f"✗ {outcome.code}: {safe(outcome.message)}")
    for detail in outcome.details:
        err(f"  - {safe(detail)}")
    if outcome.remedy:
        err(f"  hint: {safe(outcome.remedy)}")
    err(f"  trace: {outcome.trace_id}")
