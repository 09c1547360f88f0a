"""What `agent worker` does."""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out_json_line
from agent_resolver.project.engine import EngineUse, require_driver
from agent_resolver.project.identity import ProcessIdentity
from agent_resolver.project.tools import open_tools
from agent_resolver.schema.state import RUNS

if TYPE_CHECKING:
    from agent_resolver.engine.worker import Worker
    from agent_resolver.project.session import Session


def run(options: argparse.Namespace) -> int:
    """Drive runs until a signal comes, or until nothing is left to do."""
    gc.enable()  # Other commands live for moments, and do without.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    with session_of(options) as session:
        require_driver(session)
        asyncio.run(_work(session, options))
    return 0


async def _work(session: "Session", options: argparse.Namespace) -> None:
    identity = ProcessIdentity(session, options.token_file)
    # A worker that cannot act says so before it takes anything up.
    caller = await identity.caller()
    voice = _Voice(session, options)
    use = EngineUse(identity=identity, capacity=options.capacity, is_worker=True, watch=voice.note_segment)
    opening = open_tools(
        session, caller=caller, is_connected=False, seconds=options.timeout, verbose=options.verbose, engine=use
    )
    async with opening as tools:
        engine = tools.engine
        assert engine is not None  # noqa: S101 - a worker has one
        voice.say(f"Worker {session.store.owner} acts as {caller.id}", "worker.started", caller=caller.id)
        _stop_on_signals(engine.worker, voice)
        if options.until_idle:
            await engine.worker.drain()
        else:
            await engine.worker.run()
    voice.say("Worker stopped", "worker.stopped")


class _Voice:
    """Says what a worker does: to a person on stderr, to a program in lines of JSON."""

    def __init__(self, session: "Session", options: argparse.Namespace) -> None:
        self._session = session
        self._is_json = options.json

    def say(self, words: str, event: str, **facts: object) -> None:
        """Say one thing."""
        if self._is_json:
            out_json_line({"event": event, **facts})
        else:
            err(words)

    def note_segment(self, run_id: str, moment: str) -> None:
        """Say that a run is taken up, or how far it was brought."""
        row = self._session.store.read_now(lambda snapshot: snapshot.get(RUNS, run_id))
        if row is None:
            return
        if moment == "begun":
            self.say(f"Run {row.id} of {row.agent} goes on", "run.begun", run=row.id, blueprint=row.agent)
            return
        code = f" ({row.code})" if row.code else ""
        words = f"Run {row.id} of {row.agent}: {row.status}{code}"
        self.say(words, "run.ended", run=row.id, blueprint=row.agent, status=row.status, code=row.code)


def _stop_on_signals(worker: "Worker", voice: _Voice) -> None:
    """Stop gracefully on the first signal, and at once on the second: the state knows how every run goes on."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)
            # Not through the loop, which the code of a tool may be holding up.
            signal.signal(each, lambda number, _: os._exit(128 + number))
        worker.stop()
        # Only now: a program that reads this line may send the second signal at once.
        voice.say("Worker stops once its calls have ended; a second signal ends it at once", "worker.stopping")

    with suppress(NotImplementedError):  # Windows has no such signals.
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, stop)
