"""Runs the commands below `agent catalog`."""

import argparse
import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from agent_resolver.catalog.catalog import MAX_PAGE, Catalog
from agent_resolver.catalog.client_folder import eager_folders
from agent_resolver.catalog.entry import Entry
from agent_resolver.catalog.errors import MalformedUri, UnknownAgent, UnusableRoot
from agent_resolver.catalog.listing import Listed
from agent_resolver.catalog.mention import Dangling, dangling_mentions
from agent_resolver.catalog.query import Finding, Query
from agent_resolver.catalog.reader import read_entry
from agent_resolver.catalog.repair import repaired
from agent_resolver.catalog.uri import AgentUri, agent_uri, parse_uri
from agent_resolver.cli.errors import Refusal, Usage
from agent_resolver.cli.option import session_here
from agent_resolver.cli.output import (
    err,
    issue_document,
    out,
    out_json,
    out_text,
    place,
    safe,
)
from agent_resolver.cli.progress import status_line
from agent_resolver.core.count import counted
from agent_resolver.core.shorten import shorten
from agent_resolver.project.catalog import judge_in
from agent_resolver.schema.front_matter import split
from agent_resolver.schema.issue import Issue, IssueCode, Severity
from agent_resolver.schema.limit import MAX_AGENT_FILE_BYTES
from agent_resolver.schema.source import Unreadable, decode
from agent_resolver.schema.walker import suggestion
from agent_resolver.storage.file import read_bounded, write_atomic

_MOST_LEFT_OUT: Final = 5
"""How many files that are left out `list` names."""
_MOST_CHARACTERS: Final = 100
"""Of the description of an agent in a listing."""

if TYPE_CHECKING:
    from agent_resolver.project.session import Session


def run(options: argparse.Namespace) -> int:
    """Run one of the commands."""
    with session_here(options) as session:
        catalog = open_catalog_of(session, options)
        return {
            "list": _list_agents,
            "search": _search_agents,
            "show": _show_agent,
            "check": _check_files,
            "stats": _print_statistics,
            "lint": _lint_mentions,
        }[options.action](catalog, options)


def open_catalog_of(
    session: "Session",
    options: argparse.Namespace,
    *,
    may_be_empty: bool = False,
    may_be_late: bool = False,
) -> Catalog:
    """The catalog that the options name, up to date with the disk.

    Args:
        session: The project.
        options: The command line.
        may_be_empty: True if there need not be any folder.
        may_be_late: True to leave the first look at all files to the caller, where there is no index of them yet.
    """
    roots = session.catalog_roots(options.roots)
    if not (roots or may_be_empty):
        raise Usage(
            "There are no agent files: neither `./agents` nor `./agents.md` exists",
            "write one, or name a folder with `--root`",
        )
    _warn_of_eager_folders(roots)
    index = session.index_path
    # Only an index that was named must be there. Without one, agents with `requires`
    # are listed as unresolved.
    if options.index and not os.path.exists(index):
        raise Usage(
            f"`{index}` does not exist", "check the path, or leave `--index` out"
        )
    catalog = session.catalog(options.roots, index_path=index, judge=judge_in(session))
    try:
        if may_be_late and not catalog.is_indexed:
            # A folder that cannot be read ends the command now; the files are left to
            # the caller.
            catalog.check_roots()
            return catalog
        with status_line(
            "Indexing the agent files", is_shown=not getattr(options, "json", False)
        ):
            catalog.refresh()
    except UnusableRoot as error:
        raise Usage(str(error), error.hint) from error
    # `check` names each of these files itself; commands outside of `agent catalog` have
    # no action.
    if getattr(options, "action", "") != "check":
        warn_of_refused(catalog)
    return catalog


def _warn_of_eager_folders(roots: Sequence[str]) -> None:
    """Name the folders whose files a client gives to the model anyway, so that serving them saves nothing."""
    for root in roots:
        for folder, client in eager_folders(root):
            err(
                f"warning: {client} loads `{folder}` whole by itself; move the files to a folder it does not know"
            )


def warn_of_refused(catalog: Catalog) -> None:
    """Say how many agent files cannot be served, if there are any."""
    if catalog.refused:
        err(
            f"warning: {counted(catalog.refused, 'agent file')} cannot be served; `agent catalog check` says why"
        )


def agent_of(text: str) -> AgentUri:
    """The address of the agent that a person names, by address or by name."""
    try:
        return parse_uri(text if "://" in text else agent_uri(text))
    except UnicodeEncodeError:
        # Bytes of an argument that are not UTF-8 are surrogates in its text, which no
        # URI can encode.
        raise Refusal(
            "The name is not UTF-8", "give a name, or an address such as `agent://name`"
        ) from None
    except MalformedUri as error:
        raise Refusal(
            str(error), "give a name, or an address such as `agent://name`"
        ) from None


def _list_agents(catalog: Catalog, options: argparse.Namespace) -> int:
    agents = catalog.search(_query_of(options), None)
    if options.json:
        out_json(list(map(listed_document, agents)))
        return 0
    if passed_over := catalog.left_out:
        err(f"hint: {_left_out_line(passed_over)}")
    _print_agents(agents)
    out(counted(len(agents), "agent"))
    return 0


def _left_out_line(found: Sequence[Finding]) -> str:
    """The number of Markdown files that are left out, and the first of them with the reasons."""
    # The line says once that they are left out, so the reasons need not say it again.
    shown = [
        f"{safe(_relative_path(each.path))} ({safe(each.issue.message.removeprefix('Left out: '))})"
        for each in found[:_MOST_LEFT_OUT]
    ]
    rest = len(found) - len(shown)
    more = [f"{rest} more, which `agent catalog check` names"] if rest else []
    return (
        f"{counted(len(found), 'Markdown file')} left out: {', '.join([*shown, *more])}"
    )


def _query_of(options: argparse.Namespace, text: str = "") -> Query:
    return Query(
        text=text, capability=options.capability, role=options.role, model=options.model
    )


def _search_agents(catalog: Catalog, options: argparse.Namespace) -> int:
    # The catalog has the same bound, but its error does not name the option.
    if not 1 <= options.limit <= MAX_PAGE:
        raise Usage(f"`--limit` must be from 1 to {MAX_PAGE}")
    agents = catalog.search(_query_of(options, options.text), options.limit)
    if options.json:
        out_json(list(map(listed_document, agents)))
    else:
        _print_agents(agents)
        if not agents:
            err("✗ No agent fits")
    return 0 if agents else 1


def _show_agent(catalog: Catalog, options: argparse.Namespace) -> int:
    uri = agent_of(options.agent)
    try:
        definition = catalog.definition(uri)
    except UnknownAgent as error:
        # The first page of names is enough to guess what was meant.
        names, _ = catalog.completions("")
        raise Refusal(
            str(error),
            suggestion(options.agent, names) or "`agent catalog list` lists them",
        ) from None
    # An option outranks the address.
    if options.json or (options.format or _format_of(options.agent, uri)) == "json":
        out_json(definition.to_dict())
    else:
        out_text(definition.raw.decode(errors="replace"))
    return 0


def _format_of(text: str, uri: AgentUri) -> str:
    """The format that an address asks for; else the file itself."""
    question = text.partition("?")[2].split("&") if "://" in text else []
    # Without a format, `parse_uri` takes JSON for clients, where a person at a terminal
    # wants to read the file.
    return (
        uri.format
        if any(part.startswith("format=") for part in question)
        else "markdown"
    )


def _check_files(catalog: Catalog, options: argparse.Namespace) -> int:
    if options.fix:
        _repair_files(catalog)
    findings = catalog.findings()
    code = _exit_code_of(findings, options)
    if options.json:
        documents = [
            {"file": _relative_path(found.path), **issue_document(found.issue)}
            for found in findings
        ]
        out_json({"success": not code, "total": catalog.total, "findings": documents})
    else:
        _print_findings(catalog, findings)
    return code


def _print_findings(catalog: Catalog, findings: Sequence[Finding]) -> None:
    for found in findings:
        issue = found.issue
        is_error = issue.severity is Severity.ERROR
        word = "✗" if is_error else f"{issue.severity.value}:"
        hint = f"; {safe(issue.hint)}" if issue.hint else ""
        where = place(_relative_path(found.path), issue)
        out(f"{word} {safe(str(issue))}{hint} ({where})")
    refused = sum(found.issue.severity is Severity.ERROR for found in findings)
    warnings = sum(found.issue.severity is Severity.WARNING for found in findings)
    left_out = len(catalog.left_out)
    counts = [
        f"{counted(catalog.total, 'agent')} served",
        f"{counted(refused, 'file')} refused",
        counted(warnings, "warning"),
    ]
    if left_out:
        counts.append(f"{left_out} left out")
    out(", ".join(counts))


def _exit_code_of(findings: Sequence[Finding], options: argparse.Namespace) -> int:
    """1 where a file is refused, or where warnings count and there is one."""
    failing = {Severity.ERROR, Severity.WARNING} if options.strict else {Severity.ERROR}
    return int(any(found.issue.severity in failing for found in findings))


def _repair_files(catalog: Catalog) -> None:
    """Repair each file that can be, and read all of them again."""
    fixed = [found.path for found in catalog.findings() if _repair_file(found)]
    # The findings that are reported are those of the files after the repair.
    catalog.refresh()
    for path in fixed:
        err(f"✓ Repaired {_relative_path(path)}")


def _repair_file(found: Finding) -> bool:
    """Repair the front matter of a file, and return True if that could be done."""
    if found.issue.code is not IssueCode.FRONT_MATTER_REPAIRED:
        return False
    # The finding has no text, so the file is read again, and may have changed since.
    raw = read_bounded(found.path, MAX_AGENT_FILE_BYTES)
    text = decode(raw)
    document = split(text)
    if isinstance(document, Issue):
        return False
    # The front matter begins below the opening fence. Every character outside of it
    # stays as it is.
    start = len(text.splitlines(keepends=True)[0])
    end = start + len(document.front_matter)
    mended = f"{text[:start]}{repaired(document.front_matter)}{text[end:]}".encode()
    stem = os.path.basename(found.path).removesuffix(".md")
    # The reader repairs in memory what it can, so both files are understood as they
    # will be served: if their values are not equal, the repair has changed what the
    # author said.
    before = read_entry(raw, stem)
    after = read_entry(mended, stem)
    if (
        not (isinstance(before, Entry) and isinstance(after, Entry))
        or after.front_matter != before.front_matter
    ):
        return False
    # A file that would still have to be repaired each time it is read is left to its
    # author.
    if any(issue.code is found.issue.code for issue in after.issues):
        return False
    return write_atomic(found.path, [mended])


def _print_statistics(catalog: Catalog, options: argparse.Namespace) -> int:
    statistics = _statistics_of(catalog)
    if options.json:
        out_json(statistics)
        return 0
    agents = counted(statistics["agents"], "agent")
    out(
        f"{agents}, {statistics['bytes']:,} bytes, about {statistics['tokens']:,} tokens"
    )
    capabilities = counted(statistics["capabilities"], "capability", "capabilities")
    out(f"{capabilities}; largest: {statistics['largest'] or '(none)'}")
    out(
        f"requires: {statistics['resolved']} resolved, {statistics['unresolved']} unresolved"
    )
    for root in statistics["roots"]:
        out(f"root: {root}")
    return 0


def _statistics_of(catalog: Catalog) -> dict[str, Any]:
    agents = catalog.search(Query(), None)
    # Agents without `requires` have a third status, and are counted with neither.
    statuses = {
        status: sum(agent.status == status for agent in agents)
        for status in ("resolved", "unresolved")
    }
    # Among agents of one size the address decides, so that the answer is always the
    # same.
    largest = max(agents, key=lambda agent: (agent.tokens, agent.uri), default=None)
    words = {word for agent in agents for word in agent.capabilities}
    return {
        "agents": len(agents),
        "roots": [_relative_path(root) for root in catalog.roots],
        "bytes": sum(agent.size for agent in agents),
        "tokens": sum(agent.tokens for agent in agents),
        "largest": largest.uri if largest else None,
        "capabilities": len(words),
        **statuses,
        "listing": catalog.listing,
        "cache": catalog.counters,
    }


def _is_found(catalog: Catalog, uri: AgentUri) -> bool:
    """True if an address leads to an agent, at the version that it asks for."""
    # `has` goes by the address alone. A version is known from the definition, which has
    # to be read.
    if uri.version is None:
        return catalog.has(uri.name)
    try:
        catalog.definition(uri)
    except UnknownAgent:
        return False
    return True


def _lint_mentions(catalog: Catalog, options: argparse.Namespace) -> int:
    names = sorted(agent.name for agent in catalog.search(Query(), None))
    found = [
        (path, each) for path in options.files for each in _dangling_in(path, catalog)
    ]
    if options.json:
        documents = [
            {"file": path, "uri": d.uri, "line": d.line, "column": d.column}
            for path, d in found
        ]
        out_json({"success": not found, "dangling": documents})
        return 1 if found else 0
    for path, each in found:
        _print_dangling(path, each, names)
    if not found:
        out("✓ Every agent that is mentioned exists")
    return 1 if found else 0


def _print_dangling(path: str, found: Dangling, names: Sequence[str]) -> None:
    near = suggestion(found.uri.removeprefix("agent://"), names)
    hint = f"; {near}" if near else ""
    out(f"✗ {safe(found.message)}{hint} ({path}:{found.line}:{found.column})")


def _dangling_in(path: str, catalog: Catalog) -> Iterator[Dangling]:
    """The mentions in a file that lead to no agent."""
    try:
        text = decode(read_bounded(path, MAX_AGENT_FILE_BYTES))
    except Unreadable as stop:
        # This fault is not an error that the application reports, and it does not name
        # the file.
        raise Refusal(
            f"`{path}` cannot be read: {stop.issue.message}", stop.issue.hint
        ) from None
    return dangling_mentions(text, partial(_is_found, catalog))


def listed_document(agent: Listed) -> dict[str, object]:
    """An agent as every listing in JSON shows it."""
    return {
        "name": agent.name,
        "uri": agent.uri,
        "description": agent.description,
        "model": agent.model,
        "role": agent.role,
        "capabilities": agent.capabilities,
        "capabilitiesDerived": agent.is_derived,
        "digest": agent.digest,
        "size": agent.size,
        "tokens": agent.tokens,
        "status": agent.status,
        "reason": agent.reason or None,
    }


def _print_agents(agents: Sequence[Listed]) -> None:
    for agent in agents:
        status = "" if agent.status == "not-required" else f" [{agent.status}]"
        out(safe(f"{agent.uri}{status}"))
        if agent.description:
            out(f"  {safe(shorten(agent.description, _MOST_CHARACTERS))}")


def _relative_path(path: str) -> str:
    """A path as a person here would write it."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
