"""Time audited work on a state that processes share, in Postgres and in SQLite: `shared_state.py CALLS FOLDER`.

Needs the extras `tools` and `postgres`, and the programs of a Postgres server. Every process does the same calls, fifty
at once: one piece of work that begins a call, and one that ends it, each with its record in the trail.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = 50
RECORDS_OF_A_CALL = 2


async def do_calls(address: str, name: str, count: int) -> float:
    """The seconds that the calls take, once a line has come in."""
    from agent_resolver.schema import LEDGER, AuditKind, LedgerEntry, Record
    from agent_resolver.storage import PostgresAddress, PostgresStore, SqliteStore, Transaction

    is_postgres = address.startswith("postgresql://")
    store = PostgresStore(PostgresAddress(address)) if is_postgres else SqliteStore(address)
    at, gate = "2026-01-01T00:00:00.000Z", asyncio.Semaphore(AT_ONCE)

    def writing(key: str, state: str, kind: AuditKind) -> Callable[[Transaction], None]:
        def work(transaction: Transaction) -> None:
            transaction.get(LEDGER, key)
            row = LedgerEntry(
                key=key,
                tool="a.b",
                arguments="sha256-1",
                is_idempotent=True,
                state="done" if state == "done" else "started",
                caller="local:ada",
                trace_id="0" * 32,
                owner=store.owner,
                started_at=at,
            )
            transaction.put(LEDGER, row)
            transaction.append(Record(name, kind, {"tool": "a.b", "key": key}))

        return work

    async def call(number: int) -> None:
        key = f"{name}/{number}"
        async with gate:
            await store.write(writing(key, "started", AuditKind.CALL_STARTED))
            await store.write(writing(key, "done", AuditKind.CALL_DONE))

    await call(-1)
    print("ready", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    await asyncio.gather(*(call(number) for number in range(count)))
    taken = time.perf_counter() - start
    store.close()
    return taken


def measure(address: str, processes: int, count: int) -> float:
    """The records that so many processes write in a second, together."""
    with ExitStack() as stack:
        command = [sys.executable, "-I", __file__, "--one", address]
        started = [
            stack.enter_context(
                subprocess.Popen(
                    [*command, str(number), str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            for number in range(processes)
        ]
        for process in started:
            _read(process)
        for process in started:
            if process.stdin is not None:
                process.stdin.write("\n")
                process.stdin.flush()
        seconds = max(float(_read(process)) for process in started)
    return processes * count * RECORDS_OF_A_CALL / seconds


def _read(process: "subprocess.Popen[str]") -> str:
    return "" if process.stdout is None else process.stdout.readline()


def main(count: int, folder: str) -> dict[str, float]:
    """The records in a second: of each database, with one process and with two."""
    sys.path.insert(0, str(ROOT))
    from tests.postgres_server import postgres_server

    rates = {}
    with postgres_server(is_flushed=True) as server, tempfile.TemporaryDirectory(dir=folder) as scratch:
        for processes in (1, 2):
            rates[f"postgres {processes}"] = measure(server.new_database(), processes, count)
            rates[f"sqlite {processes}"] = measure(str(Path(scratch) / f"{processes}.db"), processes, count)
    return rates


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        print(asyncio.run(do_calls(sys.argv[2], sys.argv[3], int(sys.argv[4]))), flush=True)
    else:
        print(json.dumps(main(int(sys.argv[1]), sys.argv[2])))
