"""A server that needs a bearer token: the right one works, and none is ever seen."""

from typing import Any

import pytest

from tests.integration.conftest import Project, Served, entry

TOKEN = "canary-token-8c02"
WRONG = "canary-wrong-17be"


@pytest.fixture
def guarded(project: Project, http: Served) -> Project:
    """A project with a server that takes one token, and with its name in the settings."""
    server = entry("guarded", {"echo": ["use"], "whoami": ["use"]}, endpoint=http("token", TOKEN).url)
    project.write(server, config='[servers.guarded]\ntoken_env = "GUARDED_TOKEN"\n')
    return project


def everything_said(project: Project, *commands: Any) -> str:
    """What these commands print, on both streams."""
    ran = [project.agent(*command) for command in commands]
    return "".join(done.stdout + done.stderr for done in ran)


COMMANDS = (
    ("tools", "list", "--trust"),
    ("tools", "list", "--trust", "--json"),
    ("tools", "call", "--trust", "guarded.echo", "{}", "-v"),
    ("doctor", "--trust"),
    ("audit", "show"),
    ("config", "show"),
)


def test_the_right_token_works_and_is_seen_nowhere(guarded: Project) -> None:
    guarded.environment["GUARDED_TOKEN"] = TOKEN

    assert guarded.outcome("guarded.whoami")["result"] == {"client": "tests", "scopes": ["use"]}
    assert "canary" not in everything_said(guarded, *COMMANDS)
    assert guarded.holds("canary") == []


def test_a_wrong_token_is_told_and_is_seen_nowhere(guarded: Project) -> None:
    guarded.environment["GUARDED_TOKEN"] = WRONG

    outcome = guarded.outcome("guarded.echo")

    assert (outcome["code"], outcome["message"]) == (
        "UNAUTHORIZED",
        "guarded refused our credentials (HTTP 401)",
    )
    assert outcome["remedy"] == 'check `[servers."guarded"]` in agent.toml'
    assert "canary" not in everything_said(guarded, *COMMANDS[1:4])
    assert guarded.holds("canary") == []


def test_a_token_that_is_not_there_waits_for_a_person(guarded: Project) -> None:
    first, second = guarded.outcome("guarded.echo"), guarded.outcome("guarded.echo")

    assert (first["status"], first["type"]) == ("pending", "SECRET")
    assert first["message"] == "Set the environment variable GUARDED_TOKEN for guarded"
    assert first["id"] == second["id"]
    listing = guarded.agent("tools", "list", "--trust")
    assert listing.returncode == 1
    assert f"✗ guarded@1.0.0: {first['message']}\n" in listing.stderr


def test_a_server_that_needs_a_token_and_is_given_none_is_told(project: Project, http: Served) -> None:
    project.write(entry("guarded", {"echo": ["use"]}, endpoint=http("token", TOKEN).url))

    assert project.outcome("guarded.echo")["code"] == "UNAUTHORIZED"
