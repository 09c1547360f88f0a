"""`agent doctor`: what is configured, installed and reachable, and what to do."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from agent_resolver._version import __version__
from agent_resolver.cli.input import AGENT_FILE
from agent_resolver.cli.option import Commands, add_command, add_governed, add_json, project_of
from agent_resolver.cli.output import out, out_json, safe
from agent_resolver.project.errors import UntrustedFolder
from agent_resolver.schema.caller import ANONYMOUS
from agent_resolver.schema.errors import ResolverError
from agent_resolver.storage.trail import SqliteTrail

if TYPE_CHECKING:
    from agent_resolver.project.config import Config
    from agent_resolver.project.project import Project

_EXAMPLES = """\
  agent doctor
  agent doctor --json
"""

_EXTRAS: Final = {"tools": ("cryptography", "joserfc", "jsonschema_rs", "mcp")}
_HINTS: Final = {
    "run `agent doctor`": "start it, and check its `endpoint` or `launch` in the index",
    "add `--verbose` to see what the server says": "`agent tools list --verbose` shows what the server says",
}
"""What to say instead of hints that lead here, or are for other commands."""


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
        checks = list(_checks(project, options))
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


def _checks(project: "Project", options: argparse.Namespace) -> Iterator[Check]:
    python = ".".join(map(str, sys.version_info[:3]))
    tools = _extra("tools")
    yield Check("agent", ok=True, finding=f"version {__version__} on Python {python}")
    yield tools
    yield _tried("settings", lambda: _settings(project), "correct agent.toml")
    config = _config(project)
    if config.tools.modules:
        yield from _given(tools, "capabilities", lambda: [_capabilities(project)])
    yield from _governing(project, options)
    yield _tried("state", lambda: _state(project), "run `agent audit verify`")
    if config.models or config.pools:
        yield from _given(tools, "references", lambda: _references(project))
    if _holds(project):
        trust = _trust(project)
        yield trust
        if trust.ok:
            yield from _given(tools, "servers", lambda: _servers(project))


def _config(project: "Project") -> "Config":
    """The settings; where they are refused, which has a line of its own, the defaults."""
    from agent_resolver.project.config import Config

    try:
        return project.config
    except ResolverError:
        return Config()


def _given(extra: Check, name: str, look: Callable[[], Iterable[Check]]) -> Iterable[Check]:
    """What can be seen only where an extra is installed."""
    if extra.ok:
        return look()
    return [Check(name, ok=False, finding=f"not looked at without the {extra.name}", hint=extra.hint)]


def _governing(project: "Project", options: argparse.Namespace) -> Iterator[Check]:
    """The agent file, the index and the lock, as far as the project needs them."""
    if not _is_governed(project, options):
        none = f"not needed: there is no `{AGENT_FILE}`, and nothing that asks for one"
        yield Check("agent file", ok=True, finding=none)
        if options.index or os.path.exists(project.index_path):
            yield _index(project)
        return
    if _is_unlocked(project):
        yield _tried("agent file", lambda: f"without `requires`, so it needs no lock; forbids {_forbidden(project)}")
        return
    agent = _tried("agent file", lambda: f"{project.agent.name}@{project.agent.version}", option="--agents")
    index = _index(project)
    yield from (agent, index)
    if agent.ok and index.ok:
        verified = "server(s) locked, verified"
        yield _tried("lock", lambda: f"{len(project.lockfile.servers)} {verified}", "run `agent resolve`")
    else:
        unseen = "not looked at: it is made of the agent file and the index"
        yield Check("lock", ok=False, finding=unseen, hint="see to these first")


def _is_governed(project: "Project", options: argparse.Namespace) -> bool:
    """Whether there should be an agent file: a project of capabilities, or of agents to plan or serve, needs none."""
    is_other = project.config_path or os.path.isdir(os.path.join(project.root, "agents"))
    is_asked = options.agents != AGENT_FILE or options.lock
    return bool(is_asked or project.has_agent or os.path.exists(project.lock_path) or not is_other)


def _is_unlocked(project: "Project") -> bool:
    """Whether the agent file asks for no servers, in a project that has something without them."""
    config = _config(project)
    try:
        return bool(config.tools.modules or config.models or config.pools) and not project.has_requirements
    except ResolverError:
        return False  # Whoever reads it next says why it cannot be read.


def _forbidden(project: "Project") -> str:
    return ", ".join(project.limits.forbid) or "nothing"


def _index(project: "Project") -> Check:
    return _tried("index", lambda: f"{len(project.servers)} server(s)", option="--index")


def _capabilities(project: "Project") -> Check:
    from agent_resolver.project.capability import load_capabilities

    modules = ", ".join(project.config.tools.modules)
    hint = "correct `[tools] modules` in agent.toml"
    return _tried("capabilities", lambda: f"{len(load_capabilities(project))} in {modules}", hint)


def _references(project: "Project") -> Iterator[Check]:
    """Every reference of agents, models and pools that leads nowhere."""
    try:
        found = _dangling(project)
    except UntrustedFolder:
        return  # The capabilities have said so.
    except ResolverError as error:
        yield Check("references", ok=False, finding=str(error), hint=getattr(error, "hint", ""))
        return
    if not found:
        yield Check("references", ok=True, finding="every model, provider, plugin and delegate is there")
    for each in found:
        yield Check("references", ok=False, finding=each, hint="correct the agent file, or agent.toml")


def _dangling(project: "Project") -> list[str]:
    from contextlib import closing

    from agent_resolver.project.catalog import catalog_roots, open_catalog
    from agent_resolver.project.plan import registries_of
    from agent_resolver.runtime.dangling_reference import dangling

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


def _tried(name: str, look: Callable[[], str], hint: str = "run `agent validate`", option: str = "") -> Check:
    try:
        return Check(name, ok=True, finding=look())
    except ResolverError as error:
        faults = [*map(str, getattr(error, "differences", ())), *map(str, getattr(error, "issues", ()))]
        # The errors of some files are the faults and nothing else.
        lines = faults if str(error) == "\n".join(faults) else [str(error), *faults]
        if option and getattr(error, "missing", False):
            hint = f"check the path, or name another file with `{option}`"
        return Check(name, ok=False, finding="; ".join(lines), hint=getattr(error, "hint", "") or hint)


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
                Check(f"server {name}", ok=False, finding=str(problem), hint=_remedy(problem))
                if (problem := tools.servers.problems.get(name))
                else Check(f"server {name}", ok=True, finding=f"{_count(offered, name)} tool(s) open to the agent")
                for name in tools.servers.names()
            ]

    try:
        return asyncio.run(look())
    except ResolverError as error:
        return [Check("servers", ok=False, finding=str(error), hint=getattr(error, "hint", ""))]


def _remedy(problem: ResolverError) -> str:
    remedy = getattr(problem, "remedy", "")
    return _HINTS.get(remedy, remedy)


def _count(offered: tuple[object, ...], server: str) -> int:
    return sum(getattr(descriptor, "source", "") == f"server {server}" for descriptor in offered)
