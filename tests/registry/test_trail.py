"""What is recorded of a call: every decision, and nothing of what was said in it."""

import asyncio
from typing import Any

import pytest
from msgspec import Struct

from agent_resolver.core import AdmissionCode, Refused, SecretFields
from agent_resolver.registry import MemorySecrets, NeedsAction, Ports, Secret, ToolFailure, ToolRegistry, content_of
from agent_resolver.schema import Caller, Done, Failed, FailureCode, Pending, Rules, digest, local_caller
from agent_resolver.storage import MemoryStore
from tests.registry.sample import (
    CONTEXT,
    FullStore,
    GatedStore,
    MemorySource,
    MemoryTool,
    Work,
    call,
    echo,
    holding,
    kinds_of,
    raising,
    told,
)
from tests.registry.stage import code_of, in_memory

CANARY = "canary-7f3a"


@pytest.mark.parametrize("keeps_content", [True, False])
def test_a_call_is_recorded_before_and_after_with_what_went_in_and_out(*, keeps_content: bool) -> None:
    store = MemoryStore()

    call(holding(MemoryTool(), store=store, keeps_content=keeps_content), text="hello")

    content, shown = digest({"text": "hello"}), {"content": '{"text":"hello"}'} if keeps_content else {}
    assert told(store) == [
        ("call.started", {"tool": "memory.echo", "arguments": content, **shown}),
        ("call.done", {"tool": "memory.echo", "result": content, **shown}),
    ]


def test_the_issuer_that_vouches_is_named_beside_the_caller_and_the_approver() -> None:
    stage = in_memory().add(MemoryTool(rules=Rules(needs_approval=True)))
    issuer = "https://login.example.com"
    ada = Caller(id="ada", is_verified=True, issuer=issuer, clearance="RESTRICTED")
    grace = Caller(id="grace", is_verified=True, issuer=issuer, roles=frozenset({"approver"}))

    pending = stage.call("memory.echo", ada)
    assert isinstance(pending, Pending)
    stage.decide(pending.id, "approved", grace)
    stage.call("memory.echo", ada)
    stage.call("memory.unknown", local_caller("ada"))

    assert [(kind, body["caller"], body.get("issuer")) for kind, body in stage.records()] == [
        ("action.asked", "ada", issuer),
        ("call.pending", "ada", issuer),
        ("action.approved", "grace", issuer),
        ("call.started", "ada", issuer),
        ("call.done", "ada", issuer),
        ("call.failed", "local:ada", None),
    ]


def test_records_of_a_call_name_the_worker_that_acts_for_the_caller() -> None:
    stage = in_memory().add(MemoryTool(rules=Rules(needs_approval=True)))
    ada = Caller(id="ada", is_verified=True, clearance="RESTRICTED", via="worker", via_issuer="https://w.example.com")

    stage.call("memory.echo", ada)
    stage.call("memory.unknown", ada)

    assert [(kind, body["caller"], body["via"], body["viaIssuer"]) for kind, body in stage.records()] == [
        ("action.asked", "ada", "worker", "https://w.example.com"),
        ("call.pending", "ada", "worker", "https://w.example.com"),
        ("call.failed", "ada", "worker", "https://w.example.com"),
    ]


@pytest.mark.parametrize("code", AdmissionCode)
def test_a_refusal_is_one_record_with_its_code(code: AdmissionCode) -> None:
    store = MemoryStore()
    registry = holding(store=store)
    registry.refuse("notes.delete", "server notes@1", Refused(code, "It may not", "ask"))

    call(registry, "notes.delete")

    assert told(store) == [("call.failed", {"tool": "notes.delete", "code": code.value})]


def test_what_never_ran_was_never_started() -> None:
    store = MemoryStore()
    tool = MemoryTool(input_schema={"required": ["name"]}, rate_limit_per_minute=0)
    registry = holding(tool, store=store)

    call(registry, "memory.ecko")
    call(registry)
    call(registry, name="a")

    assert told(store) == [
        ("call.failed", {"tool": "memory.ecko", "code": "UNKNOWN_TOOL"}),
        ("call.failed", {"tool": "memory.echo", "code": "INPUT_VALIDATION_FAILED"}),
        ("call.failed", {"tool": "memory.echo", "code": "RATE_LIMITED"}),
    ]


async def never(_: dict[str, Any]) -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("work", "evidence"),
    [
        (never, {"code": "TIMEOUT"}),
        (raising(ToolFailure(FailureCode.TOOL_ERROR, "no")), {"code": "TOOL_ERROR"}),
        (raising(ValueError("a bug")), {"code": "RUNNER_ERROR"}),
    ],
)
def test_how_a_call_ended_is_recorded(work: Work, evidence: dict[str, str]) -> None:
    store = MemoryStore()

    call(holding(MemoryTool(work=work, timeout_seconds=0.01), store=store))

    assert told(store) == [
        ("call.started", {"tool": "memory.echo", "arguments": digest({}), "content": "{}"}),
        ("call.failed", {"tool": "memory.echo", **evidence}),
    ]


def test_a_call_that_waits_is_recorded_with_what_it_waits_for() -> None:
    store = MemoryStore()

    outcome = call(holding(MemoryTool(work=raising(NeedsAction("OAUTH", "acme", "Sign in"))), store=store))

    assert isinstance(outcome, Pending)
    assert told(store)[1] == ("action.asked", {"tool": "memory.echo", "action": outcome.id, "type": "OAUTH"})
    assert told(store)[2] == ("call.pending", {"tool": "memory.echo", "pending": outcome.id})


def test_a_server_that_is_not_there_is_recorded_like_any_other_failure() -> None:
    store = MemoryStore()
    registry = ToolRegistry(Ports(store=store))
    registry.attach(source := MemorySource("acme"))
    source.problem = ToolFailure(FailureCode.SERVER_UNAVAILABLE, "acme closed the connection", "look first")
    failed = call(registry, "acme.read")
    source.problem = NeedsAction("SECRET", "acme", "Set ACME_TOKEN")
    pending = call(registry, "acme.read")

    assert isinstance(failed, Failed)
    assert (failed.code, failed.remedy) == (FailureCode.SERVER_UNAVAILABLE, "look first")
    assert isinstance(pending, Pending)
    assert told(store) == [
        ("call.failed", {"tool": "acme.read", "code": "SERVER_UNAVAILABLE"}),
        ("action.asked", {"tool": "acme.read", "action": pending.id, "type": "SECRET"}),
        ("call.pending", {"tool": "acme.read", "pending": pending.id}),
    ]


@pytest.mark.parametrize(
    "work",
    [
        echo,
        raising(ToolFailure(FailureCode.TOOL_ERROR, f"no note {CANARY}", f"write {CANARY} first")),
        raising(KeyError(CANARY)),
        raising(NeedsAction("SECRET", "acme", f"Set {CANARY}")),
    ],
)
@pytest.mark.parametrize("schema", [{}, {"required": ["other"]}, {"properties": {"text": {"type": "integer"}}}])
def test_nothing_of_what_was_said_is_in_records_of_digests_alone(work: Work, schema: dict[str, Any]) -> None:
    store = MemoryStore()

    call(holding(MemoryTool(work=work, input_schema=schema), store=store, keeps_content=False), text=CANARY)

    assert store.trail
    assert CANARY not in str(store.trail)


# What is shown of arguments and results -------------------------------------------------------------------------------

SECRETIVE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "pin": {"type": "string", "writeOnly": True},
        "inner": {"type": "object", "properties": {"code": {"$ref": "#/$defs/hidden"}}},
    },
    "$defs": {"hidden": {"type": "string", "format": "password"}},
}


def shown(store: MemoryStore) -> list[object]:
    """What the records show, in their order."""
    return [record.body.get("content") for record in store.trail]


def test_no_record_shows_a_field_that_the_schema_or_the_tool_calls_secret() -> None:
    store = MemoryStore()
    tool = MemoryTool(input_schema=SECRETIVE, output_schema=SECRETIVE, rules=Rules(secret_fields=("iban",)))
    secret: dict[str, Any] = {
        "pin": CANARY,
        "inner": {"code": CANARY, "iban": [CANARY]},
        "list": [{"pin": [CANARY], "api_key": CANARY}],
    }

    call(holding(tool, store=store), text="hello", **secret)

    hidden = '"pin":"[redacted]","inner":{"code":"[redacted]","iban":"[redacted]"}'
    content = f'{{"text":"hello",{hidden},"list":[{{"pin":"[redacted]","api_key":"[redacted]"}}]}}'
    assert shown(store) == [content, content]
    assert CANARY not in str(store.trail)


def test_a_secret_field_that_a_tool_repeats_in_its_words_is_hidden_there() -> None:
    async def work(arguments: dict[str, Any]) -> Any:
        return {"said": f"your pin is {arguments['pin']}", "pin": arguments["pin"]}

    store = MemoryStore()

    call(holding(MemoryTool(work=work, input_schema=SECRETIVE), store=store), pin=CANARY)

    assert shown(store) == ['{"pin":"[redacted]"}', '{"said":"your pin is [redacted]","pin":"[redacted]"}']


def test_a_result_that_is_a_struct_shows_no_secret_field_either() -> None:
    class Account(Struct):
        owner: str
        password: str

    async def work(_: dict[str, Any]) -> Account:
        return Account("ada", CANARY)

    store = MemoryStore()

    call(holding(MemoryTool(work=work), store=store))

    assert shown(store) == ["{}", '{"owner":"ada","password":"[redacted]"}']


def test_what_is_long_is_cut_after_its_secrets_are_hidden() -> None:
    store = MemoryStore()
    tool = MemoryTool(rules=Rules(secrets=("KEY",)))
    secrets = MemorySecrets()
    secrets.values["KEY"] = CANARY
    # The secret begins before the cut and ends after it.
    before = "x" * (4096 - len('{"text":"') - 8)

    call(holding(tool, store=store, secrets=secrets), text=f"{before}{CANARY} and more")

    for text in shown(store):
        assert isinstance(text, str)
        assert len(text.encode()) <= 4096
        assert text.endswith("…")
        assert CANARY[:6] not in text


@pytest.mark.parametrize(
    ("caller", "arguments", "code"),
    [
        (Caller(id="ada", is_verified=True, clearance="RESTRICTED"), {"text": CANARY}, "MISSING_SCOPE"),
        (Caller(id="ada", scopes=None), {"text": CANARY}, "CLEARANCE_TOO_LOW"),
        (local_caller("ada"), {"text": [CANARY]}, "INPUT_VALIDATION_FAILED"),
        (local_caller("ada"), {"text": CANARY}, "RATE_LIMITED"),
    ],
)
def test_a_call_that_is_refused_shows_nothing(caller: Caller, arguments: dict[str, Any], code: str) -> None:
    """Otherwise whoever can reach the tools could fill the trail."""
    stage = in_memory().add(
        MemoryTool(
            rules=Rules(required_scopes=("write",)),
            input_schema={"properties": {"text": {"type": "string"}}},
            rate_limit_per_minute=0,
        )
    )

    assert code_of(stage.call("memory.echo", caller, arguments)) == code
    assert [kind for kind, _ in stage.records()] == ["call.failed"]
    assert CANARY not in str(stage.records())


def test_no_record_shows_what_the_source_of_a_tool_was_given() -> None:
    class ServerTool(MemoryTool):
        source_secrets = (Secret("TOKEN", CANARY),)

    store = MemoryStore()

    outcome = call(holding(ServerTool(), store=store), text=f"my {CANARY}")

    assert isinstance(outcome, Done)
    assert outcome.result == {"text": f"my {CANARY}"}, "the caller gets what the server says"
    assert shown(store) == ['{"text":"my [redacted]"}'] * 2


def test_what_cannot_be_written_is_hidden_whole() -> None:
    assert content_of({"a": object()}, SecretFields(), ()) == "[redacted]"
    assert content_of({"a": "\ud800"}, SecretFields(), ()) == "[redacted]"


def test_nothing_runs_when_it_cannot_be_recorded() -> None:
    tool = MemoryTool()

    outcome = call(holding(tool, store=FullStore()))

    assert outcome == Failed(
        trace_id=CONTEXT.trace_id,
        code=FailureCode.STATE_UNAVAILABLE,
        message="The state cannot be used: No space left on device",
        remedy="it was not made: see `agent state info`, then make it again",
    )
    assert tool.calls == 0


def test_a_caller_who_goes_away_does_not_stop_the_call() -> None:
    async def story() -> list[str]:
        store, started, release = MemoryStore(), asyncio.Event(), asyncio.Event()

        async def work(_: dict[str, Any]) -> Any:
            started.set()
            await release.wait()
            return "effect"

        registry = holding(MemoryTool(work=work), store=store)
        caller = asyncio.create_task(registry.call("memory.echo", {}, CONTEXT))
        await started.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        release.set()
        await registry.settle()
        return kinds_of(store)

    assert asyncio.run(story()) == ["call.started", "call.done"]


def test_nothing_comes_between_the_effect_and_its_record() -> None:
    async def story() -> tuple[list[str], list[str]]:
        store = GatedStore()

        async def shut_the_gate(_: dict[str, Any]) -> Any:
            store.gate.clear()

        registry = holding(MemoryTool(work=shut_the_gate), store=store)
        caller = asyncio.create_task(registry.call("memory.echo", {}, CONTEXT))
        await store.reached.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        before = kinds_of(store)
        store.gate.set()
        await registry.settle()
        return before, kinds_of(store)

    assert asyncio.run(story()) == (["call.started"], ["call.started", "call.done"])


def test_a_caller_who_stops_waiting_goes_at_once() -> None:
    async def story() -> None:
        registry = holding(MemoryTool(work=never))
        async with asyncio.timeout(0.01):
            await registry.call("memory.echo", {}, CONTEXT)

    with pytest.raises(TimeoutError):
        asyncio.run(story())


def test_a_registry_without_calls_is_settled() -> None:
    asyncio.run(ToolRegistry().settle())
