"""Who starts, signals, cancels and drives runs of blueprints, where an issuer vouches for callers."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.blueprint_project import CONFIG, BlueprintProject, blueprint_project
from tests.cli.test_run_worker import SECRET, Handler
from tests.conftest import Run
from tests.identity.issued import AUDIENCE, token
from tests.loopback import loopback_server

RUN = ("blueprint", "run")
LAMP = ("--input", '{"item": "lamp"}')
WRITE = {"scope": "shop:write", "clearance_level": "INTERNAL"}


class WorkerHandler(Handler):
    """An issuer whose worker holds a scope as well."""

    def do_POST(self) -> None:  # noqa: N802 - as the library calls it
        self.rfile.read(int(self.headers["Content-Length"]))
        granted = token_of(f"http://{self.headers['Host']}", "worker", **WRITE)
        self.reply(json.dumps({"access_token": granted, "token_type": "Bearer"}).encode())


def token_of(issuer: str, subject: str, **claims: Any) -> str:
    return token({"iss": issuer, "aud": AUDIENCE, "sub": subject, "exp": time.time() + 300, **claims})


@pytest.fixture
def issuer() -> Iterator[str]:
    with loopback_server(WorkerHandler) as url:
        yield url


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, issuer: str, run: Run) -> BlueprintProject:
    """A trusted project with an issuer and a worker."""
    made = blueprint_project(tmp_path, monkeypatch)
    worker = 'client_id = "agents"\nclient_secret_env = "WORKER_SECRET"\n'
    identity = f'[identity]\nissuer = "{issuer}"\naudience = "{AUDIENCE}"\n{worker}'
    (made.folder / "agent.toml").write_text(f"{CONFIG}\n{identity}", encoding="utf-8")
    monkeypatch.setenv("WORKER_SECRET", SECRET)
    assert run("trust-folder").code == 0
    return made


def only_run(run: Run) -> dict[str, Any]:
    [row] = json.loads(run("blueprint", "list", "--json").stdout)
    found: dict[str, Any] = row
    return found


def test_a_caller_without_the_scopes_of_the_steps_starts_nothing(
    shop: BlueprintProject, run: Run, issuer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = run(*RUN, "shop.order", *LAMP)
    monkeypatch.setenv("AGENT_TOKEN", token_of(issuer, "ada", clearance_level="INTERNAL"))
    unscoped = run(*RUN, "shop.order", *LAMP)

    assert (nobody.code, unscoped.code) == (1, 1)
    assert "no token was given" in nobody.stderr
    assert "MISSING_SCOPE" in unscoped.stderr
    assert shop.notes == []


def test_a_worker_acts_for_the_starter_and_the_records_name_both(
    shop: BlueprintProject, run: Run, issuer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_TOKEN", token_of(issuer, "ada", **WRITE))
    begun = run(*RUN, "shop.order", *LAMP, "--detach")
    monkeypatch.delenv("AGENT_TOKEN")
    worked = run("worker", "--until-idle")
    monkeypatch.setenv("AGENT_TOKEN", token_of(issuer, "olga", roles=["auditor"]))
    run_id = only_run(run)["id"]
    records = json.loads(run("audit", "show", "--run", run_id, "--json").stdout)

    assert (begun.code, worked.code) == (0, 0)
    assert only_run(run)["status"] == "done"
    called = [record["body"] for record in records if record["kind"] == "call.done"]
    assert [(body["caller"], body["via"]) for body in called] == [("ada", "worker"), ("ada", "worker")]
    assert shop.notes == ["reserve lamp", "send lamp-1"]
    assert SECRET not in worked.stderr


def test_another_caller_can_neither_signal_nor_cancel_a_run(
    shop: BlueprintProject, run: Run, issuer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_TOKEN", token_of(issuer, "ada", **WRITE))
    run(*RUN, "shop.parcel", "--detach")
    run_id = only_run(run)["id"]
    monkeypatch.setenv("AGENT_TOKEN", token_of(issuer, "eve", **WRITE))
    signalled = run("blueprint", "signal", run_id, "arrived", "--data", '{"parcel": "A"}')
    cancelled = run("blueprint", "cancel", run_id)

    assert (signalled.code, cancelled.code) == (1, 1)
    assert f"There is no run {run_id}" in signalled.stderr
    monkeypatch.setenv("AGENT_TOKEN", token_of(issuer, "ada", **WRITE))
    assert only_run(run)["status"] == "waiting"
    assert shop.notes == []


def test_a_worker_without_an_identity_takes_nothing_up(
    shop: BlueprintProject, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORKER_SECRET")
    ran = run("worker", "--until-idle")

    assert ran.code == 1
    assert "WORKER_SECRET" in ran.stderr
    assert shop.notes == []
