"""A failed requirement says what would make it resolve, and what it says is true."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import Phase, given, settings, strategies as st
from msgspec import UNSET, structs

from agent_resolver import AgentFile, RejectionCode, Server, resolve, to_json
from agent_resolver.core import apply_edits, edited, every_broken, limits_of
from agent_resolver.schema import (
    ActionConstraints,
    Constraints,
    DataConstraints,
    Edit,
    EditKind,
    FailedRequirement,
    Requirement,
    Requires,
    Suggestion,
    TrustConstraints,
)
from tests.core.strategies import LAW, Case, cases, narrow_cases, shuffled
from tests.strategies import law

MOSTLY = law(250)
NARROW_OR_ANY = narrow_cases | cases


def requirement_of(failed: FailedRequirement) -> Requirement:
    return Requirement(category=failed.category, permissions=failed.required_permissions)


def after(agent: AgentFile, failed: FailedRequirement, suggestion: Suggestion) -> AgentFile:
    return apply_edits(agent, requirement_of(failed), suggestion.edits)


def suggested(case: Case) -> list[tuple[FailedRequirement, Suggestion]]:
    failures = resolve(case.agent, case.servers).failures
    return [(failed, suggestion) for failed in failures for suggestion in failed.suggestions]


# Laws -----------------------------------------------------------------------------------------------------------------


@MOSTLY
@given(case=NARROW_OR_ANY)
def test_an_applied_suggestion_resolves_and_takes_no_server_from_another(case: Case) -> None:
    resolution = resolve(case.agent, case.servers)

    for failed, suggestion in suggested(case):
        changed = resolve(after(case.agent, failed, suggestion), case.servers)

        assert edited(requirement_of(failed), suggestion.edits) not in changed.failed
        assert set(changed.failed) < set(resolution.failed)
        assert suggestion.resolves_all is changed.success


@MOSTLY
@given(case=NARROW_OR_ANY)
def test_the_server_that_a_suggestion_names_is_the_one_that_is_chosen_after_it(case: Case) -> None:
    for failed, suggestion in suggested(case):
        changed = resolve(after(case.agent, failed, suggestion), case.servers)
        need = edited(requirement_of(failed), suggestion.edits)

        chosen = {str(choice.server) for choice in changed.choices if choice.requirement == need}
        assert chosen == {f"{suggestion.server_id}@{suggestion.version}"}


@MOSTLY
@given(case=NARROW_OR_ANY)
def test_whoever_follows_the_first_suggestion_again_and_again_ends_with_a_lock(case: Case) -> None:
    resolution = resolve(case.agent, case.servers)
    while not resolution.success:
        failed = next((failed for failed in resolution.failures if failed.suggestions), None)
        if failed is None:
            return
        resolution = resolve(after(resolution.agent, failed, failed.suggestions[0]), case.servers)

    assert resolution.lockfile


@MOSTLY
@given(case=narrow_cases)
def test_there_are_at_most_two_kinds_of_suggestions_and_three_near_misses(case: Case) -> None:
    for failed in resolve(case.agent, case.servers).failures:
        kinds = [{edit.kind for edit in suggestion.edits} for suggestion in failed.suggestions]

        assert len(failed.suggestions) <= 2
        assert kinds == [each for position, each in enumerate(kinds) if each not in kinds[:position]]
        assert len(failed.nearest) <= 3


@MOSTLY
@given(case=narrow_cases)
def test_every_edit_of_a_suggestion_is_needed(case: Case) -> None:
    """Without any one of them the requirement fails still, or another does that did not."""
    before = {*resolve(case.agent, case.servers).failed}
    for failed, suggestion in suggested(case):
        for spared in suggestion.edits:
            fewer = [edit for edit in suggestion.edits if edit is not spared]
            failing = {*resolve(apply_edits(case.agent, requirement_of(failed), fewer), case.servers).failed}
            assert edited(requirement_of(failed), fewer) in failing or not failing <= before


def changed_keys(old: AgentFile, new: AgentFile) -> set[str]:
    before, now = limits_of(old), limits_of(new)
    named = {
        "constraints.data.residency": before.residency != now.residency,
        "constraints.data.sensitivity": before.sensitivity != now.sensitivity,
        "constraints.trust.requireSigned": before.require_signed != now.require_signed,
        "constraints.actions.forbid": before.forbid != now.forbid,
    }
    return {key for key, is_other in named.items() if is_other}


@MOSTLY
@given(case=narrow_cases)
def test_a_suggestion_changes_what_its_edits_name_and_nothing_else(case: Case) -> None:
    for failed, suggestion in suggested(case):
        need, new = requirement_of(failed), after(case.agent, failed, suggestion)
        constraining = [edit for edit in suggestion.edits if edit.path.startswith("constraints.")]

        assert changed_keys(case.agent, new) == {edit.path for edit in constraining}
        assert suggestion.loosens is bool(constraining)
        gone = {edit.before for edit in constraining if edit.kind is EditKind.ALLOW_ACTION}
        assert limits_of(new).forbid == tuple(each for each in limits_of(case.agent).forbid if each not in gone)
        for old, now in zip(case.agent.requires.mcp, new.requires.mcp, strict=True):
            is_meant = (old.category, sorted(old.permissions)) == (need.category, sorted(need.permissions))
            assert now == (edited(need, suggestion.edits) if is_meant else old)
        assert structs.replace(new, requires=case.agent.requires, constraints=UNSET) == structs.replace(
            case.agent, constraints=UNSET
        )


@MOSTLY
@given(case=narrow_cases)
def test_what_is_asked_for_after_a_suggestion_is_never_more_than_was_asked_for(case: Case) -> None:
    """A slip is mended one for one; a scope is never put in, and the last is never taken out."""
    for failed, suggestion in suggested(case):
        need = edited(requirement_of(failed), suggestion.edits)
        meant = {edit.before: edit.after for edit in suggestion.edits if edit.kind is EditKind.FIX_SCOPE}

        assert need.permissions
        assert {*need.permissions} <= {meant.get(scope, scope) for scope in failed.required_permissions}


@MOSTLY
@given(case=narrow_cases)
def test_a_fact_that_nobody_states_is_never_waved_through(case: Case) -> None:
    unknown = {RejectionCode.RESIDENCY_UNKNOWN, RejectionCode.SENSITIVITY_UNKNOWN}
    for failed, suggestion in suggested(case):
        need = edited(requirement_of(failed), suggestion.edits)
        changed = resolve(after(case.agent, failed, suggestion), case.servers)
        for server in (choice.server for choice in changed.choices if choice.requirement == need):
            assert server
            assert not unknown.intersection(found.code for found in every_broken(server, need, limits_of(case.agent)))
            if any(edit.kind is EditKind.ALLOW_UNSIGNED for edit in suggestion.edits):
                assert server.signed is not None


@MOSTLY
@given(case=narrow_cases, data=st.data())
def test_no_order_of_anything_reaches_the_suggestions(case: Case, data: st.DataObject) -> None:
    mcp = [
        structs.replace(need, permissions=shuffled(data, need.permissions))
        for need in shuffled(data, case.agent.requires.mcp)
    ]
    agent = structs.replace(case.agent, requires=Requires(mcp=tuple(mcp)))
    servers = tuple(
        structs.replace(
            server, categories=shuffled(data, server.categories), scopes=server.scopes and shuffled(data, server.scopes)
        )
        for server in shuffled(data, case.servers)
    )

    assert to_json(resolve(agent, servers).failures) == to_json(resolve(case.agent, case.servers).failures)


@LAW
@given(case=narrow_cases)
def test_a_failure_is_explained_and_a_success_is_not(case: Case) -> None:
    resolution = resolve(case.agent, case.servers)

    assert resolution.explanation.failed == (resolution.failures or UNSET)
    assert [requirement_of(failed) for failed in resolution.failures] == list(resolution.failed)


@pytest.mark.slow
def test_the_laws_above_meet_edits_of_every_kind_and_suggestions_of_both_outcomes() -> None:
    """A law about suggestions says nothing where none is made, so here they are counted."""
    kinds: Counter[EditKind] = Counter()
    outcomes: Counter[bool] = Counter()
    pairs = 0

    @settings(MOSTLY, max_examples=250, derandomize=True, database=None, phases=[Phase.generate])
    @given(case=narrow_cases)
    def count(case: Case) -> None:
        nonlocal pairs
        for failed in resolve(case.agent, case.servers).failures:
            pairs += len(failed.suggestions) == 2
            for suggestion in failed.suggestions:
                outcomes[suggestion.resolves_all] += 1
                kinds.update({edit.kind for edit in suggestion.edits})

    count()

    assert {kind: number for kind in EditKind if (number := kinds[kind]) < 5} == {}
    assert min(outcomes[True], outcomes[False], pairs) >= 10


# Single stories -------------------------------------------------------------------------------------------------------

READ = ("reporting", ("read:reports",))


def server(name: str, **facts: Any) -> Server:
    """A server that breaks no rule of any agent here, but for the facts given."""
    known: dict[str, Any] = {
        "categories": ("reporting",),
        "scopes": ("read:reports",),
        "residency": ("eu-only",),
        "max_sensitivity": "pii.high",
        "signed": True,
    }
    return Server(name, "1", f"https://{name}.example", **{**known, **facts})


def agent(*needs: tuple[str, tuple[str, ...]], **constraints: Any) -> AgentFile:
    return AgentFile(
        name="reporter",
        version="1",
        requires=Requires(mcp=tuple(Requirement(category=name, permissions=scopes) for name, scopes in needs)),
        constraints=Constraints(**constraints) if constraints else UNSET,
    )


def told(asking: AgentFile, *servers: Server) -> list[list[str]]:
    """The suggestions for the first failed requirement, each as its server and its edits."""
    failures = resolve(asking, servers).failures
    return [[each.server_id, *map(str, each.edits)] for each in failures[0].suggestions]


EU_ONLY = DataConstraints(residency="eu-only")
SIGNED = TrustConstraints(require_signed=True)

STORIES: dict[str, tuple[AgentFile, tuple[Server, ...], list[list[str]]]] = {
    "the category misspelt": (
        agent(("reportin", ("read:reports",))),
        (server("acme"),),
        [["acme", "write `reporting` for `reportin` in `category`"]],
    ),
    "a scope misspelt": (
        agent(("reporting", ("raed:reports",))),
        (server("acme"),),
        [["acme", "write `read:reports` for `raed:reports` in `permissions`"]],
    ),
    "two slips of one scope": (
        agent(("reporting", ("raed:reports", "Read:Reports"))),
        (server("acme"),),
        [
            [
                "acme",
                "drop `raed:reports` from `permissions`",
                "write `read:reports` for `Read:Reports` in `permissions`",
            ]
        ],
    ),
    "a slip of a scope that is asked for already": (
        agent(("reporting", ("raed:reports", "read:reports"))),
        (server("acme"),),
        [["acme", "drop `raed:reports` from `permissions`"]],
    ),
    "a slip of one of two scopes": (
        agent(("reporting", ("read:reportsx", "write:reports"))),
        (server("acme", scopes=("read:reports", "read:reportsy", "write:reports")),),
        [["acme", "drop `read:reportsx` from `permissions`"]],
    ),
    "a scope that nobody has": (
        agent(("reporting", ("read:reports", "delete:reports"))),
        (server("acme"),),
        [["acme", "drop `delete:reports` from `permissions`"]],
    ),
    "the only scope, and nobody has it": (agent(("reporting", ("delete:reports",))), (server("acme"),), []),
    "the wrong region": (
        agent(READ, data=EU_ONLY),
        (server("acme", residency=("us-only",)),),
        [["acme", "set `constraints.data.residency` to `us-only`, which is `eu-only` now"]],
    ),
    "no region at all": (
        agent(READ, data=EU_ONLY),
        (server("acme", residency=()),),
        [["acme", "set `constraints.data.residency` to `any`, which is `eu-only` now"]],
    ),
    "a sensitivity too high": (
        agent(READ, data=DataConstraints(sensitivity="pii.high")),
        (server("acme", max_sensitivity="pii.low"),),
        [["acme", "set `constraints.data.sensitivity` to `pii.low`, which is `pii.high` now"]],
    ),
    "no signature": (
        agent(READ, trust=SIGNED),
        (server("acme", signed=False),),
        [["acme", "set `constraints.trust.requireSigned` to `false`, which is `true` now"]],
    ),
    "the only scope forbidden": (
        agent(READ, actions=ActionConstraints(forbid=("read:*", "write:*", "*:reports"))),
        (server("acme"),),
        [
            [
                "acme",
                "drop `*:reports` from `constraints.actions.forbid`",
                "drop `read:*` from `constraints.actions.forbid`",
            ]
        ],
    ),
    "one of two scopes forbidden": (
        agent(("reporting", ("read:reports", "write:reports")), actions=ActionConstraints(forbid=("write:*",))),
        (server("acme", scopes=("read:reports", "write:reports")),),
        [
            ["acme", "drop `write:reports` from `permissions`"],
            ["acme", "drop `write:*` from `constraints.actions.forbid`"],
        ],
    ),
    "a slip of a scope that is forbidden": (
        agent(("reporting", ("wirte:reports", "read:reports")), actions=ActionConstraints(forbid=("write:*",))),
        (server("acme", scopes=("read:reports", "write:reports")),),
        [["acme", "drop `wirte:reports` from `permissions`"]],
    ),
    "a slip before a dropped scope": (
        agent(("reporting", ("read:reports", "wirte:reports"))),
        (server("acme"), server("beta", scopes=("read:reports", "write:reports"))),
        [
            ["beta", "write `write:reports` for `wirte:reports` in `permissions`"],
            ["acme", "drop `wirte:reports` from `permissions`"],
        ],
    ),
    "a dropped scope before a loosened constraint": (
        agent(("reporting", ("read:reports", "write:reports")), trust=SIGNED),
        (server("acme", scopes=("read:reports", "write:reports"), signed=False), server("beta")),
        [
            ["beta", "drop `write:reports` from `permissions`"],
            ["acme", "set `constraints.trust.requireSigned` to `false`, which is `true` now"],
        ],
    ),
    "one scope fewer before two": (
        agent(("reporting", ("a", "read:reports", "write:reports"))),
        (server("acme"), server("beta", scopes=("read:reports", "write:reports"))),
        [["beta", "drop `a` from `permissions`"]],
    ),
    "one region before any": (
        agent(READ, data=EU_ONLY),
        (server("acme", residency=()), server("beta", residency=("us-only",))),
        [["beta", "set `constraints.data.residency` to `us-only`, which is `eu-only` now"]],
    ),
    "one constraint before two": (
        agent(READ, trust=SIGNED, data=EU_ONLY),
        (server("acme", signed=False, residency=("us-only",)), server("beta", residency=("us-only",))),
        [["beta", "set `constraints.data.residency` to `us-only`, which is `eu-only` now"]],
    ),
    "the least sensitivity given up": (
        agent(READ, data=DataConstraints(sensitivity="pii.high")),
        (server("acme", max_sensitivity="public"), server("beta", max_sensitivity="pii.moderate")),
        [["beta", "set `constraints.data.sensitivity` to `pii.moderate`, which is `pii.high` now"]],
    ),
    "a residency that nobody knows": (agent(READ, data=EU_ONLY), (server("acme", residency=None),), []),
    "a sensitivity that nobody knows": (
        agent(READ, data=DataConstraints(sensitivity="public")),
        (server("acme", max_sensitivity=None),),
        [],
    ),
    "a signature that nobody knows": (agent(READ, trust=SIGNED), (server("acme", signed=None),), []),
    "a region that another requirement needs": (
        agent(READ, ("files", ("read:files",)), data=EU_ONLY),
        (server("acme", residency=("us-only",)), server("files", categories=("files",), scopes=("read:files",))),
        [["acme", "set `constraints.data.residency` to `any`, which is `eu-only` now"]],
    ),
    "a server that would be let in with the one that is meant": (
        agent(READ, data=EU_ONLY),
        (server("acme", residency=None), server("beta", residency=())),
        [],
    ),
    "a category that is another word": (agent(("billing", ("read:reports",))), (server("acme"),), []),
    "an empty index": (agent(READ), (), []),
}


@pytest.mark.parametrize(("asking", "servers", "expected"), STORIES.values(), ids=STORIES)
def test_a_failure_suggests(asking: AgentFile, servers: tuple[Server, ...], expected: list[list[str]]) -> None:
    assert told(asking, *servers) == expected
    assert told(asking, *servers[::-1]) == expected


def test_an_unlucky_word_never_turns_reading_into_writing() -> None:
    assert (
        told(agent(("config", ("get:config",))), server("acme", categories=("config",), scopes=("set:config",))) == []
    )


def test_the_nearest_misses_break_the_fewest_rules_and_then_lack_the_fewest_scopes() -> None:
    asking = agent(("reporting", ("a", "b", "c")), data=EU_ONLY)
    servers = (
        server("far", scopes=("a",), residency=("us-only",)),
        server("two", scopes=("a",)),
        server("one", scopes=("a", "b")),
        server("unsigned", scopes=("a", "b"), signed=False),
        server("other", categories=("mail",), scopes=("a", "b", "c")),
    )
    nearest = resolve(asking, servers).failures[0].nearest

    assert [miss.server_id for miss in nearest] == ["one", "unsigned", "two"]
    far = resolve(asking, servers[:1]).failures[0].nearest
    assert [[reason.code for reason in miss.reasons] for miss in far] == [
        [RejectionCode.MISSING_SCOPE, RejectionCode.RESIDENCY_MISMATCH]
    ]


def test_requirements_beyond_the_twentieth_go_without_suggestions() -> None:
    names = [f"category-{number:02}" for number in range(22)]
    asking = agent(*((name, ("read:reports", "delete:reports")) for name in names))
    failures = resolve(asking, [server("acme", categories=tuple(names))]).failures

    assert [len(failed.suggestions) for failed in failures] == [1] * 20 + [0] * 2
    assert all(failed.nearest for failed in failures)


@pytest.mark.parametrize("count", [2_000, 2_001])
def test_a_slip_is_not_looked_for_among_more_than_two_thousand_categories(count: int) -> None:
    """One of them is what was meant; the others are nothing alike."""
    categories = ("reporting", *(f"{number:05}" for number in range(count - 1)))
    found = told(agent(("reportin", ("read:reports",))), server("acme", categories=categories))

    assert len(found) == (1 if count == 2_000 else 0)


def test_two_requirements_that_are_the_same_are_mended_together() -> None:
    need = ("reporting", ("raed:reports",))
    failures = resolve(agent(need, need), [server("acme")]).failures

    assert [failed.suggestions[0].resolves_all for failed in failures] == [True, True]


def test_an_edit_of_a_requirement_leaves_another_of_the_same_category() -> None:
    asking = agent(READ, ("reporting", ("raed:reports",)))
    failed = resolve(asking, [server("acme")]).failures[0]

    changed = after(asking, failed, failed.suggestions[0])
    assert [need.permissions for need in changed.requires.mcp] == [("read:reports",), ("read:reports",)]
    assert resolve(changed, [server("acme")]).success


def test_an_edit_of_no_kind_that_fits_a_file_leaves_its_constraints() -> None:
    asking = agent(READ)
    edit = Edit(EditKind.FIX_SCOPE, "requires.mcp.permissions", "x", "y")

    assert apply_edits(asking, asking.requires.mcp[0], [edit]) == asking


def test_a_constraint_may_be_put_into_a_file_that_has_none() -> None:
    """Nothing suggests it, and the function says what it does all the same."""
    edits = [
        Edit(EditKind.ACCEPT_RESIDENCY, "constraints.data.residency", "", "us-only"),
        Edit(EditKind.LOWER_SENSITIVITY, "constraints.data.sensitivity", "", "public"),
    ]
    changed = apply_edits(agent(READ), agent(READ).requires.mcp[0], edits)

    assert limits_of(changed) == structs.replace(limits_of(agent(READ)), residency="us-only", sensitivity="public")


def test_a_slip_is_not_looked_for_among_very_many_scopes() -> None:
    offered = tuple(f"read:report{'s' * number}" for number in range(2, 102))
    asked = ("read:reports", *offered, "read:reprots")
    resolution = resolve(agent(("reporting", asked)), [server("acme", scopes=offered)])

    (suggestion,) = resolution.failures[0].suggestions

    assert {edit.kind for edit in suggestion.edits} == {EditKind.DROP_SCOPE}


def test_allowing_unsigned_is_not_suggested_where_the_signature_is_unknown() -> None:
    unknown, unsigned = server("a", signed=None), server("b", signed=False)
    resolution = resolve(agent(READ, trust=SIGNED), [unknown, unsigned])

    assert resolution.failures[0].suggestions == ()


@pytest.mark.parametrize("count", [1, 23, 24, 49])
def test_many_like_servers_do_not_use_up_the_tries(count: int) -> None:
    """Accepting their region would take the other requirement its server, so another edit has to be found."""
    offer: dict[str, Any] = {"scopes": ("read",), "max_sensitivity": "pii.high", "signed": True, "publisher": "Acme"}
    european = Server("eu", "1.0.0", "https://eu.example", ("files",), residency=("eu-only",), **offer)
    american = [
        Server(f"us-{number:02}", "1.0.0", "https://us.example", ("mail",), residency=("us-only",), **offer)
        for number in range(count)
    ]
    needs = tuple(Requirement(category=category, permissions=("read",)) for category in ("files", "mail"))
    agent = AgentFile(
        name="a",
        version="1",
        requires=Requires(mcp=needs),
        constraints=Constraints(data=DataConstraints(residency="eu-only", sensitivity="internal")),
    )

    (failed,) = resolve(agent, [european, *american]).failures

    assert [edit.after for suggestion in failed.suggestions for edit in suggestion.edits] == ["any"]
