"""Typed functions as tools: how they are declared, what is refused, and what a call does."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator
from datetime import date, datetime
from decimal import Decimal
from types import ModuleType
from typing import Annotated, Any
from uuid import UUID

import pytest
from msgspec import Meta, Struct, structs
from pydantic import BaseModel, Field

from agent_resolver.capability import Capability, UnsafeCapability, UnsafeCode, capabilities_of, capability
from agent_resolver.registry import (
    CallContext,
    PendingActions,
    Ports,
    Secret,
    Tool,
    ToolFailure,
    ToolRegistry,
)
from agent_resolver.schema import Done, Failed, FailureCode, ManifestTool, Pending
from agent_resolver.storage import MemoryStore
from tests.capability.declared import CONTEXT, Answer, Question, Words, answer, declare


def refused(function: Any = answer, capability_id: str = "tests.echo", **declared: Any) -> list[tuple[str, UnsafeCode]]:
    """Why a function cannot be a tool."""
    with pytest.raises(UnsafeCapability) as caught:
        declare(function, capability_id, **declared)
    return [(fault.path, fault.code) for fault in caught.value.details]


def call(tool: Tool, context: CallContext = CONTEXT, **arguments: Any) -> Any:
    """The outcome of one call through the whole pipeline."""
    registry = ToolRegistry()
    registry.add(tool)
    return asyncio.run(registry.call(tool.descriptor.id, arguments, context))


# What it is -----------------------------------------------------------------------------------------------------------


@capability(
    "tests.greet",
    classification="CONFIDENTIAL",
    scopes=["greet", "greet"],
    idempotent=True,
    read_only=True,
    secrets=["TOKEN"],
    secret_fields=["pin"],
    subdomain="polite",
    tags=["tests", "connector", "connector"],
    maintainer="the tests",
    allow_outbound=True,
    cost_factor=0.5,
    priority="P2",
    timeout_seconds=3,
    rate_limit_per_minute=60,
    examples=[{"words": "hello"}],
)
def greet(request: Question, context: CallContext) -> Answer:
    """Greet somebody.

    And say who it is from.
    """
    return Answer(words=f"{request.words} from {context.caller.id}")


def test_a_capability_is_a_tool_with_all_that_was_declared() -> None:
    tool: Tool = greet
    found = tool.descriptor

    assert (found.id, found.source) == ("tests.greet", "module tests.capability.test_capability")
    assert found.description == "Greet somebody.\n\nAnd say who it is from."
    assert (found.timeout_seconds, found.rate_limit_per_minute) == (3, 60)
    assert structs.asdict(found.rules) == {
        "required_scopes": ("greet",),
        "classification": "CONFIDENTIAL",
        "needs_approval": False,
        "approver_role": "approver",
        "priority": "P2",
        "is_idempotent": True,
        "secrets": ("TOKEN",),
        "secret_fields": ("pin",),
        "is_isolated": False,
    }
    assert structs.asdict(found.labels) == {
        "kind": "CAPABILITY",
        "domain": "tests",
        "subdomain": "polite",
        "tags": ("tests", "connector"),
        "maintainer": "the tests",
        "allow_outbound": True,
        "hosts": (),
        "cost_factor": 0.5,
        "examples": ({"words": "hello"},),
    }
    assert found.hints == {
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": True,
    }


def test_what_is_not_declared_is_not_promised() -> None:
    found = declare().descriptor

    assert found.hints == {"destructiveHint": True, "idempotentHint": False, "openWorldHint": False}
    assert found.rules.classification == "INTERNAL"
    assert found.labels.tags == ("tests",)


def test_declared_hosts_are_reached_over_the_network() -> None:
    found = declare(hosts=["API.example.com", "api.example.com", "10.0.0.1"]).descriptor

    assert found.labels.hosts == ("api.example.com", "10.0.0.1")
    assert found.labels.allow_outbound
    assert found.hints
    assert found.hints["openWorldHint"]
    assert ManifestTool.of(found).hosts == ("10.0.0.1", "api.example.com")


@pytest.mark.parametrize("hosts", ["api.example.com", ["https://api.example.com"], ["*.example.com"], ["a:80"], [""]])
def test_hosts_are_a_list_of_names_or_addresses(hosts: Any) -> None:
    assert refused(hosts=hosts) == [("hosts", UnsafeCode.BAD_SETTING)]


def test_a_capability_is_still_the_function_that_it_was() -> None:
    assert greet(Question(words="hi"), CONTEXT) == Answer(words="hi from local:ada")
    assert inspect.unwrap(greet).__qualname__ == "greet"
    assert repr(greet) == "<capability tests.greet>"


def test_what_is_restricted_takes_an_approval_and_a_process_of_its_own() -> None:
    restricted = declare(classification="RESTRICTED", isolated=None)
    here = declare(classification="RESTRICTED", isolated=False)

    assert restricted.descriptor.rules.needs_approval
    assert here.descriptor.rules.needs_approval
    assert restricted._run != restricted.run_here
    assert here._run == here.run_here


def test_anything_may_ask_for_an_approval_or_a_process_of_its_own() -> None:
    found = declare(approval=True, isolated=True)

    assert found.descriptor.rules.needs_approval
    assert found._run != found.run_here


def test_examples_do_not_change_with_what_was_given() -> None:
    examples = [{"words": "before"}]
    found = declare(examples=examples)
    examples[0]["words"] = "after"

    assert found.descriptor.labels.examples == ({"words": "before"},)


def test_capabilities_are_found_among_the_attributes_of_a_module() -> None:
    module = ModuleType("somewhere")
    first, second = declare(capability_id="tests.b"), declare(capability_id="tests.a")
    vars(module).update(first=first, again=first, second=second, other=answer, number=3)

    assert capabilities_of(module) == (second, first)


@pytest.mark.parametrize(
    ("capability_id", "domain"),
    [
        ("tickets.search", "tickets"),
        ("golden.github.issue.create", "github"),
        ("golden.github.issues", "github"),
        ("golden.echo", "demo"),
        ("golden.other", "golden"),
        ("a_b.c-d.e9", "a_b"),
    ],
)
def test_the_domain_is_in_the_id(capability_id: str, domain: str) -> None:
    found = declare(capability_id=capability_id, domain=domain)

    assert found.descriptor.labels.domain == domain
    assert found.descriptor.labels.tags[0] == domain


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "capability_id",
    [
        "",
        "one",
        "Tickets.search",
        "tickets.",
        ".search",
        "tickets..search",
        "tickets.se arch",
        "tickets.ä",
        "9.a",
        "a.9",
        "a.b\n",
        "a-b.c",
        "a." + "b" * 127,
    ],
)
def test_an_id_has_two_words_of_lower_case(capability_id: str) -> None:
    assert refused(capability_id=capability_id) == [("id", UnsafeCode.BAD_ID)]


def test_another_domain_than_that_of_the_id_is_refused() -> None:
    assert refused(domain="other") == [("domain", UnsafeCode.DOMAIN_MISMATCH)]
    assert refused(capability_id="golden.echo", domain="golden") == [("domain", UnsafeCode.DOMAIN_MISMATCH)]


def test_what_is_restricted_cannot_go_without_an_approval() -> None:
    found = refused(classification="RESTRICTED", isolated=False, approval=False)

    assert found == [("approval", UnsafeCode.UNAPPROVED_RESTRICTED)]


@pytest.mark.parametrize(
    "declared",
    [
        {"classification": "SECRET"},
        {"priority": "P0"},
        {"timeout_seconds": 0},
        {"timeout_seconds": float("inf")},
        {"timeout_seconds": True},
        {"rate_limit_per_minute": -1},
        {"cost_factor": float("nan")},
        {"scopes": "tickets:write"},
        {"scopes": [""]},
        {"tags": ["two words"]},
        {"secrets": ["NOT-A-NAME"]},
        {"approver_role": ""},
    ],
)
def test_a_setting_that_means_nothing_is_refused(declared: dict[str, Any]) -> None:
    assert refused(**declared) == [(next(iter(declared)), UnsafeCode.BAD_SETTING)]


def test_a_capability_says_what_it_does() -> None:
    async def silent(request: Question) -> Answer:
        return Answer(words=request.words)

    assert refused(silent) == [("description", UnsafeCode.MISSING_DESCRIPTION)]
    assert refused(description=" ") == [("description", UnsafeCode.MISSING_DESCRIPTION)]
    assert refused(description="x" * 5000) == [("description", UnsafeCode.TOO_LARGE)]
    assert declare(silent, description="Said here.").descriptor.description == "Said here."


def test_a_capability_has_an_example_that_it_takes() -> None:
    assert refused(examples=[]) == [("examples", UnsafeCode.MISSING_EXAMPLES)]
    assert refused(examples=[{}, {"words": 3}, {"word": "x"}]) == [
        ("examples.1", UnsafeCode.INVALID_EXAMPLE),
        ("examples.2", UnsafeCode.INVALID_EXAMPLE),
    ]
    assert refused(examples=[{"words": float("nan")}]) == [("examples.0", UnsafeCode.INVALID_EXAMPLE)]
    assert refused(examples={"words": "x"}) == [("examples.0", UnsafeCode.INVALID_EXAMPLE)]


def test_an_example_that_only_follows_the_schema_is_refused() -> None:
    class Appointment(Struct):
        """When to meet."""

        at: Annotated[datetime, Meta(description="When.", examples=["2024-01-01T00:00:00Z"])]

    async def meet(request: Appointment) -> Answer:
        """Meet."""
        return Answer(words=str(request.at))

    assert refused(meet, examples=[{"at": "soon"}]) == [("examples.0", UnsafeCode.INVALID_EXAMPLE)]


def no_types(request, context):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Nothing is said."""


def no_result(request: Question):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """What it gives is not said."""


def many(request: Question, *more: str, **others: str) -> Answer:
    """It takes whatever comes."""
    raise NotImplementedError


def none() -> Answer:
    """It takes nothing."""
    raise NotImplementedError


def three(request: Question, context: CallContext, third: Question) -> Answer:
    """It takes too much."""
    raise NotImplementedError


def named(*, request: Question) -> Answer:
    """It takes its request by name only."""
    raise NotImplementedError


def defaulted(request: Question = Question()) -> Answer:  # noqa: B008
    """It takes nothing or something."""
    raise NotImplementedError


def no_context(request: Question, context: Question) -> Answer:
    """Its second parameter is another."""
    raise NotImplementedError


def lost(request: "Nowhere") -> Answer:  # type: ignore[name-defined]  # noqa: F821
    """Its type is not there."""
    raise NotImplementedError


async def yielding(request: Question) -> AsyncIterator[Answer]:
    """It gives many."""
    yield Answer(words=request.words)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (
            no_types,
            [
                ("request", UnsafeCode.MISSING_ANNOTATION),
                ("context", UnsafeCode.MISSING_ANNOTATION),
                ("return", UnsafeCode.MISSING_ANNOTATION),
            ],
        ),
        (no_result, [("return", UnsafeCode.MISSING_ANNOTATION)]),
        (
            many,
            [
                ("more", UnsafeCode.VARIADIC_PARAMETERS),
                ("others", UnsafeCode.VARIADIC_PARAMETERS),
                ("(function)", UnsafeCode.BAD_SIGNATURE),
            ],
        ),
        (none, [("(function)", UnsafeCode.BAD_SIGNATURE)]),
        (three, [("(function)", UnsafeCode.BAD_SIGNATURE)]),
        (named, [("request", UnsafeCode.BAD_SIGNATURE)]),
        (defaulted, [("request", UnsafeCode.BAD_SIGNATURE)]),
        (no_context, [("context", UnsafeCode.BAD_SIGNATURE)]),
        (lost, [("(function)", UnsafeCode.UNRESOLVED_ANNOTATION)]),
        (yielding, [("(function)", UnsafeCode.BAD_SIGNATURE)]),
        (Question, [("(function)", UnsafeCode.BAD_SIGNATURE)]),
        (greet, [("(function)", UnsafeCode.BAD_SIGNATURE)]),
    ],
)
def test_a_function_takes_one_request_and_gives_one_result(
    function: Any, expected: list[tuple[str, UnsafeCode]]
) -> None:
    assert refused(function) == expected


def test_what_runs_in_a_process_of_its_own_can_be_imported() -> None:
    def inside(request: Question) -> Answer:
        """Nobody else sees it."""
        return Answer(words=request.words)

    assert refused(inside, isolated=True) == [("(function)", UnsafeCode.NOT_IMPORTABLE)]
    assert refused(lambda request: request, isolated=True, description="d")[-1][1] is UnsafeCode.NOT_IMPORTABLE


class Wrong(Struct, rename="upper"):
    """A request with more than one fault."""

    anything: Any
    words: Words = "x"


class WrongToo(BaseModel):
    """A result with a fault."""

    words: bytes = Field(description="d")


def test_all_faults_arrive_together() -> None:
    def wrong(request: Wrong) -> WrongToo:
        raise NotImplementedError

    with pytest.raises(UnsafeCapability) as caught:
        declare(wrong, "wrong", classification="RESTRICTED", approval=False, examples=[])

    error = caught.value
    assert (error.capability_id, error.where.rpartition(".")[2]) == ("wrong", "wrong")
    assert [(fault.path, fault.code) for fault in error.details] == [
        ("id", UnsafeCode.BAD_ID),
        ("description", UnsafeCode.MISSING_DESCRIPTION),
        ("examples", UnsafeCode.MISSING_EXAMPLES),
        ("approval", UnsafeCode.UNAPPROVED_RESTRICTED),
        ("(function)", UnsafeCode.NOT_IMPORTABLE),
        ("request.anything", UnsafeCode.ALIAS),
        ("request.anything", UnsafeCode.MISSING_DESCRIPTION),
        ("request.anything", UnsafeCode.MISSING_EXAMPLES),
        ("request.anything", UnsafeCode.UNTYPED),
        ("request.words", UnsafeCode.ALIAS),
        ("return.words", UnsafeCode.BINARY),
    ]
    assert str(error.details[0]) == (
        "id: `wrong` is not an id: use lower case words with dots between, as `tickets.search`"
    )


# What a call does -----------------------------------------------------------------------------------------------------


class AskModel(BaseModel):
    """A request in pydantic's words."""

    words: Annotated[str, Field(description="Some words.", examples=["x"])]


class TellModel(BaseModel):
    """A result in pydantic's words."""

    words: Annotated[tuple[str, ...], Field(description="Some words.")]


async def split(request: AskModel) -> TellModel:
    """Give back each word."""
    return TellModel(words=tuple(request.words.split()))


def test_a_call_takes_and_gives_json() -> None:
    assert call(declare(), words="hello") == Done(trace_id=CONTEXT.trace_id, result={"words": "hello"})
    assert call(declare(split), words="two words").result == {"words": ["two", "words"]}


def test_a_default_is_filled_in() -> None:
    assert call(declare()).result == {"words": "none"}


def test_a_function_that_raises_what_a_future_cannot_carry_fails_all_the_same() -> None:
    def stop(_: Question) -> Answer:
        """End an iteration that there is none of."""
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(declare(stop).invoke({"words": "x"}, CONTEXT))


def test_a_function_that_is_not_async_runs_in_a_thread() -> None:
    def where(request: Question) -> Answer:
        """Tell the thread."""
        return Answer(words=f"{request.words} {threading.current_thread() is threading.main_thread()}")

    assert call(declare(where), words="main:").result == {"words": "main: False"}


def test_a_function_is_given_its_context_where_it_asks_for_it() -> None:
    context = structs.replace(CONTEXT, secrets={"TOKEN": Secret("TOKEN", "s3cret")}, key="key-1")

    async def tell(request: Question, context: CallContext) -> Answer:
        """Tell what is in the context."""
        return Answer(words=f"{request.words} {context.key} {context.secrets['TOKEN'].reveal()}")

    assert asyncio.run(declare(tell).invoke({"words": "x"}, context)) == {"words": "x key-1 s3cret"}


def test_progress_is_passed_on() -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None = None, message: str | None = None) -> None:
        told.append((done, total, message))

    async def work(request: Question, context: CallContext) -> Answer:
        """Work."""
        await context.progress(1, 2, "half")
        return Answer(words=request.words)

    asyncio.run(declare(work).invoke({}, structs.replace(CONTEXT, progress=progress)))

    assert told == [(1, 2, "half")]


def test_arguments_that_only_follow_the_schema_are_refused_with_their_place() -> None:
    class Appointment(Struct):
        """When to meet."""

        at: Annotated[datetime, Meta(description="When.", examples=["2024-01-01T00:00:00Z"])]

    async def meet(request: Appointment) -> Answer:
        """Meet."""
        return Answer(words=str(request.at))

    tool = declare(meet, examples=[{"at": "2024-01-01T00:00:00Z"}])
    outcome = call(tool, at="canary-7")

    assert isinstance(outcome, Failed)
    assert outcome.code is FailureCode.INPUT_VALIDATION_FAILED
    assert outcome.message == "The arguments do not follow the schema of tests.echo"
    assert outcome.details == ("at: Invalid RFC3339 encoded datetime",)
    with pytest.raises(ToolFailure, match=r"tests\.echo: at: Invalid RFC3339 encoded datetime$") as caught:
        asyncio.run(tool.invoke({"at": "canary-7"}, CONTEXT))
    assert caught.value.details == outcome.details


class Booking(Struct):
    """What to book."""

    day: Annotated[date, Meta(description="When.", examples=["2024-01-01"])]
    room: Annotated[UUID, Meta(description="Where.", examples=["7f31830c-e122-11f1-afbf-02fc00000001"])]


class Price(BaseModel):
    """What to pay, at least and at most."""

    low: Annotated[Decimal, Field(description="A price.", examples=["1.50"])]
    high: Annotated[Decimal, Field(description="A price.", examples=["2.50"])]


async def book(request: Booking) -> Answer:
    """Book a room."""
    return Answer(words=str(request.day))


async def pay(request: Price) -> Answer:
    """Pay."""
    return Answer(words=str(request.low))


@pytest.mark.parametrize(
    ("function", "example", "wrong", "faults"),
    [
        (
            book,
            {"day": "2024-01-01", "room": "7f31830c-e122-11f1-afbf-02fc00000001"},
            {"day": "canary-7", "room": "canary-8"},
            ('day: the value is not a "date"', 'room: the value is not a "uuid"'),
        ),
        (
            pay,
            {"low": "1.50", "high": "2.50"},
            {"low": "canary-7", "high": "canary-8"},
            ("high: decimal_parsing", "low: decimal_parsing"),
        ),
    ],
)
def test_nobody_is_asked_to_approve_what_the_function_could_not_take(
    function: Any, example: Any, wrong: Any, faults: tuple[str, ...]
) -> None:
    store = MemoryStore()
    registry = ToolRegistry(Ports(store=store))
    registry.add(declare(function, examples=[example], approval=True, rate_limit_per_minute=1))

    async def story() -> tuple[Any, Any]:
        refused = await registry.call("tests.echo", wrong, CONTEXT)
        assert await PendingActions(store).all() == []
        return refused, await registry.call("tests.echo", example, CONTEXT)

    refused, asked = asyncio.run(story())

    assert (refused.code, refused.details) == (FailureCode.INPUT_VALIDATION_FAILED, faults)
    assert isinstance(asked, Pending)


class Stubborn(Struct, frozen=True):
    """It has code of its own, which a set runs."""

    words: Words

    def __hash__(self) -> int:
        raise LookupError(self.words)


class Crowd(Struct):
    """A set of them."""

    members: Annotated[frozenset[Stubborn], Meta(description="All of them.")]


def test_a_class_that_fails_on_its_own_is_a_fault_too() -> None:
    async def gather(request: Crowd) -> Answer:
        """Gather them."""
        return Answer(words=str(len(request.members)))

    outcome = call(declare(gather, examples=[{"members": []}]), members=[{"words": "canary-7"}])

    assert (outcome.code, outcome.details) == (FailureCode.INPUT_VALIDATION_FAILED, ("(arguments): LookupError",))


def test_a_result_that_is_another_is_refused() -> None:
    async def lie(request: Question) -> Answer:
        """Give something else."""
        return {"number": request.words}  # type: ignore[return-value]

    async def object_instead(request: Question) -> Answer:
        """Give what is no JSON."""
        return object()  # type: ignore[return-value]

    assert call(declare(lie)).code is FailureCode.OUTPUT_VALIDATION_FAILED
    outcome = call(declare(object_instead))
    assert outcome.code is FailureCode.OUTPUT_VALIDATION_FAILED
    assert outcome.message == "tests.echo gave `object`, which is not JSON (TypeError)"


def test_a_model_that_is_another_is_refused() -> None:
    async def lie(request: AskModel) -> TellModel:
        """Give something else."""
        return request  # type: ignore[return-value]

    assert call(declare(lie), words="x").code is FailureCode.OUTPUT_VALIDATION_FAILED


def test_what_a_function_raises_is_told_without_its_words() -> None:
    async def fail(request: Question) -> Answer:
        """Fail."""
        raise RuntimeError(request.words)

    async def refuse(request: Question) -> Answer:
        """Refuse."""
        raise ToolFailure(FailureCode.TOOL_ERROR, "Not today", "come back tomorrow")

    failed, foreseen = call(declare(fail), words="canary-7"), call(declare(refuse))

    assert failed.code is FailureCode.RUNNER_ERROR
    assert "RuntimeError at test_capability.py:" in failed.message
    assert "canary" not in failed.message
    assert (foreseen.code, foreseen.message, foreseen.remedy) == (
        FailureCode.TOOL_ERROR,
        "Not today",
        "come back tomorrow",
    )


def test_every_capability_keeps_its_type() -> None:
    typed: Capability[[Question, CallContext], Answer] = greet

    assert isinstance(typed, Capability)
