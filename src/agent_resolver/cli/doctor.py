"""`agent doctor`: what is configured, installed and reachable, and what to do."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from agent_resolver._version import __version__
from agent_resolver.cli.client_check import HINT, access_of, check_project_clients
from agent_resolver.cli.client_command import project_folder
from agent_resolver.cli.input import AGENT_FILE, hint_at_missing
from agent_resolver.cli.option import (
    Commands,
    add_command,
    add_governed,
    add_json,
    session_of,
)
from agent_resolver.cli.output import out, out_json, safe
from agent_resolver.cli.progress import status_line
from agent_resolver.core.count import counted, plural
from agent_resolver.project.errors import UntrustedFolder
from agent_resolver.schema.caller import ANONYMOUS
from agent_resolver.schema.errors import InvalidInput, ResolverError
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.trail import trail_faults

if TYPE_CHECKING:
    from agent_resolver.project.config import Config
    from agent_resolver.project.session import Session
    from agent_resolver.project.tools import OpenTools
    from agent_resolver.registry.errors import NeedsAction, ToolFailure
    from agent_resolver.schema.descriptor import Descriptor

_EXAMPLES = """\
  agent doctor
  agent doctor --json
"""

_FAULTS: Final = frozenset(
    {"TOOL_CHANGED", "TOOL_ID_RESERVED", "TOOL_NAME_REPEATED", "TOOL_NAME_UNUSABLE"}
)
"""Refusals that are a fault of the server, where others are a choice of the project."""
# The modules by which it is known that an extra is installed.
_EXTRAS: Final = {"tools": ("cryptography", "joserfc", "jsonschema_rs", "mcp")}


class Check(Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    ok: bool
    finding: str
    hint: str = ""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "doctor",
        "check what is configured, installed and reachable",
        _EXAMPLES,
    )
    add_governed(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Look at everything, and say what to do about what is wrong."""
    with session_of(options) as session:
        checks = list(_run_checks(session, options))
    if options.json:
        out_json({"success": all(check.ok for check in checks), "checks": checks})
    else:
        for check in checks:
            out(f"{'✓' if check.ok else '✗'} {check.name}: {safe(check.finding)}")
            if check.hint:
                out(f"  hint: {safe(check.hint)}")
    return 0 if all(check.ok for check in checks) else 1


def _run_checks(session: "Session", options: argparse.Namespace) -> Iterator[Check]:
    # What is wrong further up may be the cause of what is wrong below, so the order
    # matters to a reader.
    python = ".".join(map(str, sys.version_info[:3]))
    tools = _check_extra("tools")
    yield Check("agent", ok=True, finding=f"version {__version__} on Python {python}")
    yield tools
    yield _check_by_trying(
        "settings", lambda: _describe_settings(session), "correct agent.toml"
    )
    config = _config_or_defaults(session)
    if config.tools.modules:
        yield from _look_if_installed(
            tools, "capabilities", lambda: [_check_capabilities(session)]
        )
    if config.tools.blueprints:
        yield from _look_if_installed(
            tools, "blueprints", lambda: [_check_blueprints(session)]
        )
    yield from _check_governing_files(session, options)
    if _is_governed(session, options):
        yield from _check_clients(session)
    yield _check_by_trying(
        "state", lambda: _verify_state(session), "run `agent audit verify`"
    )
    if config.models or config.pools:
        yield from _look_if_installed(
            tools, "references", lambda: _check_references(session)
        )
    if config.providers or _is_unlocked(session):
        yield from _look_if_installed(
            tools, "models", lambda: _check_providers(session)
        )
    # Nothing is connected without a lock that holds, or without trust where the lock or
    # the settings need it.
    if _lock_holds(session):
        trust = _check_trust(session)
        yield trust
        if trust.ok:
            yield from _look_if_installed(
                tools,
                "servers",
                lambda: _check_servers(session, is_watched=not options.json),
            )


def _check_clients(session: "Session") -> Iterator[Check]:
    """Every server that a client of the project starts outside of the lock."""
    from agent_resolver.exchange.client.direct import Access

    try:
        locks = [(session.lockfile, session.limits)]
        access = access_of(session)
    except ResolverError:  # It has a line of its own; nothing is covered by it.
        locks = []
        access = Access()
    files = (session.agent_path, session.lock_path, session.index_path)
    # A client reads the settings of the folder that it is opened in: that of the
    # project, or this one.
    findings, problems = check_project_clients(
        {project_folder(), os.getcwd()}, locks, access, files
    )
    for finding in findings:
        outside = f"starts `{finding.name}` outside of the lock ({finding.starts}): {finding.why}"
        is_covered = finding.kind != "outside"
        text = f"`{finding.name}` is {finding.kind}" if is_covered else outside
        yield Check(
            f"client {finding.path}",
            ok=is_covered,
            finding=text,
            hint="" if is_covered else HINT,
        )
    for problem in problems:
        yield Check(
            f"client {problem.path}",
            ok=False,
            finding=problem.problem,
            hint="correct the file",
        )


def _config_or_defaults(session: "Session") -> "Config":
    """The settings; where they are refused, which has a line of its own, the defaults."""
    from agent_resolver.project.config import Config

    try:
        return session.config
    except ResolverError:
        return Config()


def _look_if_installed(
    extra: Check, name: str, look: Callable[[], Iterable[Check]]
) -> Iterable[Check]:
    """The checks that need an extra to be installed."""
    # The look is passed as a function, because it imports what may not be installed.
    if extra.ok:
        return look()
    return [
        Check(
            name,
            ok=False,
            finding=f"not looked at without the {extra.name}",
            hint=extra.hint,
        )
    ]


def _check_governing_files(
    session: "Session", options: argparse.Namespace
) -> Iterator[Check]:
    """The agent file, the index and the lock, as far as the project needs them."""
    if not _is_governed(session, options):
        none = f"not needed: there is no `{AGENT_FILE}`, and nothing that asks for one"
        yield Check("agent file", ok=True, finding=none)
        if options.index or os.path.exists(session.index_path):
            yield _check_index(session)
        return
    if _is_unlocked(session):
        yield _check_by_trying(
            "agent file",
            lambda: (
                f"without `requires`, so it needs no lock; forbids {_render_forbidden(session)}"
            ),
        )
        return
    agent = _check_by_trying(
        "agent file",
        lambda: f"{session.agent.name}@{session.agent.version}",
        option="--agents",
    )
    index = _check_index(session)
    yield from (agent, index)
    # A lock is verified against both, so it could only repeat what is wrong with them.
    if agent.ok and index.ok:
        yield _check_by_trying(
            "lock", lambda: _describe_lock(session), "run `agent resolve`"
        )
    else:
        unseen = "not looked at: it is made of the agent file and the index"
        yield Check("lock", ok=False, finding=unseen, hint="see to these first")


def _describe_lock(session: "Session") -> str:
    return f"{counted(len(session.lockfile.servers), 'server')} locked, verified"


def _is_governed(session: "Session", options: argparse.Namespace) -> bool:
    """True if there should be an agent file: a project of capabilities, or of agents to plan or serve, needs none."""
    # Settings, or a folder of agents, are a project without an agent file. In any other
    # folder a missing one is a finding.
    is_other = session.config_path or os.path.isdir(
        os.path.join(session.root, "agents")
    )
    is_asked = options.agents != AGENT_FILE or options.lock
    return bool(
        is_asked
        or session.has_agent
        or os.path.exists(session.lock_path)
        or not is_other
    )


def _is_unlocked(session: "Session") -> bool:
    """True if the agent file asks for no servers, in a project that has something without them."""
    config = _config_or_defaults(session)
    # Each of these gives a project something to do without a locked server.
    has_settings = bool(
        config.tools.modules or config.tools.blueprints or config.models or config.pools
    )
    # With an agent file alone, an agent runs on the local model.
    has_agent_alone = session.has_agent and not (
        os.path.exists(session.index_path) or os.path.exists(session.lock_path)
    )
    try:
        return (has_settings or has_agent_alone) and not session.has_requirements
    except ResolverError:
        return False  # The check that reads it next says why it cannot be read.


def _render_forbidden(session: "Session") -> str:
    return ", ".join(session.limits.forbid) or "nothing"


def _check_index(session: "Session") -> Check:
    return _check_by_trying(
        "index", lambda: counted(len(session.servers), "server"), option="--index"
    )


def _check_capabilities(session: "Session") -> Check:
    from agent_resolver.project.capability import load_capabilities

    modules = ", ".join(session.config.tools.modules)
    hint = "correct `[tools] modules` in agent.toml"
    return _check_by_trying(
        "capabilities", lambda: f"{len(load_capabilities(session))} in {modules}", hint
    )


def _check_blueprints(session: "Session") -> Check:
    from agent_resolver.project.blueprint import own_descriptors

    def describe() -> str:
        # The tools of a project are its capabilities too, which have a line of their
        # own.
        found = [
            tool for tool in own_descriptors(session) if tool.labels.kind == "BLUEPRINT"
        ]
        return f"{len(found)} in {', '.join(session.config.tools.blueprints)}"

    return _check_by_trying("blueprints", describe, "run `agent blueprint check`")


def _check_providers(session: "Session") -> Iterator[Check]:
    """One check for each provider: its key, its files and its packages must be there. Nothing is sent."""
    from agent_resolver.project.provider import (
        LOCAL,
        local_model_names,
        provider_executor,
    )
    from agent_resolver.runtime.spec import DEFAULT_MODEL

    for name, provider in sorted(_config_or_defaults(session).providers.items()):
        try:
            provider_executor(session, name).open()
        except ResolverError as error:
            yield Check(
                f"provider {name}", ok=False, finding=str(error), hint=error.hint
            )
        else:
            yield Check(
                f"provider {name}",
                ok=True,
                finding=f"adapter `{provider.adapter}`, ready to be asked",
            )
    # Agents that name no model get the local one only where neither the settings nor a
    # key offers another.
    if DEFAULT_MODEL not in local_model_names(session):
        return
    try:
        provider_executor(session, LOCAL).open()
    except ResolverError as error:
        # Not every project runs agents.
        yield Check(
            "models",
            ok=True,
            finding=f"none is set up; for the local one, {error}",
            hint=error.hint,
        )
    else:
        yield Check(
            "models", ok=True, finding="none is set up, so the local one answers"
        )


def _check_references(session: "Session") -> Iterator[Check]:
    """Every reference of agents, models and pools that leads nowhere."""
    try:
        found = _dangling_references(session)
    except UntrustedFolder:
        return  # The capabilities have said so.
    except ResolverError as error:
        yield Check("references", ok=False, finding=str(error), hint=error.hint)
        return
    if not found:
        yield Check(
            "references",
            ok=True,
            finding="every model, provider, plugin and delegate is there",
        )
    for each in found:
        yield Check(
            "references",
            ok=False,
            finding=each,
            hint="correct the agent file, or agent.toml",
        )


def _dangling_references(session: "Session") -> list[str]:
    from agent_resolver.project.plan import runtime_of
    from agent_resolver.runtime.dangling_reference import dangling

    catalog = session.catalog()
    catalog.refresh()
    return list(map(str, dangling(runtime_of(session, catalog).snapshot)))


def _check_extra(name: str) -> Check:
    # The modules are looked for and not imported, which would take long.
    missing = [module for module in _EXTRAS[name] if find_spec(module) is None]
    if not missing:
        return Check(f"extra `{name}`", ok=True, finding="installed")
    hint = f"pip install 'agent-resolver[{name}]'"
    return Check(
        f"extra `{name}`", ok=False, finding=f"missing: {', '.join(missing)}", hint=hint
    )


def _check_by_trying(
    name: str,
    look: Callable[[], str],
    hint: str = "run `agent validate`",
    option: str = "",
) -> Check:
    try:
        return Check(name, ok=True, finding=look())
    except ResolverError as error:
        faults = [*map(str, error.details), *map(str, error.issues)]
        # The message of a refused input is its issues and nothing else.
        lines = faults if isinstance(error, InvalidInput) else [str(error), *faults]
        if option and isinstance(error, UnreadableFile) and error.missing:
            hint = hint_at_missing(error.path, option)
        return Check(name, ok=False, finding="; ".join(lines), hint=error.hint or hint)


def _describe_settings(session: "Session") -> str:
    changed = [item for item in session.loaded.settings if item.origin != "default"]
    return f"{session.config_path or 'no agent.toml'}, {counted(len(changed), 'value')} set"


def _verify_state(session: "Session") -> str:
    if not session.has_state:
        _ = session.key  # Says at once that a variable is missing.
        return f"{session.state_path}, nothing recorded yet"
    key = session.store.trail_key
    faults, seal = session.store.read_now(lambda snapshot: trail_faults(snapshot, key))
    # The first fault is enough here: the command that the hint names lists all of them.
    if faults:
        raise ResolverError(f"the audit trail does not verify: {faults[0]}")
    return f"{session.state_path}, {counted(seal.count, 'audit record')}, verified"


def _lock_holds(session: "Session") -> bool:
    try:
        return bool(session.lockfile)
    except ResolverError:
        return False


def _check_trust(session: "Session") -> Check:
    try:
        why = session.why_trust_is_needed
        if why is None:
            return Check(
                "trust",
                ok=True,
                finding="not needed: the lock starts no commands, and no secrets are sent",
            )
        # The same question is asked before the servers are opened, so the answer here
        # is that of a run.
        session.require_trust(why, files=session.files_of_lock)
    except ResolverError as error:
        return Check("trust", ok=False, finding=str(error), hint=error.hint)
    folders = session.folders_to_trust(session.files_of_lock)
    verb = plural(len(folders), "is", "are")
    return Check("trust", ok=True, finding=f"{' and '.join(folders)} {verb} trusted")


def _check_servers(session: "Session", *, is_watched: bool) -> list[Check]:
    """Connect every locked server for a moment."""
    import asyncio

    from agent_resolver.project.tools import open_tools

    async def look() -> list[Check]:
        async with open_tools(session, caller=ANONYMOUS) as tools:
            return [_check_server(tools, name) for name in tools.servers.names()]

    try:
        with status_line("Connecting the servers of the lock", is_shown=is_watched):
            return asyncio.run(look())
    except ResolverError as error:
        return [Check("servers", ok=False, finding=str(error), hint=error.hint)]


def _check_server(tools: "OpenTools", name: str) -> Check:
    check = f"server {name}"
    if problem := tools.servers.problems.get(name):
        return Check(check, ok=False, finding=str(problem), hint=_hint_for(problem))
    finding = f"{counted(_count_tools(tools.registry.list(), name), 'tool')} open to the agent"
    # Tools name their source as this check is named, `server` and its id.
    faulty = [
        tool
        for tool in tools.registry.refused()
        if tool.source == check and tool.why.code in _FAULTS
    ]
    if not faulty:
        return Check(check, ok=True, finding=finding)
    first = faulty[0]
    more = f", and {len(faulty) - 1} more" if len(faulty) > 1 else ""
    return Check(
        check,
        ok=False,
        finding=f"{finding}; {first.id} is refused{more}: {first.why.message}",
        hint=first.why.remedy,
    )


def _hint_for(problem: "ToolFailure | NeedsAction") -> str:
    from agent_resolver.registry.errors import ToolFailure

    if isinstance(problem, ToolFailure):
        return problem.hint or problem.remedy
    return problem.hint


def _count_tools(offered: tuple["Descriptor", ...], server: str) -> int:
    return sum(descriptor.source == f"server {server}" for descriptor in offered)
