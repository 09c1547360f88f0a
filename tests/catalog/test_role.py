"""Roles: who plays each, who stands in, and which file wins."""

from pathlib import Path

import pytest

from agent_resolver.catalog import AgentUri, parse_roles
from agent_resolver.schema import IssueCode, Severity
from tests.catalog.conftest import Make, agent, codes, uris

ROLES = """\
roles:
  architect:
    primary: development-core:architect
    fallbacks: [development-core:fullstack-developer, backend, frontend, one-too-many]
    capabilities: [system-design, "trade-offs, documented"]
    model: sonnet
    use_when: Designing systems
  reviewer:
    primary: code-reviewer
"""


def test_a_role_is_found_though_its_agent_is_a_file_already(tmp_path: Path, make: Make) -> None:
    """Every agent of the registry exists as a file too; that must not hide the role."""
    agent(tmp_path / "architect.md", model="haiku")
    (tmp_path / "roles.yaml").write_text(ROLES)
    catalog = make(tmp_path)

    assert uris(catalog, role="architect") == ["agent://architect"]


def test_what_the_team_agreed_on_wins_over_the_file(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "architect.md", model="haiku", fallbacks=["somebody"], role="dreamer", capabilities=["drawing"])
    (tmp_path / "roles.yaml").write_text(ROLES)
    catalog = make(tmp_path)
    entry = catalog.definition(AgentUri("agent://architect")).entry

    assert (entry.role, entry.model, entry.use_when) == ("architect", "sonnet", "Designing systems")
    assert entry.fallbacks == ("fullstack-developer", "backend", "frontend")
    assert entry.capabilities == ("drawing", "system-design", "trade-offs, documented")
    assert entry.front_matter["model"] == "haiku"
    assert uris(catalog, capability="trade-offs, documented") == ["agent://architect"]
    assert uris(catalog, capability="trade-offs") == []
    assert uris(catalog, model="haiku") == []


def test_the_file_counts_where_the_role_says_nothing(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "code-reviewer.md", model="haiku", fallbacks=list("abcde"), useWhen="always", description="python")
    (tmp_path / "roles.yaml").write_text(ROLES)
    entry = make(tmp_path).definition(AgentUri("agent://code-reviewer")).entry

    assert (entry.role, entry.model, entry.use_when) == ("reviewer", "haiku", "always")
    assert entry.fallbacks == ("a", "b", "c")
    assert (entry.capabilities, entry.is_derived) == (("python",), True)


def test_capabilities_of_a_role_take_the_place_of_derived_ones(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "architect.md", description="Knows python")
    (tmp_path / "roles.yaml").write_text(ROLES)
    entry = make(tmp_path).definition(AgentUri("agent://architect")).entry

    assert entry.capabilities == ("system-design", "trade-offs, documented")
    assert not entry.is_derived


def test_front_matter_alone_gives_a_role_too(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "a.md", role="tester", fallbacks=["b", "c", "d", "e"])
    agent(tmp_path / "b.md", role="tester")
    catalog = make(tmp_path)

    assert uris(catalog, role="tester") == ["agent://a", "agent://b"]
    assert catalog.definition(AgentUri("agent://a")).to_dict()["fallbacks"] == ("b", "c", "d")


def test_an_agent_that_plays_two_roles_is_found_by_both(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "a.md")
    (tmp_path / "roles.yaml").write_text(
        "one: {primary: a, model: m}\ntwo: {primary: team:a, fallbacks: [b], model: n}\n"
    )
    catalog = make(tmp_path)

    assert uris(catalog, role="one") == uris(catalog, role="two") == ["agent://a"]
    document = catalog.definition(AgentUri("agent://a")).to_dict()
    assert (document["role"], document["roles"], document["model"]) == ("one", ("one", "two"), "m")
    assert document["fallbacks"] == ("b",)


def test_roles_are_read_anew_when_their_file_changes(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "a.md")
    catalog = make(tmp_path)
    assert catalog.definition(AgentUri("agent://a")).entry.role is None
    listing = catalog.listing

    (tmp_path / "roles.yaml").write_text("boss: {primary: a}\n")
    assert catalog.refresh().uris == {"agent://a"}
    assert catalog.definition(AgentUri("agent://a")).entry.role == "boss"
    assert catalog.listing != listing

    (tmp_path / "roles.yaml").unlink()
    assert catalog.refresh().uris == {"agent://a"}
    assert catalog.definition(AgentUri("agent://a")).entry.role is None
    assert catalog.listing == listing


def test_of_two_roots_the_first_decides_who_an_agent_is(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "1" / "a.md")
    (tmp_path / "1" / "roles.yaml").write_text("first: {primary: a}\n")
    agent(tmp_path / "2" / "b.md")
    (tmp_path / "2" / "roles.yaml").write_text("second: {primary: a}\nthird: {primary: b}\nnone: {primary: x}\n")
    catalog = make(tmp_path / "1", tmp_path / "2")

    assert uris(catalog, role="first") == ["agent://a"]
    assert uris(catalog, role="second") == []
    assert uris(catalog, role="third") == ["agent://b"]
    [finding] = catalog.findings()
    assert (finding.path, finding.issue.code) == (str(tmp_path / "2" / "roles.yaml"), IssueCode.UNKNOWN_AGENT)


def test_an_agent_of_a_role_that_is_not_there_is_reported_with_its_file(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "architect.md")
    (tmp_path / "roles.yaml").write_text(ROLES)
    found = make(tmp_path).findings()

    assert {finding.path for finding in found} == {str(tmp_path / "roles.yaml")}
    assert [finding.issue.message for finding in found] == [
        f"No agent is called `{name}`" for name in ("fullstack-developer", "backend", "frontend", "code-reviewer")
    ]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"a: [\n", IssueCode.SYNTAX),
        (b"- a\n", IssueCode.INVALID_TYPE),
        (b"roles: [a]\n", IssueCode.INVALID_TYPE),
        (b"a: b\n", IssueCode.REQUIRED),
        (b"a: {fallbacks: [b]}\n", IssueCode.REQUIRED),
        (b"a: {primary: [b]}\n", IssueCode.REQUIRED),
        (b"a: {primary: 1}\n", IssueCode.REQUIRED),
        (b"\xff", IssueCode.ENCODING),
        (b"\x00", IssueCode.CONTROL_CHARACTER),
    ],
)
def test_a_faulty_file_of_roles_is_a_warning_and_agents_are_served(
    tmp_path: Path, make: Make, content: bytes, code: IssueCode
) -> None:
    agent(tmp_path / "x.md")
    (tmp_path / "roles.yaml").write_bytes(content)
    catalog = make(tmp_path)

    assert uris(catalog) == ["agent://x"]
    assert codes(catalog) == [code]
    assert catalog.findings()[0].issue.severity is Severity.WARNING


def test_odd_values_of_a_role_count_as_absent() -> None:
    roles, issues = parse_roles(
        b"a: {primary: x, fallbacks: {b: c}, capabilities: 3, model: '', use_when: null}\nb: {primary: y, fallbacks: z}"
    )

    assert not issues
    assert (roles["x"].fallbacks, roles["x"].capabilities, roles["x"].model, roles["x"].use_when) == ((), (), None, "")
    assert roles["y"].fallbacks == ("z",)


def test_a_link_in_place_of_the_roles_is_not_followed(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "root" / "a.md")
    (tmp_path / "secret.yaml").write_text("boss: {primary: a}\n")
    (tmp_path / "root" / "roles.yaml").symlink_to(tmp_path / "secret.yaml")
    catalog = make(tmp_path / "root")

    assert uris(catalog, role="boss") == []
    assert [finding.issue.severity for finding in catalog.findings()] == [Severity.WARNING]


def test_a_folder_in_place_of_the_roles_is_a_warning(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "a.md")
    (tmp_path / "roles.yaml").mkdir()

    assert codes(make(tmp_path)) == [IssueCode.LIMIT]
