"""An overlay laid over servers: which fact holds, and where it comes from."""

import pytest
from hypothesis import given
from msgspec import structs

from agent_resolver.core import (
    apply_overlay,
    every_broken,
    limits_of,
    overlay_notices,
    requirements_of,
    stated_facts,
    unused_patterns,
)
from agent_resolver.schema import InvalidOverlay, RejectionCode, Server, parse_overlay
from tests.core.strategies import LAW, Case, cases
from tests.schema.sample import shown

ACME = Server("acme", "1.0.0", "https://acme.example", ("devtools",), None)
BARE = "servers:\n  acme:\n    "


def laid_over(overlay: str, server: Server = ACME) -> Server:
    reading = parse_overlay(overlay.encode())
    assert reading.overlay is not None
    (found,) = apply_overlay([server], reading.overlay, reading.tree)
    return found


@pytest.mark.parametrize(
    ("facts", "field", "value"),
    [
        ("categories: [code]", "categories", ("code",)),
        ("scopes: [read:code]", "scopes", ("read:code",)),
        ("data: {residency: []}", "residency", ()),
        ("data: {maxSensitivity: internal}", "max_sensitivity", "internal"),
        ("trust: {signed: false}", "signed", False),
        ("trust: {publisher: Acme}", "publisher", "Acme"),
    ],
)
def test_a_fact_takes_the_place_of_that_of_the_index(facts: str, field: str, value: object) -> None:
    known = structs.replace(
        ACME, scopes=("x",), residency=("any",), max_sensitivity="public", signed=True, publisher="Other"
    )

    for server in (ACME, known):
        assert laid_over(BARE + facts, server) == structs.replace(server, **{field: value})


def test_scopes_that_open_a_tool_are_offered() -> None:
    overlay = BARE + "toolScopes: {read: [b], write: [c, b]}"

    unknown = laid_over(overlay)
    assert (unknown.scopes, unknown.tool_scopes) == (("b", "c"), {"read": ("b",), "write": ("c", "b")})
    known = laid_over(overlay, structs.replace(ACME, scopes=("z", "b"), tool_scopes={"read": ("z",), "other": ()}))
    assert known.scopes == ("z", "b", "c")
    assert known.tool_scopes == {"read": ("b",), "other": (), "write": ("c", "b")}


def test_a_tool_that_the_overlay_names_is_confirmed() -> None:
    drafted = structs.replace(ACME, tool_scopes={"read": ("a",), "write": ("b",)}, drafted=("read", "write"))

    assert laid_over(BARE + "toolScopes: {write: [b]}", drafted).drafted == ("read",)


@pytest.mark.parametrize("order", [("acme", "ac*", "*"), ("*", "acme", "ac*"), ("ac*", "*", "acme")])
def test_the_most_specific_pattern_decides_wherever_it_stands(order: tuple[str, ...]) -> None:
    regions = {"acme": "eu-only", "ac*": "us-only", "*": "any"}
    lines = [f'  "{pattern}": {{data: {{residency: [{regions[pattern]}]}}}}' for pattern in order]
    overlay = "\n".join(["servers:", *lines])

    assert laid_over(overlay).residency == ("eu-only",)
    assert laid_over(overlay, structs.replace(ACME, id="acorn")).residency == ("us-only",)
    assert laid_over(overlay, structs.replace(ACME, id="other")).residency == ("any",)


def test_facts_of_several_patterns_come_together() -> None:
    overlay = 'servers: {"*": {data: {residency: [any], maxSensitivity: internal}}, acme: {data: {residency: []}}}'

    found = laid_over(overlay)

    assert (found.residency, found.max_sensitivity) == ((), "internal")


def test_equally_specific_patterns_must_agree() -> None:
    overlay = 'servers:\n  "ac*": {scopes: [a]}\n  "*me": {scopes: [b]}\n'

    with pytest.raises(InvalidOverlay) as caught:
        laid_over(overlay)
    (issue,) = shown(caught.value.issues)
    assert issue.startswith("2:3 servers.ac*: `*me` and `ac*` fit `acme`, are equally specific, and state different")
    assert issue.endswith("`scopes` (state it under `acme`)")
    assert laid_over(overlay + "  acme: {scopes: [c]}\n").scopes == ("c",)


def test_a_category_may_have_other_names() -> None:
    overlay = "aliases: {code: [devtools, git], dev: [devtools]}"

    assert laid_over(overlay).categories == ("devtools", "code", "dev")
    assert laid_over(overlay, structs.replace(ACME, categories=("code",))).categories == ("code",)


def test_patterns_that_fit_nothing_are_found() -> None:
    overlay = parse_overlay(b'servers: {acme: {}, "*": {}, akme: {}, "b*": {}}').overlay

    assert overlay is not None
    assert unused_patterns([ACME], overlay) == ["akme", "b*"]


def test_a_fact_knows_its_pattern() -> None:
    overlay = parse_overlay(b'servers: {"a*": {data: {residency: [any]}, toolScopes: {t: []}}}').overlay

    assert overlay is not None
    facts = stated_facts("acme", overlay)
    assert {path: fact.pattern for path, fact in facts.items()} == {
        ("data", "residency"): "a*",
        ("toolScopes", "t"): "a*",
    }


def test_a_pattern_that_fits_nothing_is_a_warning_at_its_place() -> None:
    reading = parse_overlay(b"servers:\n  acme: {}\n  akme: {}\n")

    assert reading.overlay is not None
    assert shown(overlay_notices(reading.overlay, [ACME], reading.tree)) == [
        (
            "3:3 warning: servers.akme: `akme` fits no server of the index "
            "(compare it with the ids that `agent discover` lists)"
        ),
    ]


UNKNOWN = {RejectionCode.SCOPES_UNKNOWN, RejectionCode.RESIDENCY_UNKNOWN, RejectionCode.SENSITIVITY_UNKNOWN}


@LAW
@given(case=cases)
def test_the_line_that_a_message_advises_takes_its_reason_away(case: Case) -> None:
    """Whatever characters ids and scopes hold, and however many facts are unknown."""
    limits = limits_of(case.agent)
    for server in case.servers:
        bare = structs.replace(server, scopes=None, residency=None, max_sensitivity=None)
        for requirement in requirements_of(case.agent):
            for reason in every_broken(bare, requirement, limits):
                if reason.code in UNKNOWN:
                    advised = laid_over(reason.message.partition("mcp.overlay.yaml: ")[2], bare)
                    codes = {left.code for left in every_broken(advised, requirement, limits)}
                    assert reason.code not in codes


def test_a_tool_that_no_scope_opens_leaves_the_scopes_unknown() -> None:
    found = laid_over(BARE + "toolScopes: {read: []}")

    assert (found.scopes, found.tool_scopes) == (None, {"read": ()})


def test_servers_that_fit_the_same_patterns_get_the_same_facts() -> None:
    reading = parse_overlay(b"servers:\n  a*: {trust: {signed: true}}\n  abc: {scopes: [x]}\n")
    assert reading.overlay is not None
    servers = [structs.replace(ACME, id=name) for name in ("acme", "abc", "abel", "b")]

    found = apply_overlay(servers, reading.overlay, reading.tree)

    assert [(server.signed, server.scopes) for server in found] == [
        (True, None), (True, ("x",)), (True, None), (None, None),
    ]  # fmt: skip
