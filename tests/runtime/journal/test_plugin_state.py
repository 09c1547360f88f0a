"""What plugins keep and ask for, and what tools return, over the end of a process."""

import asyncio
import datetime as dt
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.runtime import Command, PhaseContext, Registrar, ResumeRequest, ScheduledAction, fold_run
from agent_resolver.schema import JournalRow
from agent_resolver.storage import AesSeal, MemoryStore, SqliteStore
from tests.runtime.journal.lasting import KEY, CountingModel, CountingTool, Stage, calls_then_ends, go


class Counts:
    """Counts answers, in the conversation and in the run."""

    id = "counts"

    def register(self, registrar: Registrar) -> None:
        registrar.key("seen", merge="add", scope="thread", default=0)
        registrar.key("here", merge="add", default=0)
        registrar.key("flag", merge="replace", scope="thread")
        registrar.phase_hook("after_inference", self._count)

    def _count(self, context: PhaseContext) -> Command:
        # Python takes 1 and True for equal; a plugin need not.
        return Command(updates={"seen": 1, "here": 1, "flag": 1 if context.state["flag"] is True else True})


def test_keys_of_a_thread_carry_over_to_its_next_run_and_keys_of_a_run_do_not(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore(str(tmp_path / "state.db"), key=KEY)
        agents = {"agent": {"plugin_ids": ("counts",)}}
        stage = Stage(store, CountingModel(calls_then_ends(1)), [CountingTool("act")], agents, (Counts(),))
        for number, seen in ((1, 2), (2, 4), (3, 6)):
            result = await stage.runtime.run_to_completion(go(run_id=f"{number}", thread="t"))
            assert (result.state.values["seen"], result.state.values["here"]) == (seen, 2)
            folded = await stage.journal.look_up(f"{number}")
            assert folded is not None
            assert folded.state == result.state
            assert type(folded.state.values["flag"]) is type(result.state.values["flag"])
            # Also before the first question is asked: a run that is killed there goes on with them.
            first_entry = partial(fold_run, run=f"{number}", seal=AesSeal(KEY), through=1)
            begun = await store.read(first_entry)
            assert begun is not None
            assert begun.state.values.get("seen", 0) == seen - 2
        store.close()

    asyncio.run(story())


class Hints:
    """Says something to the model before the first question alone."""

    id = "hints"

    def register(self, registrar: Registrar) -> None:
        registrar.phase_hook("before_inference", self._hint)

    def _hint(self, context: PhaseContext) -> Command | None:
        if context.run.round > 1:
            return None
        return Command(actions=(ScheduledAction("add_context_message", {"content": "Only now"}),))


class StopsAfter:
    """A store in memory whose process is gone once an entry of a kind was written."""

    def __init__(self, store: MemoryStore, kind: str) -> None:
        self._store, self._kind = store, kind
        self.tables: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, work: Any) -> Any:
        result = await self._store.write(work)
        rows = [kept.row for kept in self._store.tables["journal"].values()]
        newest = [row for row in rows if isinstance(row, JournalRow)]
        if newest and newest[-1].kind == self._kind and not self.tables:
            self.tables = {name: dict(kept) for name, kept in self._store.tables.items()}
        return result


class LaterStore(MemoryStore):
    """A store in another process than the one whose tables it has."""

    def is_gone(self, owner: str) -> bool:
        return owner != self.owner


@pytest.mark.parametrize(("kind", "hinted"), [("model.asked", [True, False]), ("model.answered", [False])])
def test_what_hooks_ask_for_one_question_holds_for_that_one_alone_after_a_kill(kind: str, hinted: list[bool]) -> None:
    async def story() -> None:
        agents = {"agent": {"plugin_ids": ("hints",)}}
        first: Any = StopsAfter(MemoryStore(), kind)
        stage = Stage(first, CountingModel(calls_then_ends(1)), [CountingTool("act")], agents, (Hints(),))
        await stage.runtime.run_to_completion(go(run_id="r"))
        later = LaterStore()
        later.tables.update(first.tables)
        again = Stage(later, CountingModel(calls_then_ends(1)), [CountingTool("act")], agents, (Hints(),))
        result = await again.runtime.resume(ResumeRequest(run="r"))
        assert result.text == "Done."
        assert [any(message.text == "Only now" for message in asked.messages) for asked in again.model.asked] == hinted

    asyncio.run(story())


@pytest.mark.parametrize(
    "result",
    [
        None,
        "text",
        "",
        1.0,
        1e300,
        float("nan"),
        2**53 + 1,
        2**63,
        2**80,
        [1, "a", None],
        {"b": 1, "a": {"c": [True]}},
        {1: "number"},
        dt.date(2026, 1, 2),
        {"at": dt.datetime(2026, 1, 2, tzinfo=dt.UTC)},
        b"bytes",
        {"x"},
        ("a", 1),
        "é\n\u2028" * 10,
        "x" * 500_000,
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_a_model_read_of_a_result_is_the_same_after_a_kill(result: Any) -> None:
    async def story() -> None:
        tool = CountingTool("act", lambda _: result)
        stage = Stage(MemoryStore(), CountingModel(calls_then_ends(1)), [tool])
        ended = await stage.runtime.run_to_completion(go(run_id="r"))
        folded = await stage.journal.look_up("r")
        assert folded is not None
        assert folded.state == ended.state

    asyncio.run(story())
