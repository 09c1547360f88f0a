"""The part that commands share which run the stages of tasks: the caller, the limits, and the end by a signal."""

import argparse
import asyncio
import gc
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from agent_resolver._extra import MissingExtra
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err
from agent_resolver.cli.progress import status_line
from agent_resolver.cli.tools.execution import end_on_sigterm
from agent_resolver.core.guardrail import GuardrailLimits
from agent_resolver.project.identity import VARIABLE, caller_or_worker

if TYPE_CHECKING:
    from agent_resolver.project.session import Session
    from agent_resolver.project.task import OpenTasks
    from agent_resolver.schema.caller import Caller

INTERRUPTED: Final = 130
TERMINATED: Final = 143

Work = Callable[["OpenTasks", "Caller"], Awaitable[int]]


def drive(options: argparse.Namespace, words: str, work: Work) -> int:
    """Open the tasks of the project for the caller, and do the work."""
    gc.enable()  # Other commands live for moments, and do without.
    _require_extra()
    with session_of(options) as session:
        try:
            return asyncio.run(_drive(session, options, words, work))
        except asyncio.CancelledError:
            code = TERMINATED
        except KeyboardInterrupt:
            code = INTERRUPTED
    err(
        "interrupted: `agent task list --status interrupted` shows it, `agent task resume` goes on"
    )
    return code


def _require_extra() -> None:
    """Stop before anything is opened where the graph is not installed."""
    from importlib.util import find_spec

    found = None
    # `find_spec` imports the packages above the module, and fails if one of them is
    # missing.
    with suppress(ModuleNotFoundError):
        found = find_spec("langgraph.checkpoint.sqlite")
    if found is None:
        raise MissingExtra("langgraph", "reasoner")


async def _drive(
    session: "Session", options: argparse.Namespace, words: str, work: Work
) -> int:
    from agent_resolver.project.task import open_tasks

    end_on_sigterm()
    caller = await caller_or_worker(session, options.token_file, session.environment)
    limits = _limits(session, options)
    with status_line(words, is_shown=not (options.json or options.verbose)):
        async with open_tasks(
            session, caller, limits, seconds=options.timeout
        ) as opened:
            return await work(opened, caller)


def acts_as_worker(session: "Session", options: argparse.Namespace) -> bool:
    """True if the project's worker acts, because no token was given where an issuer vouches for callers."""
    has_token = bool(options.token_file or session.environment.get(VARIABLE))
    return session.has_issuer and not has_token


def _limits(session: "Session", options: argparse.Namespace) -> GuardrailLimits:
    """The limits of the settings, where no flag says otherwise."""
    from agent_resolver.project.task import limits_of_settings

    usual = limits_of_settings(session)
    return GuardrailLimits(
        # The option takes the place of the setting also where it is higher: a halted
        # task goes on with a higher limit.
        max_iterations=options.max_iterations or usual.max_iterations,
        token_limit=options.token_limit or usual.token_limit,
    )
