"""One process that works on tasks: a help desk whose effects show in a file, an engine for plans, and people."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from agent_resolver.engine import BlueprintJournal, BlueprintTool, EngineParts, MemoryDriver, StoredEngine
from agent_resolver.reasoner.planner.offline import OfflinePlanner
from agent_resolver.reasoner.task_tool import INSTALL
from agent_resolver.reasoner.task_view import TaskView
from agent_resolver.reasoner.tasks import TaskRequest
from agent_resolver.registry import CallContext
from agent_resolver.schema import FINISHED, RUNS, Caller, PendingAction, Run, digest
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.blueprint_file import encode_blueprint, read_blueprint
from agent_resolver.storage import SystemClock, write_atomic
from tests.dying import Death, DyingStore, Effects
from tests.reasoner.task_home import KEY, NUMBER, TEXT, Assembler, FakeTool, Home, person
from tests.state_place import open_state

TEAM: Final = {**TEXT, "description": "The name of the team.", "examples": ["devices"]}
TITLE: Final = {**TEXT, "description": "What it is about.", "examples": ["Login fails"]}
USER: Final = {**TEXT, "description": "The name of the user.", "examples": ["ada"]}
TICKET: Final = {**NUMBER, "description": "The number of the ticket."}
_MOST_ROUNDS: Final = 30
REACHED: Final = "reached.json"
"""The file in which a process that was not killed lists the boundaries that it came to, in order."""
BOSS: Final = person("boss", roles=frozenset({"approver"}))
"""Approves what others ask for."""


class Family(Struct, frozen=True, kw_only=True):
    """One kind of task."""

    text: str
    """The request; NAME stands for the name of the task."""
    environment: Literal["dev", "prd"] = "dev"
    effects: tuple[str, ...]
    """The tools whose effects a task must have had, each once and in this order."""


FAMILIES: Final[Mapping[str, Family]] = {
    # The whole story: a question, a rejection by Ops, a revised draft, an approval by a second person.
    "whole": Family(
        text="Open a ticket and assign it to the devices team, then page the devices team",
        environment="prd",
        effects=("tickets.open", "tickets.assign"),
    ),
    # Every step is safe to repeat: it ends the same way wherever it is killed.
    "safe": Family(text="Note an incident and page the network team", environment="prd", effects=("incidents.note",)),
    "restricted": Family(text="Unlock the account of a user", effects=("accounts.unlock",)),
    "short": Family(text='Open a ticket titled "Login fails, says NAME"', effects=("tickets.open",)),
}
_MIXTURE: Final = ("whole", "safe", "short", "restricted", "short")
AT_ONCE: Final = 20
"""How many tasks a process works on at a time."""


def name_of(number: int) -> str:
    """The name of a task, from its number."""
    return f"{_MIXTURE[number % len(_MIXTURE)]}-{number:02}"


IN_FLIGHT: Final = tuple(map(name_of, range(AT_ONCE)))


def family_of(name: str) -> Family:
    """The kind of a task, from its name."""
    return FAMILIES[name.partition("-")[0]]


def trace_of(name: str) -> str:
    """The trace of a task: whoever started it finds it again by this, though its process was killed."""
    return digest(name)[-32:]


def initiator_of(name: str) -> Caller:
    """Who asks for a task: one of four people."""
    return person(f"user-{int(name.partition('-')[2]) % 4}")


# Tools ----------------------------------------------------------------------------------------------------------------


class EffectTool(FakeTool):
    """Leaves a line for each time it was tried, and one for each effect, with the key of the call."""

    def __init__(self, tool_id: str, description: str, **more: Any) -> None:
        super().__init__(tool_id, description, **more)
        self.effects: Effects
        self.death: Death

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:
        name, key = self.descriptor.id, context.key or ""
        self.effects.note("tried", name, key, context.trace_id)
        await asyncio.sleep(0)
        self.death.at("tool:before", name)
        # A service that keeps its promise about keys does what it has done no second time.
        is_repeated = any(line[0] == "effect" and line[2] == key for line in self.effects.read())
        if not (self.descriptor.rules.is_idempotent and is_repeated):
            self.effects.note("effect", name, key, context.trace_id)
        self.death.at("tool:after", name)
        return {**arguments, **self.result}


def helpdesk() -> list[EffectTool]:
    """The tools of a help desk; the pager reaches a host that no settings list."""
    number = {"ticket_id": TICKET}
    return [
        EffectTool(
            "tickets.open",
            "Open a new ticket.",
            inputs={"title": TITLE},
            outputs={**number, "title": TITLE},
            result={"ticket_id": 7},
        ),
        EffectTool(
            "tickets.close",
            "Close a ticket; one that is closed stays closed.",
            inputs=number,
            outputs=number,
            result={},
            is_idempotent=True,
        ),
        EffectTool(
            "tickets.assign",
            "Assign a ticket to a team.",
            inputs={**number, "team": TEAM},
            outputs={**number, "team": TEAM},
            result={},
            is_idempotent=True,
        ),
        EffectTool(
            "incidents.note",
            "Note a new incident.",
            inputs={"summary": {**TEXT, "description": "What happened.", "examples": ["Fire"]}},
            outputs={"summary": {**TEXT, "description": "What happened."}},
            result={},
            is_idempotent=True,
        ),
        EffectTool(
            "pager.page",
            "Page the people of a team who are on call.",
            inputs={"team": TEAM},
            outputs={"team": TEAM},
            result={},
            hosts=("pager.example.com",),
            outbound=True,
            is_idempotent=True,
        ),
        EffectTool(
            "accounts.unlock",
            "Unlock the account of a user.",
            inputs={"user": USER},
            outputs={"user": USER},
            result={},
            classification="RESTRICTED",
            is_idempotent=True,
        ),
    ]


class Installer(Assembler):
    """Installs plans into a folder, from which the next process loads them."""

    def __init__(self, folder: Path, process: "Process", death: Death) -> None:
        super().__init__(process.home, INSTALL)
        self._folder, self._process, self._death = folder, process, death

    async def invoke(self, arguments: dict[str, Any], _context: CallContext) -> Any:
        blueprint = await self._home.artifacts.load(arguments["task"], arguments["artifact"], Blueprint)
        self._death.at("install:before")
        write_atomic(str(self._folder / f"{blueprint.id}.json"), [encode_blueprint(blueprint)])
        self._process.offer(blueprint)
        self._death.at("install:after")
        return {"tool": blueprint.id}

    def installed(self) -> Iterable[Blueprint]:
        """The plans of the folder."""
        for path in sorted(self._folder.glob("*.json")):
            blueprint = read_blueprint(path.read_bytes(), is_json=True).blueprint
            assert blueprint is not None
            yield blueprint


# A process ------------------------------------------------------------------------------------------------------------


class Process:
    """Starts tasks, resumes them, and answers for people."""

    def __init__(self, folder: Path, death: Death | None = None, tools: list[EffectTool] | None = None) -> None:
        death = death or Death()
        self.effects = Effects(folder)
        self.sqlite = open_state(folder, key=KEY)
        store: Any = DyingStore(self.sqlite, death)
        tools = helpdesk() if tools is None else tools
        for tool in tools:
            tool.effects, tool.death = self.effects, death
        self.home = Home(
            folder, OfflinePlanner(), *tools, store=store, is_authorised=lambda tool: not tool.startswith("plans.")
        )
        clock = SystemClock()
        journal = BlueprintJournal(store, self.home.seal, clock, time.time)
        parts = EngineParts(journal=journal, call=self.home.registry.call, driver=MemoryDriver())
        self.engine = StoredEngine(parts)
        installer = Installer(folder / "blueprints", self, death)
        for blueprint in installer.installed():
            self.offer(blueprint)
        self.tasks = self.home.tasks_with(self.home.ports_with(installer))

    def offer(self, blueprint: Blueprint) -> None:
        """Offer an installed plan as a tool, unless another task has installed the same one."""
        registry = self.home.registry
        if registry.get(blueprint.id) is None:
            descriptor = self.home.describe(blueprint, {tool.id: tool for tool in registry.list()})
            registry.add(BlueprintTool(blueprint, self.engine.runs, self.engine.finish, descriptor))

    async def finish_all(self, names: Iterable[str] = IN_FLIGHT) -> None:
        """Bring every task to its end, 20 at a time: when one ends, the next of the names takes its place."""
        await self.engine.open()
        # It takes up the runs of plans that the process before left, one at a time where they may have ended it.
        working = asyncio.create_task(self.engine.worker.run())
        ended = await self._ended()
        left = (name for name in names if trace_of(name) not in ended)
        await asyncio.gather(*(self._finish_each(left) for _ in range(AT_ONCE)))
        self.engine.worker.stop()
        await working
        await self.engine.close()

    async def _ended(self) -> set[str]:
        """The traces of the tasks that have ended."""
        rows = await self.sqlite.read(lambda snapshot: snapshot.find(RUNS, {"kind": "task"}))
        return {row.trace_id for row in rows if row.status in FINISHED}

    async def _finish_each(self, names: Iterable[str]) -> None:
        for name in names:
            await self.finish(name)

    async def finish(self, name: str) -> None:
        """Start a task that is not there; then resume it and answer for people until it has ended."""
        row = await self.row(name)
        view = await self.start(name) if row is None else await self.look(row)
        is_first = row is not None
        for _ in range(_MOST_ROUNDS):
            if view.row.status in FINISHED:
                return
            # A question is answered once its task waits for it, as in a process that was never killed.
            if not is_first or view.status == "waiting":
                await self.answer(name, view)
            is_first = False
            view = await self.tasks.resume(view.row.id, initiator_of(name))
            assert view.row.status in {"waiting", *FINISHED}, f"{name} was left in the middle: {view.document()}"
        raise AssertionError(f"{name} does not end: {view.document()}")

    async def row(self, name: str) -> Run | None:
        """The row of a task; None if it was not started."""
        rows = await self.sqlite.read(lambda snapshot: snapshot.find(RUNS, {"kind": "task"}))
        return next((row for row in rows if row.trace_id == trace_of(name)), None)

    async def start(self, name: str) -> TaskView:
        """Start a task, and bring it to what it waits for."""
        family = family_of(name)
        request = TaskRequest(
            text=family.text.replace("NAME", name), environment=family.environment, trace_id=trace_of(name)
        )
        return await self.tasks.start(request, initiator_of(name))

    async def look(self, row: Run) -> TaskView:
        """A task as its initiator sees it."""
        return await self.tasks.view(row.id, person(row.caller))

    # People -----------------------------------------------------------------------------------------------------------

    async def answer(self, name: str, view: TaskView) -> None:
        """Answer all that a task waits for, as people would."""
        keys = {action.id: action.key for action in view.state.unresolved}
        for action in view.actions:
            if action.type == "APPROVAL":
                await self.home.approve(action.id, BOSS)
            elif "ended its worker" in action.message:
                await self.home.answer(action.id, "retry", BOSS)
            else:
                await self.home.answer(action.id, self._words(name, action, keys[action.id]), initiator_of(name))

    def _words(self, name: str, action: PendingAction, key: str) -> str:
        if key.startswith("remedy."):
            return "leave-out"
        if key:
            return f"{key} of {name}"
        # A call was interrupted, and only a person can say whether it was done.
        assert "interrupted" in action.message, action
        made = ("effect", action.subject, action.trace_id)
        is_done = any((line[0], line[1], line[3]) == made for line in self.effects.read())
        return "done" if is_done else "retry"

    def close(self) -> None:
        """Close the store."""
        self.sqlite.close()


class NotedDeath(Death):
    """Also lists the boundaries that were reached, in order."""

    def __init__(self, point: str = "", number: int = 0) -> None:
        # Boundaries of tools have a family of their own, the tool; tasks are not told apart.
        super().__init__(point, number, lambda name: name if "." in name else "any")
        self.met: list[str] = []

    def at(self, boundary: str, run: str = "") -> None:
        """A boundary is reached."""
        self.met.append(boundary)
        if "." in run:
            self.met.append(f"{run}.{boundary}")
        super().at(boundary, run)


def bring_to_end(folder: Path, death: NotedDeath, names: Iterable[str] = IN_FLIGHT) -> None:
    """Bring tasks of a folder to their end, in this process, and leave a file that says which boundaries it met."""
    process = Process(folder, death)
    asyncio.run(process.finish_all(names))
    process.close()
    (folder / REACHED).write_bytes(msgspec.json.encode(death.met))
