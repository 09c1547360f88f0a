"""Probes and metrics: three paths, short answers in numbers and codes, and nothing else."""

import asyncio
import json
from typing import Any

import pytest
from msgspec import Struct

from agent_resolver._extra import MissingExtra
from agent_resolver.server import Answer, Probes
from agent_resolver.storage import UnreadableFile


class Process:
    """A process whose state a test sets."""

    def __init__(
        self, *, fault: str = "", obstacle: str | Exception = "", metrics: bytes | Exception = b"m 1\n"
    ) -> None:
        self.fault, self.obstacle, self.metrics = fault, obstacle, metrics
        self.looks = 0

    def find_fault(self) -> str:
        return self.fault

    async def find_obstacle(self) -> str:
        self.looks += 1
        if isinstance(self.obstacle, Exception):
            raise self.obstacle
        return self.obstacle

    async def measure(self) -> bytes:
        self.looks += 1
        if isinstance(self.metrics, Exception):
            raise self.metrics
        return self.metrics


class Got(Struct):
    """What a client received."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


async def send(app: Any, path: str, method: str = "GET", host: str = "127.0.0.1:9464") -> Got:
    """Ask an application over ASGI; a body that it would read never comes."""
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("the body was read")

    async def take(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", host.encode())]
    await app({"type": "http", "path": path, "method": method, "headers": headers, "query_string": b""}, receive, take)
    start, body = sent
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return Got(start["status"], found, body["body"])


def get(process: Process, path: str, **request: str) -> Got:
    return asyncio.run(send(Probes(process, {"127.0.0.1", "[::1]"}), path, **request))


def test_a_process_that_lives_and_may_be_sent_work_says_so() -> None:
    for path in ("/healthz", "/readyz"):
        got = get(Process(), path)
        assert (got.status, got.document, got.headers["content-type"]) == (200, {"status": "ok"}, "application/json")


@pytest.mark.parametrize(
    ("path", "process", "reason"),
    [
        ("/healthz", Process(fault="loop_stuck"), "loop_stuck"),
        ("/readyz", Process(obstacle="draining"), "draining"),
        ("/readyz", Process(obstacle=UnreadableFile("/canary/state.db", "is broken")), "state_unavailable"),
        ("/readyz", Process(obstacle=OSError(5, "canary")), "state_unavailable"),
        ("/metrics", Process(metrics=TimeoutError()), "state_slow"),
    ],
    ids=["stuck", "draining", "unreadable state", "broken disk", "slow state"],
)
def test_what_keeps_a_process_from_work_is_one_code(path: str, process: Process, reason: str) -> None:
    got = get(process, path)

    assert (got.status, got.document) == (503, {"status": "unavailable", "reason": reason})
    assert b"canary" not in got.body


def test_metrics_are_text_for_prometheus() -> None:
    got = get(Process(), "/metrics")

    assert (got.status, got.body) == (200, b"m 1\n")
    assert got.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_without_the_package_metrics_name_the_extra() -> None:
    got = get(Process(metrics=MissingExtra("prometheus-client", "telemetry")), "/metrics")

    assert (got.status, got.document["reason"]) == (501, "missing_package")
    assert "agent-resolver[telemetry]" in got.document["hint"]


@pytest.mark.parametrize(
    ("path", "request_of", "status"),
    [
        ("/", {}, 404),
        ("/metrics/", {}, 404),
        ("/healthz", {"method": "POST"}, 405),
        ("/metrics", {"host": "evil.example:9464"}, 421),
        ("/metrics", {"host": ""}, 421),
        ("/metrics", {"host": "10.1.2.3.evil.example:9464"}, 421),
        ("/metrics", {"host": "[::1]:9464"}, 200),
        ("/healthz", {"host": "10.1.2.3:9464"}, 200),
        ("/healthz", {"host": "[fd00::1]:9464"}, 200),
    ],
)
def test_no_other_path_method_or_host_is_answered(path: str, request_of: dict[str, str], status: int) -> None:
    assert get(Process(), path, **request_of).status == status


def test_a_request_for_the_head_gets_no_body() -> None:
    got = get(Process(), "/healthz", method="HEAD")

    assert (got.status, got.body, got.headers["content-length"]) == (200, b"", "17")


def test_many_requests_cost_one_look_at_the_state() -> None:
    process = Process()

    async def story() -> None:
        probes = Probes(process)
        await asyncio.gather(*(send(probes, "/metrics") for _ in range(50)))

    asyncio.run(story())
    assert process.looks == 1


def test_other_paths_are_left_to_the_server_beside() -> None:
    async def app(scope: Any, receive: Any, take: Any) -> None:
        await take({"type": "http.response.start", "status": 299, "headers": []})
        await take({"type": "http.response.body", "body": scope["path"].encode()})

    async def story() -> list[int]:
        beside = Probes(Process()).beside(app)
        return [(await send(beside, path)).status for path in ("/mcp", "/healthz", "/metrics/x")]

    assert asyncio.run(story()) == [299, 200, 299]


def test_an_answer_is_json_unless_it_says_otherwise() -> None:
    assert Answer(200, b"{}").content_type == "application/json"
