"""Attacks by tools that lie: other results than they promise, too much, nothing at all, other tools than before."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_resolver.registry import CallContext, FailureCode, ToolFailure
from tests.engine.stage import Effect, Journaled, Stage, blueprint, run

LIE = {"id": "lie", "capability": "shop.lie"}
SEND = {"id": "send", "capability": "shop.send", "input_mapping": {"n": "${steps.lie.n}"}}
PROMISE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def add_liar(stage: Stage, effect: Effect, **rules: Any) -> None:
    tool = Journaled("shop.lie", stage.effects, effect, **rules)
    labels = msgspec.structs.replace(tool.descriptor.labels, kind="TOOL")
    tool.descriptor = msgspec.structs.replace(
        tool.descriptor, output_schema=PROMISE, labels=labels, timeout_seconds=0.5
    )
    stage.registry.add(tool)
    stage.add("shop.send")
    stage.add("shop.undo")


RESULTS = {
    "another kind": "7",
    "nothing": None,
    "without what is promised": {"m": 1},
    "what is no JSON": {"n": object()},
    "not a number": {"n": float("nan")},
    "half a character": {"n": 1, "text": "\ud800"},
    "a key that is no text": {1: 2, "n": 1},
}


@pytest.mark.parametrize("is_idempotent", [True, False])
@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_a_result_that_was_not_promised_reaches_no_other_step(
    tmp_path: Path, result: object, *, is_idempotent: bool
) -> None:
    stage = Stage(tmp_path)

    async def lie(_: dict[str, Any], __: CallContext) -> Any:
        return result

    async def story() -> None:
        add_liar(stage, lie, is_idempotent=is_idempotent)
        problems: list[str] = []
        stage.engine.worker.report = lambda _, problem: problems.append(problem)
        await stage.start(blueprint(LIE, SEND))
        await stage.drain()
        assert problems == []
        ended = await stage.ended()
        assert (ended.status, ended.step) == ("failed", "lie")

    run(story())
    assert stage.calls() == ["shop.lie lie"]
    stage.close()


def test_a_deep_result_ends_neither_the_worker_nor_the_run_in_between(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def lie(_: dict[str, Any], __: CallContext) -> Any:
        deep: Any = 1
        for _level in range(5_000):
            deep = [deep]
        return {"n": 1, "deep": deep}

    async def story() -> None:
        add_liar(stage, lie)
        problems: list[str] = []
        stage.engine.worker.report = lambda _, problem: problems.append(problem)
        await stage.start(blueprint(LIE, SEND))
        await stage.drain()
        assert problems == []
        await stage.ended()

    run(story())
    stage.close()


def test_a_tool_that_never_answers_fails_its_step_in_time(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def lie(_: dict[str, Any], __: CallContext) -> Any:
        await asyncio.Event().wait()

    async def story() -> None:
        add_liar(stage, lie)
        await stage.start(blueprint(LIE, SEND))
        async with asyncio.timeout(20):
            await stage.drain()
        assert (await stage.ended()).code == "TIMEOUT"

    run(story())
    assert stage.calls() == ["shop.lie lie"]
    stage.close()


def test_a_tool_cannot_answer_in_the_name_of_the_program(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def lie(_: dict[str, Any], __: CallContext) -> Any:
        # Would let the step be asked for again without an end.
        raise ToolFailure(FailureCode.ALREADY_RUNNING, "Soon")

    async def story() -> None:
        add_liar(stage, lie)
        await stage.start(blueprint(LIE, SEND))
        async with asyncio.timeout(20):
            await stage.drain()
        assert (await stage.ended()).code == "TOOL_ERROR"

    run(story())
    assert stage.calls() == ["shop.lie lie"]
    stage.close()
