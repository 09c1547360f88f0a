"""For any run, the journal gives back the state of the run as it was at every entry."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from msgspec import structs

from agent_resolver.registry import CallContext, Inbox, MemorySecrets, Ports
from agent_resolver.runtime import (
    AgentRuntimeBuilder,
    Journal,
    ModelSpec,
    Patience,
    ResumeRequest,
    RunBudget,
    RunRequest,
    RunResult,
    RunState,
    fold_run,
    user_message,
)
from agent_resolver.schema import FINISHED, PENDING, RUNS, JournalRow
from agent_resolver.storage import AesSeal, MemoryStore, Snapshot, SqliteStore, SystemClock, Transaction
from tests.runtime.journal.lasting import CALLER, KEY
from tests.runtime.run_part import AnswerCase, Log, PluginCase, ScriptedModel, ScriptedPlugin, ScriptedTool
from tests.runtime.run_scenario import spec_of
from tests.runtime.test_run_property import BUDGETS, STOPS, answers, plugins, tools

SEAL = AesSeal(KEY)
Step = str
"""What happens once the run waits: `approved`, `rejected`, words that answer, or what the user says after `user:`."""
STEPS = st.lists(st.sampled_from(["approved", "approved", "rejected", "The left one", "user:And?"]), max_size=3)


class Watched:
    """A store that looks, after each entry, whether the journal has the state of the run."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.states: dict[tuple[str, int], bytes] = {}
        """The state of each run at each entry."""
        self.live: dict[tuple[str, int], bytes] = {}
        """The state that the running run had at the same time: a run would swallow what an assertion raises here."""
        self.copies: list[dict[str, Any]] = []
        """All tables after each entry, where the store is in memory."""
        self.runtime: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def write(self, work: Callable[[Transaction], Any]) -> Any:
        entries: list[JournalRow] = []

        def watched(transaction: Transaction) -> Any:
            entries.clear()
            watching: Any = _Watching(transaction, entries)
            return work(watching)

        result = await self.store.write(watched)
        for entry in entries:
            await self._compare(entry)
            if isinstance(self.store, MemoryStore):
                self.copies.append({name: dict(rows) for name, rows in self.store.tables.items()})
        return result

    async def _compare(self, entry: JournalRow) -> None:
        folded = await self.store.read(lambda snapshot: fold_run(snapshot, entry.run, SEAL))
        state = folded.state
        self.states[entry.run, entry.number] = encoded(state)
        running = self.runtime._runs._running.get(entry.run)
        if entry.kind in {"run.started", "run.resumed"} or not hasattr(running, "run"):
            return  # The run is about to begin here.
        live = running.run
        known = structs.replace(live.state, values=dict(live.values.current), delegate=None)
        # A question whose answer is not known yet would be uncertain if the process ended now.
        known.uncertain += entry.kind == "model.asked"
        self.live[entry.run, entry.number] = encoded(known)


class _Watching:
    def __init__(self, transaction: Transaction, entries: list[JournalRow]) -> None:
        self._transaction, self._entries = transaction, entries

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def put(self, table: Any, row: Any, *, only_new: bool = False) -> bool:
        if isinstance(row, JournalRow):
            self._entries.append(row)
        return self._transaction.put(table, row, only_new=only_new)


def encoded(state: RunState) -> bytes:
    return msgspec.json.encode(state)


class Play:
    """A run of a drawn script, over one or several processes."""

    def __init__(self, store: Any, script: list[AnswerCase], plugged: list[PluginCase], spec: dict[str, Any]) -> None:
        self.store = Watched(store)
        log = Log()
        ports = Ports(store=self.store, seal=SEAL, clock=SystemClock())
        builder = AgentRuntimeBuilder().with_provider("p", ScriptedModel(script, log)).with_caller(CALLER)
        builder.with_model(ModelSpec(id="m", provider_id="p", upstream_model="u", input_price=1.0, output_price=2.0))
        builder.with_ports(ports).with_patience(Patience(hook_seconds=5))
        for tool in tools():
            builder.with_tool(tool.id, ScriptedTool(tool, log))
        for plugin in plugged:
            builder.with_plugin(ScriptedPlugin(plugin, log))
        own = {"plugin_ids": [plugin.id for plugin in plugged], **spec}
        builder.with_agent_specs([spec_of({"id": "agent", **own})])
        builder.with_journal(lambda: Journal(self.store, SEAL, SystemClock()))
        self.runtime = builder.build()
        self.store.runtime = self.runtime
        self.inbox = Inbox(self.store, MemorySecrets(), SystemClock())

    async def run(self, budget: RunBudget, steps: list[Step]) -> None:
        request = RunRequest(agent_id="agent", messages=(user_message("Go"),), run_id="run", budget=budget)
        result = await self.runtime.run(request)
        await self.require_whole(result)
        for step in steps:
            if not result.is_resumable:
                return
            says = user_message(step.removeprefix("user:"))
            messages = (says,) if step.startswith("user:") else ()
            if not messages:
                await self.answer(step)
            result = await self.runtime.resume(ResumeRequest(run="run", messages=messages))
            await self.require_whole(result)

    async def answer(self, words: str) -> None:
        row = await self.store.read(lambda snapshot: snapshot.get(RUNS, "run"))
        action = await self.store.read(lambda snapshot: snapshot.get(PENDING, row.waits_for))
        context = CallContext.for_caller(CALLER)
        if action is None or action.answer is not None:
            return
        if action.type == "APPROVAL":
            verdict: Any = "rejected" if words == "rejected" else "approved"
            await self.inbox.decide(action.id, verdict, context)
        else:
            await self.inbox.answer(action.id, words, context)

    async def go_on(self) -> None:
        """Go on with a run whose process ended, as long as it can."""
        row = await self.store.read(lambda snapshot: snapshot.get(RUNS, "run"))
        if row.status in FINISHED and not row.code.startswith("budget_"):
            return
        await self.require_whole(await self.runtime.resume(ResumeRequest(run="run")))

    async def require_whole(self, result: RunResult) -> None:
        """The journal says how the run ended, and has its state at every entry."""
        states = self.store.states
        assert self.store.live == {place: states[place] for place in self.store.live}

        def read(snapshot: Snapshot) -> None:
            folded = fold_run(snapshot, "run", SEAL)
            assert folded is not None
            assert (folded.termination, folded.pending) == (result.termination, result.pending)
            assert encoded(folded.state) == encoded(structs.replace(result.state, delegate=None))
            for (run, number), state in states.items():
                prefix = fold_run(snapshot, run, SEAL, through=number)
                assert prefix is not None
                assert encoded(prefix.state) == state

        await self.store.read(read)


PLAYS: dict[str, Any] = {
    "script": st.lists(answers(), max_size=6),
    "plugged": plugins(),
    "budget": BUDGETS,
    "stops": STOPS,
    "max_rounds": st.integers(1, 5),
    "continuations": st.integers(0, 2),
    "steps": STEPS,
}


def made(store: Any, drawn: dict[str, Any]) -> Play:
    spec = {
        "max_rounds": drawn["max_rounds"],
        "stop_conditions": drawn["stops"],
        "max_continuation_retries": drawn["continuations"],
        "delegates": ["agent"],
    }
    return Play(store, drawn["script"], drawn["plugged"], spec)


def play(store: Any, drawn: dict[str, Any]) -> list[dict[str, Any]]:
    """Run it; all tables after each entry."""
    plays = made(store, drawn)
    asyncio.run(plays.run(drawn["budget"], drawn["steps"]))
    return plays.store.copies


class LaterStore(MemoryStore):
    """A store in another process than the one whose tables it has."""

    def is_gone(self, owner: str) -> bool:
        return owner != self.owner


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(drawn=st.fixed_dictionaries(PLAYS), data=st.data())
def test_a_run_goes_on_from_any_prefix_of_its_journal(drawn: dict[str, Any], data: st.DataObject) -> None:
    first = MemoryStore()
    copies = play(first, drawn)
    later = LaterStore()
    later.places = first.places
    copy = data.draw(st.sampled_from(copies), label="copy")
    later.tables.update({name: dict(rows) for name, rows in copy.items()})
    asyncio.run(made(later, drawn).go_on())


@settings(max_examples=40, deadline=None)
@given(drawn=st.fixed_dictionaries(PLAYS))
def test_every_prefix_of_a_journal_gives_the_state_that_the_run_had(drawn: dict[str, Any]) -> None:
    play(MemoryStore(), drawn)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(drawn=st.fixed_dictionaries(PLAYS))
def test_every_prefix_of_many_journals_gives_the_state_that_the_run_had(drawn: dict[str, Any]) -> None:
    play(MemoryStore(), drawn)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(drawn=st.fixed_dictionaries(PLAYS))
def test_every_prefix_of_a_journal_in_a_file_gives_the_state_that_the_run_had(drawn: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        store = SqliteStore(str(Path(folder) / "state.db"), key=KEY)
        play(store, drawn)
        store.close()
