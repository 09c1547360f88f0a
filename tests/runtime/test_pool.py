"""The members of a pool: who is asked next, and why."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, get_args

import pytest

from agent_resolver.runtime import (
    AgentRuntimeBuilder,
    AgentSpec,
    Breakers,
    ChatAnswer,
    ChatRequest,
    ConfigValidation,
    FailureKind,
    InferenceFailure,
    LlmExecutor,
    ModelPool,
    ModelSpec,
    Piece,
    PooledExecutor,
    PoolMember,
    ResolvedAgent,
    Restarted,
    RetryConfig,
    RetryingExecutor,
    ScriptedExecutor,
    Seat,
    Switch,
    TextDelta,
    close_stream,
    user_message,
)
from tests.runtime.pieces import pieces_of

REQUEST = ChatRequest(model="pool", messages=(user_message("Hello"),))
HELLO = ChatAnswer(text="Hi")
ALWAYS_SWITCHED = {"provider", "overloaded", "timeout", "stream_interrupted"}
NEVER_SWITCHED = {
    "context_overflow",
    "invalid_request",
    "content_filtered",
    "all_unavailable",
    "pool_exhausted",
    "cancelled",
}


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def failure(kind: FailureKind = "timeout", retry_after_ms: int | None = None) -> InferenceFailure:
    return InferenceFailure(kind, "no answer", retry_after_ms)


def pooled(*executors: LlmExecutor, switch: Switch | None = None, breakers: Breakers | None = None) -> PooledExecutor:
    names = "abcdef"[: len(executors)]
    models = [ModelSpec(id=name, provider_id="p", upstream_model=f"{name}-upstream") for name in names]
    members = tuple(PoolMember(model_id=name) for name in names)
    pool = ModelPool(id="pool", members=members, switch=switch or Switch())
    seats = tuple(Seat(model, executor) for model, executor in zip(models, executors, strict=True))
    return PooledExecutor(pool, seats, breakers or Breakers())


def answered(pool: PooledExecutor) -> ChatAnswer:
    return asyncio.run(pool.complete(REQUEST))


def refused(pool: PooledExecutor) -> InferenceFailure:
    with pytest.raises(InferenceFailure) as failed:
        answered(pool)
    return failed.value


def streamed(pool: PooledExecutor) -> list[Any]:
    return asyncio.run(pieces_of(pool, REQUEST))


# Who is next ----------------------------------------------------------------------------------------------------------


def test_the_home_answers_under_its_own_name_and_the_answer_says_who_it_was() -> None:
    home, other = ScriptedExecutor([HELLO]), ScriptedExecutor([])

    assert answered(pooled(home, other)).model_id == "a"
    assert [request.model for request in home.requests] == ["a-upstream"]
    assert other.requests == []


@pytest.mark.parametrize("kind", get_args(FailureKind))
@pytest.mark.parametrize("is_wanted", [True, False])
def test_the_next_member_is_asked_for_the_kinds_that_the_pool_switches_on(
    kind: FailureKind, *, is_wanted: bool
) -> None:
    switch = Switch(on_quota=is_wanted, on_permanent=is_wanted)
    pool = pooled(ScriptedExecutor([failure(kind)]), ScriptedExecutor([HELLO]), switch=switch)

    if kind in ALWAYS_SWITCHED or (is_wanted and kind not in NEVER_SWITCHED):
        assert answered(pool).model_id == "b"
    else:
        assert refused(pool).kind == kind


def test_quota_and_permanent_failures_are_switched_on_apart() -> None:
    def answers(kind: FailureKind, switch: Switch) -> bool:
        pool = pooled(ScriptedExecutor([failure(kind)]), ScriptedExecutor([HELLO]), switch=switch)
        return not isinstance(streamed(pool)[-1], InferenceFailure)

    assert answers("rate_limited", Switch(on_permanent=False))
    assert not answers("rate_limited", Switch(on_quota=False))
    assert answers("unauthorized", Switch(on_quota=False))
    assert answers("model_not_found", Switch(on_quota=False))
    assert not answers("unauthorized", Switch(on_permanent=False))
    assert not answers("model_not_found", Switch(on_permanent=False))


def test_each_member_tries_again_before_the_next_one_is_asked() -> None:
    async def wait(seconds: float) -> None:
        """Not at all."""

    home, other = ScriptedExecutor([failure()] * 3), ScriptedExecutor([failure(), HELLO])
    config = RetryConfig(max_retries=2)
    pool = pooled(*(RetryingExecutor(each, config, wait) for each in (home, other)))

    assert answered(pool).model_id == "b"
    assert (len(home.requests), len(other.requests)) == (3, 2)


def test_when_all_were_tried_the_failure_has_what_each_said() -> None:
    pool = pooled(ScriptedExecutor([failure("overloaded", 9_000)]), ScriptedExecutor([failure("unauthorized")]))

    told = refused(pool)

    assert (told.kind, told.retry_after_ms, told.may_pass) == ("pool_exhausted", 9_000, False)
    assert str(told) == ("no member of pool pool answered: a: overloaded: no answer; b: unauthorized: no answer")


# Breakers -------------------------------------------------------------------------------------------------------------


def test_a_member_that_failed_five_times_is_left_alone_for_half_a_minute() -> None:
    clock = Clock()
    breakers = Breakers(clock=clock)
    home = ScriptedExecutor([*[failure()] * 5, HELLO])
    pool = pooled(home, ScriptedExecutor(lambda _: HELLO), breakers=breakers)

    assert [answered(pool).model_id for _ in range(7)] == ["b"] * 7
    assert len(home.requests) == 5
    clock.seconds = 29.9
    assert answered(pool).model_id == "b"
    clock.seconds = 30.0
    assert answered(pool).model_id == "a"
    assert not breakers.of("a").is_open


def test_a_probe_that_fails_keeps_the_member_alone_for_another_while() -> None:
    clock = Clock()
    home = ScriptedExecutor([*[failure()] * 6, HELLO])
    pool = pooled(home, ScriptedExecutor(lambda _: HELLO), breakers=Breakers(clock=clock))
    answers = [answered(pool).model_id for _ in range(5)]

    for seconds in (30.0, 59.0, 60.0):
        clock.seconds = seconds
        answers.append(answered(pool).model_id)

    assert answers == ["b"] * 7 + ["a"]
    assert len(home.requests) == 7


def test_only_one_request_probes_at_a_time() -> None:
    clock = Clock()
    breaker = Breakers(failures=1, clock=clock).of("a")
    with pytest.raises(InferenceFailure), breaker.watching():
        raise failure()
    clock.seconds = 30.0

    assert (breaker.admits(), breaker.admits()) == (True, False)
    with pytest.raises(asyncio.CancelledError), breaker.watching():
        raise asyncio.CancelledError
    assert breaker.admits(), "who gave up says nothing, and gives the probe back"
    with breaker.watching():
        """The model answers."""
    assert (breaker.admits(), breaker.admits()) == (True, True)


@pytest.mark.parametrize("kind", ["context_overflow", "content_filtered", "invalid_request"])
def test_what_fails_everywhere_does_not_count_against_a_member(kind: FailureKind) -> None:
    breakers = Breakers(failures=1)
    pool = pooled(ScriptedExecutor([failure(kind), HELLO]), breakers=breakers)

    refused(pool)

    assert answered(pool).model_id == "a"


def test_when_all_are_left_alone_none_is_available() -> None:
    executors = [ScriptedExecutor([failure()]), ScriptedExecutor([failure()])]
    pool = pooled(*executors, breakers=Breakers(failures=1))

    assert refused(pool).kind == "pool_exhausted"
    told = refused(pool)
    assert told.kind == "all_unavailable"
    assert str(told) == (
        "no member of pool pool may be asked now: a: it failed too often of late; b: it failed too often of late"
    )
    assert [len(each.requests) for each in executors] == [1, 1]


def test_without_the_switch_an_open_breaker_ends_it() -> None:
    other = ScriptedExecutor(lambda _: HELLO)
    switch = Switch(on_circuit_open=False)
    pool = pooled(ScriptedExecutor([failure()]), other, switch=switch, breakers=Breakers(failures=1))

    assert answered(pool).model_id == "b"
    assert refused(pool).kind == "all_unavailable"
    assert len(other.requests) == 1


# Streams --------------------------------------------------------------------------------------------------------------


def test_a_switch_before_the_first_piece_is_silent() -> None:
    pool = pooled(ScriptedExecutor([failure()]), ScriptedExecutor([ChatAnswer(text="Hi")]))

    assert streamed(pool) == [TextDelta("H"), TextDelta("i"), ChatAnswer(text="Hi", model_id="b")]


def test_a_switch_after_pieces_were_given_says_so_first() -> None:
    async def wait(seconds: float) -> None:
        """Not at all."""

    broken = (TextDelta("a"), failure("stream_interrupted"))
    config = RetryConfig(max_retries=1, max_stream_retries=1)
    home = RetryingExecutor(ScriptedExecutor([broken, broken]), config, wait)

    assert streamed(pooled(home, ScriptedExecutor([HELLO]))) == [
        TextDelta("a"),
        Restarted(2, "no answer"),
        TextDelta("a"),
        Restarted(3, "a: stream_interrupted: no answer; b takes over"),
        TextDelta("H"),
        TextDelta("i"),
        ChatAnswer(text="Hi", model_id="b"),
    ]


def test_a_stream_that_no_member_finishes_ends_in_a_failure() -> None:
    pool = pooled(ScriptedExecutor([(TextDelta("a"), failure())]), ScriptedExecutor([failure("provider")]))

    pieces = streamed(pool)

    assert pieces[:-1] == [TextDelta("a"), Restarted(2, "a: timeout: no answer; b takes over")]
    assert pieces[-1].kind == "pool_exhausted"


def test_a_reader_that_leaves_gives_the_probe_back_and_closes_the_stream() -> None:
    closed = []

    class Endless:
        async def complete(self, _: ChatRequest) -> ChatAnswer:
            raise NotImplementedError

        async def stream(self, request: ChatRequest) -> AsyncIterator[Piece]:
            try:
                while True:
                    yield TextDelta("a")
            finally:
                closed.append(request.model)

    clock = Clock()
    breakers = Breakers(failures=1, clock=clock)
    with pytest.raises(InferenceFailure), breakers.of("a").watching():
        raise failure()
    clock.seconds = 30.0
    pool = pooled(Endless(), breakers=breakers)

    async def read_one() -> None:
        pieces = pool.stream(REQUEST)
        await anext(pieces)
        await close_stream(pieces)
        assert closed == ["a-upstream"], "at once, and not with the loop"

    asyncio.run(read_one())
    assert breakers.of("a").admits()


# Runtimes -------------------------------------------------------------------------------------------------------------


def builder() -> AgentRuntimeBuilder:
    made = AgentRuntimeBuilder().with_agent_spec(AgentSpec(id="agent", model_id="pool"))
    made.with_provider("p", ScriptedExecutor(lambda _: failure()))
    made.with_model(ModelSpec(id="a", provider_id="p", upstream_model="a"))
    return made.with_model_pool(ModelPool(id="pool", members=(PoolMember(model_id="a"),)))


def ask(runtime: Any) -> str:
    plan = runtime.resolve("agent").execution
    assert isinstance(plan, ResolvedAgent)
    with pytest.raises(InferenceFailure) as failed:
        asyncio.run(plan.executor.complete(REQUEST))
    return failed.value.kind


def test_the_plans_of_one_runtime_share_breakers_and_those_of_two_do_not() -> None:
    runtime, other = builder().build(), builder().build()

    assert [ask(runtime) for _ in range(6)] == ["pool_exhausted"] * 5 + ["all_unavailable"]
    runtime.add(AgentSpec(id="another", model_id="pool"))
    assert ask(runtime) == "all_unavailable"
    assert ask(other) == "pool_exhausted"


def test_a_runtime_goes_by_the_breakers_that_it_was_given() -> None:
    breakers = Breakers(failures=1)
    runtimes = [builder().with_breakers(breakers).build() for _ in range(2)]

    assert [ask(runtime) for runtime in runtimes] == ["pool_exhausted", "all_unavailable"]
    with pytest.raises(ConfigValidation, match="where `Breakers` belongs"):
        builder().with_breakers("none").build()  # type: ignore[arg-type]
