"""`agent index sync`: fetch sources of servers, and keep them so that importing needs no network."""

import argparse
import os
from typing import TYPE_CHECKING

from agent_resolver.cli.errors import Usage
from agent_resolver.cli.option import (
    Commands,
    add_command,
    add_index,
    add_json,
    add_project,
    add_trust,
    session_here,
)
from agent_resolver.cli.output import err, out, out_json, safe
from agent_resolver.cli.progress import progress_line
from agent_resolver.core.count import counted

if TYPE_CHECKING:
    from agent_resolver.exchange.sync import Synced, SyncRequest
    from agent_resolver.project.session import Session

_EXAMPLES = """\
  agent index sync https://registry.example            every server of a registry; the next time, what changed
  agent index sync https://example.com/catalogue.yaml  one file
  agent index sync --git https://example.com/acme/catalogue.git
  agent index sync                                     the `sources` of `[index]` in agent.toml

What was fetched is kept in mcp.sources/ beside the index: `agent index import mcp.sources` needs no network.
"""
_GIT = "git+"
_FEW = 3


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands, "sync", "fetch sources of servers, and keep what they say", _EXAMPLES
    )
    parser.add_argument(
        "urls", metavar="URL", nargs="*", help="a registry or a file, over `https`"
    )
    parser.add_argument(
        "--git",
        metavar="REPO",
        action="append",
        default=[],
        help="a repository: an address, or a folder (repeatable)",
    )
    parser.add_argument(
        "--name",
        metavar="NAME",
        help="what to call the source (default: from its address)",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="fetch all of a registry, not only what changed",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="how long each source may take (default: 300)",
    )
    parser.add_argument(
        "--allow-private",
        action="store_true",
        help="let a host that you name here have a private address",
    )
    add_index(parser)
    add_project(parser)
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Fetch each source; a failure of one is not a failure of another."""
    if not options.timeout > 0:
        raise Usage("`--timeout` must be more than 0 seconds")
    with session_here(options) as session:
        # The session says where the index is, and the sources are kept beside it.
        requests = _requests(session, options)
        if options.name is not None and len(requests) > 1:
            raise Usage("`--name` names one source, and there are several")
        folder = os.path.join(os.path.dirname(session.index_path), _sources_name())
        results = [_sync(request, folder, options) for request in requests]
    # In text mode each source has printed its result already, as soon as it was there.
    if options.json:
        out_json(
            {
                "success": all(result["error"] is None for result in results),
                "sources": results,
            }
        )
    is_complete = all(result["error"] is None for result in results)
    return 0 if is_complete else 1


def _sources_name() -> str:
    from agent_resolver.exchange.stored_source import SOURCES_NAME

    return SOURCES_NAME


def _requests(session: "Session", options: argparse.Namespace) -> "list[SyncRequest]":
    from agent_resolver.exchange.sync import SyncRequest

    # A marker in the address keeps one list for both kinds, in the form that settings
    # use too.
    named = [*options.urls, *(f"{_GIT}{repository}" for repository in options.git)]
    if not named:
        if session.is_set_by_file("index.sources"):
            # The author of the project chose what is called from this machine.
            session.require_trust("its settings name addresses to call")
        if options.allow_private:
            # Settings come from the author of the project, who must not open private
            # networks of the machine that runs this.
            raise Usage(
                "`--allow-private` is for addresses on the command line, not for those in agent.toml"
            )
        named = list(session.config.index.sources)
    if not named:
        raise Usage("Name an address, or set `sources` of `[index]` in agent.toml")
    return [
        SyncRequest(
            url=url.removeprefix(_GIT),
            is_git=url.startswith(_GIT),
            is_full=options.full,
            seconds=options.timeout,
            allows_private=options.allow_private,
            # A folder of this machine may be cloned if the operator names it: settings
            # name addresses alone.
            allows_folder=bool(options.git),
            environment=session.environment,
        )
        for url in named
    ]


def _sync(
    request: "SyncRequest", folder: str, options: argparse.Namespace
) -> dict[str, object]:
    from agent_resolver.exchange.stored_source import (
        StoredSource,
        is_source_name,
        source_name,
    )
    from agent_resolver.exchange.sync import sync_source
    from agent_resolver.schema.errors import ResolverError

    name = options.name or source_name(request.url)
    # The name becomes the name of a folder, so separators and dots alone must not get
    # through.
    if not is_source_name(name):
        raise Usage("`--name` has letters, digits, dots and dashes")
    source = StoredSource(folder, name)
    progress_line(f"Fetching {safe(request.url)}…")
    # A failure becomes a result, so that the sources after it are fetched all the same.
    try:
        synced = sync_source(request, source)
    except ResolverError as error:
        # The progress line goes first: the error would otherwise be written into it.
        progress_line("")
        if not options.json:
            err(f"✗ {safe(str(error))}")
            if error.hint:
                err(f"  hint: {safe(error.hint)}")
        return _document(request, source.folder, None, error)
    progress_line("")
    if not options.json:
        _print_synced(synced, source.folder)
    return _document(request, source.folder, synced, None)


def _print_synced(synced: "Synced", folder: str) -> None:
    what = "server" if synced.manifest.kind == "registry" else "file"
    count = counted(synced.count, what)
    change = (
        f"{counted(len(synced.changed), 'file')} written"
        if synced.changed
        else "unchanged"
    )
    out(f"✓ {safe(synced.manifest.url)}: {count} fetched, {change}")
    if synced.left_out:
        # Names of servers come from the network, so they are made safe for a terminal.
        named = ", ".join(map(safe, synced.left_out[:_FEW]))
        more = ", …" if len(synced.left_out) > _FEW else ""
        servers = counted(len(synced.left_out), "server")
        err(
            f"warning: {servers} left out, too large or nested too deeply: {named}{more}"
        )
    out(f"  agent index import {safe(folder)}")


def _document(
    request: "SyncRequest",
    folder: str,
    synced: "Synced | None",
    error: Exception | None,
) -> dict[str, object]:
    return {
        "url": request.url,
        "folder": folder,
        **_fetched_document(synced),
        "error": None if error is None else str(error),
    }


def _fetched_document(synced: "Synced | None") -> dict[str, object]:
    """The fetched files of one source."""
    # A source that failed has the same keys, so that programs read all results alike.
    if synced is None:
        return {
            "kind": None,
            "fetched": 0,
            "files": [],
            "leftOut": (),
            "updated": None,
            "commit": None,
        }
    return {
        "kind": synced.manifest.kind,
        "fetched": synced.count,
        "files": synced.changed,
        "leftOut": synced.left_out,
        "updated": synced.manifest.updated or None,
        "commit": synced.manifest.commit or None,
    }
