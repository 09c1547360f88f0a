"""`agent run` with a token that expires while it runs, and an issuer that gives the worker its own."""

import json
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.cli.scripted_model import AGENT, CONFIG, asking, saying, write_script
from tests.conftest import Run
from tests.identity.issued import AUDIENCE, key, key_set, token
from tests.loopback import loopback_server

pytestmark = pytest.mark.slow
"""Each test waits until a token has expired."""

MODULE = "work_of_worker_test"
TOOLS = '''\
"""Tools for tests."""

import time
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver import capability


class Job(Struct):
    """A job."""

    name: Annotated[str, Meta(description="Its name", examples=["one"])]


@capability("work.wait", examples=[{"name": "one"}])
def wait(job: Job) -> Job:
    """Work until the token of the caller has expired."""
    end = float(Path("expiry").read_text())
    while time.time() <= end:
        time.sleep(0.02)
    return job


@capability("work.pay", approval=True, examples=[{"name": "one"}])
def pay(job: Job) -> Job:
    """Pay for a job."""
    return job
'''
SECRET = "canary-secret-77d1"
LIFE = 3.0
"""How long the token of the starter lives, in seconds."""


class Handler(BaseHTTPRequestHandler):
    """An issuer on this machine."""

    def do_GET(self) -> None:
        base = f"http://{self.headers['Host']}"
        metadata = {"issuer": base, "jwks_uri": f"{base}/certs", "token_endpoint": f"{base}/token"}
        self.reply(key_set(key()) if self.path == "/certs" else json.dumps(metadata).encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        granted = token_of(f"http://{self.headers['Host']}", "worker")
        self.reply(json.dumps({"access_token": granted, "token_type": "Bearer"}).encode())

    def reply(self, body: bytes) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def token_of(issuer: str, subject: str, seconds: float = 300, role: str = "approver") -> str:
    """A token of a caller who may approve."""
    said: dict[str, Any] = {"iss": issuer, "aud": AUDIENCE, "sub": subject, "exp": time.time() + seconds}
    return token({**said, "roles": [role], "clearance_level": "INTERNAL"})


@pytest.fixture
def issuer() -> Iterator[str]:
    with loopback_server(Handler) as url:
        yield url


@pytest.fixture
def project(tmp_path: Path, issuer: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A trusted project with a worker, whose agent works until its starter's token has expired, and then pays."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("WORKER_SECRET", SECRET)
    folder = tmp_path / "work"
    folder.mkdir()
    identity = f'[identity]\nissuer = "{issuer}"\naudience = "{AUDIENCE}"\n'
    worker = 'client_id = "agents"\nclient_secret_env = "WORKER_SECRET"\n'
    (folder / "agent.toml").write_text(f'{CONFIG}\n[tools]\nmodules = ["{MODULE}"]\n{identity}{worker}')
    (folder / "agents.md").write_text(AGENT)
    (folder / f"{MODULE}.py").write_text(TOOLS)
    write_script(folder, asking("work__wait", name="one"), asking("work__pay", name="one"), saying("Paid."))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    assert run("trust-folder").code == 0
    # What takes long to import is there before the token is given out.
    monkeypatch.setenv("AGENT_TOKEN", token_of(issuer, "ada"))
    assert run("tools", "list").code == 0
    (folder / "expiry").write_text(str(time.time() + LIFE))
    monkeypatch.setenv("AGENT_TOKEN", token_of(issuer, "ada", LIFE))
    yield folder
    sys.modules.pop(MODULE, None)


def calls(project: Path) -> list[tuple[str, str, str | None]]:
    """Each record of a call: its kind, its caller, and who acted for them."""
    with closing(sqlite3.connect(project / ".agent" / "state.db")) as state:
        found = state.execute("SELECT kind, body FROM audit WHERE kind LIKE 'call.%' ORDER BY position").fetchall()
    bodies = [(kind, json.loads(body)) for kind, body in found]
    return [(kind, body["caller"], body.get("via")) for kind, body in bodies]


def run_id_of(shown: str) -> str:
    """The id that `agent run` says of a run that did not come to its end."""
    (line,) = (line for line in shown.splitlines() if line.startswith("  Kept as run "))
    return line.split()[3]


def test_a_worker_goes_on_and_neither_it_nor_the_starter_approves(
    project: Path, issuer: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = run("run", "keeper", "Go")

    assert "suspended (APPROVAL_REQUIRED): worker asks for ada to call work.pay (INTERNAL)" in waiting.stderr
    assert calls(project) == [
        ("call.started", "ada", None),
        ("call.done", "ada", None),
        ("call.pending", "ada", "worker"),
    ]
    (action,) = (line.split()[3].rstrip(",") for line in waiting.stderr.splitlines() if "Waiting for APPROVAL" in line)
    for approver in ("worker", "ada"):
        monkeypatch.setenv("AGENT_TOKEN", token_of(issuer, approver))
        refused = run("inbox", "approve", action)
        assert refused.code == 1
        assert "OWN_CALL" in refused.stderr
    monkeypatch.setenv("AGENT_TOKEN", token_of(issuer, "grace"))
    assert "Made by: worker" in run("inbox", "show", action).stdout
    assert run("inbox", "approve", action).code == 0

    # With no token at all, the worker lets the run go on: as ada, with the rights that both have.
    monkeypatch.delenv("AGENT_TOKEN")
    write_script(project, saying("Paid."))
    gone_on = run("runs", "resume", run_id_of(waiting.stderr))
    assert (gone_on.stdout, gone_on.code) == ("Paid.\n", 0)
    assert calls(project)[-2:] == [("call.started", "ada", "worker"), ("call.done", "ada", "worker")]


def test_the_secret_of_the_worker_is_in_no_file_and_no_output(
    project: Path, run: Run, issuer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = run("run", "keeper", "Go", "--json")
    monkeypatch.setenv("AGENT_TOKEN", token_of(issuer, "olga", role="auditor"))
    shown = [run(*command) for command in (("config", "show"), ("audit", "show"), ("audit", "show", "--json"))]

    assert '"via":"worker"' in shown[-1].stdout.replace(" ", "")
    assert SECRET not in "".join(each.stdout + each.stderr for each in (waiting, *shown))
    files = [path for path in project.parent.rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


def test_without_a_worker_the_run_ends_and_says_how_to_go_on(
    project: Path, issuer: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (project / "agent.toml").read_text().splitlines()
    (project / "agent.toml").write_text("\n".join(line for line in settings if not line.startswith("client_")))

    ended = run("run", "keeper", "Go")

    assert ended.code == 1
    assert "✗ keeper: error (token_expired): The token of ada expired at " in ended.stderr
    assert "Resume the run with a new token" in ended.stderr
    run_id = run_id_of(ended.stderr)
    assert f"hint: `agent runs resume {run_id}` with a new token" in ended.stderr
    assert calls(project) == [("call.started", "ada", None), ("call.done", "ada", None)]
    write_script(project, saying("Done."))
    monkeypatch.setenv("AGENT_TOKEN", token_of(issuer, "ada"))
    assert run("runs", "resume", run_id).stdout == "Done.\n"
