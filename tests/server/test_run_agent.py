"""`agent serve --run`: clients let agents run, with their own rights, and end a run by going."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from msgspec import structs

from agent_resolver import Project
from agent_resolver.project import open_runs
from agent_resolver.registry import CallContext, ToolRegistry
from agent_resolver.schema import ANONYMOUS, Caller, Done, Failed, Outcome, Pending, local_caller
from agent_resolver.server import RunAgentTool
from tests.cli.conftest import kinds
from tests.cli.scripted_model import NOTES, asking, saying, write_notes, write_script
from tests.process import comes_true, eventually
from tests.server.conftest import META, Address, Process, Start, environment, over_http

ADA = Caller(id="ada", is_verified=True, clearance="INTERNAL", scopes=frozenset({"run:agents"}))


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """The project of notes, as the folder that servers start in."""
    write_notes(tmp_path)
    return tmp_path


def agent(folder: Path, *command: str) -> Any:
    """What a command says in JSON, where the server is."""
    line = [sys.executable, "-m", "agent_resolver", *command, "--json"]
    ran = subprocess.run(line, cwd=folder, env=environment(folder), capture_output=True, check=True)
    return json.loads(ran.stdout)


def call(process: Process, prompt: str = "Do it", **meta: Any) -> Any:
    arguments = {"agent": "keeper", "prompt": prompt}
    return process.ask("tools/call", name="run_agent", arguments=arguments, meta=meta)["result"]


@pytest.mark.slow
def test_nothing_can_be_run_unless_the_operator_says_so(start: Start, notes: Path) -> None:
    process = start("--trust")

    names = {tool["name"] for tool in process.ask("tools/list")["result"]["tools"]}

    assert "run_agent" not in names
    assert "notes__read" in names


def test_a_client_runs_an_agent_and_sees_how_far_it_is(start: Start, notes: Path) -> None:
    write_script(notes, asking("notes__read", name="welcome"), saying("It says hello."))
    process = start("--trust", "--run")
    request = {"name": "run_agent", "arguments": {"agent": "keeper", "prompt": "Read"}}
    listed = [tool["name"] for tool in process.ask("tools/list")["result"]["tools"]]
    meta = {**META, "progressToken": "t"}
    process.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**request, "_meta": meta}})

    messages = []
    while (message := process.receive()).get("id") != 1:
        messages.append(message["params"])

    told = [params["message"] for params in messages]
    assert listed.count("run_agent") == 1
    assert message["result"]["structuredContent"]["text"] == "It says hello."
    assert message["result"]["structuredContent"]["rounds"] == 2
    assert told[0] == "run.started"
    assert "tool.started notes.read" in told
    assert "tool.done notes.read: done" in told
    assert told[-1] == "run.ended"
    assert [params["progress"] for params in messages] == sorted({params["progress"] for params in messages})


@pytest.mark.slow
def test_the_call_and_the_run_are_recorded_under_one_trace(start: Start, notes: Path) -> None:
    write_script(notes, asking("notes__read", name="welcome"), saying("It says hello."))
    process = start("--trust", "--run")

    assert call(process)["isError"] is False

    records = agent(notes, "audit", "show")
    assert [(record["kind"], record["body"].get("tool")) for record in records] == [
        ("call.started", "run_agent"),
        ("run.started", None),
        ("call.started", "notes.read"),
        ("call.done", "notes.read"),
        ("run.ended", None),
        ("call.done", "run_agent"),
    ]
    assert len({record["body"]["trace"] for record in records if "trace" in record["body"]}) == 1


@pytest.mark.slow
def test_a_run_that_waits_goes_on_when_the_same_call_is_made_again(start: Start, notes: Path) -> None:
    write_script(notes, asking("notes__write", name="welcome"), saying("Written."))
    process = start("--trust", "--run")

    waiting = call(process)
    still = call(process)
    (action,) = agent(notes, "inbox", "list")
    agent(notes, "inbox", "approve", action["id"], "--trust")
    done = call(process)

    assert waiting["isError"] is still["isError"] is True
    assert waiting["structuredContent"]["code"] == "APPROVAL_REQUIRED"
    assert waiting["structuredContent"]["id"] == still["structuredContent"]["id"] == action["id"]
    assert action["subject"] == "notes.write"
    assert done["structuredContent"]["text"] == "Written."


@pytest.mark.slow
def test_a_client_that_cancels_ends_the_run_and_the_server_goes_on(start: Start, notes: Path) -> None:
    write_script(notes, asking("notes__hang", name="welcome"))
    process = start("--trust", "--run")
    request = {"name": "run_agent", "arguments": {"agent": "keeper", "prompt": "Hang"}, "_meta": META}
    process.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": request})
    assert eventually((notes / "hanging").exists, 30.0)

    process.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})

    assert eventually(lambda: "run.ended" in kinds(notes), 30.0)
    assert process.ask("tools/list", 2)["result"]["tools"]
    (ended,) = [record["body"] for record in agent(notes, "audit", "show") if record["kind"] == "run.ended"]
    assert ended["reason"] == "cancelled"


@pytest.mark.slow
def test_a_client_that_goes_ends_the_run_which_is_recorded(start: Start, notes: Path) -> None:
    write_script(notes, asking("notes__hang", name="welcome"))
    process = start("--trust", "--run")
    request = {"name": "run_agent", "arguments": {"agent": "keeper", "prompt": "Hang"}, "_meta": META}
    process.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": request})
    assert eventually((notes / "hanging").exists, 30.0)

    code, _, _ = process.end()

    assert code == 0
    assert "run.ended" in kinds(notes)


@pytest.mark.slow
def test_a_client_over_http_that_goes_ends_the_run(notes: Path) -> None:
    write_script(notes, asking("notes__hang", name="welcome"))

    async def call(url: str) -> None:
        async with Client(url) as client:
            await client.call_tool("run_agent", {"agent": "keeper", "prompt": "Hang"})

    async def go_away(url: str) -> None:
        calling = asyncio.create_task(call(url))
        await comes_true((notes / "hanging").exists)
        calling.cancel()
        with suppress(asyncio.CancelledError):
            await calling
        await comes_true(lambda: "run.ended" in kinds(notes))

    with over_http(notes, "--trust", "--run") as address:
        asyncio.run(go_away(address.url))
        (ended,) = [record["body"] for record in agent(notes, "audit", "show") if record["kind"] == "run.ended"]
        assert ended["reason"] == "cancelled"


# Rights ---------------------------------------------------------------------------------------------------------------


class Stage:
    """The tool in a registry, over the project of notes."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.project = stack.enter_context(Project.open(folder, trust=True))
        self.is_trusted = True
        """False to take the trust away once the server has started."""

    def call(self, caller: Caller, name: str = "keeper", thread: str = "", **more: Any) -> Outcome:
        """Run an agent as this caller."""

        async def work() -> Outcome:
            session, catalog = self.project.session, self.project.catalog
            async with open_runs(session, catalog, caller=local_caller("operator")) as runs:
                session._trusts = self.is_trusted
                registry = ToolRegistry()
                registry.add(RunAgentTool(runs, catalog))
                context = structs.replace(CallContext.for_caller(caller), **more)
                talk = {"thread": thread} if thread else {}
                return await registry.call("run_agent", {"agent": name, "prompt": "Do it", **talk}, context)

        return asyncio.run(work())


@pytest.fixture
def stage(notes: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(notes / "cache"))
    monkeypatch.chdir(notes)
    monkeypatch.syspath_prepend(str(notes))
    sys.modules.pop(NOTES, None)
    with ExitStack() as stack:
        yield Stage(notes, stack)


def test_a_caller_without_the_scope_or_the_clearance_runs_nothing(stage: Stage) -> None:
    unscoped = structs.replace(ADA, scopes=frozenset())

    refused = [stage.call(ANONYMOUS), stage.call(unscoped)]

    assert [outcome.code for outcome in refused if isinstance(outcome, Failed)] == [
        "MISSING_SCOPE",
        "MISSING_SCOPE",
    ]


def test_calls_within_a_run_take_the_rights_of_the_caller(stage: Stage, notes: Path) -> None:
    module = notes / f"{NOTES}.py"
    module.write_text(module.read_text().replace('"notes.read", ', '"notes.read", scopes=["read:notes"], '))
    write_script(notes, asking("notes__read", name="welcome"), saying("Done."))

    assert isinstance(stage.call(ADA), Done)
    assert kinds(notes) == ["run.started", "call.failed", "run.ended"]
    reader = structs.replace(ADA, scopes=frozenset({"run:agents", "read:notes"}))
    assert isinstance(stage.call(reader), Done)
    assert kinds(notes)[3:] == ["run.started", "call.started", "call.done", "run.ended"]


def test_an_agent_that_is_not_there_or_has_no_model_is_said_so(stage: Stage, notes: Path) -> None:
    (notes / "agents").mkdir()
    (notes / "agents" / "lost.md").write_text("---\nname: lost\ndescription: Lost\nmodel: nowhere\n---\n")

    unknown, lost = stage.call(ADA, "nobody"), stage.call(ADA, "lost")

    assert isinstance(unknown, Failed)
    assert (unknown.code, "nobody" in unknown.message) == ("TOOL_ERROR", True)
    assert isinstance(lost, Failed)
    assert (lost.code, lost.message) == ("NOT_CONFIGURED", "model not found: nowhere")


def test_an_agent_that_the_caller_may_not_see_cannot_be_run(stage: Stage, notes: Path) -> None:
    constraints = "constraints: { data: { sensitivity: confidential, residency: eu-only } }"
    (notes / "agents").mkdir()
    (notes / "agents" / "secret.md").write_text(f"---\nname: secret\ndescription: Secret\n{constraints}\n---\n")
    write_script(notes, saying("The plans are in the safe."))

    hidden, shown = stage.call(ADA, "secret"), stage.call(local_caller("operator"), "secret")

    assert isinstance(hidden, Failed)
    assert "secret" in hidden.message
    assert hidden.code == "TOOL_ERROR"
    assert isinstance(shown, Done)


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def started(folder: Path) -> list[tuple[str, object]]:
    """Who started runs or let them go on."""
    records = [record["body"] for record in agent(folder, "audit", "show") if record["kind"] == "run.started"]
    return [(body["caller"], body.get("resumed")) for body in records]


def test_the_same_call_finds_its_waiting_run_in_the_store(stage: Stage, notes: Path) -> None:
    """Each call here has a runtime of its own, as after a restart of the server."""
    write_script(notes, asking("notes__write", name="welcome"))
    waiting = stage.call(ADA, trace_id=TRACE)
    assert isinstance(waiting, Pending)
    still = stage.call(ADA, trace_id=TRACE)
    agent(notes, "inbox", "approve", waiting.id, "--trust")
    write_script(notes, saying("Written."))

    done, again = stage.call(ADA, trace_id=TRACE), stage.call(ADA, trace_id=TRACE)

    assert isinstance(still, Pending)
    assert still.id == waiting.id
    assert isinstance(done, Done)
    assert isinstance(again, Done)
    assert done.result["text"] == "Written."
    # What came to its natural end is returned again, and not run again.
    assert again.result == done.result
    assert started(notes) == [("ada", None), ("ada", "true"), ("ada", "true")]


@pytest.mark.slow
def test_no_caller_goes_on_with_the_run_of_another(stage: Stage, notes: Path) -> None:
    write_script(notes, asking("notes__write", name="welcome"), saying("Written."))
    waiting = stage.call(ADA, trace_id=TRACE)
    assert isinstance(waiting, Pending)
    agent(notes, "inbox", "approve", waiting.id, "--trust")

    outcome = stage.call(structs.replace(ADA, id="bob"), trace_id=TRACE)
    stage.call(structs.replace(ADA, issuer="https://other.example"), trace_id=TRACE)

    assert isinstance(outcome, Pending)
    assert outcome.id != waiting.id
    # The third is another person, whom another issuer calls by the same name.
    assert started(notes) == [("ada", None), ("bob", None), ("ada", None)]


def test_the_same_call_runs_again_after_a_run_that_failed(stage: Stage, notes: Path) -> None:
    write_script(notes, {"failure": {"kind": "unauthorized", "message": "the key is not valid"}})
    failed = stage.call(ADA, trace_id=TRACE)
    write_script(notes, saying("Hello."))

    done = stage.call(ADA, trace_id=TRACE)

    assert isinstance(failed, Failed)
    assert isinstance(done, Done)


def test_a_client_goes_on_with_a_conversation(stage: Stage, notes: Path) -> None:
    write_script(notes, saying("Hello."))

    first, second = stage.call(ADA, thread="talk"), stage.call(ADA, thread="talk")

    assert isinstance(first, Done)
    assert isinstance(second, Done)
    (newest, oldest) = agent(notes, "runs", "list")
    assert (newest["continues"], newest["thread"], newest["caller"]) == (oldest["id"], "talk", "ada")


def test_no_caller_goes_on_with_the_conversation_of_another(stage: Stage, notes: Path) -> None:
    write_script(notes, saying("Hello."))
    bob, other_ada = structs.replace(ADA, id="bob"), structs.replace(ADA, issuer="https://other.example")

    begun, of_bob, refused = (stage.call(caller, thread="talk") for caller in (ADA, bob, other_ada))

    assert isinstance(begun, Done)
    assert isinstance(of_bob, Done)
    assert isinstance(refused, Failed)
    assert refused.message == "thread talk is a conversation of another ada"
    assert {each["continues"] for each in agent(notes, "runs", "list")} == {""}


@pytest.mark.slow
def test_a_server_that_stops_interrupts_its_runs_and_does_not_end_them(start: Start, notes: Path) -> None:
    write_script(notes, asking("notes__hang", name="welcome"))
    process = start("--trust", "--run")
    request = {"name": "run_agent", "arguments": {"agent": "keeper", "prompt": "Hang"}, "_meta": META}
    process.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": request})
    assert eventually((notes / "hanging").exists, 30.0)

    process.process.terminate()
    process.process.wait(30)

    (row,) = agent(notes, "runs", "list")
    assert row["status"] == "interrupted"
    assert "run.ended" not in kinds(notes)


@pytest.mark.slow
def test_a_server_over_http_that_stops_interrupts_its_runs(notes: Path) -> None:
    write_script(notes, asking("notes__hang", name="welcome"))

    async def call(url: str) -> None:
        async with Client(url) as client:
            await client.call_tool("run_agent", {"agent": "keeper", "prompt": "Hang"})

    async def stop(address: Address) -> None:
        calling = asyncio.create_task(call(address.url))
        await comes_true((notes / "hanging").exists)
        address.process.terminate()
        await asyncio.to_thread(address.process.wait, 30)
        calling.cancel()
        with suppress(BaseException):
            await calling

    with over_http(notes, "--trust", "--run") as address:
        asyncio.run(stop(address))

    (row,) = agent(notes, "runs", "list")
    assert row["status"] == "interrupted"
    assert "run.ended" not in kinds(notes)


def test_a_run_that_stops_is_a_failure_for_the_client(stage: Stage, notes: Path) -> None:
    write_script(notes, {"failure": {"kind": "unauthorized", "message": "the key is not valid"}})

    outcome = stage.call(ADA)

    assert isinstance(outcome, Failed)
    assert outcome.message == "agent keeper ended as error: the key is not valid"


def test_a_project_that_no_person_trusts_is_not_described_to_clients(notes: Path, stage: Stage) -> None:
    stage.is_trusted = False

    outcome = stage.call(ADA)

    assert isinstance(outcome, Failed)
    assert outcome.message == "keeper cannot run here: UntrustedFolder"
    assert str(notes) not in outcome.message + outcome.remedy
