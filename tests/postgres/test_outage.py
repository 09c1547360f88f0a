"""Several processes on one server that is killed under them, and a copy of a state that another server takes up."""

import asyncio
import subprocess
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from agent_resolver.schema import PENDING, RUNS
from agent_resolver.storage import PostgresStore
from tests.postgres.harness import InPostgres
from tests.postgres.test_store import append, faults, numbers, opened
from tests.postgres_server import PostgresServer, postgres_server, programs
from tests.process import eventually
from tests.storage.conformance import do, printed, read, run_row, write

EACH = 120
STEPPING = """
    name = {name!r}
    print("open", flush=True)
    def step(number):
        def work(transaction):
            assert transaction.put(PENDING, action(f"{{name}}-{{number}}"), only_new=True), "done twice"
            transaction.append(record(name, number))
            transaction.wake("topic", name)
        return store.write(work)
    async def story():
        for number in range(0, {each}, 4):
            await asyncio.gather(*(step(number + more) for more in range(4)))
            print(number, flush=True)
    asyncio.run(story())
    print("done", flush=True)
    """


def test_processes_whose_server_is_killed_under_them_lose_and_double_nothing() -> None:
    """Of each step, the row, the record and the wake-up are kept once, though the outcome of a commit was lost."""
    with postgres_server() as server, ExitStack() as stack:
        url = server.new_database()
        opened_here = stack.enter_context(opened(url))
        harness = InPostgres(url)
        names = ["a", "b", "c"]
        processes = [
            stack.enter_context(super(InPostgres, harness).process(STEPPING.format(name=name, each=EACH)))
            for name in names
        ]

        for process in processes:
            assert printed(process) == "open"

        def has_grown(count: int) -> bool:
            return len(numbers(opened_here)) >= count

        for kills in (1, 2, 3, 4):
            assert eventually(partial(has_grown, kills * 30), 60)
            server.kill()
            server.start()
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.read().split() == [*(str(number) for number in range(0, EACH, 4)), "done"]

        kept = read(opened_here, lambda snapshot: [row.id for row in snapshot.find(PENDING)])
        recorded = read(opened_here, lambda snapshot: [(each.run, each.body["number"]) for each in snapshot.records()])
        assert sorted(kept) == sorted(f"{name}-{number}" for name in names for number in range(EACH))
        assert sorted(recorded) == sorted((name, number) for name in names for number in range(EACH))
        assert faults(opened_here) == []


def test_the_first_write_and_the_first_wait_of_a_process_wait_for_a_server_that_comes_back() -> None:
    async def wait(store: PostgresStore) -> frozenset[str]:
        await store.woken("topic", 0)
        return await store.woken("topic", 60)

    heard: list[frozenset[str]] = []
    with postgres_server() as server:
        url = server.new_database()
        with opened(url) as store, opened(url) as other:
            server.kill()
            starting = threading.Timer(1, server.start)
            starting.start()
            try:
                write(store, append(1))
                assert numbers(store) == [1]
            finally:
                starting.join()
            waiting = threading.Thread(target=lambda: heard.append(asyncio.run(wait(other))))
            waiting.start()
            while waiting.is_alive():
                write(store, lambda transaction: transaction.wake("topic", "key"))
                waiting.join(0.1)
            assert heard == [{"key"}]


def test_a_dump_of_a_state_is_taken_up_by_another_server(server: PostgresServer, url: str, tmp_path: Path) -> None:
    file = tmp_path / "state.dump"
    with opened(url) as store:
        write(store, lambda transaction: transaction.put(RUNS, run_row("1", reason="kept")))
        write(store, append(1))
        lease = do(store.claim("run/1", 3600))
        assert lease is not None
        gone = store.owner
        _run("pg_dump", "--format=custom", "--schema=agent_resolver", f"--file={file}", url)
    with postgres_server() as another:
        copy = another.new_database()
        _run("pg_restore", "--exit-on-error", f"--dbname={copy}", str(file))
        with opened(copy) as store:
            assert read(store, lambda snapshot: snapshot.get(RUNS, "1")) == run_row("1", reason="kept")
            assert faults(store) == []
            write(store, append(2))
            assert numbers(store) == [1, 2]
            assert eventually(lambda: store.is_gone(gone), 60)
            taken = do(store.claim("run/1", 60))
            assert taken is not None
            assert taken.number > lease.number


def _run(program: str, *arguments: str) -> None:
    done = subprocess.run([str(programs() / program), *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
