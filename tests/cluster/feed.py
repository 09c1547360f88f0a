"""Starts the work of a cluster: blueprints and runs of agents as MCP tasks, requests in plain words by a command."""

import asyncio
import json
import random
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
from mcp.shared.exceptions import MCPError
from msgspec import Struct

from tests.cluster.part import AGENT
from tests.server.task_client import start, task_client

CLIENTS = 4
REFUSED_LETTER = "F"
"""The letter of orders that the warehouse does not ship."""
_COMMANDS = 2
_ATTEMPT_SECONDS = 10.0
_AVOID_SECONDS = 60.0
"""For how long clients leave a server alone that did not answer, as a proxy does: it may be frozen."""
_ATTEMPTS = 100
_KILLED_COMMANDS = 5
"""One of so many commands is killed while it works."""


class Job(Struct, frozen=True):
    """One thing to be started."""

    tool: str
    arguments: dict[str, str]


class Fed(Struct):
    """What was started."""

    runs: dict[str, Job] = {}
    """The runs whose start was acknowledged, by their ids."""
    servers: dict[str, str] = {}
    """The address of the server that acknowledged each of these runs."""
    tasks: dict[str, str] = {}
    """The order of each task whose start was acknowledged, by the id of the task."""
    lost_answers: int = 0
    """How many starts failed or were not acknowledged, and were tried again as another one."""


def jobs(fulfilled: int, refused: int, confirmed: int, handled: int) -> list[Job]:
    """So many runs of each blueprint and of the agent, in a random order; refused orders are never shipped."""
    made = [Job("orders__fulfil", {"number": f"A-{number}"}) for number in range(fulfilled)]
    made += [Job("orders__fulfil", {"number": f"{REFUSED_LETTER}-{number}"}) for number in range(refused)]
    made += [Job("orders__confirm", {"number": f"B-{number}"}) for number in range(confirmed)]
    made += [Job("run_agent", {"agent": "clerk", "prompt": f"Handle order {number}"}) for number in range(handled)]
    random.Random(1).shuffle(made)
    return made


class Feeder:
    """Feeds a cluster through its servers."""

    def __init__(self, urls: Sequence[str], folder: Path, environment: dict[str, str], seed: int) -> None:
        self._urls = urls
        self._folder = folder
        self.log = folder / "commands.log"
        self._environment = environment
        self._random = random.Random(seed)
        self._numbers = iter(range(100_000, 1_000_000))
        """Numbers for orders whose first start was not acknowledged: it may have begun all the same."""
        self._avoided: dict[str, float] = {}
        """The servers that did not answer, and until when clients leave each alone."""
        self.fed = Fed()
        self.last_problem = ""
        """Why the last start failed, for a cluster in which all of them do."""

    async def feed(self, work: list[Job], requests: int, seconds: float) -> None:
        """Start everything, spread over some time."""
        waiting = iter(work)
        pause = seconds * CLIENTS / max(len(work), 1)
        numbers = iter(range(requests))
        command_pause = seconds * _COMMANDS / max(requests, 1)
        async with anyio.create_task_group() as group:
            for _ in range(CLIENTS):
                group.start_soon(self._be_client, waiting, pause)
            for _ in range(_COMMANDS):
                group.start_soon(self._give_commands, numbers, command_pause)

    async def _be_client(self, waiting: Iterator[Job], pause: float) -> None:
        for job in waiting:
            attempt = job
            for _ in range(_ATTEMPTS):
                if await self._is_started(attempt):
                    break
                self.fed.lost_answers += 1
                attempt = self._again(job)
                await asyncio.sleep(0.5)
            else:
                raise AssertionError(f"no server starts anything: {self.last_problem}")
            await asyncio.sleep(pause * self._random.uniform(0, 2))

    def _again(self, job: Job) -> Job:
        if "number" not in job.arguments:
            return job
        letter = job.arguments["number"][0]
        return Job(job.tool, {"number": f"{letter}-{next(self._numbers)}"})

    async def _is_started(self, job: Job) -> bool:
        url = self._choose_server()
        try:
            async with asyncio.timeout(_ATTEMPT_SECONDS):
                async with task_client(url) as client:
                    run = await start(client, job.tool, job.arguments)
        except (MCPError, OSError, TimeoutError, AssertionError, BaseExceptionGroup) as error:
            self.last_problem = repr(error)[:500]
            if isinstance(error, TimeoutError):
                self._avoided[url] = time.monotonic() + _AVOID_SECONDS
            return False
        self.fed.runs[run] = job
        self.fed.servers[run] = url
        return True

    def _choose_server(self) -> str:
        now = time.monotonic()
        answering = [url for url in self._urls if self._avoided.get(url, now) <= now]
        return self._random.choice(answering or self._urls)

    async def _give_commands(self, numbers: Iterator[int], pause: float) -> None:
        for number in numbers:
            await asyncio.to_thread(self._command, f"T-{number}", is_killed=number % _KILLED_COMMANDS == 0)
            await asyncio.sleep(pause * self._random.uniform(0, 2))

    def _command(self, order: str, *, is_killed: bool) -> None:
        words = f"Reserve order {order} and then ship order {order}"
        command = [str(AGENT), "task", "start", words, "--trust", "--json"]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self._folder, env=self._environment, stdout=subprocess.PIPE, stderr=log
            )
        try:
            printed, _ = process.communicate(timeout=self._random.uniform(1, 4) if is_killed else 60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return
        try:
            self.fed.tasks[str(json.loads(printed)["task_id"])] = order
        except (ValueError, KeyError):
            self.fed.lost_answers += 1
