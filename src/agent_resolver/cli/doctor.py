"""`agent doctor`: what is configured, installed and reachable, and what to do."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

from msgspec import Struct

from agent_resolver._version import __version__
from agent_resolver.cli.option import Commands, add_command, add_governed, add_json, project_of
from agent_resolver.cli.output import out, out_json, safe
from agent_resolver.project.errors import UntrustedFolder
from agent_resolver.schema import ResolverError
from agent_resolver.schema.caller import ANONYMOUS
from agent_resolver.storage.trail import SqliteTrail

if TYPE_CHECKING:
    from agent_resolver.project.project import Project

_EXAMPLES = """\
  agent doctor
  agent doctor --json
"""

_EXTRAS = {"tools": ("cryptography", "joserfc", "jsonschema_rs", "mcp")}


class Check(Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    ok: bool
    finding: str
    hint: str = ""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(commands, "doctor", "check what is configured, installed and reachable", _EXAMPLES)
    add_governed(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Look at everything, and say what to do about what is wrong."""
    project = project_of(options)
    try:
        checks = list(_checks(project))
    finally:
        project.close()
    if options.json:
        out_json({"success": all(check.ok for check in checks), "checks": checks})
    else:
        for check in checks:
            out(f"{'✓' if check.ok else '✗'} {check.name}: {safe(check.finding)}")
            if check.hint:
                out(f"  hint: {safe(check.hint)}")
    return 0 if all(check.ok for check in checks) else 1


def _checks(project: "Project") -> Iterator[Check]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield Check("agent", ok=True, finding=f"version {__version__} on Python {python}")
    yield from map(_extra, sorted(_EXTRAS))
    yield _tried("settings", lambda: _settings(project), "correct agent.toml")
    modules = _modules(project)
    if modules:
        yield _tried("capabilities", lambda: _capabilities(project), "correct `[tools] modules` in agent.toml")
    if project.has_agent or not modules:
        yield from _governing(project)
    yield _tried("state", lambda: _state(project), "run `agent audit verify`")
    if _extra("tools").ok:
        yield from _references(project)
    if _holds(project):
        trust = _trust(project)
        yield trust
        if trust.ok and _extra("tools").ok:
            yield from _servers(project)


def _governing(project: "Project") -> Iterator[Check]:
    yield _tried("agent file", lambda: f"{project.agent.name}@{project.agent.version}", "run `agent validate`")
    yield _tried("index", lambda: f"{len(project.servers)} server(s)", "run `agent validate`")
    yield _tried("lock", lambda: f"{len(project.lockfile.servers)} server(s) locked, verified", "run `agent resolve`")


def _modules(project: "Project") -> tuple[str, ...]:
    try:
        return project.config.tools.modules
    except ResolverError:
        return ()


def _capabilities(project: "Project") -> str:
    from agent_resolver.project.capability import load_capabilities

    return f"{len(load_capabilities(project))} in {', '.join(project.config.tools.modules)}"


def _references(project: "Project") -> Iterator[Check]:
    """Every reference of agents, models and pools that leads nowhere, in a project that names models."""
    try:
        found = _dangling(project) if project.config.models or project.config.pools else None
    except UntrustedFolder:
        return  # The capabilities have said so.
    except ResolverError as error:
        yield Check("references", ok=False, finding=str(error), hint=getattr(error, "hint", ""))
        return
    if found == []:
        yield Check("references", ok=True, finding="every model, provider, plugin and delegate is there")
    for each in found or ():
        yield Check("references", ok=False, finding=each, hint="correct the agent file, or agent.toml")


def _dangling(project: "Project") -> list[str]:
    from contextlib import closing

    from agent_resolver.project.catalog import catalog_roots, open_catalog
    from agent_resolver.project.plan import registries_of
    from agent_resolver.runtime.dangling import dangling

    roots = catalog_roots((), project.config.catalog, os.path.relpath(project.root))
    with closing(open_catalog(roots, project.environment)) as catalog:
        catalog.refresh()
        return list(map(str, dangling(registries_of(project, catalog))))


def _extra(name: str) -> Check:
    missing = [module for module in _EXTRAS[name] if find_spec(module) is None]
    if not missing:
        return Check(f"extra `{name}`", ok=True, finding="installed")
    hint = f"pip install 'agent-resolver[{name}]'"
    return Check(f"extra `{name}`", ok=False, finding=f"missing: {', '.join(missing)}", hint=hint)


def _tried(name: str, look: Callable[[], str], hint: str) -> Check:
    try:
        return Check(name, ok=True, finding=look())
    except ResolverError as error:
        lines = [str(error), *map(str, getattr(error, "differences", ())), *map(str, getattr(error, "issues", ()))]
        return Check(name, ok=False, finding="; ".join(dict.fromkeys(lines)), hint=getattr(error, "hint", "") or hint)


def _settings(project: "Project") -> str:
    changed = [item for item in project.loaded.settings if item.origin != "default"]
    return f"{project.config_path or 'no agent.toml'}, {len(changed)} value(s) set"


def _state(project: "Project") -> str:
    key = project.key
    if not os.path.exists(project.state_path):
        return f"{project.state_path}, nothing recorded yet"
    faults, count, _ = SqliteTrail(project.database, key).verify()
    if faults:
        raise ResolverError(f"the audit trail does not verify: {faults[0]}")
    return f"{project.database.path}, {count} audit record(s), verified"


def _holds(project: "Project") -> bool:
    try:
        return bool(project.lockfile)
    except ResolverError:
        return False


def _trust(project: "Project") -> Check:
    from agent_resolver.project.exposure import why_trust_is_needed

    try:
        why = why_trust_is_needed(project)
        if why is None:
            return Check("trust", ok=True, finding="not needed: the lock starts no commands, and no secrets are sent")
        project.require_trust(why)
    except ResolverError as error:
        return Check("trust", ok=False, finding=str(error), hint="run `agent trust-folder` once you have read them")
    return Check("trust", ok=True, finding=f"{project.root} is trusted")


def _servers(project: "Project") -> list[Check]:
    """Connect every locked server for a moment."""
    import asyncio

    from agent_resolver.project.tools import open_tools

    async def look() -> list[Check]:
        async with open_tools(project, caller=ANONYMOUS) as tools:
            offered = tools.registry.list()
            return [
                Check(f"server {name}", ok=False, finding=str(problem), hint=getattr(problem, "remedy", ""))
                if (problem := tools.servers.problems.get(name))
                else Check(f"server {name}", ok=True, finding=f"{_count(offered, name)} tool(s) open to the agent")
                for name in tools.servers.names()
            ]

    try:
        return asyncio.run(look())
    except ResolverError as error:
        return [Check("servers", ok=False, finding=str(error), hint=getattr(error, "hint", ""))]


def _count(offered: tuple[object, ...], server: str) -> int:
    return sum(getattr(descriptor, "source", "") == f"server {server}" for descriptor in offered)
