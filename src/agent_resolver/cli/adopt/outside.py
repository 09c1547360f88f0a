"""The servers that `agent adopt` leaves in client configurations and that no lock covers."""

import os
from collections.abc import Sequence

from agent_resolver.cli.client_check import access_of, real_paths
from agent_resolver.cli.client_command import own_command, project_folder
from agent_resolver.exchange.client.check import ClientFinding, Governing, judge_entry
from agent_resolver.exchange.client.direct import LockedUse, uses_of
from agent_resolver.exchange.client.settings import read_entries
from agent_resolver.project.adopted_config import ConfigFile
from agent_resolver.project.adoption import Adoption
from agent_resolver.project.session import Session
from agent_resolver.schema.errors import ResolverError


def stays_outside(
    session: Session, configs: Sequence[ConfigFile], adoption: Adoption
) -> list[ClientFinding]:
    """Every entry that is outside of the lock once the adoption is written, as `agent verify --clients` judges it."""
    governing = Governing(
        project=project_folder(),
        folder=os.getcwd(),
        command=own_command(),
        uses=_uses_after(session, adoption),
        files=real_paths((session.agent_path, session.lock_path, session.index_path)),
    )
    # A client reads a configuration as the adoption leaves it, and not as it was found.
    written = {change.path: change.after for change in adoption.changes}
    found: list[ClientFinding] = []
    for config in configs:
        text = (written.get(config.path) or config.content).decode()
        entries = read_entries(config.client, text, config.path)
        found += (
            judge_entry(config.client, name, values, governing, config.path)
            for name, values in entries
        )
    return [finding for finding in found if finding.kind == "outside"]


def _uses_after(session: Session, adoption: Adoption) -> tuple[LockedUse, ...]:
    """The servers of the lock that the adoption writes, else of the one that is there; none if that does not hold."""
    try:
        if adoption.resolution and adoption.resolution.lockfile:
            return uses_of(
                adoption.resolution.lockfile,
                adoption.resolution.limits,
                access_of(session),
            )
        return uses_of(session.lockfile, session.limits, access_of(session))
    except ResolverError:
        # A lock that does not hold covers no entry, so every one of them is reported as
        # outside.
        return ()
