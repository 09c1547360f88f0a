"""Probes and metrics over HTTP: `/healthz`, `/readyz` and `/metrics`, for workers and for `agent serve`.

They say that a process lives, whether it may be sent work, and how much it does, in numbers. Nothing that they answer
comes from a run, and nothing that a client sends is read but the path and the name of the host.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Collection
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct

from agent_resolver._extra import MissingExtra
from agent_resolver.schema.errors import ResolverError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

LIVE = "/healthz"
READY = "/readyz"
METRICS = "/metrics"
PATHS: Final = frozenset({LIVE, READY, METRICS})
_READ_SECONDS: Final = 5.0
"""Seconds within which the state has to answer."""
_FRESH_SECONDS: Final = 2.0
"""Seconds for which an answer is given again, so that no client can load the state by asking often."""
_JSON: Final = "application/json"


class Probed(Protocol):
    """A process as probes see it."""

    def find_fault(self) -> str:
        """A code for what keeps the process from living on, such as `loop_stuck`; empty if nothing does."""
        ...

    async def find_obstacle(self) -> str:
        """A code for what keeps the process from taking work, such as `draining`; empty if nothing does.

        Raises:
            ResolverError: The state cannot be used.
        """
        ...

    async def measure(self) -> bytes:
        """The metrics, in the text format of Prometheus.

        Raises:
            MissingExtra: The package that writes them is not installed.
        """
        ...


class Answer(Struct, frozen=True):
    """The answer to a probe."""

    status: int
    body: bytes
    content_type: str = _JSON


class Probes:
    """Answers the three paths."""

    def __init__(self, probed: Probed, hosts: Collection[str] | None = None) -> None:
        """Probes of a process.

        Args:
            probed: The process.
            hosts: The names by which clients may call it, without a port; None for any. A web page that had its own
                name resolved to this machine sends that name, and reads nothing. An address is no such name: probes
                of a cluster call each process by its own.
        """
        self._probed = probed
        self._hosts = None if hosts is None else frozenset(hosts)
        self._kept: dict[str, tuple[float, Answer]] = {}
        self._answering = asyncio.Lock()

    def beside(self, app: "ASGIApp") -> "ASGIApp":
        """An application that answers the three paths, and leaves every other one to `app`."""

        async def route(scope: "Scope", receive: "Receive", send: "Send") -> None:
            is_ours = scope["type"] == "http" and scope["path"] in PATHS
            await (self if is_ours else app)(scope, receive, send)

        return route

    async def __call__(
        self,
        scope: "Scope",
        receive: "Receive",  # noqa: ARG002 - ASGI
        send: "Send",
    ) -> None:
        """Answer one request; its body is never read."""
        if scope["type"] != "http":
            return
        answer = await self._answer(scope)
        headers = [
            (b"content-type", answer.content_type.encode()),
            (b"content-length", str(len(answer.body)).encode()),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]
        body = b"" if scope["method"] == "HEAD" else answer.body
        await send(
            {"type": "http.response.start", "status": answer.status, "headers": headers}
        )
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: "Scope") -> Answer:
        path = scope["path"]
        if not self._is_known(_host_of(scope)):
            return _refusal(421, "unknown_host")
        if path not in PATHS:
            return _refusal(404, "not_found")
        if scope["method"] not in {"GET", "HEAD"}:
            return _refusal(405, "method_not_allowed")
        if path == LIVE:
            return _verdict(self._probed.find_fault())
        make = self._find_readiness if path == READY else self._measure
        return await self._kept_or_made(path, make)

    def _is_known(self, host: str) -> bool:
        return self._hosts is None or host in self._hosts or _is_address(host)

    async def _kept_or_made(
        self, path: str, make: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        # One at a time: those that come meanwhile get the answer of the first.
        async with self._answering:
            made_at, kept = self._kept.get(path, (0.0, None))
            if kept is not None and time.monotonic() - made_at < _FRESH_SECONDS:
                return kept
            answer = await make()
            self._kept[path] = (time.monotonic(), answer)
            return answer

    async def _find_readiness(self) -> Answer:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                obstacle = await self._probed.find_obstacle()
        except TimeoutError:
            obstacle = "state_slow"
        except (ResolverError, OSError):
            # Its words name files and addresses, which are not for every client.
            obstacle = "state_unavailable"
        return _verdict(obstacle)

    async def _measure(self) -> Answer:
        from agent_resolver.server.metric import CONTENT_TYPE

        try:
            async with asyncio.timeout(_READ_SECONDS):
                return Answer(200, await self._probed.measure(), CONTENT_TYPE)
        except MissingExtra as error:
            return Answer(
                501,
                _encoded(
                    {
                        "status": "unavailable",
                        "reason": "missing_package",
                        "hint": error.hint,
                    }
                ),
            )
        except TimeoutError:
            return _refusal(503, "state_slow")


def _host_of(scope: "Scope") -> str:
    """The host that the request names, without its port."""
    given: dict[bytes, bytes] = dict(scope["headers"])
    host = given.get(b"host", b"").decode("latin-1").lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _is_address(host: str) -> bool:
    try:
        ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _verdict(problem: str) -> Answer:
    if problem:
        return _refusal(503, problem)
    return Answer(200, _encoded({"status": "ok"}))


def _refusal(status: int, reason: str) -> Answer:
    return Answer(status, _encoded({"status": "unavailable", "reason": reason}))


def _encoded(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode() + b"\n"
