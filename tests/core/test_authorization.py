"""What a caller may use, and which waiting actions a caller may see."""

import pytest

from agent_resolver.core import is_cleared, may_see_action, may_use, missing_scopes
from agent_resolver.schema import (
    ANONYMOUS,
    CLASSIFICATION_RANK,
    Caller,
    Classification,
    PendingAction,
    Rules,
    local_caller,
)

ADA = Caller(id="ada", is_verified=True, scopes=frozenset({"read"}), clearance="INTERNAL")
LOCAL = local_caller("lin")
WAITING = PendingAction(
    id="a1", type="APPROVAL", subject="tickets.close", message="?", asked_at="now", requester="bob", role="closer"
)


def test_missing_scopes_are_those_not_held_in_order() -> None:
    rules = Rules(required_scopes=("write", "read", "admin"))

    assert missing_scopes(rules, ADA) == ["admin", "write"]
    assert missing_scopes(rules, LOCAL) == []


@pytest.mark.parametrize("needed", CLASSIFICATION_RANK)
def test_a_caller_is_cleared_up_to_their_clearance(needed: Classification) -> None:
    assert is_cleared(ADA, needed) == (needed in {"PUBLIC", "INTERNAL"})


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (Rules(), True),
        (Rules(required_scopes=("read",)), True),
        (Rules(required_scopes=("write",)), False),
        (Rules(classification="CONFIDENTIAL"), False),
    ],
)
def test_a_tool_is_for_callers_with_its_scopes_and_clearance(rules: Rules, *, expected: bool) -> None:
    assert may_use(rules, ADA) is expected


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        (Caller(id="bob"), True),
        (LOCAL, True),
        (Caller(id="eve", is_verified=True, roles=frozenset({"closer"})), True),
        (Caller(id="eve", is_verified=True, roles=frozenset({"approver"})), False),
        (Caller(id="eve", roles=frozenset({"closer"})), False),
        (ANONYMOUS, False),
    ],
)
def test_an_action_is_seen_by_its_caller_its_role_and_the_local_user(caller: Caller, *, expected: bool) -> None:
    assert may_see_action(WAITING, caller) is expected
