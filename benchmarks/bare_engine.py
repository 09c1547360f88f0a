"""DBOS by itself: `bare_engine.py FOLDER [URL]`, with the extra `engine`.

For each line on its input, the name of a shape, it runs a workflow of that shape and writes the seconds that it took:
`sequence` has ten steps one after the other, `group` ten at once, `many` is a hundred workflows of five steps each at
once. The steps do nothing. Its file has a write-ahead log, as ours has: without one it is slower.
"""

import asyncio
import logging
import os
import sqlite3
import sys
import time

from dbos import DBOS

STEPS = 10
RUNS = 100
RUN_STEPS = 5


async def nothing() -> dict[str, int]:
    """A step without an effect."""
    return {"n": 1}


@DBOS.workflow()
async def sequence(steps: int) -> None:
    """Steps one after the other."""
    for number in range(steps):
        await DBOS.run_step_async({"name": f"s{number}"}, nothing)


@DBOS.workflow()
async def group(steps: int) -> None:
    """Steps that start together."""
    await asyncio.gather(*(DBOS.run_step_async({"name": f"s{number}"}, nothing) for number in range(steps)))


async def run_shape(shape: str) -> None:
    """Run workflows of a shape to their end."""
    if shape == "many":
        handles = [await DBOS.start_workflow_async(sequence, RUN_STEPS) for _ in range(RUNS)]
    else:
        handles = [await DBOS.start_workflow_async({"sequence": sequence, "group": group}[shape], STEPS)]
    for handle in handles:
        await handle.get_result()


async def serve(folder: str, address: str = "") -> None:
    """Answer every line with seconds."""
    # Without a handler of its own, DBOS writes to the terminal.
    logging.getLogger("dbos").addHandler(logging.NullHandler())
    path = os.path.join(folder, "bare.db")  # noqa: PTH118 - as the product does
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    url = address or f"sqlite:///{path}"
    DBOS(config={"name": "bare", "system_database_url": url, "application_version": "1", "executor_id": "bare"})
    DBOS.launch()
    while line := await asyncio.to_thread(sys.stdin.readline):
        start = time.perf_counter()
        await run_shape(line.strip())
        print(time.perf_counter() - start, flush=True)
    DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:3]))
