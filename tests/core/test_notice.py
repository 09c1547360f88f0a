"""Warnings and hints about files that are valid, each with its place."""

from typing import Any

import pytest
from msgspec import json

from agent_resolver.core import agent_file_notices, index_notices
from agent_resolver.schema import Issue, IssueCode, Severity, read_agent_file, read_index

SEMANTIC = ["0.0.0", "1.0.0", "10.20.30", "1.0.0-rc.1", "1.0.0-0a", "1.0.0--", "1.0.0+build.01", "1.0.0-a.b+c.d"]
NOT_SEMANTIC = ["1", "1.0", "v1.0.0", "01.0.0", "1.0.0-01", "1.0.0-", "1.0.0+", "1.0.0 ", "1.0.1٣", "latest"]


def agent_notices(front_matter: str) -> list[Issue]:
    reading = read_agent_file(f"---\n{front_matter}---\n".encode())
    assert reading.agent is not None
    return agent_file_notices(reading.agent, reading.tree)


def server_notices(**keys: Any) -> list[Issue]:
    entry = {
        "id": "acme",
        "version": "1.0.0",
        "endpoint": "https://mcp.acme.example/mcp",
        "categories": ["reporting"],
        "scopes": ["read:reports"],
        "data": {"residency": ["any"], "maxSensitivity": "public"},
        "trust": {"signed": True, "publisher": "Acme"},
    }
    stated = {key: value for key, value in {**entry, **keys}.items() if value is not None}
    reading = read_index(json.encode([stated]))
    assert reading.value is not None
    return index_notices(reading.value, reading.tree)


def line(issue: Issue) -> str:
    return f"{issue.line}:{issue.column} {issue.severity} {issue.code} {issue}"


def test_an_agent_file_that_says_everything_has_no_notices() -> None:
    assert (
        agent_notices("""\
name: reporter
version: 1.0.0
requires: { mcp: [{ category: reporting, permissions: [read:reports, write:reports] }] }
constraints: { data: { residency: any }, actions: { forbid: ["delete:*"] } }
""")
        == []
    )


def test_every_notice_about_an_agent_file_names_its_place() -> None:
    notices = agent_notices("""\
name: reporter
version: "1.0"
requires:
  mcp:
    - category: reporting
      permissions:
        - write:reports
        - read:reports
        - write:reports
    - category: analytics
      permissions: [write:metrics]
constraints:
  data:
    sensitivity: public
  actions:
    forbid: ["write:*", "*:reports", "write:*"]
""")

    assert (
        [f"{line(issue)}\n" for issue in notices]
        == """\
3:1 hint version-not-semantic version: '1.0' is not a semantic version
14:3 hint residency-absent constraints.data.residency: Absent, so data may go to any region
9:11 warning forbidden-scope requires.mcp.0.permissions.1: 'read:reports' is required, and forbidden by '*:reports': \
no server can be chosen
8:11 warning forbidden-scope requires.mcp.0.permissions.0: 'write:reports' is required, and forbidden by '*:reports': \
no server can be chosen
8:11 warning forbidden-scope requires.mcp.0.permissions.0: 'write:reports' is required, and forbidden by 'write:*': \
no server can be chosen
12:21 warning forbidden-scope requires.mcp.1.permissions.0: 'write:metrics' is required, and forbidden by 'write:*': \
no server can be chosen
10:11 warning duplicate-scope requires.mcp.0.permissions.2: 'write:reports' is listed twice
""".splitlines(keepends=True)
    )


def test_a_permission_listed_three_times_is_noticed_twice() -> None:
    notices = agent_notices("""\
name: reporter
version: 1.0.0
requires: { mcp: [{ category: reporting, permissions: [a, a, b, a] }, { category: reporting, permissions: [a] }] }
constraints: { data: { residency: any } }
""")

    assert [issue.at for issue in notices] == [
        ("requires", "mcp", 0, "permissions", 1),
        ("requires", "mcp", 0, "permissions", 3),
    ]


def test_every_notice_has_a_hint_that_one_can_act_on_where_there_is_one() -> None:
    notices = agent_notices("""\
name: reporter
version: "1"
requires: { mcp: [{ category: reporting, permissions: [a] }] }
constraints: { actions: { forbid: [a] } }
""")

    assert {issue.code: issue.hint for issue in notices} == {
        IssueCode.VERSION_NOT_SEMANTIC: "use a form such as `1.2.3`",
        IssueCode.RESIDENCY_ABSENT: "say `any`, `us-only` or `eu-only`",
        IssueCode.FORBIDDEN_SCOPE: "drop the permission, or narrow `constraints.actions.forbid`",
    }


def test_a_large_agent_file_is_looked_through_in_moments() -> None:
    """Tens of thousands of permissions fit into a file that is allowed; comparing each with each would take long."""
    scopes = ", ".join(f"s{number:x}" for number in range(30_000))

    notices = agent_notices(f"""\
name: reporter
version: 1.0.0
requires: {{ mcp: [{{ category: reporting, permissions: [{scopes}, s0] }}] }}
constraints: {{ data: {{ residency: any }} }}
""")

    assert [issue.code for issue in notices] == [IssueCode.DUPLICATE_SCOPE]


@pytest.mark.parametrize("version", SEMANTIC)
def test_a_semantic_version_is_not_worth_a_word(version: str) -> None:
    assert server_notices(version=version) == []


@pytest.mark.parametrize("version", NOT_SEMANTIC)
def test_another_version_gets_a_hint(version: str) -> None:
    assert [line(issue) for issue in server_notices(version=version)] == [
        f"1:15 hint version-not-semantic 0.version: '{version}' is not a semantic version"
    ]


@pytest.mark.parametrize("endpoint", ["https://mcp.acme.example", "http://[::1]:8080/mcp?x#y", "ws+unix://socket"])
def test_a_url_is_not_worth_a_word(endpoint: str) -> None:
    assert server_notices(endpoint=endpoint) == []


@pytest.mark.parametrize(
    "endpoint", ["mcp.acme.example", "https://", "https:///path", "://x", "1https://x", "localhost:80"]
)
def test_another_endpoint_gets_a_hint(endpoint: str) -> None:
    (notice,) = server_notices(endpoint=endpoint)

    assert (notice.at, notice.code, notice.severity) == ((0, "endpoint"), IssueCode.ENDPOINT_NOT_URL, Severity.HINT)
    assert notice.message == f"'{endpoint}' is not a URL"


def test_a_launched_server_needs_no_url() -> None:
    assert server_notices(endpoint=None, launch={"command": "acme"}) == []


def test_a_tool_map_that_names_a_scope_the_server_does_not_offer_is_warned_of() -> None:
    notices = server_notices(toolScopes={"list": ["read:reports"], "drop": ["read:reports", "delete:reports"]})

    assert [(issue.severity, issue.code, str(issue)) for issue in notices] == [
        (
            Severity.WARNING,
            IssueCode.UNKNOWN_SCOPE,
            "0.toolScopes.drop: 'delete:reports' is not among the scopes of the server",
        )
    ]


def test_scopes_of_a_tool_are_not_warned_of_where_those_of_the_server_are_not_known() -> None:
    assert server_notices(scopes=None, toolScopes={"list": ["read:reports"]}) == []
