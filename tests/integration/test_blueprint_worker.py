"""Runs of blueprints that outlive the token of their starter, with a real issuer and workers that have their own."""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integration.conftest import Project
from tests.integration.test_identity import AUDIENCE, SECRET, Issuer, running
from tests.process import eventually

MINUTE = 60.0
PATIENCE_SECONDS = 30.0
READ_BY_ADMIN = '"desk.read", classification="PUBLIC", scopes=["admin"]'
MODULE = "desk_of_test"
TOOLS = '''\
"""Tools for tests."""

import asyncio
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver import capability


class Ticket(Struct):
    """A ticket."""

    number: Annotated[int, Meta(description="Its number", examples=[7])]


@capability("desk.read", classification="PUBLIC", scopes=["use"], idempotent=True, examples=[{"number": 7}])
def read(ticket: Ticket) -> Ticket:
    """Read a ticket."""
    return ticket


@capability("desk.close", classification="PUBLIC", scopes=["admin"], idempotent=True, examples=[{"number": 7}])
def close(ticket: Ticket) -> Ticket:
    """Close a ticket."""
    return ticket


@capability(
    "desk.hold",
    classification="PUBLIC",
    scopes=["use"],
    idempotent=True,
    timeout_seconds=300,
    examples=[{"number": 7}],
)
async def hold(ticket: Ticket) -> Ticket:
    """Hold a ticket until there is a file `go`."""
    here = Path(__file__).parent
    with (here / "held").open("a") as file:
        file.write("*")
    while not (here / "go").exists():
        await asyncio.sleep(0.05)
    return ticket
'''
HEAD = """\
blueprint_metadata: {{ id: desk.{name}, version: 1.0.0, description: For tests. }}
security_logic: {{ data_classification: PUBLIC }}
"""
SETTLE = """\
hitl_requirements: [{ step: close, reason: It cannot be opened again }]
dag:
  steps:
    - { id: agree, wait: { kind: person, question: "Settle it?" } }
    - { id: read, capability: desk.read, input_mapping: { number: 7 } }
    - { id: close, capability: desk.close, input_mapping: { number: 7 } }
  output_mapping: { closed: "${steps.close.number}" }
"""
FINISH = """\
dag:
  steps:
    - { id: read, capability: desk.read, input_mapping: { number: 7 } }
    - { id: close, capability: desk.close, input_mapping: { number: 7 } }
"""
LOOK = """\
dag:
  steps:
    - { id: read, capability: desk.read, input_mapping: { number: 7 } }
"""
LONG = """\
dag:
  steps:
    - { id: hold, capability: desk.hold, input_mapping: { number: 7 } }
    - { id: read, capability: desk.read, input_mapping: { number: 7 } }
"""


class Desk:
    """A project whose workers are the client `ours`."""

    def __init__(self, project: Project, issuer: Issuer) -> None:
        self.project, self.issuer = project, issuer
        folder = project.folder
        settings = f'issuer = "{issuer.name}"\naudience = "{AUDIENCE}"\nclient_id = "ours"\n'
        tools = f'[tools]\nmodules = ["{MODULE}"]\nblueprints = ["blueprints"]\n'
        secret = 'client_secret_env = "WORKER_SECRET"\n'
        (folder / "agent.toml").write_text(f"{tools}\n[identity]\n{settings}{secret}")
        (folder / f"{MODULE}.py").write_text(TOOLS)
        (folder / "blueprints").mkdir()
        for name, text in (("settle", SETTLE), ("finish", FINISH), ("look", LOOK), ("long", LONG)):
            (folder / "blueprints" / f"{name}.yaml").write_text(HEAD.format(name=name) + text)
        project.environment["WORKER_SECRET"] = SECRET

    def token(self, user: str, scope: str = "use admin") -> str:
        return str(self.issuer.of_person(username=user, scope=scope)["access_token"])

    @contextmanager
    def acting_as(self, token: str) -> Iterator[None]:
        self.project.environment["AGENT_TOKEN"] = token
        try:
            yield
        finally:
            del self.project.environment["AGENT_TOKEN"]

    def start(self, blueprint: str, token: str) -> Any:
        with self.acting_as(token):
            ran = self.project.agent("blueprint", "run", blueprint, "--detach", "--trust", "--json")
        return json.loads(ran.stdout)

    def work(self, *scopes: str) -> None:
        """Let a worker with these scopes do what can be done."""
        worked = self.project.agent("worker", "--until-idle", *worker_options(*scopes))
        assert worked.returncode == 0, worked.stderr

    @contextmanager
    def working(self, *scopes: str) -> Iterator[None]:
        """A worker with these scopes that works until the block ends."""
        process = self.project.start("worker", *worker_options(*scopes))
        try:
            yield
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=30)
            assert process.returncode == 0, said
        finally:
            process.kill()
            process.communicate()

    def questions(self) -> list[Any]:
        """What the approver sees."""
        with self.acting_as(self.token("u-18")):
            found: list[Any] = json.loads(self.project.agent("inbox", "list", "--trust", "--json").stdout)
        return found

    def answer(self, token: str, verb: str, action: str, *words: str) -> Any:
        with self.acting_as(token):
            return json.loads(self.project.agent("inbox", verb, action, *words, "--trust", "--json").stdout)

    def status(self, run: str) -> Any:
        """The run, as an auditor sees it."""
        with self.acting_as(self.token("u-19")):
            return json.loads(self.project.agent("blueprint", "status", run, "--trust", "--json").stdout)

    def ends(self, run: str) -> bool:
        return self.status(run)["status"] in {"done", "failed"}

    def records(self, run: str) -> list[dict[str, Any]]:
        with self.acting_as(self.token("u-19")):
            shown = json.loads(self.project.agent("audit", "show", "--run", run, "--trust", "--json").stdout)
        return [{"kind": record["kind"], **record["body"]} for record in shown]


def worker_options(*scopes: str) -> tuple[str, ...]:
    return ("--trust", "--config", f"identity.scopes={json.dumps(scopes)}")


def calls(records: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """The ends of calls: the tool, and the code if it failed."""
    ends = [record for record in records if record["kind"] in {"call.done", "call.failed"}]
    return [(record["tool"], record["kind"], record.get("code", "")) for record in ends]


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running(tmp_path_factory.mktemp("issuer"), minutes=1) as found:
        yield found


@pytest.fixture
def desk(project: Project, issuer: Issuer) -> Desk:
    return Desk(project, issuer)


def test_a_worker_goes_on_when_the_token_of_the_starter_has_expired(desk: Desk, issuer: Issuer) -> None:
    """Tokens live for a minute, that of the worker too: it gets a new one in the middle of a call."""
    folder, token = desk.project.folder, desk.token("u-17")
    end_of_token = time.time() + MINUTE
    settle, long = (desk.start(each, token)["run"] for each in ("desk.settle", "desk.long"))
    with desk.acting_as(token):
        # Its starter acts in person, as long as the token lasts.
        in_person = desk.project.start("blueprint", "run", "desk.long", "--key", "own", "--trust", "--json")
    with desk.working("use", "admin"):
        assert eventually(lambda: (folder / "held").exists() and len((folder / "held").read_text()) == len("**"))
        # Long enough for the command to ask again, which it does after 30 seconds.
        assert eventually(lambda: time.time() > end_of_token + PATIENCE_SECONDS + 5, 2 * MINUTE)
        refused = desk.start("desk.finish", token)
        (folder / "go").touch()
        said, _ = in_person.communicate(timeout=MINUTE)
        own = json.loads(said)["run"]
        assert eventually(lambda: desk.ends(long) and desk.ends(own))
        [question] = desk.questions()
        desk.answer(desk.token("u-18"), "answer", question["id"], "yes")
        assert eventually(lambda: [each["type"] for each in desk.questions()] == ["APPROVAL"])
        [approval] = desk.questions()
        tokens = [issuer.token(scope="use admin"), *map(desk.token, ("u-17", "u-18"))]
        approved = [desk.answer(each, "approve", approval["id"]) for each in tokens]
        assert eventually(lambda: desk.ends(settle))

    # The command waits no longer than its token lasts; the run that it began goes on.
    assert json.loads(said)["outcome"]["code"] == "UNAUTHORIZED"
    assert calls(desk.records(own))[-1] == ("desk.read", "call.done", "")
    assert "expired" in refused["error"]["message"]
    assert [each.get("error", {}).get("code") for each in approved] == ["OWN_CALL", "OWN_CALL", None]
    assert (approval["requester"], approval["via"]) == ("u-17", "ours")
    assert desk.status(settle)["output"] == {"closed": 7}
    assert calls(desk.records(long)) == [("desk.hold", "call.done", ""), ("desk.read", "call.done", "")]
    for record in (*desk.records(settle), *desk.records(long)):
        is_by_starter = record["kind"] in {"run.started", "pending.answered"}
        assert is_by_starter or (record["caller"], record["via"]) == ("u-17", "ours"), record
    assert desk.project.holds(SECRET) == []
    assert desk.project.holds(token) == []


def test_a_worker_with_fewer_scopes_lends_the_starter_none_of_theirs(desk: Desk) -> None:
    run = desk.start("desk.finish", desk.token("u-17"))["run"]
    desk.work("use")

    assert calls(desk.records(run)) == [("desk.read", "call.done", ""), ("desk.close", "call.failed", "MISSING_SCOPE")]
    assert (desk.status(run)["status"], desk.status(run)["code"]) == ("failed", "MISSING_SCOPE")


def test_a_worker_with_more_scopes_lends_the_starter_none_of_its_own(desk: Desk) -> None:
    """A step takes a scope that the starter lacks since the code of its tool was changed while the run waited."""
    refused = desk.start("desk.finish", desk.token("u-17", "use"))
    run = desk.start("desk.look", desk.token("u-17", "use"))["run"]
    code = desk.project.folder / f"{MODULE}.py"
    code.write_text(code.read_text().replace('"desk.read", classification="PUBLIC", scopes=["use"]', READ_BY_ADMIN))
    desk.work("use", "admin")

    assert (refused["run"], refused["outcome"]["code"]) == (None, "MISSING_SCOPE")
    assert calls(desk.records(run)) == [("desk.read", "call.failed", "MISSING_SCOPE")]


def test_without_an_identity_a_worker_does_not_begin(desk: Desk) -> None:
    run = desk.start("desk.look", desk.token("u-17", "use"))["run"]
    desk.project.environment["WORKER_SECRET"] = "canary-wrong-secret"
    refused = desk.project.agent("worker", "--until-idle", "--trust")
    desk.project.environment["WORKER_SECRET"] = SECRET

    assert refused.returncode == 1
    assert "HTTP 401 (invalid_client)" in refused.stderr
    assert "canary" not in refused.stderr
    desk.work("use")
    assert desk.status(run)["status"] == "done"
