"""A run that outlives the token of its starter, with a real issuer, `nanoidp`, that gives the worker its own."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.identity import IssuerKeys, Verifier
from agent_resolver.project import Project, Session, open_runs
from agent_resolver.runtime import RunRequest, RunResult, user_message
from agent_resolver.schema import Caller
from tests.cli.scripted_model import AGENT, CONFIG, asking, saying, write_script
from tests.integration.test_identity import AUDIENCE, SECRET, Issuer, running

MODULE = "tickets_of_worker_test"
TOOLS = '''\
"""Tools for tests."""

from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver import capability


class Ticket(Struct):
    """A ticket."""

    number: Annotated[int, Meta(description="Its number", examples=[7])]


@capability("tickets.read", classification="PUBLIC", scopes=["use"], examples=[{"number": 7}])
def read(ticket: Ticket) -> Ticket:
    """Read a ticket."""
    return ticket


@capability("tickets.close", classification="PUBLIC", scopes=["admin"], examples=[{"number": 7}])
def close(ticket: Ticket) -> Ticket:
    """Close a ticket."""
    return ticket
'''


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running(tmp_path_factory.mktemp("issuer")) as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project whose worker is the client `ours`, and whose agent reads and closes a ticket."""
    settings = f'issuer = "{issuer.name}"\naudience = "{AUDIENCE}"\nclient_id = "ours"\n'
    secret = 'client_secret_env = "WORKER_SECRET"\n'
    modules = f'[tools]\nmodules = ["{MODULE}"]\n'
    (tmp_path / "agent.toml").write_text(f"{CONFIG}\n{modules}\n[identity]\n{settings}{secret}")
    (tmp_path / "agents.md").write_text(AGENT)
    (tmp_path / f"{MODULE}.py").write_text(TOOLS)
    write_script(tmp_path, asking("tickets__read", number=7), asking("tickets__close", number=7), saying("Done."))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop(MODULE, None)


def starter(issuer: Issuer, scope: str) -> Caller:
    """A person whose token was verified when the run began, and has expired since."""
    verifier = Verifier(issuer.name, AUDIENCE, IssuerKeys(issuer.name))
    caller = asyncio.run(verifier.caller(issuer.of_person(scope=scope)["access_token"]))
    return structs.replace(caller, expires_at="2026-01-01T00:00:00.000Z")


def run(folder: Path, caller: Caller, *flags: str, secret: str = SECRET) -> tuple[RunResult, list[dict[str, Any]]]:
    """How a run ends, and what the trail has of it."""
    environment = {"WORKER_SECRET": secret, "XDG_CACHE_HOME": str(folder / "cache")}
    files = (str(folder / "agents.md"), str(folder / "mcp.index.json"))
    session = Session(*files, environment=environment, flags=flags, trusts=True)
    with Project(session) as project:

        async def work() -> RunResult:
            request = RunRequest(agent_id="keeper", messages=(user_message("Go"),))
            async with open_runs(session, project.catalog, caller=caller) as runs:
                return await runs.run(request)

        result = asyncio.run(work())
        records = session.store.read_now(lambda snapshot: list(snapshot.records()))
    return result, [{"kind": record.kind, **record.body} for record in records]


def calls(records: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """The ends of calls: the tool, and the code if it failed."""
    ends = [record for record in records if record["kind"] in {"call.done", "call.failed"}]
    return [(record["tool"], record["kind"], record.get("code", "")) for record in ends]


def test_the_worker_gets_a_token_and_both_are_recorded(folder: Path, issuer: Issuer) -> None:
    result, records = run(folder, starter(issuer, "use admin"), 'identity.scopes=["use", "admin"]')

    assert result.termination.reason == "natural_end"
    assert calls(records) == [("tickets.read", "call.done", ""), ("tickets.close", "call.done", "")]
    acted = [record for record in records if record["kind"].startswith("call.") or record["kind"] == "run.ended"]
    assert {(each["caller"], each["via"], each["issuer"], each["viaIssuer"]) for each in acted} == {
        ("u-17", "ours", issuer.name, issuer.name)
    }


@pytest.mark.parametrize(
    ("starts_with", "acts_with"),
    [("use", '["use", "admin"]'), ("use admin", '["use"]')],
    ids=["worker has more", "starter has more"],
)
def test_neither_lends_the_other_a_scope(folder: Path, issuer: Issuer, starts_with: str, acts_with: str) -> None:
    _, records = run(folder, starter(issuer, starts_with), f"identity.scopes={acts_with}")

    assert calls(records) == [("tickets.read", "call.done", ""), ("tickets.close", "call.failed", "MISSING_SCOPE")]


def test_a_wrong_secret_ends_the_run_and_is_seen_nowhere(folder: Path, issuer: Issuer) -> None:
    result, records = run(folder, starter(issuer, "use"), secret="canary-wrong-secret")

    assert (result.termination.reason, result.termination.code) == ("error", "token_expired")
    assert "The worker ours has no token" in result.termination.message
    assert "HTTP 401 (invalid_client)" in result.termination.message
    assert result.rounds == 0
    assert "canary" not in json.dumps(records) + result.termination.message


@pytest.mark.parametrize("secret", [SECRET, "canary-wrong-secret"])
def test_no_file_of_the_project_holds_the_secret(folder: Path, issuer: Issuer, secret: str) -> None:
    run(folder, starter(issuer, "use"), secret=secret)

    files = [path for path in folder.rglob("*") if path.is_file()]
    assert [path for path in files if secret.encode() in path.read_bytes()] == []


def test_a_worker_of_another_audience_is_refused(folder: Path, issuer: Issuer) -> None:
    """Its audience is not an address, so that the issuer is not asked for it and writes another one."""
    result, _ = run(folder, starter(issuer, "use"), "identity.audience=agents")

    assert result.termination.code == "token_expired"
    assert "The token is not meant for agents" in result.termination.message


def test_without_a_client_the_run_ends_before_its_model_is_asked(folder: Path, issuer: Issuer) -> None:
    settings = (folder / "agent.toml").read_text()
    kept = [line for line in settings.splitlines() if not line.startswith("client_")]
    (folder / "agent.toml").write_text("\n".join(kept))

    result, records = run(folder, starter(issuer, "use"))

    assert (result.termination.code, result.rounds, calls(records)) == ("token_expired", 0, [])
    assert "No worker acts for them" in result.termination.message
