"""A lock holds as long as nothing that it says has changed; each kind of change has a name."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import UNSET, Struct, structs

from agent_resolver import AgentFile, LockedServer, Lockfile, Server, parse_lockfile, resolve, to_json
from agent_resolver.core import (
    Difference,
    DifferenceKind,
    examine,
    is_as_written,
    judge,
    known_servers,
    limits_of,
    lock_entry,
    remedy,
    server_hash,
    verify,
)
from agent_resolver.schema import (
    ActionConstraints,
    Constraints,
    DataConstraints,
    Launch,
    Requirement,
    Requires,
    TrustConstraints,
    digest,
)
from tests.core.strategies import Case, solvable_cases
from tests.strategies import law

LAW = law(60)


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
        [("launch-changed", "local-files@2.1.0")],
    ),
    "the command forged under its old endpoint": (
        forged("files", launch=OTHER_LAUNCH),
        [("launch-changed", "local-files@2.1.0"), ("launch-changed", "local-files@2.1.0")],
    ),
    "the command forged with its endpoint": (
        forged("files", launch=OTHER_LAUNCH, endpoint=OTHER_LAUNCH.endpoint),
        [("launch-changed", "local-files@2.1.0")],
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
        [("launch-changed", "local-files@2.1.0")],
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
    "another protocol at the same endpoint": (
        with_servers(structs.replace(REPORTS, transport="sse"), FILES),
        [("endpoint-moved", "acme-reports@1.0.0")],
    ),
    "a server withdrawn": (
        with_servers(structs.replace(REPORTS, status="deleted"), FILES),
        [("not-eligible", "acme-reports@1.0.0")],
    ),
    "tools pinned by the index alone": (
        with_servers(structs.replace(REPORTS, tools={"read": "sha256-1"}), FILES),
        [("tool-changed", "acme-reports@1.0.0")],
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


PINNED = structs.replace(REPORTS, tools={"read": "sha256-1", "write": "sha256-1"})


@pytest.mark.parametrize(
    ("tools", "messages"),
    [
        (None, ["The lock pins the definitions of its tools, and the index does not any more"]),
        (
            {"read": "sha256-2", "erase": "sha256-1"},
            [
                "The definition of the tool `erase` was added since it was locked",
                "The definition of the tool `read` was changed since it was locked",
                "The definition of the tool `write` was removed since it was locked",
            ],
        ),
    ],
)
def test_each_definition_that_is_not_the_pinned_one_is_named(tools: dict[str, str] | None, messages: list[str]) -> None:
    lockfile = resolve(AGENT, (PINNED, FILES)).lockfile
    assert lockfile is not None

    differences = verify(lockfile, AGENT, (structs.replace(PINNED, tools=tools), FILES))

    assert [difference.message for difference in differences] == messages


def test_every_kind_of_difference_has_a_case() -> None:
    cases = [*LOCK_CHANGES.values(), *AGENT_CHANGES.values(), *INDEX_CHANGES.values()]
    seen = {kind for _, expected in cases for kind, _ in expected} | {kind for _, kind in UNREADABLE.values()}

    assert seen == {kind.value for kind in DifferenceKind} - {"format-edited"}


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
        f"acme-reports@1.0.0: Its hash is {'0' * 64}, but what it pins hashes to {expected_hash}",
        "acme-reports@1.0.0: Locked with scopes the agent file does not ask for: admin:reports",
        "acme-reports@1.0.0: Locked without scopes the agent file asks for: write:reports",
        "files: The lock has local-files@2.1.0 for it, and another entry answers that requirement already",
        "reporting: The lock has acme-reports@1.0.0 for it, and another entry answers that requirement already",
        "mail: The agent file requires it, and the lock has no server for it",
        "acme-reports@1.0.0: Agent requires 'us-only' but server supports: eu-only",
        "acme-reports@1.0.0: The index does not have this server any more",
        (
            "local-files@2.1.0: Locked as 'files-server --stdio with FILES_TOKEN over stdio', but the index says "
            "'files-server --stdio --all with FILES_TOKEN over stdio'"
        ),
    ]


def test_a_better_server_in_the_index_is_no_difference() -> None:
    better = structs.replace(REPORTS, id="aaa-reports")

    assert resolve(AGENT, (better, REPORTS, FILES)).lockfile != WORLD.lockfile
    assert kinds(with_servers(better, REPORTS, FILES)) == []


def test_more_of_the_same_server_is_no_difference() -> None:
    """Nothing that the lock relies on is gone."""
    richer = structs.replace(
        REPORTS, scopes=(*(REPORTS.scopes or ()), "x"), categories=("mail", "reporting"), publisher="Acme"
    )

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


@LAW
@given(case=solvable_cases(), data=st.data())
def test_what_resolve_locks_verifies_in_any_order_of_the_index(case: Case, data: st.DataObject) -> None:
    world = locked(case.agent, *case.servers)
    shuffled = tuple(data.draw(st.permutations(case.servers)))

    assert found_in(to_json(world.lockfile), structs.replace(world, servers=shuffled)) == []


# Bytes ----------------------------------------------------------------------------------------------------------------


def found_in(raw: bytes, world: World) -> list[str]:
    return [str(found.kind) for found in examine(raw, world.agent, world.servers).differences]


RAW = to_json(WORLD.lockfile)

# Files that are no lock at all, or not one that this program can read.
UNREADABLE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "malformed"),
    "another tool's lock": (b'{"version": 1}', "foreign-file"),
    "no text": (b"\xff\xfe{", "foreign-file"),
    "the keys in another order": (b'{"servers": [], "agentName": "a"}', "foreign-file"),
    "no end": (RAW[:-5], "malformed"),
    "no servers": (b'{"agentName": "reporter"}', "malformed"),
    "two values": (RAW + RAW, "malformed"),
    "a key twice": (RAW.replace(b'"hash"', b'"category": "files", "hash"', 1), "malformed"),
    "a NUL": (RAW.replace(b'"servers"', b'\0"servers"'), "malformed"),
    "a format that is no number": (RAW.replace(b'"lockVersion": 2', b'"lockVersion": "3"'), "malformed"),
    "a newer format": (RAW.replace(b'"lockVersion": 2', b'"lockVersion": 3'), "newer-format"),
    "a newer format with new keys only": (b'{"agentName": "a", "lockVersion": 9, "pins": {}}', "newer-format"),
    "a conflict over the whole file": (b"<<<<<<< a\n" + RAW + b"=======\n" + RAW + b">>>>>>> b\n", "merge-conflict"),
    "a conflict of which one side is a lock": (
        b"<<<<<<< a\n" + RAW + b"=======\n# gone\n>>>>>>> b\n",
        "merge-conflict",
    ),
    "a conflict inside an entry": (
        RAW.replace(b'      "version": "2.1.0",', b'<<<<<<< a\n "version": "2",\n=======\n "version": "3",\n>>>>>>> b'),
        "merge-conflict",
    ),
    "a conflict with the line ends of Windows": (
        (b"{\n<<<<<<< a\n" + RAW[2:] + b"=======\n" + RAW[2:] + b">>>>>>> b\n").replace(b"\n", b"\r\n"),
        "merge-conflict",
    ),
    "a conflict of another tool's lock": (b"<<<<<<< a\n{}\n=======\n[]\n>>>>>>> b\n", "foreign-file"),
    "a conflict that does not close": (b"<<<<<<< a\n" + RAW + b"=======\n" + RAW, "foreign-file"),
}


@pytest.mark.parametrize(("raw", "kind"), UNREADABLE.values(), ids=UNREADABLE)
def test_bytes_that_are_no_lock_are_named_by_what_they_are(raw: bytes, kind: str) -> None:
    examined = examine(raw, WORLD.agent, WORLD.servers)

    assert examined.lockfile is None
    assert {(str(found.kind), found.subject) for found in examined.differences} == {(kind, "lock")}


def test_a_conflict_is_named_with_its_line_and_both_sides() -> None:
    raw, _ = UNREADABLE["a conflict inside an entry"]
    line = raw.splitlines().index(b"<<<<<<< a") + 1

    assert [str(found) for found in examine(raw, WORLD.agent, WORLD.servers).differences] == [
        f"lock: Line {line} opens a merge conflict between `a` and `b`"
    ]


def test_every_fault_of_a_lock_that_is_malformed_is_said() -> None:
    raw = b'{"agentName": "reporter", "agentVersion": 1, "servers": [{}]}'

    assert len(examine(raw, WORLD.agent, WORLD.servers).differences) > 5


def test_a_lock_that_can_be_read_comes_with_all_that_does_not_hold() -> None:
    world = LOCK_CHANGES["the scopes widened"][0]
    examined = examine(to_json(world.lockfile), world.agent, world.servers)

    assert examined.lockfile == world.lockfile
    assert examined.differences == world.differences


def test_bytes_that_say_the_same_in_another_way_are_a_difference_of_format() -> None:
    examined = examine(RAW.replace(b"  ", b"\t"), WORLD.agent, WORLD.servers)

    assert [str(found) for found in examined.differences] == [
        "lock: Its bytes are not the ones that `agent resolve` writes"
    ]
    assert examined.differences[0].kind is DifferenceKind.FORMAT_EDITED


def test_one_look_at_the_index_serves_many_locks() -> None:
    known = known_servers(WORLD.servers)

    assert examine(RAW, WORLD.agent, known).differences == ()
    for world, _ in LOCK_CHANGES.values():
        assert verify(world.lockfile, world.agent, known) == world.differences


def test_every_kind_of_difference_has_a_remedy_and_four_have_one_of_their_own() -> None:
    remedies = [remedy(kind) for kind in DifferenceKind]

    assert all("agent" in each for each in remedies)
    assert len(set(remedies)) == 5


PLAIN = locked(requiring(REPORTING), REPORTS)

# Outside of the entries no hash vouches for anything, so what stands there must be what `agent resolve` writes.
AROUND: dict[str, tuple[World, dict[str, Any]]] = {
    "no format where an entry needs one": (WORLD, {"lock_version": UNSET}),
    "a format that no entry needs": (PLAIN, {"lock_version": 2}),
    "the entries in another order": (WORLD, {"servers": WORLD.lockfile.servers[::-1]}),
    "a time that is none": (WORLD, {"resolved_at": "yesterday"}),
    "a time with more to it": (WORLD, {"resolved_at": "1970-01-01T00:00:00.000Z and then some"}),
}


@pytest.mark.parametrize(("world", "changes"), AROUND.values(), ids=AROUND)
def test_what_stands_around_the_entries_is_as_it_was_written(world: World, changes: dict[str, Any]) -> None:
    assert found_in(to_json(structs.replace(world.lockfile, **changes)), world) == ["format-edited"]


def test_another_time_is_no_difference() -> None:
    assert found_in(to_json(structs.replace(WORLD.lockfile, resolved_at="2026-01-15T10:30:00.000Z")), WORLD) == []


# A byte ---------------------------------------------------------------------------------------------------------------


def inside_the_servers(raw: bytes) -> range:
    """Every position between the brackets of `servers`, which open and close at two spaces."""
    opening = raw.index(b'"servers": [') + len(b'"servers": [')
    return range(opening, raw.index(b"\n  ]", opening) + 3)


def replaced(raw: bytes, position: int, value: bytes) -> bytes:
    return raw[:position] + value + raw[position + 1 :]


def means_nothing(raw: bytes, position: int, value: int) -> bool:
    """Whether a byte put in only makes a line end that a checkout might make."""
    return value == ord("\r") and raw[position] == ord("\n")


SMALL = locked(requiring(REPORTING), REPORTS)
ODD = locked(
    requiring(NEEDS_FILES, REPORTING, Requirement(category='é\\"\u2028', permissions=("\U0001f600",))),
    REPORTS,
    structs.replace(FILES, tool_scopes={"réad": (), "a": ("read:files",)}),
    Server("\uff5e", "1", "x", ('é\\"\u2028',), ("\U0001f600",), ("any",), "pii.high"),
)
EXHAUSTED = {"two entries, one of them launched": WORLD, "one entry of the first format": SMALL, "odd names": ODD}

# What JSON reads past, what opens or closes something, what is no text.
TELLING = b' \t\n\r"\\,0\xff'


@pytest.mark.slow
@pytest.mark.parametrize("world", EXHAUSTED.values(), ids=EXHAUSTED)
def test_a_byte_changed_anywhere_among_the_servers_is_found(world: World) -> None:
    raw, known = to_json(world.lockfile), known_servers(world.servers)
    missed = [
        (position, value)
        for position in inside_the_servers(raw)
        for value in {*TELLING, raw[position] ^ 1, raw[position] ^ 0x20} - {raw[position]}
        if not examine(replaced(raw, position, bytes([value])), world.agent, known).differences
    ]

    assert found_in(raw, world) == []
    assert missed == []


@pytest.mark.slow
@pytest.mark.parametrize("world", EXHAUSTED.values(), ids=EXHAUSTED)
def test_a_byte_taken_out_or_put_in_anywhere_among_the_servers_is_found(world: World) -> None:
    raw, known = to_json(world.lockfile), known_servers(world.servers)
    missed = [
        (position, edited_raw)
        for position in inside_the_servers(raw)
        for edited_raw in (
            replaced(raw, position, b""),
            *(
                raw[:position] + bytes([value]) + raw[position:]
                for value in {*TELLING, raw[position]}
                if not means_nothing(raw, position, value)
            ),
        )
        if not examine(edited_raw, world.agent, known).differences
    ]

    assert missed == []


@pytest.mark.slow
def test_every_value_of_a_byte_is_found_in_every_place_that_says_where_to_connect() -> None:
    raw, known = to_json(SMALL.lockfile), known_servers(SMALL.servers)
    start = raw.index(b'"endpoint"')
    missed = [
        (position, value)
        for position in range(start, raw.index(b"\n", start) + 1)
        for value in range(256)
        if value != raw[position]
        and not examine(replaced(raw, position, bytes([value])), SMALL.agent, known).differences
    ]

    assert missed == []


@law(200)
@given(case=solvable_cases(), data=st.data())
def test_any_byte_changed_put_in_or_taken_out_among_the_servers_is_found(case: Case, data: st.DataObject) -> None:
    world = locked(case.agent, *case.servers)
    raw = to_json(world.lockfile)
    position = data.draw(st.sampled_from(inside_the_servers(raw)), label="position")
    value = data.draw(st.integers(0, 255).filter(lambda value: value != raw[position]), label="value")

    assert found_in(raw, world) == []
    assert found_in(replaced(raw, position, bytes([value])), world)
    assert found_in(replaced(raw, position, b""), world)
    if not means_nothing(raw, position, value):
        assert found_in(raw[:position] + bytes([value]) + raw[position:], world)


@pytest.mark.slow
@law(200)
@given(case=solvable_cases(), data=st.data())
def test_a_lock_that_pins_other_facts_needs_a_fitting_server_in_the_index(case: Case, data: st.DataObject) -> None:
    """Whoever reseals an entry can name another server that the agent accepts, and nothing beside that."""
    world = locked(case.agent, *case.servers)
    entries = list(world.lockfile.servers)
    place = data.draw(st.integers(0, len(entries) - 1))
    other = data.draw(st.sampled_from(entries))
    field = data.draw(
        st.sampled_from(("category", "server_id", "version", "endpoint", "scopes", "launch", "tool_scopes"))
    )
    entry = resealed(structs.replace(entries[place], **{field: getattr(other, field)}))
    world = structs.replace(
        world, lockfile=structs.replace(world.lockfile, servers=(*entries[:place], entry, *entries[place + 1 :]))
    )

    if entry != entries[place] and not world.differences:
        need = Requirement(category=entry.category, permissions=entry.scopes)
        server = known_servers(case.servers).get((entry.server_id, entry.version))
        assert server is not None
        assert entry == lock_entry(need, server)
        assert judge(need, limits_of(case.agent))(server) is None


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
    assert found_in(raw, WORLD) == ["format-edited"]


def test_line_ends_that_a_checkout_changed_are_as_written() -> None:
    raw = RAW.replace(b"\n", b"\r\n")

    assert is_as_written(raw, parse_lockfile(raw))
    assert found_in(raw, WORLD) == []
