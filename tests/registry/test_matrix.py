"""Caller by scope by classification by approval: what each call comes to, whether it ran, and what was recorded.

The first table has what the rights of a caller alone decide. The second has what an approval decides for those whom the
first lets through; for everybody else no approval changes anything.
"""

import asyncio
from itertools import chain, combinations
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.core import AdmissionCode, Refused
from agent_resolver.registry import (
    CallContext,
    MemorySecrets,
    Ports,
    ToolFailure,
    ToolRegistry,
)
from agent_resolver.schema import (
    CLASSIFICATION_RANK,
    Caller,
    Failed,
    FailureCode,
    Outcome,
    Pending,
    Rules,
    local_caller,
)
from agent_resolver.storage import MemoryStore
from tests.registry.sample import TRACE, MemoryTool, echo, raising
from tests.registry.stage import Stage, code_of, in_memory, run

CODES = {
    "ok": "DONE",
    "auth": "UNAUTHORIZED",
    "scope": "MISSING_SCOPE",
    "low": "CLEARANCE_TOO_LOW",
    "ask": "APPROVAL_REQUIRED",
    "no": "APPROVAL_REJECTED",
}

# `-issuer`: the project has an issuer. `-scope`: the caller holds the scope. `late`, `now`, `soon`: when a token ends.
RIGHTS = """
                     PUBLIC        INTERNAL      CONFIDENTIAL  RESTRICTED
caller               open  scoped  open  scoped  open  scoped  open  scoped
anonymous            ok    scope   low   scope   low   scope   low   scope
anonymous-issuer     auth  auth    auth  auth    auth  auth    auth  auth
local                ok    ok      ok    ok      ok    ok      ask   ask
local-issuer         auth  auth    auth  auth    auth  auth    auth  auth
public               ok    scope   low   scope   low   scope   low   scope
public-scope         ok    ok      low   low     low   low     low   low
internal             ok    scope   ok    scope   low   scope   low   scope
internal-scope       ok    ok      ok    ok      low   low     low   low
confidential         ok    scope   ok    scope   ok    scope   low   scope
confidential-scope   ok    ok      ok    ok      ok    ok      low   low
restricted           ok    scope   ok    scope   ok    scope   ask   scope
restricted-scope     ok    ok      ok    ok      ok    ok      ask   ask
restricted-issuer    ok    ok      ok    ok      ok    ok      ask   ask
expired-late         auth  auth    auth  auth    auth  auth    auth  auth
expired-now          auth  auth    auth  auth    auth  auth    auth  auth
expired-soon         ok    ok      ok    ok      ok    ok      ask   ask
"""

# What was asked and answered before the call; whether the call asks a question that was not there before.
APPROVALS = """
approval             code  asks
none                 ask   yes
open                 ask   no
approved             ok    no
rejected             no    no
expired              ask   yes
approved-expired     ask   yes
used                 ask   yes
other-arguments      ask   yes
other-trace          ask   yes
other-caller         ask   yes
other-tool           ask   yes
"""

SCOPE = "tickets:write"
ALL = frozenset({SCOPE, "other"})
ABLE = Caller(id="able", is_verified=True, scopes=ALL, clearance="RESTRICTED")
CALLERS = {
    "anonymous": Caller(id="anonymous"),
    "anonymous-issuer": Caller(id="anonymous"),
    "local": local_caller("ada"),
    "local-issuer": local_caller("ada"),
    **{level.lower(): Caller(id="ada", is_verified=True, clearance=level) for level in CLASSIFICATION_RANK},
    **{
        f"{level.lower()}-scope": Caller(id="ada", is_verified=True, clearance=level, scopes=ALL)
        for level in CLASSIFICATION_RANK
    },
    "restricted-issuer": structs.replace(ABLE, id="ada"),
    "expired-late": structs.replace(ABLE, id="ada", expires_at="2026-03-01T11:59:59.999Z"),
    "expired-now": structs.replace(ABLE, id="ada", expires_at="2026-03-01T12:00:00.000Z"),
    "expired-soon": structs.replace(ABLE, id="ada", expires_at="2026-03-01T12:00:00.001Z"),
}
APPROVER = Caller(id="grace", is_verified=True, roles=frozenset({"approver"}))
TOOLS = [(level, asks) for level in CLASSIFICATION_RANK for asks in ("open", "scoped")]
ARGUMENTS = {"text": "hello"}


def rows(table: str) -> dict[str, list[str]]:
    """A table by the first word of each line; its heads are left out."""
    lines = [line.split() for line in table.strip().splitlines()]
    return {name: cells for name, *cells in lines if name not in {"PUBLIC", "caller", "approval"}}


EXPECTED = rows(RIGHTS)
APPROVED = rows(APPROVALS)


def tool_of(level: str, asks: str, *, needs_approval: bool) -> MemoryTool:
    rules = Rules(
        classification=level,  # type: ignore[arg-type]
        required_scopes=(SCOPE,) if asks == "scoped" else (),
        needs_approval=needs_approval,
    )
    return MemoryTool("tickets.close", rules=rules)


def stage_with(tool: MemoryTool, caller: str) -> Stage:
    return in_memory(only_verified=caller.endswith("-issuer")).add(
        tool, MemoryTool("tickets.open", rules=tool.descriptor.rules)
    )


def test_the_tables_have_every_caller_and_every_tool() -> None:
    assert set(EXPECTED) == set(CALLERS)
    assert {len(cells) for cells in EXPECTED.values()} == {len(TOOLS)}


@pytest.mark.parametrize("caller", CALLERS)
def test_what_the_rights_of_a_caller_allow(caller: str) -> None:
    for (level, asks), cell in zip(TOOLS, EXPECTED[caller], strict=True):
        tool = tool_of(level, asks, needs_approval=False)
        stage = stage_with(tool, caller)

        outcome = stage.call("tickets.close", CALLERS[caller], ARGUMENTS)

        assert (level, asks, code_of(outcome)) == (level, asks, CODES[cell])
        assert tool.calls == (cell == "ok")
        kinds = {"ok": ["call.started", "call.done"], "ask": ["action.asked", "call.pending"]}
        assert stage.kinds() == kinds.get(cell, ["call.failed"])
        assert cell in kinds or stage.records()[0][1]["code"] == CODES[cell]
        # What is RESTRICTED waits for an approval, whether its rules say so or not.
        assert len(stage.actions()) == (cell == "ask")


def prepare(stage: Stage, approval: str, caller: Caller) -> None:
    """Ask and answer as somebody of the same name who may do everything: their rights may have changed since."""
    able = structs.replace(ABLE, id=caller.id)
    asks = {
        "other-arguments": ("tickets.close", able, {"text": "other"}, TRACE),
        "other-trace": ("tickets.close", able, ARGUMENTS, "1" * 32),
        "other-caller": ("tickets.close", structs.replace(able, id="bob"), ARGUMENTS, TRACE),
        "other-tool": ("tickets.open", able, ARGUMENTS, TRACE),
    }.get(approval, ("tickets.close", able, ARGUMENTS, TRACE))
    if approval == "none":
        return
    asked = stage.call(*asks)
    assert isinstance(asked, Pending)
    if approval not in {"open", "expired"}:
        verdict = "rejected" if approval == "rejected" else "approved"
        assert stage.decide(asked.id, verdict, APPROVER) == verdict  # type: ignore[arg-type]
    if approval == "used":
        assert code_of(stage.call(*asks)) == "DONE"
    if approval in {"expired", "approved-expired"}:
        stage.clock.forward(60)


@pytest.mark.parametrize("approval", APPROVED)
@pytest.mark.parametrize("caller", CALLERS)
def test_what_an_approval_adds_to_them(caller: str, approval: str) -> None:
    decided, asks_anew = APPROVED[approval]
    for (level, asks), right in zip(TOOLS, EXPECTED[caller], strict=True):
        tool = tool_of(level, asks, needs_approval=True)
        stage = stage_with(tool, caller)
        prepare(stage, approval, CALLERS[caller])
        # Where time passes, the token of the caller is as fresh as it was.
        by = CALLERS[caller]
        if by.expires_at and approval.endswith("expired"):
            by = structs.replace(by, expires_at=by.expires_at.replace("T12", "T13").replace("T11", "T12"))
        ran, recorded, before = tool.calls, len(stage.records()), stage.actions()

        outcome = stage.call("tickets.close", by, ARGUMENTS)

        cell = decided if right in {"ok", "ask"} else right
        assert (level, asks, code_of(outcome)) == (level, asks, CODES[cell])
        assert tool.calls - ran == (cell == "ok")
        is_new = cell == "ask" and asks_anew == "yes"
        assert stage.kinds(recorded) == {
            "ok": ["call.started", "call.done"],
            "ask": ["action.asked", "call.pending"] if is_new else ["call.pending"],
        }.get(cell, ["call.failed"])
        after = {each.id: each.used_at for each in stage.actions()}
        assert len(after) - len(before) == is_new
        # Nothing but a call that ran uses up an approval.
        assert all(after[each.id] == (stage.clock.now() if cell == "ok" else each.used_at) for each in before)
        if isinstance(outcome, Pending):
            assert (outcome.id in {each.id for each in before}) != is_new


# When the rules change ------------------------------------------------------------------------------------------------

CHANGES = {
    "stricter": (Rules(classification="CONFIDENTIAL", needs_approval=True), Rules(classification="RESTRICTED")),
    "another role": (Rules(needs_approval=True), Rules(needs_approval=True, approver_role="officer")),
    "looser": (Rules(classification="RESTRICTED"), Rules(classification="CONFIDENTIAL", needs_approval=True)),
}
ADA = structs.replace(ABLE, id="ada")


def changed(stage: Stage, rules: Rules) -> MemoryTool:
    """The tool in its next version."""
    stage.registry.replace("memory", (), {})
    stage.add(tool := MemoryTool("tickets.close", rules=rules))
    return tool


@pytest.mark.parametrize("is_approved", ["never", "before", "after"])
@pytest.mark.parametrize("change", CHANGES)
def test_an_approval_counts_only_if_it_was_asked_of_those_who_may_give_it_now(change: str, is_approved: str) -> None:
    before, after = CHANGES[change]
    stage = in_memory().add(MemoryTool("tickets.close", rules=before))
    asked = stage.call("tickets.close", ADA, ARGUMENTS)
    assert isinstance(asked, Pending)
    if is_approved == "before":
        assert stage.decide(asked.id, "approved", APPROVER) == "approved"
    tool = changed(stage, after)
    if is_approved == "after":
        assert stage.decide(asked.id, "approved", APPROVER) == "approved"

    outcome = stage.call("tickets.close", ADA, ARGUMENTS)

    asks_anew = change != "looser"
    assert tool.calls == (not asks_anew and is_approved != "never")
    assert code_of(outcome) == ("DONE" if tool.calls else "APPROVAL_REQUIRED")
    assert [(each.classification, each.role) for each in stage.actions()] == [
        (rules.classification, rules.approver_role) for rules in ((before, after) if asks_anew else (before,))
    ]


def test_whoever_nobody_vouches_for_does_not_approve_what_has_become_restricted() -> None:
    before, after = CHANGES["stricter"]
    stage, ada = in_memory().add(MemoryTool("tickets.close", rules=before)), local_caller("ada")
    first = stage.call("tickets.close", ada, ARGUMENTS)
    assert isinstance(first, Pending)
    tool = changed(stage, after)

    assert stage.decide(first.id, "approved", ada) == "approved"
    second = stage.call("tickets.close", ada, ARGUMENTS)
    assert isinstance(second, Pending)
    assert stage.decide(second.id, "approved", ada) == "UNVERIFIED_APPROVER"
    assert stage.decide(second.id, "approved", APPROVER) == "approved"
    assert tool.calls == 0
    assert code_of(stage.call("tickets.close", ada, ARGUMENTS)) == "DONE"


def test_what_was_interrupted_under_weaker_rules_is_approved_anew_before_it_goes_on() -> None:
    before, after = CHANGES["stricter"]
    late = raising(ToolFailure(FailureCode.TIMEOUT, "too late", "look"))
    stage = in_memory().add(MemoryTool("tickets.close", late, rules=before))
    asked = stage.call("tickets.close", ADA, ARGUMENTS, key="k")
    assert isinstance(asked, Pending)
    stage.decide(asked.id, "approved", APPROVER)
    assert code_of(stage.call("tickets.close", ADA, ARGUMENTS, key="k")) == "TIMEOUT"
    tool = changed(stage, after)

    assert code_of(stage.call("tickets.close", ADA, ARGUMENTS, key="k")) == "APPROVAL_REQUIRED"
    assert tool.calls == 0


def test_what_was_rejected_stays_rejected() -> None:
    before, after = CHANGES["stricter"]
    stage = in_memory().add(MemoryTool("tickets.close", rules=before))
    asked = stage.call("tickets.close", ADA, ARGUMENTS)
    assert isinstance(asked, Pending)
    stage.decide(asked.id, "rejected", APPROVER)
    changed(stage, after)

    assert code_of(stage.call("tickets.close", ADA, ARGUMENTS)) == "APPROVAL_REJECTED"


@pytest.mark.parametrize(("key", "same"), [("k", "key"), (None, "trace")])
def test_a_call_that_is_on_its_way_says_under_what_to_ask_again(key: str | None, same: str) -> None:
    release = asyncio.Event()

    async def wait(_: dict[str, Any]) -> Any:
        await release.wait()

    async def story() -> Outcome:
        context = CallContext(run="run-1", trace_id=TRACE, caller=ADA, key=key)
        first = asyncio.create_task(stage.registry.call("tickets.close", ARGUMENTS, context))
        while "call.started" not in stage.kinds():  # noqa: ASYNC110 - it is recorded
            await asyncio.sleep(0)
        second = await stage.registry.call("tickets.close", ARGUMENTS, context)
        release.set()
        assert code_of(await first) == "DONE"
        return second

    stage = in_memory().add(MemoryTool("tickets.close", wait, rules=Rules(needs_approval=True)))
    asked = stage.call("tickets.close", ADA, ARGUMENTS, key=key)
    assert isinstance(asked, Pending)
    stage.decide(asked.id, "approved", APPROVER)

    outcome = run(story())

    assert isinstance(outcome, Failed)
    assert outcome.code is FailureCode.ALREADY_RUNNING
    assert outcome.remedy == f"ask again under the same {same} once it ended"


# The order of the steps -----------------------------------------------------------------------------------------------

STEPS = {
    "caller": "UNAUTHORIZED",
    "tool": "FORBIDDEN_ACTION",
    "arguments": "INPUT_VALIDATION_FAILED",
    "scopes": "MISSING_SCOPE",
    "classification": "CLEARANCE_TOO_LOW",
    "approval": "APPROVAL_REQUIRED",
    "secret": "SECRET_REQUIRED",
    "rate limit": "RATE_LIMITED",
    "ledger": "KEY_REUSED",
    "run": "TOOL_ERROR",
    "output": "OUTPUT_VALIDATION_FAILED",
}
"""What each step refuses with, in the order of the steps."""


def faulty_call(faults: set[str]) -> tuple[str, int]:
    """The code of a call that has these faults, and how often its tool ran."""
    store, able = MemoryStore(), structs.replace(ABLE, id="ada")
    caller = structs.replace(
        able,
        expires_at="1969-12-31T23:59:59.999Z" if "caller" in faults else None,
        scopes=frozenset[str]() if "scopes" in faults else ALL,
        clearance="PUBLIC" if "classification" in faults else "RESTRICTED",
    )
    rules = Rules(
        classification="CONFIDENTIAL",
        required_scopes=(SCOPE,),
        needs_approval="approval" in faults,
        secrets=("KEY",) if "secret" in faults else (),
    )
    fields: dict[str, Any] = {
        "rules": rules,
        "input_schema": {"properties": {"text": {"type": "integer" if "arguments" in faults else "string"}}},
        "output_schema": {"type": "string" if "output" in faults else "object"},
        "rate_limit_per_minute": 0 if "rate limit" in faults else None,
    }
    work = raising(ToolFailure(FailureCode.TOOL_ERROR, "no", "")) if "run" in faults else echo
    tool = MemoryTool("tickets.close", work, **fields)
    earlier = ToolRegistry(Ports(store=store))
    earlier.add(MemoryTool("tickets.close"))
    registry = ToolRegistry(Ports(store=store, secrets=MemorySecrets()))
    registry.add(tool)
    if "tool" in faults:
        registry.refuse("tickets.close", "memory", Refused(AdmissionCode.FORBIDDEN_ACTION, "It may not", "ask"))

    async def story() -> str:
        if "ledger" in faults:
            other = CallContext(run="run-0", trace_id=TRACE, caller=able, key="key-1")
            assert code_of(await earlier.call("tickets.close", {"text": "other"}, other)) == "DONE"
        context = CallContext(run="run-1", trace_id=TRACE, caller=caller, key="key-1")
        return code_of(await registry.call("tickets.close", ARGUMENTS, context))

    return run(story()), tool.calls


@pytest.mark.parametrize("first", [*STEPS, None])
def test_the_first_step_that_refuses_decides_whatever_later_steps_would_say(first: str | None) -> None:
    order = list(STEPS)
    after = order[order.index(first) + 1 :] if first else []
    expected = (STEPS[first] if first else "DONE", first in {None, "run", "output"})

    for faults in chain.from_iterable(combinations(after, count) for count in range(len(after) + 1)):
        given = {first, *faults} if first else set()
        assert (given, *faulty_call(given)) == (given, *expected)
