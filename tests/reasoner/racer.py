"""Resumes tasks as they are named on its input, and says what became of each. `python -m tests.reasoner.racer FOLDER`.

It is one of two processes that race for the same tasks.
"""

import asyncio
import sys
from pathlib import Path

from agent_resolver.reasoner.errors import TaskTaken
from tests.reasoner.lasting import Process, initiator_of


async def resume(process: Process, name: str) -> str:
    row = await process.row(name)
    assert row is not None
    try:
        await process.tasks.resume(row.id, initiator_of(name))
    except TaskTaken:
        return "taken"
    # It went on, or the other one had, and nothing was left to do: the trail knows.
    return "returned"


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


async def main() -> None:
    import agent_resolver.reasoner.graph  # noqa: F401

    process = Process(Path(sys.argv[1]))
    await process.engine.open()
    say("ready")
    for line in sys.stdin:
        say(await resume(process, line.strip()))
    await process.engine.close()
    process.close()


if __name__ == "__main__":
    asyncio.run(main())
