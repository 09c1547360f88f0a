"""The report of `agent adopt`."""

import argparse
from collections.abc import Sequence

from agent_resolver.cli.output import err, out, out_json, out_text, safe, shown
from agent_resolver.core.package import floating_reason
from agent_resolver.exchange.client.check import ClientFinding
from agent_resolver.exchange.client.settings import is_read_by
from agent_resolver.project.adopted_config import ConfigFile, Missing
from agent_resolver.project.adoption import Adoption
from agent_resolver.project.adoption_change import BACKUP_SUFFIX
from agent_resolver.project.file_change import FileChange, render_change

_MOST_LINES = 60
_FEW_LINES = 20
"""The lines that are shown of a diff that has more than the most."""


def print_adoption(
    options: argparse.Namespace,
    configs: Sequence[ConfigFile],
    adoption: Adoption,
    outside: Sequence[ClientFinding],
) -> None:
    """Print what was written or would be, or everything that is missing, and what stays outside of the lock."""
    # An adoption that is repeated plans the same files, and keeps every one of them.
    changes = [change for change in adoption.changes if change.action != "keep"]
    if options.json:
        out_json(
            _adoption_document(options, configs, adoption, changes)
            | {"outside": outside}
        )
        return
    for config in configs:
        for name in config.left:
            out(
                f"- {name} is marked as switched off in {shown(config.path)}, and stays there"
            )
    if adoption.missing:
        _err_missing(adoption.missing)
        return
    if changes:
        print_changes(changes, is_dry_run=options.dry_run)
        _print_servers(adoption)
        _err_next_steps(configs, adoption, changes, options)
    else:
        out(
            "Nothing to adopt"
            + ("" if outside else ": every server is governed already")
        )
    _err_outside(outside)


def _err_outside(outside: Sequence[ClientFinding]) -> None:
    for finding in outside:
        place = f"{shown(finding.path)}: {safe(finding.name)}"
        err(f"warning: {place} stays, and is outside of the lock: {safe(finding.why)}")
    if outside:
        err("hint: remove it, or correct it; `agent verify --clients` looks again")


def _err_missing(missing: Sequence[Missing]) -> None:
    err("error: Nothing was written, because something is missing")
    for each in missing:
        err(f"  ✗ {each.server}: {each.message}")
        if each.hint:
            err(f"    hint: {each.hint}")


def print_changes(changes: Sequence[FileChange], *, is_dry_run: bool) -> None:
    """One line for each file that was written, or the diff of each that would be."""
    for change in changes:
        if is_dry_run:
            _print_diff(render_change(change).splitlines())
        else:
            word = {"create": "Wrote", "change": "Changed", "remove": "Removed"}[
                change.action
            ]
            out(f"✓ {word} {shown(change.path)}")
    if is_dry_run:
        out("Nothing was written")


def _print_diff(lines: Sequence[str]) -> None:
    """Print a diff, or the beginning of a long one: an index or a lock is made, and not read line by line."""
    few = lines if len(lines) <= _MOST_LINES else lines[:_FEW_LINES]
    # A diff has lines; each of them is made safe, and none may pass for another.
    out_text("".join(f"{safe(line)}\n" for line in few))
    if len(few) < len(lines):
        out(f"… and {len(lines) - len(few):,} more lines: `--json` has them all")


def _print_servers(adoption: Adoption) -> None:
    for requirement in adoption.requirements:
        out(
            f"  {requirement.category}: {', '.join(requirement.permissions)} ({requirement.certainty})"
        )


def _err_next_steps(
    configs: Sequence[ConfigFile],
    adoption: Adoption,
    changes: Sequence[FileChange],
    options: argparse.Namespace,
) -> None:
    if adoption.variables:
        named = ", ".join(adoption.variables)
        err(
            f"note: set these variables where the client starts, since no value is carried over: {named}"
        )
    _err_copies(changes)
    _err_unfilled(configs, adoption)
    _err_unread(configs, changes)
    _err_floating(adoption)
    if not options.dry_run:
        # Without these two, servers were asked because a person trusts the folder.
        is_untrusted = options.trust or options.no_probe
        trust = "trust the folder with `agent trust-folder`, " if is_untrusted else ""
        titles = " and ".join(dict.fromkeys(config.client.title for config in configs))
        err(
            f"hint: look at the drafted scopes with `agent validate`, {trust}and start {titles} again"
        )


def _err_copies(changes: Sequence[FileChange]) -> None:
    """Name the copies of the old configurations, which have the secrets that those had."""
    # A second copy has a number behind the suffix, so the suffix need not be the end of
    # the path.
    copies = [change.path for change in changes if BACKUP_SUFFIX in change.path]
    if copies:
        err(
            f"note: {', '.join(map(shown, copies))} may hold secrets: keep it out of version control"
        )


def _err_unfilled(configs: Sequence[ConfigFile], adoption: Adoption) -> None:
    """Name the clients in whose configurations the operator must write the values of variables."""
    # An entry of such a client cannot refer to the client's environment, so the values
    # must be in the entry itself.
    fillable = [
        config.client.title for config in configs if not config.client.reads_variables
    ]
    if fillable and adoption.variables:
        err(
            f"note: {', '.join(fillable)} reads no variables: fill in their values there yourself"
        )


def _err_unread(configs: Sequence[ConfigFile], changes: Sequence[FileChange]) -> None:
    """Warn of each written configuration that its client cannot parse."""
    for config in configs:
        written = (change.after for change in changes if change.path == config.path)
        # A configuration that stays as it is has no change. The empty text in its place
        # is one that every client reads.
        after = next(written, None) or b""
        if not is_read_by(config.client, after.decode()):
            problem = f"has comments or trailing commas, so {config.client.title} reads nothing of it"
            err(f"warning: {shown(config.path)} {problem}")


def _err_floating(adoption: Adoption) -> None:
    """Name the servers whose packages are fetched without a fixed version."""
    lockfile = adoption.resolution.lockfile if adoption.resolution else None
    servers = lockfile.servers if lockfile else ()
    floating = [
        server.server_id
        for server in servers
        if server.launch and floating_reason(server.launch)
    ]
    if floating:
        names = ", ".join(dict.fromkeys(floating))
        err(
            f"warning: not pinned, and so another program tomorrow: {names}; `agent validate` has the pinned form"
        )


def _adoption_document(
    options: argparse.Namespace,
    configs: Sequence[ConfigFile],
    adoption: Adoption,
    changes: Sequence[FileChange],
) -> dict[str, object]:
    return {
        "success": not adoption.missing,
        "configs": [
            {
                "path": config.path,
                "client": config.client.name,
                "servers": config.names,
                "left": config.left,
            }
            for config in configs
        ],
        "requirements": adoption.requirements,
        "missing": adoption.missing,
        "files": change_documents(changes, is_dry_run=options.dry_run),
        "variables": adoption.variables,
    }


def change_documents(
    changes: Sequence[FileChange], *, is_dry_run: bool
) -> list[dict[str, object]]:
    """The files of a report; a dry run has their diffs."""
    documents: list[dict[str, object]] = []
    for change in changes:
        # Without a dry run the files themselves have the changes.
        difference = {"diff": render_change(change)} if is_dry_run else {}
        documents.append({"path": change.path, "action": change.action, **difference})
    return documents
