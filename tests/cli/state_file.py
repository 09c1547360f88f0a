"""State files as processes of the past left them."""

import asyncio
from pathlib import Path

from agent_resolver.schema import Record
from agent_resolver.storage import SqliteStore, append_record


def record_all(project: Path, *records: tuple[str, Record], key: bytes | None = None) -> Path:
    """The state file of a project with these records, each with the time that it was written at."""
    path = project / ".agent" / "state.db"
    times = iter([at for at, _ in records])
    store = SqliteStore(str(path), key=key, now=lambda: next(times))

    async def append_all() -> None:
        for _, record in records:
            await append_record(store, record)

    asyncio.run(append_all())
    store.close()
    return path
