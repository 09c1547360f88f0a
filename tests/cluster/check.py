"""What must be true of a cluster once the trouble is over."""

import random
import signal
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from tests.cluster.feed import REFUSED_LETTER, Fed, Job
from tests.cluster.part import Program
from tests.server.task_client import ask, task_client

FINISHED = {"done", "failed", "cancelled"}
FLOOR = 0.8
"""The share of the runs of each kind that must come to a good end, of those that can."""
ASKED = 10
"""How many runs of each tool are asked for at the server where they were not started."""
STEPS = {
    "orders.fulfil": ("reserve", "charge", "ship"),
    "orders.confirm": ("reserve", "ship"),
    "clerk": ("reserve", "charge"),
}
"""What each run does; the plan of a task reserves and ships."""
UNDOING = {"reserve": "release", "charge": "refund"}
"""What takes each step back that can be."""
CRASHES = ("Traceback", "panicked at")
OUT_OF_TIME = ("blueprint", "SERVER_UNAVAILABLE")
"""How a run fails whose worker was frozen while it connected to the warehouse: the time to connect is over then."""
FEW = 0.02
"""The share of all runs that may fail like this."""
TASK_STATUS = {"done": "completed", "failed": "completed", "cancelled": "cancelled", "waiting": "input_required"}


def effects(url: str) -> Counter[tuple[str, str, str]]:
    """How often each call did each thing: the action, the order and the call."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT action, number, coalesce(call, '') FROM effect").fetchall()
    return Counter((action, number, call) for action, number, call in rows)


def unfinished(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs that neither ended nor wait for a person, by themselves or by a run of the same trace."""
    asking = {run["traceId"] for run in runs if (run["waitsFor"] or {}).get("state") == "open"}
    return [
        run
        for run in runs
        if run["status"] not in FINISHED and not (run["status"] == "waiting" and run["traceId"] in asking)
    ]


def adoptions(workers: Sequence[Program]) -> int:
    """How often a worker took up a run whose program was gone."""
    return sum(worker.log.read_text(encoding="utf-8").count(", whose process is gone,") for worker in workers)


def assert_nothing_is_unfinished(runs: list[dict[str, Any]]) -> None:
    """Every run ended or waits for a person."""
    assert unfinished(runs) == []


def assert_nothing_ended_by_itself(programs: Sequence[Program]) -> None:
    """The trouble of one part ends no other, and each that is asked to end does so."""
    assert [end for program in programs for end in program.unexpected_ends] == []
    # A program that does not listen for signals yet ends by this one.
    expected = {"0", str(-signal.SIGTERM)}
    assert {program.name: program.stops for program in programs if set(program.stops) - expected} == {}


def assert_nothing_crashed(logs: Sequence[Path]) -> None:
    """No program met an error that it did not foresee."""
    texts = {log.name: log.read_text(encoding="utf-8", errors="replace") for log in logs if log.exists()}
    found = {name: text[text.index(sign) :][:4_000] for name, text in texts.items() for sign in CRASHES if sign in text}
    assert found == {}


def assert_nothing_is_lost(fed: Fed, runs: list[dict[str, Any]]) -> None:
    """Every run and every task whose start was acknowledged is in the state."""
    known = {run["id"] for run in runs}
    assert set(fed.runs) - known == set()
    assert set(fed.tasks) - known == set()


def assert_nothing_is_doubled(
    started: dict[str, Job], runs: list[dict[str, Any]], done: Counter[tuple[str, str, str]]
) -> None:
    """No call had its effect twice, and an order whose run is done went through each step once."""
    # No call did its work twice, of those that a second time would harm.
    assert {call: count for call, count in done.items() if count > 1} == {}
    by_order = Counter((action, number) for action, number, _ in done.elements())
    statuses = {run["id"]: run["status"] for run in runs}
    for run, job in started.items():
        number = job.arguments.get("number")
        if number is None or statuses[run] != "done":
            continue
        steps = ("reserve", "charge", "ship") if job.tool == "orders__fulfil" else ("reserve", "ship")
        assert {step: by_order[step, number] for step in steps} == dict.fromkeys(steps, 1), (run, job)


def actions_by_run(done: Counter[tuple[str, str, str]]) -> defaultdict[str, Counter[str]]:
    """Counts what each run did."""
    by_run: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for action, _, call in done.elements():
        by_run[call.partition("/")[0]][action] += 1
    return by_run


def assert_effects_are_those_of_runs(runs: list[dict[str, Any]], done: Counter[tuple[str, str, str]]) -> None:
    """Of each run that came to its end, every step was done once, whoever began it; no other run did anything."""
    by_run = actions_by_run(done)
    assert set(by_run) <= {run["id"] for run in runs}
    for run in runs:
        steps = STEPS.get(run["agent"].rpartition("@")[0] or run["agent"], ("reserve", "ship"))
        if run["kind"] in {"agent", "blueprint"}:
            assert by_run[run["id"]] - Counter((*steps, *UNDOING.values())) == Counter(), run
        if run["kind"] == "blueprint" and run["status"] == "done":
            assert by_run[run["id"]] == Counter(steps), run
        if run["kind"] == "blueprint" and run["status"] in {"failed", "cancelled"}:
            assert_is_taken_back(by_run[run["id"]], run)
        if run["kind"] == "agent" and run["status"] == "done":
            # A person may have to find out whether the customer was charged: then the agent goes on without knowing.
            assert by_run[run["id"]]["reserve"] == 1, run


def assert_is_taken_back(actions: Counter[str], run: dict[str, Any]) -> None:
    """A blueprint that failed left nothing behind: each step was taken back as often as it was done."""
    assert {step: actions[step] for step in UNDOING} == {step: actions[UNDOING[step]] for step in UNDOING}, run
    assert actions["ship"] == 0, run


def assert_most_runs_succeeded(runs: list[dict[str, Any]], done: Counter[tuple[str, str, str]]) -> None:
    """Trouble of the parts is no reason to fail: most runs did what they should, and each other one has a known reason.

    Orders that the warehouse refuses are left aside here: these must fail.
    """
    refused = runs_of_refused_orders(done)
    able = [run for run in runs if run["id"] not in refused]
    tried = Counter(run["kind"] for run in able)
    succeeded = Counter(run["kind"] for run in able if run["status"] == "done")
    assert set(tried) == {"agent", "blueprint", "task"}
    assert [kind for kind, count in tried.items() if succeeded[kind] < FLOOR * count] == [], (tried, succeeded)
    failed = failed_although_able(runs, done)
    assert [run for run in failed if (run["kind"], run["code"]) != OUT_OF_TIME] == []
    assert len(failed) <= max(1, FEW * len(able)), failed
    by_run = actions_by_run(done)
    charges = sum(by_run[run["id"]]["charge"] for run in able if run["kind"] == "agent")
    assert charges >= FLOOR * tried["agent"]


def failed_although_able(runs: list[dict[str, Any]], done: Counter[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """The runs that failed although nothing was wrong with their orders."""
    refused = runs_of_refused_orders(done)
    return [run for run in runs if run["status"] in {"failed", "cancelled"} and run["id"] not in refused]


def assert_refused_orders_failed(runs: list[dict[str, Any]], done: Counter[tuple[str, str, str]]) -> None:
    """An order that cannot be shipped is given up; one that waits for a person may have been charged or not."""
    refused = runs_of_refused_orders(done)
    ends = Counter(f"{run['status']} {run['code']}" for run in runs if run["id"] in refused)
    given_up = ends["failed SERVER_UNAVAILABLE"]
    waiting = sum(run["status"] == "waiting" for run in runs if run["id"] in refused)
    assert given_up + waiting == ends.total(), ends
    assert given_up >= ends.total() / 2 > 0, ends


def runs_of_refused_orders(done: Counter[tuple[str, str, str]]) -> set[str]:
    """The runs of orders that the warehouse does not ship, whether their start was acknowledged or not."""
    return {call.partition("/")[0] for _, number, call in done if number.startswith(f"{REFUSED_LETTER}-")}


async def assert_other_servers_know_the_same(fed: Fed, urls: Sequence[str], runs: list[dict[str, Any]]) -> None:
    """A client that comes back finds its task at a server where it did not start it, with the result of the run."""
    statuses = {run["id"]: run["status"] for run in runs}
    by_tool: defaultdict[str, list[str]] = defaultdict(list)
    for run, job in fed.runs.items():
        by_tool[job.tool].append(run)
    chosen = [run for found in by_tool.values() for run in random.sample(found, min(ASKED, len(found)))]
    for url in urls:
        elsewhere = [run for run in chosen if fed.servers[run] != url]
        async with task_client(url) as client:
            for run in elsewhere:
                task = await ask(client, "tasks/get", run)
                assert task["status"] == TASK_STATUS[statuses[run]], (task, statuses[run])
                if task["status"] == "completed":
                    assert_result_is_that_of(fed.runs[run], task["result"], is_failed=statuses[run] == "failed")


def assert_result_is_that_of(job: Job, result: dict[str, Any], *, is_failed: bool) -> None:
    """The result of a task is about the order that its run handled."""
    assert result.get("isError", False) == is_failed, (job, result)
    content = result["structuredContent"]
    if is_failed:
        assert content["code"], (job, result)
    elif job.tool == "orders__fulfil":
        assert content == job.arguments
    elif job.tool == "orders__confirm":
        assert content == {"answer": "yes"}
    else:
        assert content["text"], (job, result)


def assert_tasks_did_their_orders_once(
    tasks: dict[str, str], runs: list[dict[str, Any]], done: Counter[tuple[str, str, str]]
) -> None:
    """Every request had an order of its own, also one whose command was killed."""
    by_order = Counter((action, number) for action, number, _ in done.elements() if number.startswith("T-"))
    assert {each: count for each, count in by_order.items() if count > 1} == {}
    statuses = {run["id"]: run["status"] for run in runs}
    for task, number in tasks.items():
        if statuses[task] == "done":
            assert {by_order[action, number] for action in ("reserve", "ship")} == {1}, task
