"""Runs `agent adopt` on client configurations."""

import argparse
import asyncio
import os
import signal
from collections.abc import Sequence

from agent_resolver.cli.adopt.outside import stays_outside
from agent_resolver.cli.adopt.report import print_adoption
from agent_resolver.cli.artifact import Artifact
from agent_resolver.cli.client_command import ServeCommand
from agent_resolver.cli.errors import Refusal, Usage
from agent_resolver.cli.input import INDEX
from agent_resolver.cli.progress import progress_line
from agent_resolver.cli.resolved_at import resolved_at
from agent_resolver.cli.tools.execution import end_on_sigterm
from agent_resolver.exchange.client.known import CLIENTS
from agent_resolver.exchange.server_id import mapped_id
from agent_resolver.project.adopted_config import (
    ConfigFile,
    client_at,
    config_paths,
    missing_in,
    read_client_config,
)
from agent_resolver.project.adoption import (
    Adoption,
    AdoptionOrder,
    Merging,
    merge_configs,
    missing_tokens,
    plan_adoption,
    positions_to_probe,
    require_adopting,
    require_targets,
)
from agent_resolver.project.adoption_change import read_or_none
from agent_resolver.project.file_change import write_changes
from agent_resolver.project.probe import Probed, probe_servers
from agent_resolver.project.session import Session
from agent_resolver.schema.limit import MAX_CLIENT_SETTINGS_BYTES, MAX_INDEX_BYTES
from agent_resolver.storage.file import read_bounded
from agent_resolver.storage.ownership import believed_users, require_safe_target


def run(options: argparse.Namespace) -> int:
    """Plan everything, write it unless something is missing, and report."""
    if not options.timeout > 0:
        raise Usage("`--timeout` must be more than 0 seconds")
    configs = _read_configs(options)
    # A configuration that has nothing but faults counts too: its servers are missing,
    # and must not be passed over.
    adopted = [
        config for config in configs if config.entries or config.reading.imported.faults
    ]
    if not adopted:
        # Although nothing is adopted, an entry that stays may start a server outside of
        # the lock.
        with Session(
            options.agents, INDEX, environment=os.environ, flags=tuple(options.settings)
        ) as session:
            print_adoption(
                options,
                configs,
                Adoption(),
                stays_outside(session, configs, Adoption()),
            )
        return 0
    merging = merge_configs(adopted, INDEX)
    with _session_for(options, merging) as session:
        # What could not be written in the end must not start a server first.
        require_targets(session, os.getcwd())
        # The lock is only looked at here: its content is known once the servers have
        # answered. A merge conflict in it is no obstacle, because a lock is made of the
        # agent file and the index alone.
        Artifact(session.lock_path, list, is_lock=True).refuse_foreign(
            allows_conflict=True
        )
        try:
            adoption = _plan(options, session, adopted, merging)
        except asyncio.CancelledError:
            # `end_on_sigterm` makes a cancellation of the signal, so that the servers
            # that were started are closed first. The exit code is the one that a shell
            # reports for a process that SIGTERM ended.
            return 128 + signal.SIGTERM
        outside = stays_outside(session, configs, adoption)
    if not (options.dry_run or adoption.missing):
        _refuse_changed(adopted, merging)
        # The operator may name a configuration anywhere, such as that of Claude Desktop
        # in the home folder.
        write_changes(adoption.changes, os.getcwd(), session.users, is_named=True)
    print_adoption(options, configs, adoption, outside)
    return 1 if adoption.missing else 0


def _read_configs(options: argparse.Namespace) -> list[ConfigFile]:
    paths = options.configs or config_paths(client=options.client)
    if not paths:
        places = ", ".join(
            f"`{client.path}`" for client in CLIENTS.values() if client.path
        )
        raise Usage(
            "There is no client configuration to adopt",
            f"name one; looked for {places}",
        )
    users = believed_users(os.environ)
    # All paths are judged before the first file is read, because each of them is
    # written in the end.
    for path in paths:
        require_safe_target(path, os.getcwd(), users, is_named=bool(options.configs))
    found: dict[str, ConfigFile] = {}
    for path in paths:
        client = CLIENTS[options.client] if options.client else client_at(path)
        if client is None:
            raise Usage(
                f"It is not known which client reads `{path}`",
                "name the client with `--client`",
            )
        # Two names of one file are one configuration, under the name that came first.
        found.setdefault(
            os.path.realpath(path), read_client_config(path, client, users)
        )
    return list(found.values())


def _session_for(options: argparse.Namespace, merging: Merging) -> Session:
    # The session sees the index as it is going to be, so that its servers can be asked
    # and resolved before any file is written.
    return Session(
        options.agents,
        INDEX,
        environment=os.environ,
        flags=tuple(options.settings),
        trusts=options.trust,
        index=merging.content,
    )


def _plan(
    options: argparse.Namespace,
    session: Session,
    configs: Sequence[ConfigFile],
    merging: Merging,
) -> Adoption:
    missing = [
        *missing_in(configs, os.environ),
        *merging.missing,
        *missing_tokens(session, configs, merging),
    ]
    if missing:
        # No server is started for a plan that cannot succeed.
        return Adoption(missing=tuple(missing))
    probed = (
        None if options.no_probe else _ask_servers(options, session, configs, merging)
    )
    command = ServeCommand(
        index=session.index_path, tools_of=session.agent_path, settings=options.settings
    )
    order = AdoptionOrder(
        command=command.words(),
        # The name is for an agent file that is made: one that is there keeps its own.
        agent_name=mapped_id(os.path.basename(os.getcwd())),
        allowed=tuple(options.allow) or ("*",),
        resolved_at=resolved_at(None),
    )
    return plan_adoption(session, configs, merging, probed, order)


def _ask_servers(
    options: argparse.Namespace,
    session: Session,
    configs: Sequence[ConfigFile],
    merging: Merging,
) -> list[Probed]:
    # Trust comes before everything else here: the commands that start and the addresses
    # that are called are those of the configurations.
    require_adopting(session, configs)
    positions = positions_to_probe(session, merging)

    def show_progress(count: int) -> None:
        progress_line(f"Asking servers: {count}/{len(positions)}…")

    async def ask() -> list[Probed]:
        end_on_sigterm()
        return await probe_servers(
            session,
            positions,
            seconds=options.timeout,
            verbose=options.verbose,
            on_done=show_progress,
        )

    show_progress(0)
    try:
        return asyncio.run(ask())
    finally:
        # The line goes however the probing ends, so that no message begins behind it.
        progress_line("")


def _refuse_changed(configs: Sequence[ConfigFile], merging: Merging) -> None:
    """Servers may take minutes to answer: what a person wrote meanwhile must not be lost."""
    if read_or_none(INDEX, MAX_INDEX_BYTES) != merging.before:
        raise Refusal(f"`{INDEX}` has changed meanwhile", "run the command again")
    for config in configs:
        if read_bounded(config.path, MAX_CLIENT_SETTINGS_BYTES) != config.content:
            raise Refusal(
                f"`{config.path}` has changed meanwhile", "run the command again"
            )
