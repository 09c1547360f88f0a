"""Runs `agent index probe`."""

import argparse
import asyncio
import signal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agent_resolver.cli.errors import Refusal, Usage
from agent_resolver.cli.option import session_here
from agent_resolver.cli.output import condense, err, out, out_json, safe
from agent_resolver.cli.progress import progress_line
from agent_resolver.cli.tools.execution import end_on_sigterm
from agent_resolver.core.count import counted
from agent_resolver.project.definition import write_pins
from agent_resolver.project.probe import (
    Pinned,
    Probed,
    pin_tools,
    probe_servers,
    require_probing,
)
from agent_resolver.schema.index import OVERLAY_NAME
from agent_resolver.schema.limit import MAX_INDEX_BYTES
from agent_resolver.schema.walker import suggestion
from agent_resolver.storage.exclusive import exclusively_in_folder
from agent_resolver.storage.file import read_bounded

if TYPE_CHECKING:
    from agent_resolver.project.session import Session


def run(options: argparse.Namespace) -> int:
    """Ask the servers, pin what could be asked, and report all of it."""
    # The comparison is written this way round so that NaN is refused too.
    if not options.timeout > 0:
        raise Usage("`--timeout` must be more than 0 seconds")
    # Exactly one of the two must be given: asking every server starts every command,
    # which must not happen by accident.
    if bool(options.ids) == options.all:
        raise Usage("Name the servers to ask, or ask all of them with `--all`")
    with session_here(options) as session:
        # A misspelled id is reported first: a person should not have to trust a project
        # for a command that cannot work.
        positions = _chosen_positions(session, options.ids)
        # Probing starts commands that the index names, so the folder must be trusted
        # first.
        require_probing(session)
        try:
            probed = asyncio.run(_probe(session, positions, options))
        except asyncio.CancelledError:
            return 128 + signal.SIGTERM
        # The pins are made inside of the session, because they are edits of the bytes
        # that it has read.
        pinned = pin_tools(session, probed, replaces=options.replace)
        written = [] if options.dry_run else _write(session, pinned)
    if options.json:
        out_json(_document(probed, pinned, written, options))
    else:
        _print_probed(probed, pinned, written, options)
    # Scripts can rely on the exit code: 1 if a server could not be asked, or is not
    # what is pinned.
    return 0 if all(map(_is_settled(options), probed)) else 1


def _chosen_positions(session: "Session", ids: Sequence[str]) -> list[int]:
    servers = session.listed_servers
    if not ids:
        # A withdrawn server is asked only if it is named, never as one of all.
        return [
            position
            for position, server in enumerate(servers)
            if server.status != "deleted"
        ]
    known = {name for server in servers for name in (server.id, str(server))}
    for name in ids:
        if name not in known:
            meant = suggestion(name, sorted(known))
            raise Refusal(
                f"`{name}` is not in `{session.index_path}`",
                meant or "see `agent discover`",
            )
    return [
        position
        for position, server in enumerate(servers)
        if server.id in ids or str(server) in ids
    ]


async def _probe(
    session: "Session", positions: Sequence[int], options: argparse.Namespace
) -> list[Probed]:
    end_on_sigterm()

    def show_progress(count: int) -> None:
        progress_line(f"Asking servers: {count}/{len(positions)}…")

    # The line appears before the first answer, which may take as long as the timeout.
    show_progress(0)
    try:
        return await probe_servers(
            session,
            positions,
            seconds=options.timeout,
            verbose=options.verbose,
            on_done=show_progress,
        )
    finally:
        progress_line("")


def _write(session: "Session", pinned: Pinned) -> list[str]:
    # Servers may take minutes to answer: what a person wrote meanwhile must not be
    # lost.
    with exclusively_in_folder(session.index_path):
        # The index is compared with the bytes that the pins were made for; an edit in
        # between would be undone by the write.
        if read_bounded(session.index_path, MAX_INDEX_BYTES) != session.index_content:
            raise Refusal(
                f"`{session.index_path}` has changed meanwhile", "run the command again"
            )
        return write_pins(
            session.index_path,
            pinned.index,
            pinned.definitions,
            project=session.root,
            users=session.users,
        )


def _is_settled(options: argparse.Namespace) -> Callable[[Probed], bool]:
    """True for a server that was asked, and whose pins are what it says."""
    return lambda probed: (
        probed.listing is not None and (options.replace or not probed.changes)
    )


def _print_probed(
    probed: Sequence[Probed],
    pinned: Pinned,
    written: Sequence[str],
    options: argparse.Namespace,
) -> None:
    for each in probed:
        if each.listing is None:
            err(f"✗ {safe(str(each.server))}: {safe(each.problem)}")
            if each.hint:
                err(f"  hint: {safe(each.hint)}")
            continue
        # Changed definitions may be an attack on the agent, so they are reported and
        # never pinned without `--replace`.
        if each.changes and not options.replace:
            _err_changes(each)
        else:
            count = len(pinned.drafted[str(each.server)])
            drafted = f", scopes of {count} drafted" if count else ""
            out(
                f"✓ {safe(str(each.server))}: {counted(len(each.listing.definitions), 'tool')} pinned{drafted}"
            )
        # What is left out cannot be pinned: a name that is listed twice, a definition
        # too large to review or with a secret in it.
        _err_left_out(each.listing.left_out)
    for path in written:
        out(f"✓ Wrote {safe(path)}")
    if options.dry_run:
        out("Nothing was written")
    # Drafted scopes rest on hints that a server gives about itself, so a person has to
    # confirm them.
    if any(pinned.drafted.values()):
        err(
            f"hint: look at the drafted scopes, and confirm each under `toolScopes` in {OVERLAY_NAME}"
        )


def _err_changes(probed: Probed) -> None:
    """Say which tools are not what the index pins; the pins stay."""
    err(
        f"✗ {safe(str(probed.server))}: not what is pinned, so the pins stay as they are"
    )
    shown, left_out = condense(probed.changes, lambda change: change.kind)
    for change in shown:
        err(f"  - {change.kind}: {safe(change.tool)}")
    for kind, hidden in left_out.items():
        err(f"  … and {len(hidden)} more {kind}")
    err(
        "  hint: `agent tools accept` shows changes of a locked server; `--replace` pins what the server says now"
    )


def _err_left_out(left_out: dict[str, str]) -> None:
    shown, hidden = condense(left_out.items(), lambda item: item[1])
    for name, why in shown:
        err(f"  warning: `{safe(name)}` is left out: {why}")
    for why, more in hidden.items():
        err(f"  … and {len(more)} more left out: {why}")


def _document(
    probed: Sequence[Probed],
    pinned: Pinned,
    written: Sequence[str],
    options: argparse.Namespace,
) -> dict[str, object]:
    # The same function decides the exit code, so both always agree.
    is_settled = _is_settled(options)
    servers = [
        _server_document(each, pinned, is_settled=is_settled(each)) for each in probed
    ]
    return {
        "success": all(map(is_settled, probed)),
        "servers": servers,
        "files": written,
    }


def _server_document(
    probed: Probed, pinned: Pinned, *, is_settled: bool
) -> dict[str, object]:
    listing = probed.listing
    tools = None if listing is None else len(listing.definitions)
    left_out = {} if listing is None else listing.left_out
    return {
        "id": probed.server.id,
        "version": probed.server.version,
        "status": _status_of(probed, is_settled=is_settled),
        "tools": tools,
        "drafted": pinned.drafted.get(str(probed.server), ()),
        "changes": probed.changes,
        "leftOut": left_out,
        "problem": probed.problem or None,
        "hint": probed.hint or None,
    }


def _status_of(probed: Probed, *, is_settled: bool) -> str:
    if probed.listing is None:
        return "failed"
    return "pinned" if is_settled else "changed"
