"""The help desk of the examples as a project with a real issuer, whose tasks people drive with tokens of their own."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ran, Run
from tests.integration.conftest import ROOT
from tests.integration.test_identity import AUDIENCE, SECRET, Issuer

USERS = """\
users:
  ada: { password: canary-password, roles: [] }
  ben: { password: canary-password, roles: [approver] }
  eve: { password: canary-password, roles: [] }
  olga: { password: canary-password, roles: [auditor] }
"""
CLAIMS = {"division": "retail", "clearance_level": "RESTRICTED", "cost_center": "CC-17"}
SETTINGS = """\
[project]
name = "helpdesk"

[tools]
modules = ["helpdesk"{modules}]
blueprints = ["blueprints"]

[reasoner]
tools = ["accounts.*", "tickets.*", "notices.*"]

[identity]
issuer = "{issuer}"
audience = "{audience}"
client_id = "ours"
client_secret_env = "WORKER_SECRET"
"""
OPEN_TICKET = "Open a ticket titled 'Login fails'"
UNLOCK = "Unlock the account of user 'grace'"


class TaskProject:
    """A trusted project whose commands run in this process, each for the person whose token it is given."""

    def __init__(self, folder: Path, issuer: Issuer, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.issuer = issuer
        self._run = run
        self._monkeypatch = monkeypatch

    def token(self, person: str, *, scope: str = "use", without: str = "", minutes: int = 5, **claims: str) -> str:
        """A token of a person; `without` names a claim that the issuer does not state."""
        stated = {name: value for name, value in (CLAIMS | claims).items() if name != without}
        given = {"username": person, "scope": scope, "exp": str(minutes), "extra": json.dumps(stated)}
        return str(self.issuer.of_person(**given)["access_token"])

    def agent(self, token: str, *command: str) -> Ran:
        """Run a command with a token; an empty one is none."""
        with self._monkeypatch.context() as patch:
            if token:
                patch.setenv("AGENT_TOKEN", token)
            return self._run(*command)

    def json(self, token: str, *command: str) -> Any:
        """What a command prints as JSON."""
        ran = self.agent(token, *command, "--json")
        assert "Traceback" not in ran.stderr, ran
        return json.loads(ran.stdout)

    def code(self, token: str, *command: str) -> str:
        """The code with which a command is refused; empty if it is not."""
        ran = self.agent(token, *command, "--json")
        document = json.loads(ran.stdout)
        if ran.code == 0 or "error" not in document:
            return ""
        return str(document["error"]["code"])

    def start(self, token: str, request: str, *options: str) -> Any:
        return self.json(token, "task", "start", request, *options)

    def resume(self, token: str, task: Any) -> Any:
        return self.json(token, "task", "resume", task["task_id"])

    def records(self, task: Any, reader: str = "") -> list[dict[str, Any]]:
        """The records of a task, as an auditor reads them."""
        token = reader or self.token("olga")
        shown = self.json(token, "audit", "show", "--run", task["task_id"])
        return [{"kind": record["kind"], **record["body"]} for record in shown]

    def blueprint(self) -> Any:
        """The one blueprint that is installed."""
        [file] = (self.folder / "blueprints").iterdir()
        return json.loads(file.read_text())


def task_project(
    folder: Path, issuer: Issuer, run: Run, monkeypatch: pytest.MonkeyPatch, modules: str = ""
) -> TaskProject:
    """The help desk, in a folder of its own that is trusted, as the current folder."""
    folder.mkdir()
    shutil.copy(ROOT / "examples" / "helpdesk" / "helpdesk.py", folder)
    more = f', "{modules}"' if modules else ""
    settings = SETTINGS.format(issuer=issuer.name, audience=AUDIENCE, modules=more)
    (folder / "agent.toml").write_text(settings)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent / "config"))
    monkeypatch.setenv("WORKER_SECRET", SECRET)
    assert run("trust-folder").code == 0
    return TaskProject(folder, issuer, run, monkeypatch)
