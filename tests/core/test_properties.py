"""Laws that hold for every agent file and every index."""

import json
from collections.abc import Sequence
from hashlib import sha256
from itertools import product

from hypothesis import assume, given, strategies as st
from msgspec import UNSET, UnsetType, structs, to_builtins

from agent_resolver import (
    AgentFile,
    Lockfile,
    RejectionCode,
    Server,
    explain,
    parse_lockfile,
    resolve,
    to_json,
)
from agent_resolver.core import judge, limits_of, preference, resolver
from agent_resolver.schema import Constraints, DataConstraints, Requirement, Requires, TrustConstraints
from tests.core import oracle
from tests.core.strategies import (
    LAW,
    OFFERED_RESIDENCIES,
    RESIDENCIES,
    SENSITIVITIES,
    Case,
    agent_files,
    cases,
    forbidding,
    narrow_agents,
    patterns,
    servers,
    shuffled,
    solvable_cases,
)
from tests.strategies import law

SIGNATURES: tuple[bool | UnsetType, ...] = (UNSET, False, True)


def outputs(agent: AgentFile, offered: Sequence[Server]) -> tuple[bytes, bytes]:
    resolution = resolve(agent, offered)
    return to_json(resolution.lockfile), to_json(resolution.explanation)


def with_requirements(agent: AgentFile, mcp: tuple[Requirement, ...]) -> AgentFile:
    return structs.replace(agent, requires=structs.replace(agent.requires, mcp=mcp))


# Order ----------------------------------------------------------------------------------------------------------------


@LAW
@given(case=cases, data=st.data())
def test_order_of_the_index_never_reaches_the_output(case: Case, data: st.DataObject) -> None:
    assert outputs(case.agent, shuffled(data, case.servers)) == outputs(case.agent, case.servers)


@LAW
@given(case=cases, data=st.data())
def test_order_of_the_requirements_never_reaches_the_output(case: Case, data: st.DataObject) -> None:
    reordered = with_requirements(case.agent, shuffled(data, case.agent.requires.mcp))

    assert outputs(reordered, case.servers) == outputs(case.agent, case.servers)


@LAW
@given(case=cases, data=st.data())
def test_order_of_the_permissions_never_reaches_the_output(case: Case, data: st.DataObject) -> None:
    mcp = case.agent.requires.mcp
    reordered = tuple(structs.replace(need, permissions=shuffled(data, need.permissions)) for need in mcp)

    assert outputs(with_requirements(case.agent, reordered), case.servers) == outputs(case.agent, case.servers)


@LAW
@given(case=solvable_cases(), data=st.data())
def test_order_inside_a_server_never_reaches_the_output(case: Case, data: st.DataObject) -> None:
    """A residency list is left as it is: a rejected one can only hold one word."""
    reordered = tuple(
        structs.replace(
            server,
            categories=shuffled(data, server.categories),
            scopes=server.scopes and shuffled(data, server.scopes),
            tool_scopes=shuffled_map(data, dict(server.tool_scopes or {})),
        )
        for server in case.servers
    )

    assert outputs(case.agent, reordered) == outputs(case.agent, case.servers)


def shuffled_map(data: st.DataObject, tool_scopes: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {tool: shuffled(data, scopes) for tool, scopes in shuffled(data, tuple(tool_scopes.items()))}


@LAW
@given(case=cases, forbid=st.lists(patterns, min_size=2, max_size=4).map(tuple), data=st.data())
def test_order_of_the_forbidden_patterns_never_reaches_the_output(
    case: Case, forbid: tuple[str, ...], data: st.DataObject
) -> None:
    agent, reordered = forbidding(case.agent, forbid), forbidding(case.agent, shuffled(data, forbid))

    assert outputs(reordered, case.servers) == outputs(agent, case.servers)


@LAW
@given(cases)
def test_the_lock_and_the_explanation_are_sorted_by_code_point(case: Case) -> None:
    resolution = resolve(case.agent, case.servers)

    for requirement in resolution.explanation.requirements:
        assert list(requirement.required_permissions) == by_code_point(requirement.required_permissions)
        names = [(found.server_id, found.version) for found in requirement.rejected]
        assert names == sorted(names, key=lambda name: (oracle.code_points(name[0]), oracle.code_points(name[1])))
    listed = [requirement.category for requirement in resolution.explanation.requirements]
    assert listed == by_code_point(listed)
    if resolution.lockfile:
        assert [server.category for server in resolution.lockfile.servers] == listed


def by_code_point(texts: Sequence[str]) -> list[str]:
    return sorted(texts, key=oracle.code_points)


# Choice ---------------------------------------------------------------------------------------------------------------


@law(300)
@given(cases)
def test_resolve_agrees_with_the_specification(case: Case) -> None:
    for choice in resolve(case.agent, case.servers).choices:
        assert choice.server is oracle.selected(case.servers, choice.requirement, case.agent)


@law(300)
@given(cases)
def test_every_rejection_code_agrees_with_the_specification(case: Case) -> None:
    for requirement in explain(case.agent, case.servers).requirements:
        asked = Requirement(category=requirement.category, permissions=requirement.required_permissions)
        by_name = {(found.server_id, found.version): found.reason.code for found in requirement.rejected}
        winner = oracle.selected(case.servers, asked, case.agent)
        expected = {
            (server.id, server.version): oracle.broken_rule(server, asked, case.agent) or RejectionCode.LOST_TIE_BREAK
            for server in case.servers
            if server is not winner
        }
        assert by_name == expected


def test_every_combination_of_constraint_and_fact_is_judged_as_specified() -> None:
    """No draws: each residency, sensitivity and signature asked for, against each that a server may state."""
    need = Requirement(category="reporting", permissions=("read:reports",))
    facts = list(product(OFFERED_RESIDENCIES, (None, *SENSITIVITIES), (None, False, True)))
    offered = [Server("acme", "1", "https://mcp.example", ("reporting",), ("read:reports",), *fact) for fact in facts]

    for residency, sensitivity, signed in product((UNSET, *RESIDENCIES), (UNSET, *SENSITIVITIES), SIGNATURES):
        constraints = Constraints(
            data=DataConstraints(residency=residency, sensitivity=sensitivity),
            trust=TrustConstraints(require_signed=signed),
        )
        agent = AgentFile(name="a", version="1", requires=Requires(mcp=(need,)), constraints=constraints)
        first_broken = judge(need, limits_of(agent))
        found = [reason and reason.code for reason in map(first_broken, offered)]
        assert found == [oracle.broken_rule(server, need, agent) for server in offered]


@LAW
@given(cases)
def test_every_server_appears_once_per_requirement(case: Case) -> None:
    every = sorted((server.id, server.version) for server in case.servers)

    for requirement in explain(case.agent, case.servers).requirements:
        selected = requirement.selected
        named = [(found.server_id, found.version) for found in requirement.rejected]
        named += [(selected.server_id, selected.version)] if selected else []
        assert sorted(named) == every


@LAW
@given(cases)
def test_the_selected_server_is_the_most_preferred_of_those_that_break_no_rule(case: Case) -> None:
    limits = limits_of(case.agent)

    for choice in resolve(case.agent, case.servers).choices:
        first_broken = judge(choice.requirement, limits)
        unbroken = [server for server in case.servers if first_broken(server) is None]
        assert (choice.server is None) is (unbroken == [])
        assert choice.server is None or choice.server in unbroken
        assert choice.server is None or preference(choice.server) == min(map(preference, unbroken))
        assert choice.is_only is (len(unbroken) == 1)


@LAW
@given(cases)
def test_each_requirement_of_the_agent_file_is_answered_once(case: Case) -> None:
    asked = [(need.category, tuple(sorted(need.permissions))) for need in case.agent.requires.mcp]

    resolution = resolve(case.agent, case.servers)

    answered = [(choice.requirement.category, choice.requirement.permissions) for choice in resolution.choices]
    assert sorted(answered) == sorted(asked)
    assert resolution.success is all(choice.server for choice in resolution.choices)
    assert (resolution.lockfile is None) is (not resolution.success)


@LAW
@given(case=solvable_cases(), extra=servers, shape=st.sampled_from(("category", "scopes", "as it is")))
def test_adding_a_server_that_no_requirement_accepts_never_changes_the_lock(
    case: Case, extra: Server, shape: str
) -> None:
    if shape == "category":
        extra = structs.replace(extra, categories=())
    elif shape == "scopes":
        extra = structs.replace(extra, scopes=())
    assume((extra.id, extra.version) not in {(server.id, server.version) for server in case.servers})
    assume(all(oracle.broken_rule(extra, need, case.agent) for need in case.agent.requires.mcp))

    before, after = resolve(case.agent, case.servers), resolve(case.agent, (extra, *case.servers))

    assert to_json(after.lockfile) == to_json(before.lockfile)


@LAW
@given(case=solvable_cases(), data=st.data())
def test_removing_a_rejected_server_never_changes_the_lock(case: Case, data: st.DataObject) -> None:
    chosen = [choice.server for choice in resolve(case.agent, case.servers).choices]
    others = [server for server in case.servers if not any(server is one for one in chosen)]
    gone = data.draw(st.sets(st.sampled_from(range(len(others)))) if others else st.just(set()))
    kept = [server for server in case.servers if all(server is not others[position] for position in gone)]

    assert to_json(resolve(case.agent, kept).lockfile) == to_json(resolve(case.agent, case.servers).lockfile)


# Lock -----------------------------------------------------------------------------------------------------------------


def lock_of(case: Case) -> Lockfile:
    lockfile = resolve(case.agent, case.servers).lockfile
    assert lockfile is not None
    return lockfile


@LAW
@given(solvable_cases())
def test_a_lock_survives_being_written_and_read(case: Case) -> None:
    lockfile = lock_of(case)
    written = to_json(lockfile)

    assert parse_lockfile(written) == lockfile
    assert to_json(parse_lockfile(written)) == written


@LAW
@given(solvable_cases())
def test_the_hash_of_every_lock_entry_can_be_computed_from_the_entry(case: Case) -> None:
    for pin in lock_of(case).servers:
        pinned = f"{pin.server_id}@{pin.version}|{pin.endpoint}|{','.join(sorted(pin.scopes))}"
        assert pin.hash == sha256(pinned.encode()).hexdigest()


@LAW
@given(solvable_cases())
def test_an_entry_beyond_the_first_format_has_an_integrity_that_covers_it(case: Case) -> None:
    lockfile = lock_of(case)

    for pin in lockfile.servers:
        if all(value is UNSET for value in (pin.launch, pin.tool_scopes, pin.transport, pin.tools)):
            assert pin.integrity is UNSET
        else:
            stated = {key: value for key, value in to_builtins(pin).items() if key != "integrity"}
            canonical = json.dumps(stated, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
            assert pin.integrity == f"sha256-{sha256(canonical.encode()).hexdigest()}"
    assert (lockfile.lock_version == 2) is any(pin.integrity for pin in lockfile.servers)


@LAW
@given(case=cases, resolved_at=st.sampled_from(("2025-01-15T10:30:00.000Z", "1999-12-31T23:59:59.999Z")))
def test_the_time_reaches_resolved_at_and_nothing_else(case: Case, resolved_at: str) -> None:
    dated, undated = resolve(case.agent, case.servers, resolved_at=resolved_at), resolve(case.agent, case.servers)

    assert dated.explanation == structs.replace(undated.explanation, resolved_at=resolved_at)
    assert dated.lockfile == (undated.lockfile and structs.replace(undated.lockfile, resolved_at=resolved_at))


# Many agent files -----------------------------------------------------------------------------------------------------


@LAW
@given(case=cases, others=st.lists(agent_files | narrow_agents, max_size=4), data=st.data())
def test_one_resolver_for_many_agent_files_does_what_resolve_does_for_each(
    case: Case, others: list[AgentFile], data: st.DataObject
) -> None:
    time = "2025-01-15T10:30:00.000Z"
    resolve_each = resolver(shuffled(data, case.servers), resolved_at=time)

    for agent in (case.agent, *others, case.agent):
        one, other = resolve_each(agent), resolve(agent, case.servers, resolved_at=time)
        assert to_json(one.lockfile) == to_json(other.lockfile)
        assert to_json(one.explanation) == to_json(other.explanation)
        assert [choice.server for choice in one.choices] == [choice.server for choice in other.choices]


def test_a_resolver_may_be_given_servers_that_can_be_read_once() -> None:
    need = Requirement(category="files", permissions=("read",))
    agent = AgentFile(name="a", version="1", requires=Requires(mcp=(need,)))
    resolve_each = resolver(Server(name, "1", "x", ("files",), ("read",)) for name in "ba")

    assert [str(choice.server) for _ in range(2) for choice in resolve_each(agent).choices] == ["a@1", "a@1"]
