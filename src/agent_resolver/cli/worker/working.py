"""The command `agent worker`."""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

from agent_resolver.cli.catalog.execution import open_catalog_of
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out_json_line, safe
from agent_resolver.cli.starting import start_patiently
from agent_resolver.cli.task.driving import acts_as_worker
from agent_resolver.project.identity import ProcessIdentity
from agent_resolver.project.run import ToolUse
from agent_resolver.project.worker import (
    ProjectWorker,
    WorkerUse,
    missing_kinds,
    open_worker,
)
from agent_resolver.project.worker_count import is_handed_over
from agent_resolver.schema.state import Run, RunKind

if TYPE_CHECKING:
    from agent_resolver.project.session import Session

_ALL: tuple[RunKind, ...] = ("agent", "workflow", "blueprint", "task")


def run(options: argparse.Namespace) -> int:
    """Drive runs until a signal or an operator ends it, or until nothing is left to do."""
    gc.enable()  # Other commands live for moments, and do without.
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
    )
    voice = _Voice(is_json=options.json)
    attempt = partial(_run_once, options, voice)
    if options.until_idle:
        # What is to end soon must not wait for a server that may never come.
        attempt()
    else:
        start_patiently(attempt, partial(voice.note_problem, ""))
    return 0


def _run_once(options: argparse.Namespace, voice: "_Voice") -> None:
    with session_of(options) as session:
        kinds = _kinds_of(session, options, voice)
        asyncio.run(_work(session, kinds, voice, options))


def _kinds_of(
    session: "Session", options: argparse.Namespace, voice: "_Voice"
) -> frozenset[RunKind]:
    """The kinds of runs to take up: those that were named, or all that can be driven here."""
    kinds = frozenset(options.kinds or _ALL)
    missing = missing_kinds(session, kinds)
    for kind, problem in sorted(missing.items()):
        # A kind that was asked for by name must work; one of all may be left to other
        # workers.
        if options.kinds:
            raise problem
        voice.note_problem(
            "",
            f"runs of the kind `{kind}` are left to other workers: {problem}; {problem.hint}",
        )
    return kinds - missing.keys()


async def _work(
    session: "Session",
    kinds: frozenset[RunKind],
    voice: "_Voice",
    options: argparse.Namespace,
) -> None:
    identity = ProcessIdentity(session, options.token_file)
    # A worker that cannot act says so before it takes anything up.
    caller = await identity.caller()
    use = WorkerUse(
        identity=identity,
        kinds=kinds,
        capacity=options.capacity,
        # The catalog is opened when a run first needs it: a worker for blueprints alone
        # needs no agent files.
        open_catalog=partial(open_catalog_of, session, options, may_be_empty=True),
        watch=voice,
        tools=ToolUse(seconds=options.timeout, verbose=options.verbose),
        is_for_others=acts_as_worker(session, options),
    )
    # The stack lies inside of the worker: probes end first, and never ask a worker that
    # is closed.
    async with open_worker(session, use) as worker, AsyncExitStack() as stack:
        if options.http:
            from agent_resolver.cli.worker.probing import serve_probes

            url = await stack.enter_async_context(
                serve_probes(session, worker, options)
            )
            voice.say(f"Probes and metrics at {url}", "worker.probes", url=url)
        voice.say(
            f"Worker {worker.name} acts as {caller.id}",
            "worker.started",
            name=worker.name,
            caller=caller.id,
        )
        # Signals are taken over only now: nothing was taken up before, so until here
        # the usual end is right.
        _stop_on_signals(worker, voice)
        if options.until_idle:
            await worker.drain()
        else:
            await worker.run()
    voice.say("Worker stopped", "worker.stopped")


class _Voice:
    """Says what a worker does: to a person on stderr, to a program in lines of JSON."""

    def __init__(self, *, is_json: bool) -> None:
        self._is_json = is_json

    def say(self, words: str, event: str, **facts: object) -> None:
        """Say one thing."""
        if self._is_json:
            out_json_line({"event": event, **facts})
        else:
            err(safe(words))

    def note_taken(self, row: Run, *, is_adopted: bool) -> None:
        """Say that a run is taken up."""
        adopted = ", whose process is gone," if is_adopted else ""
        self.say(
            f"{_title(row)}{adopted} goes on",
            "run.begun",
            **_facts(row),
            adopted=is_adopted,
        )

    def note_ended(self, row: Run) -> None:
        """Say how far a run was brought."""
        status = "handed over" if is_handed_over(row) else row.status
        code = f" ({row.code})" if row.code else ""
        self.say(
            f"{_title(row)}: {status}{code}",
            "run.ended",
            **_facts(row),
            status=row.status,
            code=row.code,
        )

    def note_problem(self, run: str, problem: str) -> None:
        """Say what keeps a run, or the worker, from going on."""
        subject = f"run {run}: " if run else ""
        self.say(
            f"warning: {subject}{problem}",
            "worker.problem",
            run=run or None,
            problem=problem,
        )


def _title(row: Run) -> str:
    if row.kind == "task":
        return f"Task {row.id}"
    return f"Run {row.id} of {row.agent}"


def _facts(row: Run) -> dict[str, str]:
    # The column holds another thing for each kind, so programs get it under a name that
    # fits.
    named = {
        "blueprint": "blueprint",
        "task": "environment",
        "workflow": "workflow",
    }.get(row.kind, "agent")
    return {"run": row.id, "kind": row.kind, named: row.agent}


def _stop_on_signals(worker: ProjectWorker, voice: _Voice) -> None:
    """Stop gracefully on the first signal, and at once on the second: the state knows how every run goes on."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)
            # Not through the loop, which the code of a tool may be holding up.
            signal.signal(each, lambda number, _: os._exit(128 + number))
        worker.stop()
        # Only now: a program that reads this line may send the second signal at once.
        voice.say(
            "Worker stops once its calls have ended; a second signal ends it at once",
            "worker.stopping",
        )

    with suppress(NotImplementedError):  # Windows has no such signals.
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, stop)
