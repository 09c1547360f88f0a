"""`agent export --client`: entries in the settings of a client."""

import argparse
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from agent_resolver.cli.client_check import access_of, real_paths
from agent_resolver.cli.client_command import ServeCommand, own_command, project_folder
from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.export.difference import render_difference
from agent_resolver.cli.export.printed import refuse_input
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json, out_text, safe
from agent_resolver.exchange.client.check import (
    Governing,
    command_of,
    judge_entry,
    served_agent,
    sets_values,
)
from agent_resolver.exchange.client.direct import Direct, Loss, direct_entries, uses_of
from agent_resolver.exchange.client.entry import (
    NAME,
    Client,
    ClientEntry,
    client_name,
    filled_in,
)
from agent_resolver.exchange.client.known import CLIENTS
from agent_resolver.exchange.client.settings import (
    is_read_by,
    read_entries,
    write_entries,
)
from agent_resolver.exchange.client.settings_file import read_settings, write_settings
from agent_resolver.project.config import variables_of
from agent_resolver.project.errors import UntrustedFolder
from agent_resolver.storage.ownership import require_safe_target

if TYPE_CHECKING:
    from agent_resolver.project.session import Session


class _Export(Struct, frozen=True, kw_only=True):
    """The settings to write, and their path."""

    client: Client
    path: str
    """Empty to print it."""
    before: str
    after: str
    plan: Direct
    is_direct: bool

    @property
    def is_changed(self) -> bool:
        """True if the file would change."""
        return self.before != self.after


def run(options: argparse.Namespace) -> int:
    """Write the entries of one agent; refuse where the client would let the agent do more than its lock does."""
    client = CLIENTS[options.client]
    with session_of(options) as session:
        plan = (
            _plan_direct(session, client)
            if options.direct
            else _plan_governed(session, client, options)
        )
        # Refused before anything else is looked at: no option lets a client do more
        # than the lock does.
        _refuse_lost_permissions(plan.losses, client)
        governing = _governing_of(session)
        export = _prepare(session, governing, plan, options)
        outside = _other_entries(governing, export)
        # With `--direct` the client starts the servers by itself, and asks for no trust
        # in the folder.
        needs_trust = not options.direct and _needs_trust(session)
    is_written = bool(
        export.path
        and not options.dry_run
        and write_settings(export.path, export.after)
    )
    if options.json:
        _print_json(export, outside, is_written=is_written)
    else:
        _print_export(export, is_dry_run=options.dry_run)
        _print_warnings(export, outside, needs_trust=needs_trust)
    return 0


def _plan_direct(session: "Session", client: Client) -> Direct:
    plan = direct_entries(
        uses_of(session.lockfile, session.limits, access_of(session)),
        client,
        session.limits,
    )
    if not plan.entries:
        error = Refusal(
            f"{client.title} can be given none of the locked servers",
            "leave out `--direct`",
        )
        error.details = plan.losses
        raise error
    return plan


def _plan_governed(
    session: "Session", client: Client, options: argparse.Namespace
) -> Direct:
    entry = governed_entry(session, options)
    losses = []
    # A path may hold what the client takes for a variable, such as `${x}`.
    for word in filled_in(client, entry):
        message = f"{client.title} fills in part of `{word}`, so it would start something else"
        losses.append(Loss("", "command", message, is_permission=True))
    if entry.variables and not client.reads_variables:
        names = ", ".join(entry.variables)
        losses.append(
            Loss(
                "",
                "environment",
                f"{client.title} reads no variables: fill in {names} there yourself",
            )
        )
    return Direct((entry,), tuple(losses))


def governed_entry(session: "Session", options: argparse.Namespace) -> ClientEntry:
    """The entry that serves an agent under its lock, which must hold."""
    lockfile = session.lockfile
    # The entry names every variable that `agent serve` or a locked server reads, and
    # holds the value of none.
    launched = {
        name
        for server in lockfile.servers
        if server.launch
        for name in server.launch.env
    }
    token = {"AGENT_TOKEN"} if session.has_issuer else set()
    variables = {*variables_of(session.config, session.environment), *launched, *token}
    command = ServeCommand(
        index=session.index_path,
        tools_of=session.agent_path,
        lock=options.lock,
        settings=options.settings,
    )
    return ClientEntry(
        name=client_name(options.name or NAME),
        command=command.words(),
        variables=tuple(sorted(variables)),
    )


def _refuse_lost_permissions(losses: Iterable[Loss], client: Client) -> None:
    # The losses that are the reason come first. The sort is stable, so both groups keep
    # the order of the servers.
    permissions_first = sorted(losses, key=lambda loss: not loss.is_permission)
    if not any(loss.is_permission for loss in permissions_first):
        return
    error = Refusal(
        f"Through {client.title} the agent could do more than its lock lets it do",
        "leave out `--direct`: then one entry serves the agent, and its lock is held to",
        code="PERMISSION_LOST",
    )
    error.details = tuple(permissions_first)
    raise error


def _governing_of(session: "Session") -> Governing:
    """The one lock that the entries of the file are compared with."""
    return Governing(
        project=project_folder(),
        command=own_command(),
        uses=uses_of(session.lockfile, session.limits, access_of(session)),
        files=real_paths((session.agent_path, session.lock_path, session.index_path)),
    )


def _prepare(
    session: "Session", governing: Governing, plan: Direct, options: argparse.Namespace
) -> _Export:
    client = CLIENTS[options.client]
    folder = governing.project
    # Claude Desktop has no settings in a project, so its entry is printed unless a file
    # is named.
    path = options.output or (os.path.join(folder, client.path) if client.path else "")
    before = ""
    if path:
        # The path that the operator gave is shown as it was given.
        path = os.path.relpath(path) if options.output is None else path
        refuse_input(path, governing.files)
        require_safe_target(
            path, folder, session.users, is_named=options.output is not None
        )
        before = read_settings(path, session.users)
    if not options.replace:
        _refuse_taken_names(
            client, read_entries(client, before, path), plan.entries, governing, path
        )
    after = write_entries(client, before, plan.entries, path)
    return _Export(
        client=client,
        path=path,
        before=before,
        after=after,
        plan=plan,
        is_direct=options.direct,
    )


def _refuse_taken_names(
    client: Client,
    found: Sequence[tuple[str, Any]],
    ours: Sequence[ClientEntry],
    governing: Governing,
    path: str,
) -> None:
    """Refuse to replace an entry that starts another server, serves another agent, or holds values of its user."""
    entries = {entry.name: entry for entry in ours}
    for name, values in found:
        if name in entries and not _is_replaceable(
            client, values, entries[name], governing
        ):
            is_governed = served_agent(entries[name].command) is not None
            rename = (
                "give the new one another name with `--name`"
                if is_governed
                else "rename it"
            )
            raise Refusal(
                f"`{path}` has an entry `{name}` that is not from this lock",
                f"{rename}, or give `--replace` to lose what is there",
            )


def _is_replaceable(
    client: Client, values: object, ours: ClientEntry, governing: Governing
) -> bool:
    """True if an entry serves the same agent, or is the same locked server without values of its user."""
    served = served_agent(ours.command)
    # An entry of ours serves the same agent whichever installation of this program it
    # names.
    if served is not None:
        return served_agent(command_of(values)) == served
    if not isinstance(values, dict) or sets_values(client, values):
        return False
    # Without its switch, an entry that is off is judged by what it would start.
    active = {key: value for key, value in values.items() if key != client.off_switch}
    return judge_entry(client, ours.name, active, governing).kind == "direct"


def _other_entries(governing: Governing, export: _Export) -> list[str]:
    """The names of entries in the same file that no lock covers."""
    # The lock covers the entries of this export, so only the others are judged.
    written = {entry.name for entry in export.plan.entries}
    found = read_entries(export.client, export.after, export.path)
    judged = (
        judge_entry(export.client, name, values, governing)
        for name, values in found
        if name not in written
    )
    return [finding.name for finding in judged if finding.kind == "outside"]


def _needs_trust(session: "Session") -> bool:
    """True if the server that the client starts would refuse to start its locked servers."""
    why = session.why_trust_is_needed
    if why is None:
        return False
    try:
        session.require_trust(why, files=session.files_of_lock)
    except UntrustedFolder:
        return True
    return False


def _print_export(export: _Export, *, is_dry_run: bool) -> None:
    names = ", ".join(entry.name for entry in export.plan.entries)
    if is_dry_run:
        path = export.path or "(stdout)"
        # The diff shows the exported entries alone, since the rest of the file may hold
        # secrets.
        out_text(
            render_difference(
                export.client, path, export.before, export.after, export.plan.entries
            )
        )
    elif not export.path:
        out_text(export.after)
    elif export.is_changed:
        out(f"✓ {export.path}: {names} written")
    else:
        out(f"✓ {export.path}: {names} unchanged")


def _print_warnings(
    export: _Export, outside: Sequence[str], *, needs_trust: bool
) -> None:
    for loss in export.plan.losses:
        err(f"warning: {safe(str(loss))}")
    # A client that reads no comments reads nothing of the file then, so the entry would
    # have no effect.
    if export.path and not is_read_by(export.client, export.after):
        err(
            f"warning: {export.path} has comments or trailing commas, so {export.client.title} reads nothing of it"
        )
    for name in outside:
        err(
            f"warning: {export.path} also starts `{safe(name)}`, which is outside of the lock"
        )
    if outside:
        err("hint: `agent verify --clients` shows what each starts")
    if needs_trust:
        err(
            "hint: run `agent trust-folder` once, or the client gets no tools: the lock starts commands"
        )


def _print_json(export: _Export, outside: Sequence[str], *, is_written: bool) -> None:
    out_json(
        {
            "success": True,
            "client": export.client.name,
            "mode": "direct" if export.is_direct else "governed",
            "path": export.path or None,
            "changed": export.is_changed,
            "written": is_written,
            "entries": {
                entry.name: export.client.render(entry) for entry in export.plan.entries
            },
            "losses": [msgspec.to_builtins(loss) for loss in export.plan.losses],
            "outside": list(outside),
        }
    )
