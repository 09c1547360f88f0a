"""A task whose locked server needs a credential that is not there: it waits for it, and goes on once it is."""

import json
from typing import Any

import pytest

from tests.integration.conftest import Project, Served, entry

TOKEN = "canary-token-8c02"
REASONER = '[tools]\nblueprints = ["blueprints"]\n\n'
OAUTH = '[servers.guarded.oauth]\nclient_id = "ours"\nclient_secret_env = "GUARDED_SECRET"\n'


@pytest.fixture
def guarded(project: Project, http: Served) -> Project:
    """A trusted project with a server that takes one token."""
    server = entry("guarded", {"echo": ["use"], "whoami": ["use"]}, endpoint=http("token", TOKEN).url)
    project.write(server, config=f'{REASONER}[servers.guarded]\ntoken_env = "GUARDED_TOKEN"\n')
    assert project.agent("trust-folder").returncode == 0
    return project


def task(project: Project, *command: str) -> Any:
    ran = project.agent("task", *command, "--json")
    assert ran.stdout, ran.stderr
    return json.loads(ran.stdout)


def open_actions(document: Any) -> list[tuple[str, str]]:
    found = [each for each in document["pending_actions"] if not each["resolved"]]
    return [(each["type"], each["message"]) for each in found]


def test_a_missing_token_is_asked_for_first_and_setting_its_variable_answers(guarded: Project) -> None:
    begun = task(guarded, "start", "Call guarded.whoami")
    action = begun["pending_actions"][0]["id"]
    typed = json.loads(guarded.agent("inbox", "answer", action, TOKEN, "--json").stdout)
    again = task(guarded, "resume", begun["task_id"])
    guarded.environment["GUARDED_TOKEN"] = TOKEN
    resumed = task(guarded, "resume", begun["task_id"])

    asked = ("SECRET", "The server guarded needs a token: set the variable GUARDED_TOKEN")
    assert (begun["stage"], begun["status"], open_actions(begun)) == ("context_bind", "waiting", [asked])
    assert typed["error"]["code"] == "ANSWERED_BY_READINESS"
    assert (again["stage"], open_actions(again)) == ("context_bind", [asked])
    # The server is connected now, and its tools are on the surface.
    assert resumed["stage"] not in {"context_bind", "failed"}, resumed
    records = json.loads(guarded.agent("audit", "show", "--run", begun["task_id"], "--json").stdout)
    loaded = [each["body"]["summary"] for each in records if each["body"].get("choice") == "LOADED"]
    assert loaded == ["2 tools"]
    assert guarded.holds("canary") == []


def test_a_missing_grant_of_oauth_is_asked_for_as_such(project: Project, http: Served) -> None:
    server = entry("guarded", {"echo": ["use"]}, endpoint=http("token", TOKEN).url)
    project.write(server, config=f"{REASONER}{OAUTH}")
    assert project.agent("trust-folder").returncode == 0

    begun = task(project, "start", "Echo the text 'hello'")

    asked = ("OAUTH", "The server guarded needs a grant of OAuth: set the variable GUARDED_SECRET")
    assert (begun["stage"], open_actions(begun)) == ("context_bind", [asked])
