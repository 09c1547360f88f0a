"""Canaries in arguments and secrets: every kind of call is made, then everything that is left behind is searched.

An argument may come back in the result of a call that is done, in words that the author of a tool chose, and in the
records of calls that were made, and nowhere else. A field that is marked as secret comes back to whoever called, and is
kept nowhere. A secret comes back nowhere.
"""

import asyncio
import base64
import html
import io
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
import pytest
from msgspec import structs

from agent_resolver.core import MAX_OPEN_QUESTIONS, AdmissionCode, Refused
from agent_resolver.registry import CallContext, NeedsAction, ToolFailure
from agent_resolver.schema import Caller, Descriptor, Done, FailureCode, Outcome, Pending, Rules
from tests.registry.sample import TRACE, FullStore
from tests.registry.stage import Stage, code_of, in_memory, in_state_file, run
from tests.telemetry.sample import Watched

IN_VALUES: Final = "canary-value-51f0c2"
IN_NAMES: Final = "canary-name-e8a714"
NUMBER: Final = 730_199_245_518
IN_MARKED: Final = "canary-marked-a37d90"
IN_KEYS: Final = "canary-key-0b9d36"
IN_SECRETS: Final = "canary-secret-4c7e/21+a<'&\\"

ARGUMENTS: Final = {
    "text": IN_VALUES,
    "list": [IN_VALUES, [{"deep": f"around {IN_VALUES} it"}]],
    "map": {IN_NAMES: IN_VALUES, "more": {IN_NAMES: [NUMBER]}},
    "number": NUMBER,
    "pin": IN_MARKED,
}
SHAPE: Final = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "list": {"type": "array"},
        "map": {"type": "object"},
        "number": {"type": "integer"},
        "pin": {"type": "string", "writeOnly": True},
    },
}
ABLE = Caller(id="ada", is_verified=True, scopes=frozenset({"write"}), clearance="RESTRICTED", cost_center="cc")
APPROVER = Caller(id="grace", is_verified=True, roles=frozenset({"approver"}))

Say = Callable[[dict[str, Any], CallContext], Any]


class SayingTool:
    """A tool that says something about all that it was given."""

    def __init__(self, tool_id: str, say: Say, **fields: Any) -> None:
        rules = fields.pop("rules", Rules(secrets=("KEY",)))
        known = {"description": "For a test.", "input_schema": SHAPE, "source": "memory", "rules": rules, **fields}
        self.descriptor = Descriptor(id=tool_id, **known)
        self._say = say

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:
        said = self._say(arguments, context)
        return await said if asyncio.iscoroutine(said) else said


class ChangedTool(SayingTool):
    """A tool whose code is not what was loaded."""

    def changed_file(self) -> str | None:
        return "changed.py"


def everything(arguments: dict[str, Any], context: CallContext) -> list[str]:
    """All that a careless tool could put into its words."""
    secret = context.secrets["KEY"].reveal() if "KEY" in context.secrets else ""
    raw = secret.encode()
    return [
        repr(arguments),
        secret,
        quote(secret, safe=""),
        base64.b64encode(raw).decode(),
        base64.b64encode(b"user:" + raw).decode(),
        raw.hex(),
        html.escape(secret),
        repr(secret),
        repr(raw),
        repr(context),
    ]


def of_the_secret(arguments: dict[str, Any], context: CallContext) -> str:
    """The secret alone: which arguments its words hold is up to the author of a tool."""
    return " ".join(everything(arguments, context)[1:-1])


def raises(make: Callable[[str], BaseException]) -> Say:
    def fail(arguments: dict[str, Any], context: CallContext) -> Any:
        said = str(everything(arguments, context))
        raise make(said) from LookupError(said)

    return fail


def says_failure(code: FailureCode) -> Say:
    def fail(arguments: dict[str, Any], context: CallContext) -> Any:
        said = of_the_secret(arguments, context)
        raise ToolFailure(code, f"it failed: {said}", f"try without {said}")

    return fail


def needs(kind: Any) -> Say:
    def ask(arguments: dict[str, Any], context: CallContext) -> Any:
        said = of_the_secret(arguments, context)
        raise NeedsAction(kind, f"acme {said}", f"Do something about {said}")

    return ask


def needs_by_value(arguments: dict[str, Any], context: CallContext) -> Any:
    raise NeedsAction("OAUTH", "acme", "Sign in", needs=everything(arguments, context)[1])


async def for_ever(arguments: dict[str, Any], context: CallContext) -> Any:
    held = everything(arguments, context)
    await context.progress(1, None, of_the_secret(arguments, context))
    await asyncio.Event().wait()
    return held


class Odd(Exception):
    """An error whose own name and words are known only here."""

    def __init__(self, said: str) -> None:
        super().__init__(said, [said], {said: said})
        self.add_note(said)


class Panic(BaseException):
    """An error that is no exception."""


def echoing(arguments: dict[str, Any], context: CallContext) -> Any:
    return {"arguments": arguments, "secret": everything(arguments, context)[1:]}


class Unwritable:
    def __repr__(self) -> str:
        return f"{IN_VALUES} {IN_SECRETS}"


def structured(arguments: dict[str, Any], context: CallContext) -> Any:
    return structs.replace(context.caller, id=of_the_secret(arguments, context))


OWN_RULES = {
    "scoped": Rules(required_scopes=("other",)),
    "restricted": Rules(classification="RESTRICTED"),
    "asking": Rules(needs_approval=True, secrets=("KEY",)),
    "lacking": Rules(secrets=("KEY", "ABSENT")),
    "locked": Rules(secrets=("KEY", "LOCKED")),
}
TOOLS = [
    SayingTool("echo", echoing),
    ChangedTool("changed", echoing, rules=Rules(is_isolated=True, secrets=("KEY",))),
    SayingTool("struct", structured),
    SayingTool("limited", echoing, rate_limit_per_minute=0, source="limited"),
    SayingTool("waiting", for_ever, timeout_seconds=0.01),
    SayingTool("running", for_ever, timeout_seconds=30.0),
    SayingTool("short", echoing, input_schema={"properties": {"text": {"maxLength": 3}, "number": {"maximum": 1}}}),
    SayingTool("typed", echoing, input_schema={"properties": {name: {"type": "null"} for name in ARGUMENTS}}),
    SayingTool("fixed", echoing, input_schema={"properties": {name: {"enum": [1]} for name in ARGUMENTS}}),
    SayingTool("broken", echoing, output_schema={"properties": {"arguments": {"type": "string"}}}),
    SayingTool("strict", echoing, output_schema={"properties": {"secret": {"items": {"maxLength": 1}}}}),
    SayingTool("unwritable", lambda *_: {"a": Unwritable()}),
    *(SayingTool(f"raises-{number}", raises(make)) for number, make in enumerate((KeyError, Odd, OSError, SystemExit))),
    SayingTool("raises-4", raises(lambda said: ExceptionGroup(said, [ValueError(said), Odd(said)]))),
    SayingTool("raises-5", raises(TimeoutError)),
    *(SayingTool(f"panics-{number}", raises(make)) for number, make in enumerate((Panic, KeyboardInterrupt))),
    SayingTool("names", needs_by_value),
    *(SayingTool(f"fails-{code}", says_failure(code)) for code in FailureCode),
    *(SayingTool(f"needs-{kind}", needs(kind)) for kind in ("CLARIFICATION", "OAUTH", "SECRET")),
    *(SayingTool(tool_id, echoing, rules=rules) for tool_id, rules in OWN_RULES.items()),
]


class Evidence(msgspec.Struct):
    """What was left behind."""

    folder: Path
    outcomes: list[Outcome] = []
    told: list[str] = []
    """Progress, telemetry, logs and what was printed."""

    def codes(self) -> set[str]:
        return set(map(code_of, self.outcomes))


class LockedPlace:
    """Secrets of which one cannot be read."""

    def __init__(self, stage: Stage) -> None:
        self._get = stage.secrets.get

    async def get(self, name: str) -> str | None:
        if name == "LOCKED":
            raise ToolFailure(FailureCode.NOT_CONFIGURED, "The secret LOCKED cannot be read: no", "unlock it")
        return await self._get(name)


def play(stage: Stage, evidence: Evidence) -> None:
    """Make a call of every kind, each of them under a key."""

    async def progress(done: float, total: float | None = None, message: str | None = None) -> None:
        evidence.told.append(f"{done} {total} {message}")

    def make(tool_id: str, by: Caller = ABLE, arguments: Any = ARGUMENTS, key: str = "", **more: Any) -> Outcome:
        more = {"key": f"{IN_KEYS} {key or tool_id}", "progress": progress, **more}
        evidence.outcomes.append(stage.call(tool_id, by, arguments, **more))
        return evidence.outcomes[-1]

    async def at_once() -> None:
        context = CallContext(run="run-1", trace_id=TRACE, caller=ABLE, key=IN_KEYS, progress=progress)
        first = asyncio.create_task(stage.registry.call("running", ARGUMENTS, context))
        while not any("1 None" in told for told in evidence.told):  # noqa: ASYNC110 - it tells of its progress
            await asyncio.sleep(0.001)
        evidence.outcomes.append(await stage.registry.call("running", ARGUMENTS, context))
        first.cancel()

    run(at_once())
    for tool in TOOLS:
        if tool.descriptor.id != "running":
            make(tool.descriptor.id)
            # Told again, unknown, or done once more.
            make(tool.descriptor.id)
            evidence.outcomes.append(stage.call(tool.descriptor.id, ABLE, ARGUMENTS, "2" * 32, progress=progress))
    make("echo", arguments={"text": f"other {IN_VALUES}"})
    make("echo", arguments={**ARGUMENTS, "text": object()}, key="no-json")
    make("echo", structs.replace(ABLE, expires_at="2026-03-01T11:00:00.000Z"))
    make("restricted", structs.replace(ABLE, clearance="PUBLIC"))
    make("never-there")
    for code in AdmissionCode:
        stage.registry.refuse(f"refused-{code}", "memory", Refused(code, "It may not", "ask"))
        make(f"refused-{code}")
    for number in range(MAX_OPEN_QUESTIONS + 1):
        make("restricted", structs.replace(ABLE, id="flood"), trace=f"{number:032x}", key=f"flood-{number}")
    for verdict in ("rejected", "approved"):
        asked = make("asking", trace=("3" if verdict == "approved" else "4") * 32, key=verdict)
        assert isinstance(asked, Pending)
        assert stage.decide(asked.id, verdict, APPROVER) == verdict
        make("asking", trace=("3" if verdict == "approved" else "4") * 32, key=verdict)
    full = in_memory(store=FullStore(), telemetry=stage.ports.telemetry).add(SayingTool("echo", echoing))
    full.secrets.values.update(KEY=IN_SECRETS)
    evidence.outcomes.append(full.call("echo", ABLE, ARGUMENTS))


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evidence]:
    """Everything that is left behind while the state file is still open."""
    watched, found = Watched(), Evidence(tmp_path_factory.mktemp("canary") / "state", [], [])
    with in_state_file(found.folder / "state.db", telemetry=watched.telemetry) as stage:
        stage.secrets.values.update(KEY=IN_SECRETS)
        stage.secrets.get = LockedPlace(stage).get  # type: ignore[method-assign]
        stage.add(*TOOLS)
        with all_that_is_said() as said:
            play(stage, found)
            stage.listed(is_everything=True)
        assert watched.spans
        found.told += [watched.everything(), said.getvalue()]
        yield found


@contextmanager
def all_that_is_said() -> Iterator[io.StringIO]:
    """What is logged, with every traceback, and what is printed."""
    said, root = io.StringIO(), logging.getLogger()
    handler, before = logging.StreamHandler(said), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with redirect_stdout(said), redirect_stderr(said):
            yield said
    finally:
        root.setLevel(before)
        root.removeHandler(handler)


def forms(canary: str) -> Iterator[bytes]:
    """How a canary may look in a file."""
    raw = canary.encode()
    yield raw
    yield canary.encode("utf-16-le")
    yield quote(canary, safe="").encode()
    yield raw.hex().encode()
    yield html.escape(canary).encode()
    yield repr(raw)[2:-1].encode()
    for before in range(3):
        yield base64.b64encode(b"x" * before + raw)[4:-4]


def sightings(content: bytes, canaries: tuple[str, ...]) -> list[bytes]:
    return sorted({form for canary in canaries for form in forms(canary) if form in content})


SHOWN_IN_RECORDS = (IN_VALUES, IN_NAMES, str(NUMBER))
KEPT_NOWHERE = (IN_MARKED, IN_KEYS, IN_SECRETS)
OF_ARGUMENTS = (*SHOWN_IN_RECORDS, IN_MARKED, IN_KEYS)
ALL = (*OF_ARGUMENTS, IN_SECRETS)


def test_every_kind_of_call_was_made(evidence: Evidence) -> None:
    pending = {f"{kind}_REQUIRED" for kind in ("APPROVAL", "CLARIFICATION", "OAUTH", "SECRET")}

    assert evidence.codes() == {"DONE", *pending, *(code.value for code in FailureCode)}


def cells_by_table(evidence: Evidence) -> dict[str, list[bytes]]:
    """Every cell of every table, but for the bodies of records that show arguments and results."""
    found: dict[str, list[bytes]] = {}
    with closing(sqlite3.connect(evidence.folder / "state.db")) as state:
        for (table,) in state.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            rows = state.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - our own tables
            cells = [cell if isinstance(cell, bytes) else str(cell).encode() for row in rows for cell in row]
            is_shown = [table == "audit" and b'"content":' in cell for cell in cells]
            found[table] = [cell for cell, hides in zip(cells, is_shown, strict=True) if not hides]
    return found


def test_no_canary_is_in_any_column_of_any_table_but_the_records_of_calls(evidence: Evidence) -> None:
    tables = cells_by_table(evidence)

    assert all(tables[table] for table in ("audit", "pending", "ledger"))
    assert {table: sightings(b"\n".join(cells), ALL) for table, cells in tables.items()} == {key: [] for key in tables}


def test_records_of_calls_that_were_made_show_arguments_and_no_secret(evidence: Evidence) -> None:
    with closing(sqlite3.connect(evidence.folder / "state.db")) as state:
        rows = state.execute("SELECT kind, body FROM audit WHERE body LIKE '%\"content\":%'").fetchall()

    assert {kind for kind, _ in rows} == {"call.started", "call.done"}
    shown = "\n".join(body for _, body in rows).encode()
    assert all(canary.encode() in shown for canary in SHOWN_IN_RECORDS)
    assert sightings(shown, KEPT_NOWHERE) == []


def test_no_canary_that_is_kept_nowhere_is_in_the_bytes_of_any_file(evidence: Evidence) -> None:
    files = {path.name: path.read_bytes() for path in evidence.folder.rglob("*") if path.is_file()}

    assert {"state.db", "state.db-wal", "state.key"} <= set(files)
    assert {name: sightings(content, KEPT_NOWHERE) for name, content in files.items()} == {key: [] for key in files}


def test_with_digests_alone_no_canary_is_in_the_bytes_of_any_file(tmp_path: Path) -> None:
    found = Evidence(tmp_path / "state", [], [])
    with in_state_file(found.folder / "state.db", keeps_content=False) as stage:
        stage.secrets.values.update(KEY=IN_SECRETS)
        stage.secrets.get = LockedPlace(stage).get  # type: ignore[method-assign]
        stage.add(*TOOLS)
        play(stage, found)
        files = {path.name: path.read_bytes() for path in found.folder.rglob("*") if path.is_file()}

    assert {"state.db", "state.db-wal", "state.key"} <= set(files)
    assert {name: sightings(content, ALL) for name, content in files.items()} == {key: [] for key in files}


def test_no_canary_is_in_a_span_a_metric_a_log_or_anything_printed(evidence: Evidence) -> None:
    assert any("1.0 None" in told or "1 None" in told for told in evidence.told)
    for told in evidence.told:
        assert sightings(told.encode(), ALL) == []


def test_no_canary_of_the_arguments_is_in_what_a_call_that_did_not_succeed_tells(evidence: Evidence) -> None:
    for outcome in evidence.outcomes:
        if not isinstance(outcome, Done):
            assert sightings(msgspec.json.encode(outcome), OF_ARGUMENTS) == [], outcome


def test_no_canary_of_a_secret_is_in_anything_that_a_call_tells(evidence: Evidence) -> None:
    assert any(isinstance(outcome, Done) and "[redacted]" in str(outcome.result) for outcome in evidence.outcomes)
    for outcome in evidence.outcomes:
        assert sightings(msgspec.json.encode(outcome), (IN_SECRETS,)) == [], outcome


def test_what_the_tool_gives_back_of_its_arguments_reaches_whoever_called(evidence: Evidence) -> None:
    done = [each for each in evidence.outcomes if isinstance(each, Done) and "arguments" in each.result]

    assert done
    assert all(each.result["arguments"] == ARGUMENTS for each in done)


def test_a_refused_argument_name_is_reported_to_its_caller_and_kept_nowhere(tmp_path: Path) -> None:
    """Without it nobody finds what they misspelt."""
    closed = {"type": "object", "properties": {"text": {}}, "additionalProperties": False}
    with in_state_file(tmp_path / "state.db") as stage:
        stage.add(SayingTool("echo", echoing, input_schema=closed))

        outcome = stage.call("echo", ABLE, {IN_NAMES: IN_VALUES})

        assert code_of(outcome) == "INPUT_VALIDATION_FAILED"
        assert sightings(msgspec.json.encode(outcome), ALL) == [IN_NAMES.encode()]
        assert all(sightings(path.read_bytes(), ALL) == [] for path in tmp_path.rglob("*") if path.is_file())


def test_a_canary_would_be_found(tmp_path: Path) -> None:
    """The search itself works: a table that holds one is seen, in plain sight or encoded."""
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as state:
        state.execute("CREATE TABLE leak (text TEXT, raw BLOB)")
        state.execute(
            "INSERT INTO leak VALUES (?, ?)", (f"a {IN_VALUES}", base64.b64encode(b"ab" + IN_SECRETS.encode()))
        )
        state.commit()

    assert len(sightings(path.read_bytes(), ALL)) == 2
