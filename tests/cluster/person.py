"""A person who answers every question of blueprints with yes: `python -m tests.cluster.person FOLDER`.

Questions about calls with an unknown outcome are left open: a run may wait for those for ever.
"""

import asyncio
import sys
from contextlib import suppress

from agent_resolver import Project
from agent_resolver.schema.errors import ResolverError

_PAUSE_SECONDS = 1.0


async def _answer_all(folder: str) -> None:
    with Project.open(folder, trust=True) as project:
        inbox = await project.inbox()
        for action in await inbox.list():
            if action.type == "CLARIFICATION" and action.message.startswith("Ship order"):
                # Another look may have answered it meanwhile, or its run ended.
                with suppress(ResolverError):
                    await inbox.answer(action.id, "yes")


async def _main(folder: str) -> None:
    while True:
        try:
            await _answer_all(folder)
        except (ResolverError, OSError) as error:
            sys.stderr.write(f"{error}\n")
        await asyncio.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
