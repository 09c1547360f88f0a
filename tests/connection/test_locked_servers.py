"""The tools of locked servers in a registry: only what the lock opens, also when a server changes its mind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from opentelemetry.sdk.resources import Resource

from agent_resolver.connection import Credentials, LockedServers, ServerUse, Surroundings
from agent_resolver.core import grants_of
from agent_resolver.registry import NeedsAction, Ports, ToolFailure, ToolIdConflict, ToolRegistry
from agent_resolver.schema import Done, Failed, FailureCode, digest
from agent_resolver.storage import MemoryStore, Transaction
from agent_resolver.telemetry import CallTelemetry, Signals, sampler_of
from tests.connection.conftest import Offer, Offered, locked, use
from tests.process import comes_true, eventually, is_running, started
from tests.registry.sample import CONTEXT, TRACE, GatedStore, MemoryTool, kinds_of

pytestmark = pytest.mark.anyio

CANARY = "canary-91c2"
Result = TypeVar("Result")


async def test_only_what_the_locked_scopes_open_is_offered(offered: Offered) -> None:
    entry = locked("raw.py", "pages")
    grant = use(entry, "tool-001", "tool-004").grant
    narrowed = msgspec.structs.replace(
        grant,
        tool_scopes={**grant.tool_scopes, "tool-002": ("write",), "tool-003": ("use",)},
        forbid=("*-003",),
        admitted=frozenset({"raw.tool-005"}),
    )

    async with offered(msgspec.structs.replace(use(entry), grant=narrowed)) as offer:
        assert offer.listed() == ["raw.tool-001", "raw.tool-004", "raw.tool-005"]
        assert offer.refused() == {
            **{f"raw.tool-{number:03}": "TOOL_NOT_MAPPED" for number in range(23) if number not in {1, 2, 3, 4, 5}},
            "raw.tool-002": "SCOPE_NOT_LOCKED",
            "raw.tool-003": "FORBIDDEN_ACTION",
        }
        assert (await offer.failure("raw.tool-002"))[0] is FailureCode.SCOPE_NOT_LOCKED
        assert (await offer.failure("raw.tool-000"))[0] is FailureCode.TOOL_NOT_MAPPED


async def test_every_decision_about_a_server_leaves_a_record(offered: Offered) -> None:
    entry = locked("raw.py", "pages")

    async with offered(use(entry, "tool-001")) as offer:
        kinds = kinds_of(offer.store)

    assert kinds == ["server.connected", "server.tools"]
    assert offer.records("server.connected") == [{"server": "raw@1.0.0", "endpoint": entry.endpoint}]
    (tools,) = offer.records("server.tools")
    refused = [f"tool-{number:03}" for number in range(23) if number != 1]
    assert tools == {
        "server": "raw@1.0.0",
        "admitted": 1,
        "refused": 22,
        "tools": {"ADMITTED": ["tool-001"], "TOOL_NOT_MAPPED": refused},
        "digest": digest([["ADMITTED", "tool-001"], *(["TOOL_NOT_MAPPED", name] for name in refused)]),
    }


async def test_a_record_of_many_tools_names_the_first_and_covers_all_by_its_digest(offered: Offered) -> None:
    names = [f"name={'x' * 120}{number:03}" for number in range(300)]

    async with offered(use(locked("raw.py", *names), "echo")) as offer:
        (tools,) = offer.records("server.tools")
    async with offered(use(locked("raw.py", *names[:-1]), "echo")) as offer:
        (other,) = offer.records("server.tools")

    assert len(msgspec.json.encode(tools)) < 16_384
    assert (tools["admitted"], tools["tools"]["ADMITTED"]) == (1, ["echo"])
    assert (tools["refused"], other["refused"]) == (tools["refused"], tools["refused"] - 1)
    assert tools["tools"] == other["tools"]
    assert tools["digest"] != other["digest"]


async def test_a_list_that_did_not_change_is_not_recorded_again(offered: Offered) -> None:
    async with offered(use(locked("raw.py"), "change", "echo")) as offer:
        for _ in range(5):
            await offer.result("raw.change")
            await offer.result("raw.echo", text="hello")

        assert len(offer.records("server.tools")) == 1


# Names ----------------------------------------------------------------------------------------------------------------


async def test_two_tools_of_one_name_are_both_refused_and_the_others_work(offered: Offered) -> None:
    async with offered(use(locked("raw.py", "name=echo"), "echo", "process")) as offer:
        assert offer.listed() == ["raw.process"]
        assert await offer.failure("raw.echo", text="hello") == (
            FailureCode.TOOL_NAME_REPEATED,
            "raw lists more than one tool named 'echo', and a call could reach any of them",
        )
        assert (await offer.result("raw.process"))["pid"]

    assert offer.records("server.tools")[0]["tools"]["TOOL_NAME_REPEATED"] == ["echo"]


async def test_names_that_no_person_can_read_are_refused_even_if_they_are_mapped(offered: Offered) -> None:
    odd = ("", "x" * 1_000_000, "line\nbreak", "\x1b[31mred", "hidden\u200b", "turned\u202e")

    async with offered(use(locked("raw.py", "odd-names"), "echo", *odd)) as offer:
        refused = {tool.id: tool.why.code for tool in offer.registry.refused()}
        unusable = sorted(tool_id for tool_id, code in refused.items() if code == "TOOL_NAME_UNUSABLE")
        # Others look like a tool that is open, and are others all the same.
        assert [refused["raw.Echo"], refused["raw.echo "]] == ["TOOL_NOT_MAPPED", "TOOL_NOT_MAPPED"]
        assert await offer.result("raw.echo", text="hello") == {"text": "hello"}

    assert len(unusable) == len(odd)
    assert all(tool_id.isprintable() and len(tool_id) < 200 for tool_id in unusable)
    assert all(len(str(body)) < 16_384 for body in offer.records("server.tools"))


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_server_shuts_no_tool_of_another_server_or_of_the_project(
    around: Surroundings, *, is_first: bool
) -> None:
    """A server lists names that would make the ids of others, none of which the lock opens to it."""
    shadowing = use(locked("raw.py", "name=two.echo", "name=local", server_id="srv"), "echo")
    other = use(locked("raw.py", server_id="srv.two"), "echo")
    offer = Offer((shadowing, other), around)
    offer.registry.add(MemoryTool("srv.local", source="module tools"))
    servers = {server.use.entry.server_id: server for server in offer.servers._servers.values()}
    try:
        for server_id in ("srv", "srv.two") if is_first else ("srv.two", "srv"):
            await servers[server_id].connect("run-1")

        assert offer.listed() == ["srv.echo", "srv.local", "srv.two.echo"]
        assert await offer.result("srv.two.echo", text="hello") == {"text": "hello"}
        assert isinstance(await offer.call("srv.local"), Done)
    finally:
        await offer.servers.close()


async def test_a_server_that_is_down_is_looked_for_although_another_lists_its_tool(offered: Offered) -> None:
    shadowing = use(locked("raw.py", "name=two.echo", server_id="srv"), "echo")
    other = use(locked("raw.py", server_id="srv.two"), "echo")

    async with offered(shadowing, other, is_connected=False) as offer:
        assert await offer.result("srv.echo", text="first") == {"text": "first"}
        assert await offer.result("srv.two.echo", text="second") == {"text": "second"}


async def test_no_name_takes_what_is_admitted_for_another_server(around: Surroundings) -> None:
    """The id that the project admits is that of a tool of `srv.two`, which `srv` lists as `two.environment`."""
    entries = [locked("raw.py", "name=two.environment", server_id="srv"), locked("raw.py", server_id="srv.two")]
    grants = grants_of(entries, (), ["srv.two.environment"])
    uses = [
        ServerUse(entry=entry, grant=grants[f"{entry.server_id}@1.0.0"], credentials=Credentials()) for entry in entries
    ]
    offer = Offer(tuple(uses), around)
    try:
        await offer.servers.connect("run-1")

        assert [(tool.id, tool.source) for tool in offer.registry.list()] == [
            ("srv.two.environment", "server srv.two@1.0.0")
        ]
        reserved = [tool for tool in offer.registry.refused() if tool.why.code == "TOOL_ID_RESERVED"]
        assert [(tool.id, tool.source) for tool in reserved] == [("srv.two.environment", "server srv@1.0.0")]
    finally:
        await offer.servers.close()


# Descriptors ----------------------------------------------------------------------------------------------------------


async def test_a_descriptor_says_what_the_lock_says(offered: Offered) -> None:
    entry = locked("raw.py")
    limited = msgspec.structs.replace(use(entry, "echo"), rate_limit_per_minute=30.0)

    async with offered(limited, call_seconds=7.0) as offer:
        (descriptor,) = offer.registry.list()

    assert (descriptor.id, descriptor.description) == ("raw.echo", "The arguments.")
    assert (descriptor.source, descriptor.scopes) == ("server raw@1.0.0", ("use",))
    assert (descriptor.rate_limit_per_minute, descriptor.timeout_seconds) == (30.0, 7.0)
    assert descriptor.input_schema["required"] == ["text"]


async def test_records_show_what_a_server_was_given_and_gave_and_none_of_its_errors(offered: Offered) -> None:
    async with offered(use(locked("raw.py"), "echo", "fail")) as offer:
        assert await offer.result("raw.echo", text="hello", password=CANARY) == {"text": "hello", "password": CANARY}
        await offer.failure("raw.echo", text=[CANARY])
        await offer.failure("raw.fail", text="hello")

    shown = '{"text":"hello","password":"[redacted]"}'
    contents = [record.body.get("content") for record in offer.store.trail if record.kind.startswith("call.")]
    assert contents == [shown, shown, None, '{"text":"hello"}', None]
    assert CANARY not in str(offer.store.trail)
    assert "no such note" not in str(offer.store.trail)


@pytest.mark.slow
async def test_a_server_that_hangs_does_not_keep_the_others(offered: Offered) -> None:
    good, bad = locked("raw.py", server_id="good"), locked("raw.py", "hang", server_id="bad")

    async with offered(use(good, "echo"), use(bad, "echo"), connect_seconds=2.0) as offer:
        assert offer.listed() == ["good.echo"]
        assert await offer.result("good.echo", text="hello") == {"text": "hello"}
        (problem,) = offer.servers.problems.items()

    assert problem[0] == "bad@1.0.0"
    assert isinstance(problem[1], ToolFailure)
    assert (problem[1].code, str(problem[1])) == (FailureCode.TIMEOUT, "bad did not answer in time")
    assert offer.records("server.unavailable") == [{"server": "bad@1.0.0", "reason": "TIMEOUT"}]


async def test_a_server_without_its_secret_is_not_started_and_waits(offered: Offered, folder: Path) -> None:
    async with offered(use(locked("raw.py", env=("RAW_TOKEN",)), "echo")) as offer:
        problem = offer.servers.problems["raw@1.0.0"]

    assert isinstance(problem, NeedsAction)
    assert offer.records("server.unavailable") == [{"server": "raw@1.0.0", "reason": "SECRET"}]
    assert started(folder) == []


async def test_two_servers_with_one_tool_id_are_a_conflict_and_the_first_stays(
    around: Surroundings, folder: Path
) -> None:
    first = use(locked("raw.py", server_id="raw"), "echo")
    second = msgspec.structs.replace(first, entry=msgspec.structs.replace(first.entry, version="2.0.0"))
    offer = Offer((first, second), around)

    with pytest.raises(ToolIdConflict) as conflict:
        await offer.servers.connect("run-1")
    await comes_true(lambda: len(offer.servers.problems) == 1)

    assert {"server raw@1.0.0", "server raw@2.0.0"} <= set(str(conflict.value).split(" by both ")[1].split(" and "))
    assert await offer.result("raw.echo", text="hello") == {"text": "hello"}
    (loser,) = offer.servers.problems
    assert [descriptor.source for descriptor in offer.registry.list()] != [f"server {loser}"]
    assert offer.changes == [["raw.echo"]]
    # A server whose tools cannot be offered has nothing to do.
    assert eventually(lambda: sum(map(is_running, started(folder))) == 1)
    await offer.servers.close()


async def test_schemas_that_cannot_be_used_are_refused_and_the_others_work(offered: Offered) -> None:
    names = ("elsewhere", "broken", "huge", "itself", "older")

    async with offered(use(locked("raw.py", "odd-schemas"), *names)) as offer:
        assert offer.listed() == ["raw.itself", "raw.older"]
        reasons = {name: await offer.failure(f"raw.{name}") for name in ("elsewhere", "broken", "huge")}
        assert await offer.result("raw.older", pair=["a", 1]) == {"new": {"pair": ["a", 1]}}
        assert (await offer.failure("raw.older", pair=[1]))[0] is FailureCode.INPUT_VALIDATION_FAILED
        assert await offer.result("raw.itself", child={"child": {}}) == {"new": {"child": {"child": {}}}}

    assert {code for code, _ in reasons.values()} == {FailureCode.SCHEMA_UNUSABLE}
    assert "nothing is fetched" in reasons["elsewhere"][1]
    assert reasons["huge"][1] == "The schema of its arguments cannot be used: it is larger than 262,144 bytes"
    assert "nonsense" in reasons["broken"][1]


async def test_what_a_tool_reports_as_its_error_is_a_failure_in_its_words(offered: Offered) -> None:
    async with offered(use(locked("raw.py"), "fail", "fail-silently", "text-only")) as offer:
        assert await offer.failure("raw.fail") == (FailureCode.TOOL_ERROR, "there is no such note")
        assert await offer.failure("raw.fail-silently") == (
            FailureCode.TOOL_ERROR,
            "The tool reported an error without words",
        )
        assert await offer.result("raw.text-only") == [{"type": "text", "text": "only text"}]


async def test_a_server_that_breaks_the_promise_of_its_own_schema_is_told(offered: Offered) -> None:
    names = ("promise-broken", "promise-forgotten", "promise-endless")

    async with offered(use(locked("raw.py"), *names), call_seconds=5.0) as offer:
        outcomes = {name: await offer.call(f"raw.{name}") for name in names}

    for outcome in outcomes.values():
        assert isinstance(outcome, Failed)
        assert outcome.code is FailureCode.OUTPUT_VALIDATION_FAILED
    assert outcomes["promise-broken"].details == ('count: the value is not of type "integer"',)
    assert outcomes["promise-forgotten"].details == ('(result): the value is not of type "object"',)


MODERN = ("modern.py", "modern")
LEGACY = ("raw.py", "raw")


@pytest.mark.parametrize(("script", "name"), [LEGACY, MODERN])
async def test_a_server_that_changes_its_tools_gets_no_more_than_the_lock_gives(
    offered: Offered, script: str, name: str
) -> None:
    entry = locked(script, server_id=name)

    async with offered(use(entry, "change", "echo", "new-mapped")) as offer:
        assert offer.listed() == [f"{name}.change", f"{name}.echo"]
        await offer.result(f"{name}.change", remove=["echo"], add=["new-mapped", "new-unmapped"])
        await comes_true(lambda: offer.listed() == [f"{name}.change", f"{name}.new-mapped"])

        assert isinstance(await offer.call(f"{name}.new-mapped"), Done)
        assert offer.refused()[f"{name}.new-unmapped"] == "TOOL_NOT_MAPPED"
        assert (await offer.failure(f"{name}.new-unmapped"))[0] is FailureCode.TOOL_NOT_MAPPED
        assert (await offer.failure(f"{name}.echo"))[0] is FailureCode.UNKNOWN_TOOL

    before, after = (record["tools"] for record in offer.records("server.tools"))
    assert (before["ADMITTED"], after["ADMITTED"]) == (["change", "echo"], ["change", "new-mapped"])
    assert "new-unmapped" in after["TOOL_NOT_MAPPED"]


async def test_a_call_that_comes_before_the_new_list_learns_that_the_tool_is_gone(offered: Offered) -> None:
    async with offered(use(locked("raw.py"), "change", "echo")) as offer:
        echo = offer.registry._offer.entries["raw.echo"].tool
        await offer.result("raw.change", remove=["echo"])

        with pytest.raises(ToolFailure) as gone:
            await echo.invoke({"text": "hello"}, CONTEXT)

    assert (gone.value.code, str(gone.value)) == (FailureCode.UNKNOWN_TOOL, "raw no longer has `echo`")


@pytest.mark.slow
async def test_a_subscription_that_is_lost_is_opened_again_and_nothing_is_missed(offered: Offered) -> None:
    entry = locked("modern.py", server_id="modern")

    async with offered(use(entry, "cut", "change", "new-one", "new-two")) as offer:
        await offer.result("modern.cut", add=["new-one"])
        await comes_true(lambda: "modern.new-one" in offer.listed())
        await offer.result("modern.change", add=["new-two"])
        await comes_true(lambda: "modern.new-two" in offer.listed())


async def test_a_server_that_is_started_again_offers_what_it_has_then(offered: Offered) -> None:
    async with offered(use(locked("raw.py"), "change", "die", "echo", "new-mapped")) as offer:
        await offer.result("raw.change", remove=["echo"], add=["new-mapped"])
        await comes_true(lambda: "raw.new-mapped" in offer.listed())

        assert (await offer.failure("raw.die"))[0] is FailureCode.SERVER_UNAVAILABLE
        assert (await offer.failure("raw.new-mapped"))[0] is FailureCode.UNKNOWN_TOOL
        await comes_true(lambda: offer.listed() == ["raw.change", "raw.die", "raw.echo"])
        assert await offer.result("raw.echo", text="back") == {"text": "back"}


async def test_tools_that_stay_are_there_at_every_moment_of_a_change(offered: Offered, around: Surroundings) -> None:
    async with offered() as offer:
        store = GatedStore()  # Only what is decided about tools waits, and calls do not.
        servers = LockedServers((use(locked("raw.py"), "change", "echo", "process"),), offer.registry, store, around)
        await servers.connect("run-1")
        store.gate.clear()
        await offer.result("raw.change", remove=["process"])
        await store.reached.wait()

        assert offer.listed() == ["raw.change", "raw.echo", "raw.process"]
        store.gate.set()
        await comes_true(lambda: offer.listed() == ["raw.change", "raw.echo"])
        await servers.close()


class CountingStore(MemoryStore):
    """A store that counts its commits."""

    commits = 0

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        self.commits += 1
        return await super().write(work)


async def test_all_decisions_about_the_tools_of_a_server_are_one_commit(offered: Offered) -> None:
    store = CountingStore()

    async with offered(use(locked("raw.py", "pages"), "tool-001"), store=store) as offer:
        assert len(offer.records("server.tools")) == 1
        assert store.commits == 2  # The other one says that the server is connected.


async def test_closing_twice_is_closing_once(offered: Offered, folder: Path) -> None:
    async with offered(use(locked("raw.py"), "echo")) as offer:
        await offer.servers.close()
        await offer.servers.close()

    assert len(started(folder)) == 1


async def test_each_call_tells_the_server_its_own_place_in_the_trace(offered: Offered) -> None:
    parents = [f"00-{TRACE}-{span * 16}-01" for span in "12"]
    reader = CallTelemetry("tests", Resource.create({}), Signals(sampler=sampler_of("always_on", 1.0)))

    async with offered(use(locked("raw.py"), "meta")) as offer:
        calls = [msgspec.structs.replace(CONTEXT, parent=parent) for parent in parents]
        passed_on: list[Any] = [await offer.registry.call("raw.meta", {}, context) for context in calls]
        watched = ToolRegistry(Ports(telemetry=reader))
        watched.add(offer.registry._offer.entries["raw.meta"].tool)
        outcomes: list[Any] = [await watched.call("raw.meta", {}, CONTEXT) for _ in range(2)]
        bare = await offer.result("raw.meta")

    assert [outcome.result["meta"]["traceparent"] for outcome in passed_on] == parents
    own = [outcome.traceparent for outcome in outcomes]
    assert [outcome.result["meta"]["traceparent"] for outcome in outcomes] == own
    assert len(set(own)) == 2
    assert "traceparent" not in bare["meta"]
