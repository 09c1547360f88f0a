"""The person who runs a command, as far as that limits which runs and records they may read."""

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from agent_resolver.core.authorization import is_own_run, may_read_all, may_read_run

if TYPE_CHECKING:
    from agent_resolver.project.session import Session
    from agent_resolver.schema.caller import Caller
    from agent_resolver.schema.state import Run

MayUse = Callable[["Run"], bool]
"""Tells whether a run is there for a person: one that is not looks like one that never was."""


def reader_of(session: "Session", options: argparse.Namespace) -> "Caller | None":
    """The person who reads, where that limits what they may read; None for one who may read everything.

    Raises:
        ResolverError: An issuer vouches for callers here, and the token is missing or refused.
    """
    # Without an issuer nothing vouches for the name of a local user, so it is no ground
    # to refuse a run.
    if not session.has_issuer:
        return None
    import asyncio

    # The import stays late: without an issuer, no token is read and nothing of this is
    # needed.
    from agent_resolver.project.identity import caller_of

    caller = asyncio.run(caller_of(session, options.token_file, session.environment))
    return None if may_read_all(caller) else caller


def readable_runs(session: "Session", options: argparse.Namespace) -> MayUse:
    """The runs that the person may read: their own, or all for an auditor and where no issuer vouches for callers."""
    reader = reader_of(session, options)
    # A predicate is returned, so that rows are filtered where they are read.
    if reader is None:
        return lambda _: True
    return partial(may_read_run, caller=reader)


def own_runs(session: "Session", options: argparse.Namespace) -> MayUse:
    """The runs that the person may change: their own, or all where no issuer vouches for callers."""
    # An auditor may read the runs of others and not change them, hence a predicate
    # apart from that for reading.
    if not session.has_issuer:
        return lambda _: True
    import asyncio

    from agent_resolver.project.identity import caller_of

    caller = asyncio.run(caller_of(session, options.token_file, session.environment))
    return partial(is_own_run, caller=caller)
