"""Everything that changed between two locks has a name, and every name has a risk."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import UNSET, structs

from agent_resolver import AgentFile, LockedServer, Lockfile, Server, resolve
from agent_resolver.core import (
    Change,
    ChangeKind,
    Risk,
    Side,
    diff,
    known_servers,
    lock_diff,
    lock_entry,
    server_hash,
    worst,
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
from tests.core.strategies import LAW, Case, shuffled, solvable_cases

LAUNCH = Launch(command="files-server", args=("--stdio",), env=("FILES_TOKEN",))
FILES = Server(
    "local-files",
    "2.1.0",
    LAUNCH.endpoint,
    ("files",),
    ("read:files", "write:files"),
    ("eu-only",),
    "pii.low",
    signed=True,
    publisher="Local",
    launch=LAUNCH,
    tool_scopes={"read": ("read:files",), "write": ("write:files",), "move": ("read:files", "write:files")},
)
REPORTS = Server(
    "acme-reports",
    "1.0.0",
    "https://acme.example/mcp",
    ("reporting",),
    ("read:reports",),
    ("eu-only",),
    "pii.low",
    signed=True,
    publisher="Acme",
)
CONSTRAINTS = Constraints(
    data=DataConstraints(residency="eu-only", sensitivity="internal"),
    actions=ActionConstraints(forbid=("delete:*",)),
    trust=TrustConstraints(require_signed=True),
)
AGENT = AgentFile(
    name="reporter",
    version="1.0.0",
    requires=Requires(
        mcp=(
            Requirement(category="reporting", permissions=("read:reports",)),
            Requirement(category="files", permissions=("read:files",)),
        )
    ),
    constraints=CONSTRAINTS,
)


def side(agent: AgentFile = AGENT, *servers: Server) -> Side:
    offered = servers or (FILES, REPORTS)
    entries = tuple(
        lock_entry(need, next(server for server in offered if need.category in server.categories))
        for need in sorted(agent.requires.mcp, key=lambda need: (need.category, need.permissions))
    )
    lockfile = Lockfile(
        agent_name=agent.name, agent_version=agent.version, resolved_at="1970-01-01T00:00:00.000Z", servers=entries
    )
    return Side(lockfile, agent, known_servers(offered))


OLD = side()


def requiring(*needs: tuple[str, tuple[str, ...]]) -> AgentFile:
    mcp = tuple(Requirement(category=category, permissions=scopes) for category, scopes in needs)
    return structs.replace(AGENT, requires=Requires(mcp=mcp))


def constrained(**constraints: Any) -> Side:
    return side(structs.replace(AGENT, constraints=structs.replace(CONSTRAINTS, **constraints)))


def reports(**facts: Any) -> Side:
    return side(AGENT, FILES, structs.replace(REPORTS, **facts))


def files(**facts: Any) -> Side:
    return side(AGENT, structs.replace(FILES, **facts), REPORTS)


def edited(place: int, edit: Callable[[LockedServer], LockedServer]) -> Side:
    entries = list(OLD.lockfile.servers)
    entries[place] = edit(entries[place])
    return structs.replace(OLD, lockfile=structs.replace(OLD.lockfile, servers=tuple(entries)))


def launched(**changes: Any) -> Side:
    launch = structs.replace(LAUNCH, **changes)
    return files(launch=launch, endpoint=launch.endpoint)


READ, WRITE = ("files", ("read:files",)), ("files", ("read:files", "write:files"))
REPORTING = ("reporting", ("read:reports",))
HASH = OLD.lockfile.servers[1].hash

CHANGES: dict[str, tuple[Side, list[tuple[str, str, str, str | None, str | None]]]] = {
    "nothing": (OLD, []),
    "the agent": (
        structs.replace(OLD, lockfile=structs.replace(OLD.lockfile, agent_version="1.1.0")),
        [("review", "agent-changed", "agent", "reporter@1.0.0", "reporter@1.1.0")],
    ),
    "the time": (
        structs.replace(OLD, lockfile=structs.replace(OLD.lockfile, resolved_at="2026-01-01T00:00:00.000Z")),
        [("safe", "resolved-at-changed", "agent", "1970-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z")],
    ),
    "a residency no longer asked for": (
        constrained(data=DataConstraints(sensitivity="internal")),
        [("risk", "residency-loosened", "constraints", "eu-only", "any")],
    ),
    "another residency asked for": (
        constrained(data=DataConstraints(sensitivity="internal", residency="us-only")),
        [("risk", "residency-loosened", "constraints", "eu-only", "us-only")],
    ),
    "a lower sensitivity": (
        constrained(data=DataConstraints(sensitivity="public", residency="eu-only")),
        [("risk", "sensitivity-lowered", "constraints", "internal", "public")],
    ),
    "no sensitivity any more": (
        constrained(data=DataConstraints(residency="eu-only")),
        [("risk", "sensitivity-lowered", "constraints", "internal", None)],
    ),
    "a higher sensitivity": (
        constrained(data=DataConstraints(sensitivity="pii.low", residency="eu-only")),
        [("safe", "sensitivity-raised", "constraints", "internal", "pii.low")],
    ),
    "signatures no longer asked for": (
        constrained(trust=TrustConstraints(require_signed=False)),
        [("risk", "require-signed-dropped", "constraints", "true", None)],
    ),
    "an action allowed and another forbidden": (
        constrained(actions=ActionConstraints(forbid=("drop:*",))),
        [
            ("risk", "action-allowed", "constraints", "delete:*", None),
            ("safe", "action-forbidden", "constraints", None, "drop:*"),
        ],
    ),
    "a requirement more": (
        side(requiring(REPORTING, READ, WRITE)),
        [("risk", "requirement-added", "files", None, "local-files@2.1.0 with read:files, write:files")],
    ),
    "a requirement less": (
        side(requiring(REPORTING)),
        [("safe", "requirement-removed", "files", "local-files@2.1.0 with read:files", None)],
    ),
    "a scope more, and the tools it opens": (
        side(requiring(REPORTING, WRITE)),
        [
            ("risk", "scopes-widened", "files", None, "write:files"),
            ("risk", "tools-opened", "files", None, "move, write"),
        ],
    ),
    "another server": (
        reports(id="beta-reports"),
        [("risk", "server-changed", "reporting", "acme-reports@1.0.0", "beta-reports@1.0.0")],
    ),
    "another version": (
        reports(version="1.1.0"),
        [("review", "version-changed", "reporting", "acme-reports@1.0.0", "acme-reports@1.1.0")],
    ),
    "another address": (
        reports(endpoint="https://new.example"),
        [("risk", "endpoint-moved", "reporting", "https://acme.example/mcp", "https://new.example")],
    ),
    "another command": (
        launched(command="evil-server"),
        [
            (
                "risk",
                "launch-changed",
                "files",
                "files-server --stdio with FILES_TOKEN over stdio",
                "evil-server --stdio with FILES_TOKEN over stdio",
            )
        ],
    ),
    "a variable more": (
        launched(env=("FILES_TOKEN", "HOME")),
        [
            (
                "risk",
                "launch-changed",
                "files",
                "files-server --stdio with FILES_TOKEN over stdio",
                "files-server --stdio with FILES_TOKEN, HOME over stdio",
            )
        ],
    ),
    "a call instead of a command": (
        files(launch=None, endpoint="https://files.example"),
        [
            (
                "risk",
                "launch-changed",
                "files",
                "files-server --stdio with FILES_TOKEN over stdio",
                "https://files.example",
            )
        ],
    ),
    "a tool opened by less": (
        files(tool_scopes={**(FILES.tool_scopes or {}), "write": ("read:files",)}),
        [("risk", "tools-opened", "files", None, "write")],
    ),
    "a tool gone from the map": (
        files(tool_scopes={"write": ("write:files",)}),
        [("safe", "tools-closed", "files", "read", None)],
    ),
    "the map gone": (files(tool_scopes=None), [("safe", "tools-closed", "files", "read", None)]),
    "another protocol at the same endpoint": (
        reports(transport="sse"),
        [("risk", "endpoint-moved", "reporting", REPORTS.endpoint, f"{REPORTS.endpoint} over sse")],
    ),
    "tools pinned": (
        reports(tools={"read": "sha256-1"}),
        [("risk", "tool-changed", "reporting", None, "read sha256-1")],
    ),
    "a hash edited": (
        edited(1, lambda entry: structs.replace(entry, hash="0")),
        [("risk", "hash-edited", "reporting", HASH, "0")],
    ),
    "the server in more regions": (
        reports(residency=("eu-only", "us-only")),
        [("risk", "residency-loosened", "reporting", "eu-only", "eu-only, us-only")],
    ),
    "the server in no region that is known": (
        reports(residency=None),
        [("risk", "residency-loosened", "reporting", "eu-only", "any")],
    ),
    "the server in no region": (reports(residency=()), [("risk", "residency-withdrawn", "reporting", "eu-only", None)]),
    "no signature any more": (
        reports(signed=False),
        [("risk", "unsigned-now", "reporting", "signed", "not signed")],
    ),
    "a signature that nobody knows any more": (
        reports(signed=None),
        [("risk", "unsigned-now", "reporting", "signed", "not known")],
    ),
    "another publisher": (reports(publisher="Beta"), [("risk", "signer-changed", "reporting", "Acme", "Beta")]),
    "another highest sensitivity": (
        reports(max_sensitivity="public"),
        [("review", "max-sensitivity-changed", "reporting", "pii.low", "public")],
    ),
    "a server that its index does not have": (
        structs.replace(OLD, servers=known_servers([FILES])),
        [("review", "facts-unknown", "reporting", None, "acme-reports@1.0.0")],
    ),
    "everything about one server": (
        reports(id="x", endpoint="y", residency=("any",), signed=False, publisher="z", max_sensitivity="public"),
        [
            ("risk", "server-changed", "reporting", "acme-reports@1.0.0", "x@1.0.0"),
            ("risk", "residency-loosened", "reporting", "eu-only", "any"),
            ("risk", "unsigned-now", "reporting", "signed", "not signed"),
            ("risk", "signer-changed", "reporting", "Acme", "z"),
            ("review", "max-sensitivity-changed", "reporting", "pii.low", "public"),
        ],
    ),
}

# The same the other way round, where that is a kind of its own.
RETURNS: dict[str, list[tuple[str, str, str, str | None, str | None]]] = {
    "a residency no longer asked for": [("safe", "residency-tightened", "constraints", "any", "eu-only")],
    "no sensitivity any more": [("safe", "sensitivity-raised", "constraints", None, "internal")],
    "signatures no longer asked for": [("safe", "require-signed-set", "constraints", None, "true")],
    "a scope more, and the tools it opens": [
        ("safe", "scopes-narrowed", "files", "write:files", None),
        ("safe", "tools-closed", "files", "move, write", None),
    ],
    "no signature any more": [("safe", "signed-now", "reporting", "not signed", "signed")],
    "a signature that nobody knows any more": [("safe", "signed-now", "reporting", "not known", "signed")],
    "the server in no region that is known": [("safe", "residency-tightened", "reporting", "any", "eu-only")],
    "the server in more regions": [("risk", "residency-withdrawn", "reporting", "eu-only, us-only", "eu-only")],
    "a server that its index does not have": [("review", "facts-unknown", "reporting", None, "acme-reports@1.0.0")],
}


def shown(changes: tuple[Change, ...]) -> list[tuple[str, str, str, str | None, str | None]]:
    return [(str(each.risk), str(each.kind), each.subject, each.before, each.after) for each in changes]


@pytest.mark.parametrize(("new", "expected"), CHANGES.values(), ids=CHANGES)
def test_a_change_has_its_name_and_its_risk(new: Side, expected: list[Any]) -> None:
    assert shown(diff(OLD, new)) == expected


@pytest.mark.parametrize(("name", "expected"), RETURNS.items(), ids=RETURNS)
def test_the_way_back_has_its_name_and_its_risk(name: str, expected: list[Any]) -> None:
    assert shown(diff(CHANGES[name][0], OLD)) == expected


def test_every_kind_of_change_has_a_case() -> None:
    cases = [*(expected for _, expected in CHANGES.values()), *RETURNS.values()]

    assert {kind for expected in cases for _, kind, *_ in expected} == {str(kind) for kind in ChangeKind}


def test_every_kind_has_a_risk_and_the_ones_that_are_not_risky_are_these() -> None:
    risks = {kind: Change(kind, "", None, None).risk for kind in ChangeKind}

    assert {kind: risk for kind, risk in risks.items() if risk is not Risk.RISK} == lock_diff._RISKS
    assert {str(kind) for kind, risk in risks.items() if risk is Risk.REVIEW} == {
        "agent-changed",
        "facts-unknown",
        "max-sensitivity-changed",
        "version-changed",
    }
    assert {str(kind) for kind, risk in risks.items() if risk is Risk.RISK} == {
        "action-allowed",
        "endpoint-moved",
        "hash-edited",
        "launch-changed",
        "require-signed-dropped",
        "requirement-added",
        "residency-loosened",
        "residency-withdrawn",
        "scopes-widened",
        "sensitivity-lowered",
        "server-changed",
        "signer-changed",
        "tool-changed",
        "tools-opened",
        "unsigned-now",
    }


def test_the_worst_of_the_changes_is_the_greatest_risk_among_them() -> None:
    safe, review, risk = (
        Change(kind, "", None, None)
        for kind in (ChangeKind.TOOLS_CLOSED, ChangeKind.VERSION_CHANGED, ChangeKind.ENDPOINT_MOVED)
    )

    assert worst(()) is None
    assert worst((safe,)) is Risk.SAFE
    assert worst((safe, review)) is Risk.REVIEW
    assert worst((review, risk, safe)) is Risk.RISK


def test_without_agent_files_or_indexes_the_locks_alone_are_compared() -> None:
    new = reports(version="1.1.0", signed=False)
    loose = structs.replace(new, agent=structs.replace(AGENT, constraints=UNSET))
    lock_alone = [("review", "version-changed", "reporting", "acme-reports@1.0.0", "acme-reports@1.1.0")]

    assert shown(diff(Side(OLD.lockfile), Side(loose.lockfile))) == lock_alone
    assert shown(diff(Side(OLD.lockfile), loose)) == lock_alone
    assert shown(diff(OLD, Side(loose.lockfile))) == lock_alone


def test_both_servers_are_named_where_neither_index_has_its_own() -> None:
    new = structs.replace(reports(version="2"), servers={})

    assert shown(diff(structs.replace(OLD, servers={}), new))[-1] == (
        "review",
        "facts-unknown",
        "reporting",
        None,
        "acme-reports@1.0.0, acme-reports@2",
    )


def test_two_requirements_of_one_category_are_compared_with_the_most_alike() -> None:
    both = side(requiring(READ, ("files", ("write:files",))))
    wider = side(requiring(READ, WRITE))

    assert shown(diff(both, side(requiring(READ)))) == [
        ("safe", "requirement-removed", "files", "local-files@2.1.0 with write:files", None)
    ]
    assert shown(diff(both, side(requiring(("files", ("write:files",)))))) == [
        ("safe", "requirement-removed", "files", "local-files@2.1.0 with read:files", None)
    ]
    assert shown(diff(both, wider)) == [
        ("risk", "scopes-widened", "files", None, "read:files"),
        ("risk", "tools-opened", "files", None, "move, read"),
    ]


def pinned(category: str, scopes: tuple[str, ...], name: str) -> LockedServer:
    need = Requirement(category=category, permissions=scopes)
    return lock_entry(need, Server(name, "1", f"https://{name}.example", (category,), scopes))


def with_entries(*entries: LockedServer) -> Side:
    return Side(structs.replace(OLD.lockfile, servers=entries))


LETTERS = st.sampled_from("ab")
ENTRIES = st.builds(pinned, LETTERS, st.sampled_from((("a",), ("b",), ("a", "b"))), st.sampled_from("xyz"))


@LAW
@given(old=st.lists(ENTRIES, max_size=4), new=st.lists(ENTRIES, max_size=4), data=st.data())
def test_the_order_of_the_entries_never_matters(
    old: list[LockedServer], new: list[LockedServer], data: st.DataObject
) -> None:
    expected = diff(with_entries(*old), with_entries(*new))

    assert diff(with_entries(*shuffled(data, old)), with_entries(*shuffled(data, new))) == expected


@LAW
@given(old=st.lists(ENTRIES, max_size=4), new=st.lists(ENTRIES, max_size=4))
def test_two_locks_without_a_change_between_them_pin_the_same(old: list[LockedServer], new: list[LockedServer]) -> None:
    if not diff(with_entries(*old), with_entries(*new)):
        assert sorted(map(str, old)) == sorted(map(str, new))


@LAW
@given(case=solvable_cases())
def test_nothing_changed_between_a_lock_and_itself(case: Case) -> None:
    lockfile = resolve(case.agent, case.servers).lockfile
    assert lockfile
    one = Side(lockfile, case.agent, known_servers(case.servers))

    assert diff(one, one) == ()
    assert diff(one, Side(lockfile)) == ()


@LAW
@given(case=solvable_cases(), other=solvable_cases())
def test_there_and_back_the_requirements_that_come_and_go_are_the_same(case: Case, other: Case) -> None:
    locks = [resolve(each.agent, each.servers).lockfile for each in (case, other)]
    one, two = (Side(lockfile) for lockfile in locks if lockfile)
    there, back = diff(one, two), diff(two, one)

    def counted(changes: tuple[Change, ...], kind: ChangeKind) -> list[str]:
        return sorted(each.subject for each in changes if each.kind is kind)

    assert counted(there, ChangeKind.REQUIREMENT_ADDED) == counted(back, ChangeKind.REQUIREMENT_REMOVED)
    assert counted(there, ChangeKind.SERVER_CHANGED) == counted(back, ChangeKind.SERVER_CHANGED)


# What somebody would try who wants a change to go unseen --------------------------------------------------------------


def resealed(entry: LockedServer, **changes: Any) -> LockedServer:
    """The entry with the hashes that belong to it, as a careful forger would leave it."""
    changed = structs.replace(entry, integrity=UNSET, **changes)
    hashed = structs.replace(
        changed, hash=server_hash(changed.server_id, changed.version, changed.endpoint, changed.scopes)
    )
    return structs.replace(hashed, integrity=digest(hashed)) if hashed.launch or hashed.tool_scopes else hashed


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Launch(command="sh", args=("-c", "rm x")), Launch(command="sh", args=("-c", "rm", "x"))),
        (Launch(command="files server"), Launch(command="files", args=("server",))),
        (Launch(command="x", env=("A, B",)), Launch(command="x", env=("A", "B"))),
        (Launch(command="x", args=("with", "A")), Launch(command="x", env=("A",))),
    ],
)
def test_two_commands_that_read_alike_are_two_commands(before: Launch, after: Launch) -> None:
    old, new = (
        edited(0, lambda entry, launch=launch: resealed(entry, launch=launch, endpoint=launch.endpoint))  # type: ignore[misc]
        for launch in (before, after)
    )

    assert [change.kind for change in diff(old, new)] == [ChangeKind.LAUNCH_CHANGED]


FORGERIES: dict[str, Side] = {
    "another endpoint beside the same command": edited(
        0, lambda entry: resealed(entry, endpoint="https://evil.example")
    ),
    "another integrity": edited(0, lambda entry: structs.replace(entry, integrity="sha256-0")),
    "no integrity": edited(0, lambda entry: structs.replace(entry, integrity=UNSET)),
    "an integrity where none belongs": edited(1, lambda entry: structs.replace(entry, integrity="sha256-0")),
}


def test_the_hash_of_a_requirement_that_is_new_is_checked_too() -> None:
    new = edited(1, lambda entry: structs.replace(entry, hash="0"))
    old = structs.replace(OLD, lockfile=structs.replace(OLD.lockfile, servers=OLD.lockfile.servers[:1]))

    assert [str(change.kind) for change in diff(old, new)] == ["requirement-added", "hash-edited"]


@pytest.mark.parametrize("new", FORGERIES.values(), ids=FORGERIES)
def test_a_forgery_is_a_risk(new: Side) -> None:
    assert worst(diff(OLD, new)) is Risk.RISK
