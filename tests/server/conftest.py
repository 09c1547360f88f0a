"""Agents in a folder, and the server over them: in this process, over stdio, and at an address."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest
from mcp.client.stdio import StdioServerParameters
from msgspec import Struct

from agent_resolver.catalog import Catalog
from agent_resolver.project import judge_of, open_catalog, resolve_against
from agent_resolver.registry import CallContext, Ports, Tool, ToolRegistry
from agent_resolver.schema import local_caller
from agent_resolver.server import (
    AgentPrompts,
    AgentResources,
    AgentServer,
    Notices,
    RegistryTools,
    ResourceTools,
    agent_server,
)

LEGACY = "legacy"
MODERN = "2026-07-28"
ERAS = (LEGACY, MODERN)
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
}
"""What every request of the newest revision carries."""
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "initialize",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "tests", "version": "1"},
    },
}

INDEX = [
    {
        "id": "warehouse",
        "version": "1.0.0",
        "endpoint": "https://mcp.example.com/warehouse",
        "categories": ["data"],
        "scopes": ["read"],
        "data": {"residency": ["any"], "maxSensitivity": "confidential"},
        "trust": {"signed": True, "publisher": "tests"},
    }
]
CONSTRAINTS = "constraints: { data: { sensitivity: internal, residency: eu-only } }"


def requiring(category: str) -> str:
    """Front matter that asks for a server of this category."""
    return f"requires: {{ mcp: [{{ category: {category}, permissions: [read] }}] }}\n{CONSTRAINTS}"


def write_agent(folder: Path, name: str, more: str = "", body: str = "") -> Path:
    """Write one agent file, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    front = f"name: {name}\nversion: 1.0.0\ndescription: The agent {name}\n{more}".rstrip()
    part = path.with_suffix(".part")
    part.write_text(f"---\n{front}\n---\n{body or f'You are {name}.'}\n", encoding="utf-8")
    part.replace(path)
    return path


def write_index(path: Path, servers: object = INDEX) -> Path:
    """Write an index of servers."""
    path.write_text(json.dumps(servers))
    return path


@pytest.fixture
def anyio_backend() -> str:
    """The loop that the product runs in."""
    return "asyncio"


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    """A folder of 45 agents, of which one resolves and one does not."""
    folder = tmp_path / "agents"
    for number in range(43):
        write_agent(folder, f"agent-{number:02}")
    write_agent(folder, "ready", requiring("data"))
    write_agent(folder, "lacking", requiring("weather"))
    write_index(tmp_path / "mcp.index.json")
    return folder


class Served(Struct, frozen=True):
    """A server in this process, and what it is made of."""

    server: AgentServer
    catalog: Catalog
    notices: Notices
    registry: ToolRegistry


Serve = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Makes servers over folders, in this process."""
    opened: list[Catalog] = []

    def make(
        *roots: Path,
        strict: bool = False,
        page_size: int = 20,
        index: Path | None = None,
        tools: Sequence[Tool] | None = None,
        ports: Ports | None = None,
        **more: Any,
    ) -> Served:
        path = str(index or tmp_path / "mcp.index.json")
        catalog = open_catalog(list(map(str, roots)), {"XDG_CACHE_HOME": str(tmp_path / "cache")}, judge_of(path))
        opened.append(catalog)
        catalog.refresh()
        registry = ToolRegistry(ports)
        twins = ResourceTools(catalog, partial(resolve_against, path), is_strict=strict).tools()
        for tool in twins if tools is None else tools:
            registry.add(tool)
        notices = Notices()
        context = CallContext(run="run", trace_id="", caller=local_caller("tests"))
        registry_tools = RegistryTools(registry, context, **more)
        resources = AgentResources(
            catalog,
            page_size=page_size,
            is_strict=strict,
            clearance_of=lambda ctx: registry_tools.caller_of(ctx).clearance,
        )
        server = agent_server(resources, registry_tools, AgentPrompts(catalog, resources), notices)
        return Served(server, catalog, notices, registry)

    yield make
    for catalog in opened:
        catalog.close()


def environment(folder: Path) -> dict[str, str]:
    """What a server is started with: a home of its own, so that tests leave nothing in the user's."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    homes = {"HOME": "home", "XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config"}
    return {**kept, **{name: str(folder / home) for name, home in homes.items()}}


def command(*options: str) -> list[str]:
    """The command line of a server."""
    return [sys.executable, "-m", "agent_resolver", "serve", *options]


def over_stdio(folder: Path, *options: str, **variables: str) -> StdioServerParameters:
    """A server for a client that starts it."""
    line = command(*options)
    return StdioServerParameters(command=line[0], args=line[1:], cwd=folder, env={**environment(folder), **variables})


class Process:
    """A server in a process of its own, spoken to line by line."""

    def __init__(self, folder: Path, *options: str, line: list[str] | None = None) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            line or command(*options), cwd=folder, env=environment(folder), stdin=pipe, stdout=pipe, stderr=pipe
        )

    @property
    def stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    @property
    def stderr(self) -> IO[bytes]:
        assert self.process.stderr is not None
        return self.process.stderr

    def send(self, *messages: Mapping[str, Any] | bytes) -> None:
        """Send messages, or lines that are none."""
        for message in messages:
            self.stdin.write((message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n")
        self.stdin.flush()

    def receive(self) -> Any:
        """The next message; anything else on stdout fails the test."""
        line = self.stdout.readline()
        assert line, self.stderr.read().decode()
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def answer(self, wanted: object) -> Any:
        """The answer to a request; what comes before it is left aside."""
        while (message := self.receive()).get("id") != wanted:
            pass
        return message

    def ask(self, method: str, wanted: object = 0, **params: Any) -> Any:
        """The answer to a request of the newest revision."""
        meta = {**META, **params.pop("meta", {})}
        self.send({"jsonrpc": "2.0", "id": wanted, "method": method, "params": {**params, "_meta": meta}})
        return self.answer(wanted)

    def initialize(self) -> Any:
        """Shake hands."""
        self.send(INITIALIZE, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self.answer("initialize")["result"]

    def end(self) -> tuple[int, bytes, str]:
        """Close its input; how it ended, and what else it said."""
        out, errors = self.process.communicate(timeout=30)
        return self.process.returncode, out, errors.decode()

    def stop(self) -> None:
        """End it, however it is."""
        self.process.kill()
        for stream in (self.stdin, self.stdout, self.stderr):
            with suppress(OSError):
                stream.close()
        self.process.wait()


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts servers that speak over stdio, and ends them."""
    started: list[Process] = []

    def begin(*options: str, line: list[str] | None = None) -> Process:
        started.append(Process(tmp_path, *options, line=line))
        return started[-1]

    yield begin
    for process in started:
        process.stop()


class Address(Struct, frozen=True):
    """A server at an address."""

    process: subprocess.Popen[bytes]
    port: int
    lines: list[bytes]
    reader: threading.Thread

    def said(self) -> str:
        """The lines that the server printed after the first, once it has ended."""
        self.reader.join(10)
        return b"".join(self.lines).decode()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"


@contextmanager
def over_http(
    folder: Path, *options: str, host: str = "127.0.0.1", port: str = "0", **variables: str
) -> Iterator[Address]:
    """A server at this port, or at one that is free."""
    line = command(*options, "--http", f"{host}:{port}")
    process = subprocess.Popen(line, cwd=folder, env={**environment(folder), **variables}, stderr=subprocess.PIPE)
    assert process.stderr is not None
    lines: list[bytes] = []
    # A server whose output is not read would stop at a full pipe.
    reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()))
    try:
        said = process.stderr.readline().decode()
        assert said.startswith("Serving "), said + process.stderr.read().decode()
        reader.start()
        yield Address(process, int(said.rpartition(":")[2].removesuffix("/mcp\n")), lines, reader)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=10)
        finally:
            process.kill()
            process.wait()
            if reader.is_alive():
                reader.join(10)
            process.stderr.close()
            # Shown where the test fails.
            sys.stdout.write(b"".join(lines).decode())
