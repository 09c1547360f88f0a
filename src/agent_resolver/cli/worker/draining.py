"""The command `agent worker drain`."""

import argparse
import asyncio
import time
from typing import Final

from agent_resolver.cli.audit import existing_store
from agent_resolver.cli.errors import Refusal, Usage
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out_json
from agent_resolver.cli.worker.listing import worker_document
from agent_resolver.core.count import counted
from agent_resolver.storage.port import Store
from agent_resolver.storage.worker_listing import (
    TOPIC,
    ListedWorker,
    ask_to_drain,
    list_workers,
)

_LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at the workers: nothing tells of one that is killed while it drains."""


def run(options: argparse.Namespace) -> int:
    """Ask workers to hand over what they have, and to end."""
    if bool(options.names) == options.drains_all:
        raise Usage(
            "Say which workers",
            "name them, or give `--all`; `agent worker list` shows them",
        )
    with session_of(options) as session:
        found = asyncio.run(_drain(existing_store(session), options))
    left = [each for each in found if each.is_there]
    is_late = options.wait and bool(left)
    if options.json:
        out_json(
            {
                "success": not is_late,
                "workers": [worker_document(each) for each in found],
            }
        )
        return int(is_late)
    for each in found:
        err(f"Worker {each.row.name}: {each.state}")
    if not found:
        err("No worker is there")
    if is_late:
        err(
            f"✗ {counted(len(left), 'worker')} did not end within {options.wait_seconds} s"
        )
    return int(is_late)


async def _drain(store: Store, options: argparse.Namespace) -> list[ListedWorker]:
    """The workers that were asked, as they are once they have ended, or now if the command does not wait."""
    # Only workers that are there can be asked: others would be waited for in vain.
    there = [
        each.row.name
        for each in await list_workers(store, time.time())
        if each.is_there
    ]
    names = (
        there
        if options.drains_all
        else [_chosen(given, there) for given in options.names]
    )
    # Hears of what happens from here on, so that nothing is missed between a look and
    # the wait.
    await store.woken(TOPIC, 0.0)
    # The request is a row in the state, so it reaches workers on other machines too.
    await ask_to_drain(store, names)
    deadline = time.monotonic() + options.wait_seconds
    while True:
        found = [
            each
            for each in await list_workers(store, time.time())
            if each.row.name in names
        ]
        is_over = (
            not any(each.is_there for each in found) or time.monotonic() >= deadline
        )
        if is_over or not options.wait:
            return found
        await store.woken(TOPIC, _LOOK_SECONDS)


def _chosen(given: str, names: list[str]) -> str:
    """The one worker whose name is `given`, or begins with it."""
    found = [name for name in names if name.startswith(given)]
    if len(found) == 1:
        return found[0]
    if found:
        raise Refusal(
            f"{len(found)} workers have names that begin with {given}: {', '.join(found[:5])}",
            "give more",
        )
    raise Refusal(
        f"No worker that is there has the name {given}",
        "`agent worker list` shows them",
        "UNKNOWN_WORKER",
    )
