"""The tools of `examples/tickets` over MCP: real clients call them, people approve, and a client may vanish."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.integration.conftest import BUILD, HERE, ROOT, processes
from tests.integration.test_identity import AUDIENCE, SECRET, SETTINGS, Issuer
from tests.integration.test_oauth import answers
from tests.loopback import free_port
from tests.process import eventually
from tests.server.conftest import ERAS, Address, command, environment, over_http, over_stdio

SECRETS = {"TICKETS_ADMIN_TOKEN": "canary-admin-7d31", "TICKETS_EXPORT_KEY": "canary-export-19ce"}
TICKETS = [
    f"tickets__{name}"
    for name in ("assign", "close", "create", "export", "handle", "purge", "research", "search", "tidy")
]
INBOX = ["inbox_answer", "inbox_approve", "inbox_list", "inbox_reject", "inbox_show"]
TWINS = ["get_agent", "list_agents", "resolve_agent", "search_agents"]
TOOLS = sorted([*TICKETS, *INBOX, *TWINS])
TRANSPORTS = ("stdio", "http")
UNVERIFIED = "UNVERIFIED_APPROVER: local:"


HOLD = """\
import asyncio
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver.capability import capability
from agent_resolver.registry import CallContext


class Hold(Struct, frozen=True):
    "What to wait for."
    file: Annotated[str, Meta(description="A file.", examples=["go"])]


@capability("hold.wait", examples=[{"file": "go"}])
async def wait(request: Hold, context: CallContext) -> Hold:
    "Wait until a file is there."
    await context.progress(1, 2, "waiting")
    while not Path(request.file).exists():
        await asyncio.sleep(0.01)
    return request
"""


def under(trace_id: str) -> Any:
    """What a request carries to belong to a trace."""
    return {"agent-resolver/trace_id": trace_id}


def agent(folder: Path, *line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    ran = subprocess.run(
        [sys.executable, "-m", "agent_resolver", *line],
        cwd=folder,
        env={**environment(folder), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "Traceback" not in ran.stderr
    return ran


def copied(folder: Path) -> Path:
    """The example, without what somebody may have done with it."""
    return shutil.copytree(ROOT / "examples" / "tickets", folder, ignore=shutil.ignore_patterns(".*", "__pycache__"))


def rows(path: Path, query: str) -> list[Any]:
    """What a database holds at this moment."""
    with closing(sqlite3.connect(path, timeout=10)) as database:
        return database.execute(query).fetchall()


def records(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """The kinds and bodies of the audit trail, oldest first."""
    found = rows(folder / ".agent" / "state.db", "SELECT kind, body FROM audit ORDER BY position")
    return [(kind, json.loads(body)) for kind, body in found]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    return copied(tmp_path / "tickets")


@pytest.fixture(scope="module")
def open_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("open") / "tickets")


@pytest.fixture(scope="module")
def address(open_folder: Path) -> Iterator[Address]:
    """A server over HTTP that believes whoever sits at this machine."""
    with over_http(open_folder, "--trust", "--inbox", **SECRETS) as found:
        yield found


@asynccontextmanager
async def connected(server: str | StdioServerParameters, mode: str, token: str = "") -> AsyncIterator[Client]:
    """A client of the Python SDK."""
    if isinstance(server, StdioServerParameters):
        async with Client(stdio_client(server), mode=mode) as client:
            yield client
        return
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(timeout=30, headers=headers) as http_client,
        Client(streamable_http_client(server, http_client=http_client), mode=mode) as client,
    ):
        yield client


async def told(client: Client, tool: str, *, is_error: bool = False, meta: Any = None, **arguments: Any) -> Any:
    """The structured part of a result, which is its text too."""
    found = await client.call_tool(tool, arguments, meta=meta)
    [content] = found.content
    assert found.is_error is is_error, content
    assert json.loads(content.model_dump()["text"]) == found.structured_content
    return found.structured_content


# Clients --------------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_python_sdk_lists_calls_hears_and_is_told_to_wait(
    tickets: Path, address: Address, mode: str, transport: str
) -> None:
    server = over_stdio(tickets, "--trust", "--inbox", **SECRETS) if transport == "stdio" else address.url
    seen: list[str | tuple[float, float | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total))

    async with connected(server, mode) as client:
        listed = await client.list_tools()
        connectors = await client.list_tools(meta={"agent-resolver/tag": "connector"})  # type: ignore[arg-type]
        found = await told(client, "tickets__search", text="login")
        created = await client.call_tool("tickets.create", {"title": "Seen"}, progress_callback=hear)
        seen.append("result")
        asked = await told(client, "tickets.purge", is_error=True, ids=[2])
        again = await told(client, "tickets__purge", is_error=True, ids=[2])
        waiting = (await told(client, "inbox_list"))["actions"]
        refused = await told(client, "inbox_approve", is_error=True, id=asked["id"])
        shown = await told(client, "inbox_show", id=asked["id"])
        bad = await told(client, "tickets.search", is_error=True, limit=0, more=1)
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("tickets.nothing", {})

    assert [tool.name for tool in listed.tools] == TOOLS
    assert listed.meta is not None
    assert listed.meta["agent-resolver/manifest"]["digest"].startswith("sha256-")
    assert [tool.name for tool in connectors.tools] == ["tickets__export"]
    assert found == {"tickets": [{"id": 1, "title": "Login fails on Mondays", "status": "open"}]}
    assert created.structured_content is not None
    assert created.structured_content["title"] == "Seen"
    assert (seen[0], seen[-1], len(seen) > 2) == ((0, 2), "result", True)
    assert (asked["status"], asked["code"]) == ("pending", "APPROVAL_REQUIRED")
    assert again["id"] == asked["id"]
    assert shown["argumentsShown"] == '{"ids":[2]}'
    assert {key: value for key, value in shown.items() if key != "argumentsShown"} in waiting
    assert (shown["state"], shown["subject"], shown["traceId"]) == ("open", "tickets.purge", asked["traceId"])
    assert refused["message"].startswith(UNVERIFIED)
    assert (bad["code"], len(bad["details"])) == ("INPUT_VALIDATION_FAILED", 2)
    assert unknown.value.error.code == -32602


@pytest.mark.anyio
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_client_hears_how_far_a_call_is_while_it_runs(tickets: Path, transport: str) -> None:
    """The tool ends only after the client has heard from it."""
    (tickets / "hold.py").write_text(HOLD)
    (tickets / "agent.toml").write_text('[tools]\nmodules = ["hold"]\n')
    with ExitStack() as stack:
        http = transport == "http"
        where = stack.enter_context(over_http(tickets, "--trust")).url if http else over_stdio(tickets, "--trust")
        for mode in ERAS:
            go = anyio.Path(tickets / f"go-{mode}")

            async def hear(progress: float, total: float | None, message: str | None, go: anyio.Path = go) -> None:
                await go.write_text(f"{progress:g} of {total:g}: {message}")

            async with connected(where, mode) as client:
                done = await client.call_tool("hold.wait", {"file": str(go)}, 30, hear)
            assert (done.is_error, await go.read_text()) == (False, "1 of 2: waiting")


@pytest.mark.parametrize(
    ("client", "transport"),
    [
        ("ticket_v1.mjs", "stdio"),
        ("ticket_v2.mjs legacy", "http"),
        ("ticket_v2.mjs auto", "http"),
    ],
)
def test_the_typescript_sdks_do_so_too(  # noqa: PLR0913, PLR0917 - each is needed
    tickets: Path, address: Address, tmp_path: Path, node: str, client: str, transport: str
) -> None:
    scripts = shutil.copytree(HERE / "clients", tmp_path / "clients")
    (scripts / "node_modules").symlink_to(BUILD / "node_modules")
    script, *mode = client.split()
    where = [address.url] if transport == "http" else command("--trust", "--inbox")
    ran = subprocess.run(
        [node, str(scripts / script), *mode, *where],
        cwd=tickets,
        env={**environment(tickets), **SECRETS},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)

    assert said["tools"] == TOOLS
    assert said["connectors"] == ["tickets__export"]
    assert said["search"]["tickets"][0]["id"] == 1
    assert (said["create"]["isError"], said["create"]["structuredContent"]["title"]) == (False, "Seen")
    assert said["wire"] == ["notifications/progress", "notifications/progress", "result"]
    assert said["progress"][0]["total"] == 2
    assert said["purge"]["isError"]
    assert said["purge"]["structuredContent"]["code"] == "APPROVAL_REQUIRED"
    assert said["purge"]["structuredContent"]["id"] in [action["id"] for action in said["waiting"]]
    assert said["approve"]["structuredContent"]["message"].startswith(UNVERIFIED)
    assert (said["bad"]["isError"], said["bad"]["structuredContent"]["code"]) == (True, "INPUT_VALIDATION_FAILED")
    assert said["unknown"] == -32602
    assert said["manifest"]["digest"].startswith("sha256-")


# Approvals ------------------------------------------------------------------------------------------------------------

USERS = """\
users:
  ada: { password: canary-password, roles: [approver] }
  grace: { password: canary-password, roles: [approver] }
  lin: { password: canary-password, roles: [reader] }
"""


@contextmanager
def running(folder: Path) -> Iterator[Issuer]:
    """An issuer that knows three people: one asks, one approves, one may not."""
    port = free_port()
    name = f"http://127.0.0.1:{port}"
    scopes = "scopes_supported: [openid, tickets:read, tickets:write, tickets:admin]"
    settings = SETTINGS.replace("scopes_supported: [openid, use, admin]", scopes)
    (folder / "settings.yaml").write_text(settings.format(port=port, issuer=name, secret=SECRET, minutes=5))
    (folder / "users.yaml").write_text(USERS)
    line = [str(BUILD / "idp" / "bin" / "nanoidp"), "--config", str(folder), "--port", str(port)]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder) as process:
        try:
            assert eventually(lambda: answers(f"{name}/.well-known/openid-configuration"), 30)
            yield Issuer(name, name)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running(tmp_path_factory.mktemp("issuer")) as found:
        yield found


Tokens = Callable[..., str]


@pytest.fixture(scope="module")
def token(issuer: Issuer) -> Tokens:
    """Gives the token of a person."""

    def of(user: str, scope: str = "tickets:read", clearance: str = "internal") -> str:
        claims = json.dumps({"clearance_level": clearance})
        given = issuer.of_person(username=user, scope=scope, extra=claims)
        return str(given["access_token"])

    return of


@pytest.fixture(scope="module")
def guarded(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example in a project that believes the issuer alone."""
    folder = copied(tmp_path_factory.mktemp("guarded") / "tickets")
    with (folder / "agent.toml").open("a") as settings:
        settings.write(f'\n[identity]\nissuer = "{issuer.name}"\naudience = "{AUDIENCE}"\n')
    return folder


@pytest.fixture(scope="module")
def guarded_address(guarded: Path) -> Iterator[Address]:
    with over_http(guarded, "--trust", "--inbox", **SECRETS) as found:
        yield found


ASKING = {"scope": "tickets:admin", "clearance": "restricted"}


@pytest.mark.anyio
@pytest.mark.parametrize(("mode", "ticket"), [(ERAS[0], 2), (ERAS[1], 3)])
async def test_a_restricted_call_passes_once_after_another_person_approved(
    guarded: Path, guarded_address: Address, token: Tokens, mode: str, ticket: int
) -> None:
    url, trace = guarded_address.url, under(f"{ticket:032x}")
    async with (
        connected(url, mode, token("ada", **ASKING)) as ada,
        connected(url, mode, token("grace")) as grace,
        connected(url, mode, token("lin", **ASKING)) as lin,
    ):
        asked = await told(ada, "tickets.purge", is_error=True, ids=[ticket], meta=trace)
        action = {"id": asked["id"]}
        own = await told(ada, "inbox_approve", is_error=True, **action)
        without_role = await told(lin, "inbox_approve", is_error=True, **action)
        unscoped = await told(grace, "tickets.purge", is_error=True, ids=[ticket], meta=trace)
        approved = await told(grace, "inbox_approve", reason="agreed", **action)
        # It is for this caller, these arguments and this trace.
        others = [
            await told(lin, "tickets.purge", is_error=True, ids=[ticket], meta=trace),
            await told(ada, "tickets.purge", is_error=True, ids=[1], meta=trace),
            await told(ada, "tickets.purge", is_error=True, ids=[ticket], meta=under("f" * 32)),
        ]
        done = await told(ada, "tickets.purge", ids=[ticket], meta=trace)
        anew = await told(ada, "tickets.purge", is_error=True, ids=[ticket], meta=trace)
        used = await told(ada, "inbox_show", **action)
        twice = await told(grace, "inbox_approve", is_error=True, **action)

    assert (asked["code"], own["message"].partition(":")[0]) == ("APPROVAL_REQUIRED", "OWN_CALL")
    assert without_role["message"].startswith("MISSING_ROLE: lin ")
    assert unscoped["code"] == "MISSING_SCOPE"
    assert (approved["state"], approved["answeredBy"], approved["reason"]) == ("approved", "grace", "agreed")
    assert [other["code"] for other in others] == ["APPROVAL_REQUIRED"] * 3
    assert len({asked["id"], *(other["id"] for other in others), anew["id"]}) == 5
    assert (done["ids"], len(done["proof"])) == ([ticket], 64)
    assert anew["code"] == "APPROVAL_REQUIRED"
    assert (used["state"], used["requester"]) == ("used", "ada")
    assert twice["message"].startswith("ALREADY_ANSWERED: ")
    purged = rows(guarded / ".agent" / "tickets.db", "SELECT ids, caller, proof FROM purge")
    assert (json.dumps([ticket]), "ada", done["proof"]) in purged


@pytest.mark.anyio
async def test_an_approval_on_the_command_line_is_the_same_and_the_trail_names_both(
    guarded: Path, guarded_address: Address, token: Tokens
) -> None:
    async with connected(guarded_address.url, ERAS[1], token("ada", **ASKING)) as ada:
        # This client names no trace: the same call goes on with the one that it was told of.
        asked = await told(ada, "tickets.purge", is_error=True, ids=[7])
        approve = ("inbox", "approve", asked["id"], "--trust")
        nobody = agent(guarded, *approve)
        own = agent(guarded, *approve, AGENT_TOKEN=token("ada", **ASKING))
        approved = agent(guarded, *approve, AGENT_TOKEN=token("grace"))
        done = await told(ada, "tickets.purge", ids=[7])
        anew = await told(ada, "tickets.purge", is_error=True, ids=[7])

    assert [nobody.returncode, own.returncode, approved.returncode] == [1, 1, 0]
    assert "no token was given" in nobody.stderr
    assert own.stderr.startswith("error: OWN_CALL: ada ")
    assert approved.stdout.startswith(f"✓ {asked['id']} approved by grace\n")
    assert done["ids"] == [7]
    assert anew["id"] != asked["id"]
    trace = asked["traceId"]
    trail = [(kind, body["caller"]) for kind, body in records(guarded) if body.get("trace") == trace]
    assert trail[:6] == [
        ("action.asked", "ada"),
        ("call.pending", "ada"),
        ("action.refused", "ada"),
        ("action.approved", "grace"),
        ("call.started", "ada"),
        ("call.done", "ada"),
    ]
    [decision] = [body for kind, body in records(guarded) if kind == "action.approved" and body["trace"] == trace]
    assert (decision["verified"], decision["action"], decision["tool"]) == (True, asked["id"], "tickets.purge")
    verified = agent(guarded, "audit", "verify")
    assert (verified.returncode, verified.stderr) == (0, "")
    files = [path for path in guarded.parent.rglob("*") if path.is_file()]
    assert not [path for path in files if b"canary" in path.read_bytes()]


def test_with_an_issuer_a_server_over_stdio_needs_to_know_whom_it_serves(guarded: Path) -> None:
    ran = agent(guarded, "serve", "--trust")

    assert (ran.returncode, ran.stdout) == (1, "")
    assert "vouches for callers here, and no token was given" in ran.stderr
    assert "AGENT_TOKEN" in ran.stderr


# Clients that vanish --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_call_of_a_killed_client_is_done_and_recorded(
    tickets: Path, open_folder: Path, address: Address, mode: str, transport: str
) -> None:
    folder = open_folder if transport == "http" else tickets
    title = f"Left behind {mode}"
    # Named so that its process can be found.
    server = ["-", title, *command("--trust", "--project", str(folder))]
    line = [sys.executable, str(HERE / "clients" / "opening.py"), mode]
    line += [address.url, title] if transport == "http" else server
    pipe = subprocess.PIPE
    environ = {**environment(folder), **SECRETS}
    with subprocess.Popen(line, cwd=folder, env=environ, stdin=pipe, stdout=pipe, stderr=pipe) as client:
        assert client.stdin
        assert client.stdout
        assert client.stdout.readline() == b"ready\n"
        before = len(records(folder))
        with closing(sqlite3.connect(folder / ".agent" / "tickets.db", timeout=10)) as database:
            # Whoever writes to the tickets has to wait for us.
            database.execute("BEGIN IMMEDIATE")
            client.stdin.write(b"go\n")
            client.stdin.flush()
            assert eventually(lambda: len(records(folder)) > before)
            os.kill(client.pid, signal.SIGKILL)
            client.wait(timeout=10)
            database.rollback()
        assert eventually(lambda: len(records(folder)) > before + 1)
        assert eventually(lambda: transport == "http" or not processes(folder))
        assert client.stderr
        assert client.stderr.read() == b""

    kinds = [(kind, body["tool"]) for kind, body in records(folder)[before:]]
    assert kinds == [("call.started", "tickets.create"), ("call.done", "tickets.create")]
    found = rows(folder / ".agent" / "tickets.db", "SELECT title FROM ticket WHERE title LIKE 'Left behind %'")
    assert found.count((title,)) == 1


# What keeps it from starting ------------------------------------------------------------------------------------------


def test_a_manifest_that_differs_from_the_code_keeps_the_server_from_starting(tickets: Path) -> None:
    write = ("tools", "manifest", "--trust", "--out", "tools.manifest.json")
    assert agent(tickets, *write).returncode == 0
    same = agent(tickets, "serve", "--trust")
    code = tickets / "tickets.py"
    code.write_text(code.read_text().replace("ge=1, le=100", "ge=1, le=50"))
    drifted = agent(tickets, "serve", "--trust")
    assert agent(tickets, *write).returncode == 0
    reviewed = agent(tickets, "serve", "--trust")

    assert [same.returncode, drifted.returncode, reviewed.returncode] == [0, 1, 0]
    assert same.stderr == reviewed.stderr == ""
    assert drifted.stderr.startswith("error: `tools.manifest.json` differs from the code\n")
    assert "tickets.search" in drifted.stderr
    assert "50" in drifted.stderr
    assert "agent tools manifest --out tools.manifest.json" in drifted.stderr


def test_code_that_nobody_trusts_is_not_loaded(tickets: Path) -> None:
    (tickets / "tickets.py").write_text("raise RuntimeError('canary: this ran')\n")
    ran = agent(tickets, "serve")

    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"error: `{tickets}` is not trusted, and its settings load Python modules\n")
    assert f"agent trust-folder {tickets}" in ran.stderr
    assert "canary" not in ran.stderr
