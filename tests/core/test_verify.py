"""A lock holds as long as nothing that it says has changed; each kind of change has a name."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Struct, structs

from agent_resolver import AgentFile, InvalidLockfile, LockedServer, Lockfile, Server, parse_lockfile, resolve, to_json
from agent_resolver.core.lock import server_hash
from agent_resolver.core.verify import (
    Difference,
    DifferenceKind,
    format_difference,
    is_as_written,
    verify,
)
from agent_resolver.schema import Launch, Requirement, digest
from agent_resolver.schema.agent_file import ActionConstraints, Constraints, DataConstraints, Requires, TrustConstraints
from tests.core.strategies import Case, solvable_cases

law = settings(deadline=None, max_examples=60)


class World(Struct, frozen=True):
    """A lock, and what it is held against."""

    lockfile: Lockfile
    agent: AgentFile
    servers: tuple[Server, ...]

    @property
    def differences(self) -> tuple[Difference, ...]:
        return verify(self.lockfile, self.agent, self.servers)


LAUNCH = Launch(command="files-server", args=("--stdio",), env=("FILES_TOKEN",))
REPORTS = Server(
    "acme-reports",
    "1.0.0",
    "https://acme.example/mcp",
    ("reporting",),
    ("read:reports", "write:reports", "admin:reports"),
    residency=("eu-only",),
    max_sensitivity="pii.low",
    signed=True,
)
FILES = Server(
    "local-files",
    "2.1.0",
    LAUNCH.endpoint,
    ("files",),
    ("read:files", "write:files"),
    residency=("any",),
    max_sensitivity="pii.high",
    signed=False,
    launch=LAUNCH,
    tool_scopes={"read": ("read:files",), "write": ("write:files",)},
)
AGENT = AgentFile(
    name="reporter",
    version="1.0.0",
    requires=Requires(
        mcp=(
            Requirement(category="reporting", permissions=("read:reports", "write:reports")),
            Requirement(category="files", permissions=("read:files",)),
        )
    ),
    constraints=Constraints(data=DataConstraints(residency="eu-only", sensitivity="pii.low")),
)


def locked(agent: AgentFile, *servers: Server) -> World:
    lockfile = resolve(agent, servers).lockfile
    assert lockfile
    return World(lockfile, agent, servers)


WORLD = locked(AGENT, REPORTS, FILES)


def requiring(*mcp: Requirement) -> AgentFile:
    return structs.replace(AGENT, requires=Requires(mcp=mcp))


def constrained(**constraints: Any) -> AgentFile:
    return structs.replace(AGENT, constraints=Constraints(**constraints))


def with_entry(category: str, edit: Callable[[LockedServer], LockedServer]) -> World:
    """The world with one entry of its lock edited, and nothing else."""
    entries = tuple(edit(entry) if entry.category == category else entry for entry in WORLD.lockfile.servers)
    return structs.replace(WORLD, lockfile=structs.replace(WORLD.lockfile, servers=entries))


def resealed(entry: LockedServer) -> LockedServer:
    """The entry with the hashes that belong to it, as a careful forger would leave it."""
    hashed = structs.replace(
        entry, hash=server_hash(entry.server_id, entry.version, entry.endpoint, entry.scopes), integrity=UNSET
    )
    uses_more = hashed.launch is not UNSET or hashed.tool_scopes is not UNSET
    return structs.replace(hashed, integrity=digest(hashed)) if uses_more else hashed


def forged(category: str, /, **changes: Any) -> World:
    return with_entry(category, lambda entry: resealed(structs.replace(entry, **changes)))


def edited(category: str, /, **changes: Any) -> World:
    return with_entry(category, lambda entry: structs.replace(entry, **changes))


def with_agent(agent: AgentFile) -> World:
    return structs.replace(WORLD, agent=agent)


def with_servers(*servers: Server) -> World:
    return structs.replace(WORLD, servers=servers)


def kinds(world: World) -> list[tuple[str, str]]:
    return [(found.kind.value, found.subject) for found in world.differences]


def test_what_was_just_locked_holds() -> None:
    assert WORLD.differences == ()


REPORTING = AGENT.requires.mcp[0]
NEEDS_FILES = AGENT.requires.mcp[1]
OTHER_LAUNCH = Launch(command="files-server", args=("--stdio", "--all"), env=("FILES_TOKEN",))

LOCK_CHANGES: dict[str, tuple[World, list[tuple[str, str]]]] = {
    "the hash edited": (edited("reporting", hash="0" * 64), [("hash-edited", "acme-reports@1.0.0")]),
    "the hash taken out": (edited("reporting", hash=""), [("hash-edited", "acme-reports@1.0.0")]),
    "the integrity edited": (edited("files", integrity="sha256-0"), [("hash-edited", "local-files@2.1.0")]),
    "the integrity taken out": (edited("files", integrity=UNSET), [("hash-edited", "local-files@2.1.0")]),
    "an integrity where none belongs": (
        edited("reporting", integrity="sha256-0"),
        [("hash-edited", "acme-reports@1.0.0")],
    ),
    "the endpoint edited": (
        edited("reporting", endpoint="https://evil.example/mcp"),
        [("hash-edited", "acme-reports@1.0.0"), ("endpoint-moved", "acme-reports@1.0.0")],
    ),
    "the endpoint forged": (
        forged("reporting", endpoint="https://evil.example/mcp"),
        [("endpoint-moved", "acme-reports@1.0.0")],
    ),
    "a launched server forged into a called one": (
        forged("files", endpoint="https://evil.example/mcp", launch=UNSET),
        [("endpoint-moved", "local-files@2.1.0"), ("launch-changed", "local-files@2.1.0")],
    ),
    "the command forged under its old endpoint": (
        forged("files", launch=OTHER_LAUNCH),
        [("launch-changed", "local-files@2.1.0"), ("launch-changed", "local-files@2.1.0")],
    ),
    "the command forged with its endpoint": (
        forged("files", launch=OTHER_LAUNCH, endpoint=OTHER_LAUNCH.endpoint),
        [("endpoint-moved", "local-files@2.1.0"), ("launch-changed", "local-files@2.1.0")],
    ),
    "the tool map forged": (
        forged("files", tool_scopes={"read": (), "write": ()}),
        [("tool-scopes-changed", "local-files@2.1.0")],
    ),
    "the tool map taken out": (forged("files", tool_scopes=UNSET), [("tool-scopes-changed", "local-files@2.1.0")]),
    "a tool map put in": (
        forged("reporting", tool_scopes={"any": ()}),
        [("tool-scopes-changed", "acme-reports@1.0.0")],
    ),
    "the scopes widened": (
        forged("reporting", scopes=("admin:reports", "read:reports", "write:reports")),
        [("scopes-widened", "acme-reports@1.0.0")],
    ),
    "the scopes narrowed": (
        forged("reporting", scopes=("read:reports",)),
        [("scopes-narrowed", "acme-reports@1.0.0")],
    ),
    "one scope for another": (
        forged("reporting", scopes=("admin:reports", "read:reports")),
        [("scopes-widened", "acme-reports@1.0.0"), ("scopes-narrowed", "acme-reports@1.0.0")],
    ),
    "the scopes reordered": (
        forged("reporting", scopes=("write:reports", "read:reports")),
        [("requirement-changed", "acme-reports@1.0.0")],
    ),
    "a scope repeated": (
        forged("reporting", scopes=("read:reports", "read:reports", "write:reports")),
        [("requirement-changed", "acme-reports@1.0.0")],
    ),
    "a version that the index does not have": (
        forged("reporting", version="1.0.1"),
        [("server-vanished", "acme-reports@1.0.1")],
    ),
    "a server that does not offer the category": (
        forged("reporting", server_id=FILES.id, version=FILES.version, endpoint=FILES.endpoint),
        [
            ("launch-changed", "local-files@2.1.0"),
            ("tool-scopes-changed", "local-files@2.1.0"),
            ("not-eligible", "local-files@2.1.0"),
        ],
    ),
    "the category edited": (
        edited("reporting", category="reportinG"),
        [
            ("requirement-changed", "reporting"),
            ("requirement-changed", "reportinG"),
            ("not-eligible", "acme-reports@1.0.0"),
        ],
    ),
    "an entry removed": (
        structs.replace(WORLD, lockfile=structs.replace(WORLD.lockfile, servers=WORLD.lockfile.servers[:1])),
        [("requirement-changed", "reporting")],
    ),
    "an entry twice": (
        structs.replace(WORLD, lockfile=structs.replace(WORLD.lockfile, servers=WORLD.lockfile.servers * 2)),
        [("requirement-changed", "files"), ("requirement-changed", "reporting")],
    ),
    "another agent's name": (
        structs.replace(WORLD, lockfile=structs.replace(WORLD.lockfile, agent_name="other")),
        [("agent-changed", "agent")],
    ),
    "another agent's version": (
        structs.replace(WORLD, lockfile=structs.replace(WORLD.lockfile, agent_version="1.0.1")),
        [("agent-changed", "agent")],
    ),
}

AGENT_CHANGES: dict[str, tuple[World, list[tuple[str, str]]]] = {
    "renamed": (with_agent(structs.replace(AGENT, name="writer")), [("agent-changed", "agent")]),
    "a new version": (with_agent(structs.replace(AGENT, version="2.0.0")), [("agent-changed", "agent")]),
    "a requirement added": (
        with_agent(requiring(REPORTING, NEEDS_FILES, Requirement(category="mail", permissions=("send",)))),
        [("requirement-changed", "mail")],
    ),
    "a requirement repeated": (
        with_agent(requiring(REPORTING, NEEDS_FILES, NEEDS_FILES)),
        [("requirement-changed", "files")],
    ),
    "a requirement removed": (with_agent(requiring(REPORTING)), [("requirement-changed", "files")]),
    "a requirement's category edited": (
        with_agent(requiring(REPORTING, Requirement(category="folders", permissions=("read:files",)))),
        [("requirement-changed", "folders"), ("requirement-changed", "files")],
    ),
    "a permission added": (
        with_agent(requiring(REPORTING, Requirement(category="files", permissions=("read:files", "write:files")))),
        [("scopes-narrowed", "local-files@2.1.0")],
    ),
    "a permission removed": (
        with_agent(requiring(NEEDS_FILES, Requirement(category="reporting", permissions=("read:reports",)))),
        [("scopes-widened", "acme-reports@1.0.0")],
    ),
    "a permission exchanged": (
        with_agent(requiring(REPORTING, Requirement(category="files", permissions=("write:files",)))),
        [("scopes-widened", "local-files@2.1.0"), ("scopes-narrowed", "local-files@2.1.0")],
    ),
    "another residency": (
        with_agent(constrained(data=DataConstraints(residency="us-only"))),
        [("not-eligible", "acme-reports@1.0.0")],
    ),
    "a higher sensitivity": (
        with_agent(constrained(data=DataConstraints(sensitivity="pii.moderate"))),
        [("not-eligible", "acme-reports@1.0.0")],
    ),
    "signed servers asked for": (
        with_agent(constrained(trust=TrustConstraints(require_signed=True))),
        [("not-eligible", "local-files@2.1.0")],
    ),
    "a locked scope forbidden": (
        with_agent(constrained(actions=ActionConstraints(forbid=("write:*",)))),
        [("not-eligible", "acme-reports@1.0.0")],
    ),
}

INDEX_CHANGES: dict[str, tuple[World, list[tuple[str, str]]]] = {
    "the server gone": (with_servers(FILES), [("server-vanished", "acme-reports@1.0.0")]),
    "only another version left": (
        with_servers(structs.replace(REPORTS, version="1.0.1"), FILES),
        [("server-vanished", "acme-reports@1.0.0")],
    ),
    "the endpoint moved": (
        with_servers(structs.replace(REPORTS, endpoint="https://new.example/mcp"), FILES),
        [("endpoint-moved", "acme-reports@1.0.0")],
    ),
    "the launch changed": (
        with_servers(REPORTS, structs.replace(FILES, launch=OTHER_LAUNCH, endpoint=OTHER_LAUNCH.endpoint)),
        [("endpoint-moved", "local-files@2.1.0"), ("launch-changed", "local-files@2.1.0")],
    ),
    "the launch taken out": (
        with_servers(REPORTS, structs.replace(FILES, launch=None)),
        [("launch-changed", "local-files@2.1.0")],
    ),
    "a launch put in": (
        with_servers(structs.replace(REPORTS, launch=LAUNCH), FILES),
        [("launch-changed", "acme-reports@1.0.0")],
    ),
    "a tool opened by another scope": (
        with_servers(REPORTS, structs.replace(FILES, tool_scopes={"read": ("read:files",), "write": ("read:files",)})),
        [("tool-scopes-changed", "local-files@2.1.0")],
    ),
    "a tool added to the map": (
        with_servers(REPORTS, structs.replace(FILES, tool_scopes={**(FILES.tool_scopes or {}), "list": ()})),
        [("tool-scopes-changed", "local-files@2.1.0")],
    ),
    "the tool map gone": (
        with_servers(REPORTS, structs.replace(FILES, tool_scopes=None)),
        [("tool-scopes-changed", "local-files@2.1.0")],
    ),
    "the residency no longer fits": (
        with_servers(structs.replace(REPORTS, residency=("us-only",)), FILES),
        [("not-eligible", "acme-reports@1.0.0")],
    ),
    "the residency no longer known": (
        with_servers(structs.replace(REPORTS, residency=None), FILES),
        [("not-eligible", "acme-reports@1.0.0")],
    ),
    "the highest sensitivity lowered": (
        with_servers(structs.replace(REPORTS, max_sensitivity="public"), FILES),
        [("not-eligible", "acme-reports@1.0.0")],
    ),
    "a scope no longer offered": (
        with_servers(structs.replace(REPORTS, scopes=("read:reports",)), FILES),
        [("not-eligible", "acme-reports@1.0.0")],
    ),
    "the category no longer offered": (
        with_servers(structs.replace(REPORTS, categories=()), FILES),
        [("not-eligible", "acme-reports@1.0.0")],
    ),
    "several at once": (
        with_servers(
            structs.replace(REPORTS, endpoint="https://new.example/mcp", residency=("us-only",)),
            structs.replace(FILES, tool_scopes=None),
        ),
        [
            ("tool-scopes-changed", "local-files@2.1.0"),
            ("endpoint-moved", "acme-reports@1.0.0"),
            ("not-eligible", "acme-reports@1.0.0"),
        ],
    ),
}


@pytest.mark.parametrize(("world", "expected"), LOCK_CHANGES.values(), ids=LOCK_CHANGES)
def test_a_change_of_the_lock_is_named(world: World, expected: list[tuple[str, str]]) -> None:
    assert kinds(world) == expected


@pytest.mark.parametrize(("world", "expected"), AGENT_CHANGES.values(), ids=AGENT_CHANGES)
def test_a_change_of_the_agent_file_is_named(world: World, expected: list[tuple[str, str]]) -> None:
    assert kinds(world) == expected


@pytest.mark.parametrize(("world", "expected"), INDEX_CHANGES.values(), ids=INDEX_CHANGES)
def test_a_change_of_the_index_is_named(world: World, expected: list[tuple[str, str]]) -> None:
    assert kinds(world) == expected


def test_every_kind_of_difference_has_a_case() -> None:
    cases = [*LOCK_CHANGES.values(), *AGENT_CHANGES.values(), *INDEX_CHANGES.values()]
    seen = {kind for _, expected in cases for kind, _ in expected} | {format_difference().kind.value}

    assert seen == {kind.value for kind in DifferenceKind}


def test_the_words_say_what_is_locked_and_what_is_so() -> None:
    expected_hash = WORLD.lockfile.servers[1].hash
    worlds = [
        LOCK_CHANGES["another agent's name"][0],
        LOCK_CHANGES["the hash edited"][0],
        LOCK_CHANGES["one scope for another"][0],
        LOCK_CHANGES["an entry twice"][0],
        AGENT_CHANGES["a requirement added"][0],
        AGENT_CHANGES["another residency"][0],
        INDEX_CHANGES["the server gone"][0],
        INDEX_CHANGES["the launch changed"][0],
    ]

    assert [str(found) for world in worlds for found in world.differences] == [
        "agent: Locked for 'other@1.0.0', but the file says 'reporter@1.0.0'",
        f"acme-reports@1.0.0: Its hash does not match what it pins, which is {expected_hash}",
        "acme-reports@1.0.0: Locked with scopes the agent file does not ask for: admin:reports",
        "acme-reports@1.0.0: Locked without scopes the agent file asks for: write:reports",
        "files: The lock has local-files@2.1.0 for it, and the agent file does not require it",
        "reporting: The lock has acme-reports@1.0.0 for it, and the agent file does not require it",
        "mail: The agent file requires it, and the lock has no server for it",
        "acme-reports@1.0.0: Agent requires 'us-only' but server supports: eu-only",
        "acme-reports@1.0.0: The index does not have this server any more",
        f"local-files@2.1.0: Locked at '{LAUNCH.endpoint}', but the index says '{OTHER_LAUNCH.endpoint}'",
        "local-files@2.1.0: The command that starts it is not the one in the index",
    ]


def test_a_better_server_in_the_index_is_no_difference() -> None:
    better = structs.replace(REPORTS, id="aaa-reports")

    assert resolve(AGENT, (better, REPORTS, FILES)).lockfile != WORLD.lockfile
    assert kinds(with_servers(better, REPORTS, FILES)) == []


def test_more_of_the_same_server_is_no_difference() -> None:
    """Nothing that the lock relies on is gone."""
    richer = structs.replace(REPORTS, scopes=(*REPORTS.scopes, "x"), categories=("mail", "reporting"), publisher="Acme")

    assert kinds(with_servers(richer, FILES)) == []


def test_the_order_in_which_the_agent_file_lists_things_is_no_difference() -> None:
    reordered = structs.replace(REPORTING, permissions=REPORTING.permissions[::-1])

    assert kinds(with_agent(requiring(NEEDS_FILES, reordered))) == []


def test_two_requirements_of_one_category_each_have_their_entry() -> None:
    reading = Requirement(category="files", permissions=("read:files",))
    writing = Requirement(category="files", permissions=("write:files",))
    world = locked(requiring(reading, writing), FILES)

    assert kinds(world) == []
    assert kinds(structs.replace(world, agent=requiring(reading, reading))) == [
        ("scopes-widened", "local-files@2.1.0"),
        ("scopes-narrowed", "local-files@2.1.0"),
    ]


@law
@given(case=solvable_cases(), data=st.data())
def test_what_resolve_locks_verifies_in_any_order_of_the_index(case: Case, data: st.DataObject) -> None:
    world = locked(case.agent, *case.servers)
    shuffled = tuple(data.draw(st.permutations(case.servers)))

    assert structs.replace(world, servers=shuffled).differences == ()
    assert is_as_written(to_json(world.lockfile), parse_lockfile(to_json(world.lockfile)))


# Bytes ----------------------------------------------------------------------------------------------------------------


def inside_the_entries(raw: bytes) -> list[int]:
    """Every position between the braces of a locked entry, which open and close at four spaces."""
    positions: list[int] = []
    start = raw.find(b"\n    {")
    while start >= 0:
        end = raw.index(b"\n    }", start)
        positions += range(start + 6, end + 5)
        start = raw.find(b"\n    {", end)
    return positions


def is_found(raw: bytes, world: World) -> bool:
    try:
        lockfile = parse_lockfile(raw)
    except InvalidLockfile:
        return True
    return bool(verify(lockfile, world.agent, world.servers)) or not is_as_written(raw, lockfile)


def replaced(raw: bytes, position: int, value: bytes) -> bytes:
    return raw[:position] + value + raw[position + 1 :]


RAW = to_json(WORLD.lockfile)


def test_the_untouched_bytes_pass() -> None:
    assert not is_found(RAW, WORLD)
    assert len(inside_the_entries(RAW)) > 1000


# What JSON reads past, what opens or closes something, what is no text, and a neighbour of what stands there.
TELLING = b' \n\r"\xff'


def test_a_telling_byte_anywhere_inside_an_entry_is_found() -> None:
    missed = [
        (position, value)
        for position in inside_the_entries(RAW)
        for value in {*TELLING, RAW[position] ^ 1} - {RAW[position]}
        if not is_found(replaced(RAW, position, bytes([value])), WORLD)
    ]

    assert missed == []


@settings(deadline=None, max_examples=150)
@given(case=solvable_cases(), data=st.data())
def test_any_changed_byte_inside_an_entry_is_found(case: Case, data: st.DataObject) -> None:
    world = locked(case.agent, *case.servers)
    raw = to_json(world.lockfile)
    position = data.draw(st.sampled_from(inside_the_entries(raw)), label="position")
    value = data.draw(st.integers(0, 255).filter(lambda value: value != raw[position]), label="value")

    assert is_found(replaced(raw, position, bytes([value])), world)


@law
@given(position=st.sampled_from(inside_the_entries(RAW)), value=st.integers(0, 255))
@example(position=inside_the_entries(RAW)[0], value=ord(" "))
def test_a_byte_more_or_less_inside_an_entry_is_found(position: int, value: int) -> None:
    more = RAW[:position] + bytes([value]) + RAW[position:]

    assert is_found(replaced(RAW, position, b""), WORLD)
    # A checkout may turn every line end into two bytes; that is the one byte more which means nothing.
    assert is_found(more, WORLD) or (value == ord("\r") and RAW[position] == ord("\n"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"category": "files",', b'"category": "files",\n      "comment": "harmless",'),
        (b'"args": [', b'"cwd": "/",\n        "args": ['),
        (b'"read": [', b'"read": [ '),
        (b'"files"', b'"f\\u0069les"'),
        (b"\n", b""),
        (b"\n}\n", b"\n}"),
        (b"{", b"\xef\xbb\xbf{"),
    ],
)
def test_bytes_that_say_the_same_or_nothing_are_not_as_written(old: bytes, new: bytes) -> None:
    raw = RAW.replace(old, new, 1)

    assert raw != RAW
    assert verify(parse_lockfile(raw), WORLD.agent, WORLD.servers) == ()
    assert not is_as_written(raw, parse_lockfile(raw))


def test_line_ends_that_a_checkout_changed_are_as_written() -> None:
    raw = RAW.replace(b"\n", b"\r\n")

    assert is_as_written(raw, parse_lockfile(raw))
