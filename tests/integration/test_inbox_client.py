"""Claude Code and Codex as the inbox of an approver: a model on loopback approves the task of another person.

The server has a real issuer, and each client comes with the token of the person who uses it.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.integration.conftest import processes
from tests.integration.loopback_model import Call, LoopbackModel, loopback_model
from tests.integration.task_project import OPEN_TICKET, USERS, TaskProject, task_project
from tests.integration.test_coding_agent import claude_code, codex, offered_to_claude, offered_to_codex
from tests.integration.test_identity import SECRET, Issuer, running
from tests.integration.test_task_identity import only_action
from tests.process import eventually
from tests.server.conftest import over_http

INBOX = {"inbox_list", "inbox_show", "inbox_approve", "inbox_reject", "inbox_answer"}
RunClient = Callable[[str, str, Path, LoopbackModel], str]
Offered = Callable[[dict[str, Any]], set[str]]


def claude_settings(url: str, token: str) -> str:
    server = {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {token}"}}
    return json.dumps({"mcpServers": {"agent-resolver": server}})


def codex_settings(url: str, token: str) -> str:
    header = f'http_headers = {{ Authorization = "Bearer {token}" }}'
    # Without a person at the terminal Codex makes no call that may destroy something, unless its settings let it.
    consent = 'default_tools_approval_mode = "approve"'
    return f'[mcp_servers.agent-resolver]\nurl = "{url}"\n{header}\n{consent}\n'


class ChatClient:
    """One of the two clients, at the desk of a person."""

    def __init__(self, name: str, folder: Path) -> None:
        self._folder = folder
        is_codex = name == "codex"
        self._run: RunClient = codex if is_codex else claude_code
        self._settings = codex_settings if is_codex else claude_settings
        self._offered: Offered = offered_to_codex if is_codex else offered_to_claude

    def ask(self, person: str, url: str, token: str, *calls: Call) -> tuple[set[str], str]:
        """The inbox tools that the model is offered, and its last request, which has the results of its calls."""
        folder = self._folder / person / "desk"
        folder.mkdir(parents=True)
        with loopback_model(*calls) as model:
            said = self._run("Look after my inbox", self._settings(url, token), folder, model)
        assert "Done" in said
        assert len(model.requests) == len(calls) + 1
        offered = [self._offered(body) & INBOX for body in model.requests]
        assert offered == [offered[0]] * len(offered)
        return offered[0], json.dumps(model.requests[-1])


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running(tmp_path_factory.mktemp("issuer"), users=USERS) as found:
        yield found


@pytest.fixture
def desk(tmp_path: Path, issuer: Issuer, run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskProject]:
    yield task_project(tmp_path / "project", issuer, run, monkeypatch)
    sys.modules.pop("helpdesk", None)
    assert eventually(lambda: not processes(tmp_path)), "a process outlived its test"


def served(desk: TaskProject, *options: str) -> Any:
    """The project over HTTP."""
    return over_http(desk.folder, "--trust", *options, WORKER_SECRET=SECRET)


def calls_about(action: str) -> tuple[Call, ...]:
    """What the model asks for: look at the inbox, read the action, approve it."""
    reason = {"reason": "The change is announced"}
    return (("inbox_list", {}), ("inbox_show", {"id": action}), ("inbox_approve", {"id": action, **reason}))


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_a_chat_client_approves_the_task_of_another_person_and_not_its_own(
    desk: TaskProject, tmp_path: Path, name: str
) -> None:
    client = ChatClient(name, tmp_path)
    ada, ben = desk.token("ada"), desk.token("ben")
    task = desk.start(ada, OPEN_TICKET, "--environment", "prd")
    action = only_action(task)["id"]

    with served(desk, "--inbox") as address:
        url = f"http://127.0.0.1:{address.port}/mcp"
        _, own = client.ask("ada", url, ada, *calls_about(action))
        waiting = desk.resume(ada, task)
        offered, approved = client.ask("ben", url, ben, *calls_about(action))
    done = desk.resume(ada, task)

    assert "OWN_CALL" in own
    assert (waiting["status"], only_action(waiting)["id"]) == ("waiting", action)
    assert offered == INBOX
    assert "the plan acts in prd" in approved
    assert "OWN_CALL" not in approved
    assert (done["status"], done["output"]["title"]) == ("done", "Login fails"), done
    [shown] = [each for each in desk.json(ben, "inbox", "list", "--all") if each["id"] == action]
    assert (shown["answeredBy"], shown["reason"], shown["state"]) == ("ben", "The change is announced", "used")
    trail = desk.json(desk.token("olga"), "audit", "show")
    answers = [(each["kind"], each["body"]["caller"]) for each in trail if each["kind"].startswith("action.")]
    assert [each for each in answers if each[0] != "action.asked"] == [
        ("action.refused", "ada"),
        ("action.approved", "ben"),
    ]


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_a_chat_client_has_no_inbox_unless_the_server_is_told_to_serve_it(
    desk: TaskProject, tmp_path: Path, name: str
) -> None:
    with served(desk) as address:
        url = f"http://127.0.0.1:{address.port}/mcp"
        offered, _ = ChatClient(name, tmp_path).ask("ben", url, desk.token("ben"))

    assert offered == set()
