"""Scopes drafted from annotations, and entries with pinned definitions."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from agent_resolver.core import definition_digest, draft_scopes, scope_subject, with_pins

ENTRY: dict[str, Any] = {"id": "files", "categories": ["filesystem"], "extra": 1}


def tool(**hints: Any) -> dict[str, Any]:
    return {"name": "t", "inputSchema": {"type": "object"}, "annotations": hints}


@pytest.mark.parametrize(
    ("hints", "scopes"),
    [
        ({"readOnlyHint": True, "openWorldHint": False}, ("read:x",)),
        ({"readOnlyHint": True}, ("read:x", "network:x")),
        ({"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False}, ("read:x",)),
        ({"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}, ("write:x",)),
        ({"destructiveHint": False, "openWorldHint": False}, ("write:x",)),
        ({"destructiveHint": True, "openWorldHint": False}, ("delete:x",)),
        ({"readOnlyHint": False, "openWorldHint": True}, ("delete:x", "network:x")),
        # A contradiction counts as the stricter hint.
        ({"readOnlyHint": True, "destructiveHint": True, "openWorldHint": False}, ("delete:x",)),
        # Only the values of the protocol count.
        ({"readOnlyHint": "true", "openWorldHint": "no"}, ("delete:x", "network:x")),
    ],
)
def test_annotations_decide_which_scopes_are_drafted(hints: dict[str, Any], scopes: tuple[str, ...]) -> None:
    assert draft_scopes(tool(**hints), "x") == scopes


@pytest.mark.parametrize("definition", [{"name": "t"}, {"annotations": None}, {"annotations": ["readOnlyHint"]}])
def test_a_tool_without_annotations_gets_the_strictest_scopes(definition: dict[str, Any]) -> None:
    assert draft_scopes(definition, "x") == ("delete:x", "network:x")


HINTS = st.dictionaries(
    st.sampled_from(["readOnlyHint", "destructiveHint", "openWorldHint"]),
    st.sampled_from([True, False, None, 1, "true"]),
)


@given(hints=HINTS)
def test_only_a_tool_that_says_it_only_reads_gets_less_than_write(hints: dict[str, Any]) -> None:
    scopes = draft_scopes(tool(**hints), "x")

    if "read:x" in scopes:
        assert hints["readOnlyHint"] is True
        assert hints.get("destructiveHint") is not True
    assert len({"read:x", "write:x", "delete:x"}.intersection(scopes)) == 1


def test_the_subject_is_the_first_category_without_what_a_scope_may_not_hold() -> None:
    assert scope_subject(ENTRY) == "filesystem"
    assert scope_subject({"id": "files", "categories": []}) == "files"
    assert scope_subject({"id": "x", "categories": ["a, b|c@d"]}) == "a-b-c-d"


def test_pins_and_drafts_are_added_to_an_entry() -> None:
    reading, wiping = tool(readOnlyHint=True, openWorldHint=False), tool(openWorldHint=False)

    assert with_pins(ENTRY, {"wipe": wiping, "read": reading}) == {
        **ENTRY,
        "tools": {"read": definition_digest(reading), "wipe": definition_digest(wiping)},
        "scopes": ["delete:filesystem", "read:filesystem"],
        "toolScopes": {"read": ["read:filesystem"], "wipe": ["delete:filesystem"]},
        "drafted": ["read", "wipe"],
    }


def test_scopes_that_a_person_stated_are_not_drafted() -> None:
    entry = {**ENTRY, "scopes": ["mine"], "toolScopes": {"stated": ["mine"]}}

    pinned = with_pins(entry, {"stated": tool(), "confirmed": tool()}, confirmed={"confirmed"})

    assert pinned["toolScopes"] == {"stated": ["mine"]}
    assert pinned["scopes"] == ["mine"]
    assert sorted(pinned["tools"]) == ["confirmed", "stated"]
    assert "drafted" not in pinned


def test_a_second_look_at_the_same_tools_changes_nothing() -> None:
    found = {"read": tool(readOnlyHint=True), "wipe": tool()}
    once = with_pins({**ENTRY, "scopes": ["other"], "toolScopes": {"wipe": ["other"]}}, found)

    twice = with_pins(once, found)

    assert list(twice.items()) == list(once.items())
    assert list(twice["toolScopes"]) == ["wipe", "read"]


def test_a_draft_follows_the_tool_and_goes_with_it() -> None:
    before = with_pins(ENTRY, {"read": tool(readOnlyHint=True, openWorldHint=False), "gone": tool()})

    after = with_pins(before, {"read": tool(openWorldHint=False), "gone": None})

    assert after["toolScopes"] == {"read": ["delete:filesystem"]}
    assert after["drafted"] == list(after["tools"]) == ["read"]


def test_a_tool_that_is_not_looked_at_stays_as_it_is() -> None:
    before = with_pins(ENTRY, {"a": tool(), "b": tool()})

    assert with_pins(before, {"a": tool()}) == before
    assert with_pins(before, {}) == before


def test_the_last_draft_that_goes_leaves_what_was_stated() -> None:
    entry = {**ENTRY, "toolScopes": {"stated": ["mine"]}, "scopes": ["mine"]}
    before = with_pins(entry, {"draft": tool(), "stated": tool()})

    after = with_pins(before, {"draft": None})

    assert after["toolScopes"] == {"stated": ["mine"]}
    assert "drafted" not in after


def test_a_server_without_tools_has_no_scopes_and_its_tools_are_known() -> None:
    assert with_pins(ENTRY, {}) == {**ENTRY, "tools": {}}
    # A hand-written list of drafts without a map is dropped.
    assert with_pins({**ENTRY, "drafted": ["x"]}, {}) == {**ENTRY, "tools": {}}
