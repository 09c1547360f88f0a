"""Of a locked server's tools an agent may call what its scopes open, less what it forbids."""

import re

import pytest
from hypothesis import given, strategies as st
from msgspec import UNSET

from agent_resolver import LockedServer
from agent_resolver.core import AdmissionCode, Grant, Refused, forbidden, grants_of, is_usable_name
from agent_resolver.schema import Launch
from tests.strategies import law

FORBIDDEN = AdmissionCode.FORBIDDEN_ACTION
NOT_LOCKED = AdmissionCode.SCOPE_NOT_LOCKED
NOT_MAPPED = AdmissionCode.TOOL_NOT_MAPPED


def grant(*, forbid: tuple[str, ...] = (), admitted: frozenset[str] = frozenset()) -> Grant:
    """A server with tools that the map opens, opens in part, opens to nobody and opens to everybody."""
    return Grant(
        server="acme",
        scopes=frozenset({"read:reports", "read:metrics"}),
        tool_scopes={
            "read": ("read:reports",),
            "both": ("read:reports", "read:metrics"),
            "half": ("write:reports", "read:reports", "admin:reports"),
            "write": ("write:reports",),
            "ping": (),
        },
        forbid=forbid,
        admitted=admitted,
    )


@pytest.mark.parametrize(
    ("tool", "forbid", "admitted", "expected"),
    [
        # Mapped: the locked scopes decide, and admitting by name changes nothing.
        ("read", (), (), None),
        ("both", (), (), None),
        ("ping", (), (), None),
        ("half", (), (), NOT_LOCKED),
        ("write", (), (), NOT_LOCKED),
        ("write", (), ("acme.write",), NOT_LOCKED),
        # Not mapped: only by the whole id.
        ("other", (), (), NOT_MAPPED),
        ("other", (), ("acme.other",), None),
        ("other", (), ("other",), NOT_MAPPED),
        ("other", (), ("acme.*",), NOT_MAPPED),
        ("other", (), ("acm.other", "acme.Other", "acme.other2"), NOT_MAPPED),
        # Forbidden by the tool's name, by its id, or by a scope that it needs.
        ("read", ("read",), (), FORBIDDEN),
        ("read", ("re*",), (), FORBIDDEN),
        ("read", ("acme.read",), (), FORBIDDEN),
        ("read", ("acme.*",), (), FORBIDDEN),
        ("read", ("*",), (), FORBIDDEN),
        ("read", ("read:reports",), (), FORBIDDEN),
        ("read", ("*:reports",), (), FORBIDDEN),
        ("both", ("*:metrics",), (), FORBIDDEN),
        ("ping", ("p*g",), (), FORBIDDEN),
        ("write", ("write:*",), (), FORBIDDEN),
        ("half", ("admin:*",), (), FORBIDDEN),
        ("other", ("other",), (), FORBIDDEN),
        ("other", ("other",), ("acme.other",), FORBIDDEN),
        ("other", ("acme.o*",), ("acme.other",), FORBIDDEN),
        # Patterns that are near, and fit nothing.
        ("read", ("rea", "ead", "READ", "acme", "acme.read.*", "other.read", "write:*"), (), None),
        ("other", ("read:*",), ("acme.other",), None),
    ],
)
def test_a_tool_is_refused_or_not(
    tool: str, forbid: tuple[str, ...], admitted: tuple[str, ...], expected: AdmissionCode | None
) -> None:
    refused = grant(forbid=forbid, admitted=frozenset(admitted)).refuse(tool)

    assert (refused.code if refused else None) is expected


def test_a_refusal_says_why_and_what_would_have_to_change() -> None:
    found = [
        grant(forbid=("z*", "re*")).refuse("read"),
        grant().refuse("half"),
        grant().refuse("other"),
    ]

    assert [(refused.message, refused.remedy) for refused in found if refused] == [
        (
            "Agent forbids 're*' which matches 'read'",
            "narrow `constraints.actions.forbid` in the agent file",
        ),
        (
            "It needs scopes that are not locked: admin:reports, write:reports",
            "add them to the requirement's `permissions` in the agent file, and resolve again",
        ),
        (
            "The lock does not say which scope opens 'other'",
            'add it to `toolScopes` in the index, or `admit = ["acme.other"]` to `[tools]` in agent.toml',
        ),
    ]


@pytest.mark.parametrize(
    "name", ["", "x" * 129, "a\nb", "\x1b[31m", "\x00", "a\u200b", "a\u202e", "\ud800", "a\u00a0b"]
)
def test_a_name_that_cannot_be_read_is_refused_whatever_opens_it(name: str) -> None:
    granted = Grant(server="acme", scopes=frozenset(), tool_scopes={name: ()}, forbid=("*",), admitted=frozenset())
    refused = granted.refuse(name, is_repeated=True)

    assert not is_usable_name(name)
    assert refused
    assert (refused.code, refused.message) == (
        AdmissionCode.TOOL_NAME_UNUSABLE,
        "A name of a tool has 1 to 128 characters that can be printed",
    )


@pytest.mark.parametrize("name", ["x" * 128, "a b", "é", "e\u0301", "a.b/c-d_e"])
def test_a_name_that_can_be_read_is_a_name(name: str) -> None:
    assert is_usable_name(name)


def test_a_name_that_a_server_lists_twice_is_refused_whatever_opens_it() -> None:
    refused = grant(admitted=frozenset({"acme.read"})).refuse("read", is_repeated=True)

    assert refused
    assert (refused.code, refused.message) == (
        AdmissionCode.TOOL_NAME_REPEATED,
        "acme lists more than one tool named 'read', and a call could reach any of them",
    )


def test_an_id_below_another_locked_server_is_that_servers_alone() -> None:
    entries = [entry(server_id, "1", "reports", "read") for server_id in ("acme", "acme.eu", "acme.eu.west", "acmeeu")]
    admitted = ["acme.eu.free", "acme.eu.west.free", "acme.us.free"]

    grants = grants_of(entries, (), admitted)
    refused = grants["acme@1"].refuse("eu.free")

    assert refused
    assert (refused.code, refused.message) == (
        AdmissionCode.TOOL_ID_RESERVED,
        "acme lists 'eu.free', but ids that begin with 'acme.eu.' are those of the server acme.eu",
    )
    codes = {
        (server, tool): granted.code if (granted := grants[f"{server}@1"].refuse(tool)) else None
        for server, tool in [
            ("acme", "us.free"),
            ("acme", "eu"),
            ("acme", "eu.west.free"),
            ("acme.eu", "free"),
            ("acme.eu", "west.free"),
            ("acme.eu.west", "free"),
        ]
    }
    assert codes == {
        ("acme", "us.free"): None,
        ("acme", "eu"): NOT_MAPPED,
        ("acme", "eu.west.free"): AdmissionCode.TOOL_ID_RESERVED,
        ("acme.eu", "free"): None,
        ("acme.eu", "west.free"): AdmissionCode.TOOL_ID_RESERVED,
        ("acme.eu.west", "free"): None,
    }


@pytest.mark.parametrize(
    ("names", "forbid", "expected"),
    [
        (("tickets.close", "tickets:write"), (), None),
        ((), ("*",), None),
        (("tickets.close", "tickets:write"), ("tickets:read", "close"), None),
        # A capability is forbidden by its id or by a scope that it asks of callers; the first name that fits is told.
        (
            ("tickets.close", "tickets:write"),
            ("*:write", "*.close"),
            "Agent forbids '*.close' which matches 'tickets.close'",
        ),
        (("tickets.close", "tickets:write"), ("*:write",), "Agent forbids '*:write' which matches 'tickets:write'"),
        (("tickets.close",), ("tickets.*", "t*"), "Agent forbids 't*' which matches 'tickets.close'"),
    ],
)
def test_what_is_forbidden_is_told_with_the_name_and_the_pattern(
    names: tuple[str, ...], forbid: tuple[str, ...], expected: str | None
) -> None:
    refused = forbidden(names, forbid)

    assert (refused.message if refused else None) == expected
    assert refused is None or refused.code is FORBIDDEN


def entry(server_id: str, version: str, category: str, *scopes: str, mapped: bool = True) -> LockedServer:
    return LockedServer(
        category=category,
        server_id=server_id,
        version=version,
        endpoint="https://acme.example/mcp",
        scopes=scopes,
        hash="",
        launch=Launch(command="acme") if mapped else UNSET,
        tool_scopes={"both": ("read", "write"), "read": ("read",)} if mapped else UNSET,
    )


def test_two_entries_of_one_server_open_what_their_scopes_open_together() -> None:
    reading, writing = entry("acme", "1", "reports", "read"), entry("acme", "1", "storage", "write")

    alone = grants_of([reading], (), ())
    together = grants_of([reading, writing], (), ())

    assert list(together) == ["acme@1"]
    assert together["acme@1"].scopes == {"read", "write"}
    assert alone["acme@1"].refuse("both")
    assert not together["acme@1"].refuse("both")


def test_servers_and_versions_do_not_lend_each_other_scopes() -> None:
    entries = [
        entry("acme", "1", "reports", "read"),
        entry("acme", "2", "reports", "write"),
        entry("other", "1", "reports", "read", "write", mapped=False),
    ]

    grants = grants_of(entries, ("drop*",), ["acme.free"])

    assert {name: sorted(each.scopes) for name, each in grants.items()} == {
        "acme@1": ["read"],
        "acme@2": ["write"],
        "other@1": ["read", "write"],
    }
    assert [name for name, each in grants.items() if not each.refuse("both")] == []
    assert [name for name, each in grants.items() if not each.refuse("free")] == ["acme@1", "acme@2"]
    assert {each.refuse("drop_all") and each.forbid for each in grants.values()} == {("drop*",)}


# Laws -----------------------------------------------------------------------------------------------------------------

words = st.sampled_from(["read", "write", "a.read", "read:x", "write:x", "*", "", "é", "a"])
tool_maps = st.dictionaries(words, st.lists(words, max_size=3).map(tuple), max_size=4)
names = words.filter(bool)
patterns = st.lists(words | st.tuples(words, words).map("*".join), max_size=3).map(tuple)
grants = st.builds(
    Grant,
    server=st.sampled_from(["a", "a.b", "b"]),
    scopes=st.frozensets(words, max_size=4),
    tool_scopes=tool_maps,
    forbid=patterns,
    admitted=st.frozensets(words.map("a.".__add__), max_size=3),
)


def fits(pattern: str, text: str) -> bool:
    """What a pattern means, said another way."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


@law(150)
@given(grants, names)
def test_what_is_forbidden_is_refused_whatever_else_allows_it(granted: Grant, tool: str) -> None:
    names = [tool, f"{granted.server}.{tool}", *granted.tool_scopes.get(tool, ())]
    is_forbidden = any(fits(pattern, name) for pattern in granted.forbid for name in names)

    refused = granted.refuse(tool)

    assert (refused is not None and refused.code is FORBIDDEN) == is_forbidden


@law(150)
@given(grants, names)
def test_what_is_called_has_all_its_scopes_locked_or_is_admitted_by_name(granted: Grant, tool: str) -> None:
    needed = granted.tool_scopes.get(tool)
    opened = set(needed) <= granted.scopes if needed is not None else f"{granted.server}.{tool}" in granted.admitted
    refused = granted.refuse(tool)

    assert refused is None or refused.code is FORBIDDEN or not opened
    assert refused is not None or opened


@law(100)
@given(grants, names, patterns)
def test_one_pattern_more_never_opens_anything(granted: Grant, tool: str, more: tuple[str, ...]) -> None:
    stricter = Grant(
        server=granted.server,
        scopes=granted.scopes,
        tool_scopes=granted.tool_scopes,
        forbid=granted.forbid + more,
        admitted=granted.admitted,
    )

    if granted.refuse(tool):
        assert stricter.refuse(tool)


def test_a_definition_that_is_not_pinned_is_refused_before_scopes_are_looked_at() -> None:
    grant = Grant(
        server="s",
        scopes=frozenset({"use"}),
        tool_scopes={"same": ("use",), "changed": ("other",)},
        forbid=("forbidden",),
        admitted=frozenset({"s.added"}),
        tools={"same": "d1", "changed": "d2", "gone": "d3", "forbidden": "d4"},
    )

    changed, added = grant.refuse("changed", definition="other"), grant.refuse("added", definition="d9")

    assert grant.refuse("same", definition="d1") is None
    assert changed == Refused(
        AdmissionCode.TOOL_CHANGED,
        "s has changed the definition of 'changed' that the lock pins",
        "look at the change with `agent tools accept s.changed`",
    )
    assert added is not None
    assert (added.code, added.message) == (
        AdmissionCode.TOOL_CHANGED,
        "s has added 'added', which the lock does not pin",
    )
    forbidden_tool = grant.refuse("forbidden", definition="other")
    assert forbidden_tool is not None
    assert forbidden_tool.code is AdmissionCode.FORBIDDEN_ACTION
    removed = grant.refuse_removed(["same", "changed", "added", "forbidden"])
    assert {name: why.message for name, why in removed.items()} == {
        "gone": "s no longer lists 'gone', which the lock pins"
    }


def test_without_a_server_tools_are_judged_by_their_pins() -> None:
    scopes = {"open": (), "shut": ("other",), "unpinned": ()}
    pins = {"open": "d1", "shut": "d2"}
    grant = Grant(server="s", scopes=frozenset(), tool_scopes=scopes, forbid=(), admitted=frozenset(), tools=pins)
    codes = {tool: refused and refused.code for tool in scopes for refused in [grant.refuse_as_pinned(tool)]}

    assert codes == {
        "open": None,
        "shut": AdmissionCode.SCOPE_NOT_LOCKED,
        "unpinned": AdmissionCode.TOOL_CHANGED,
    }


def test_a_lock_without_pins_refuses_no_definition() -> None:
    grant = Grant(server="s", scopes=frozenset(), tool_scopes={"t": ()}, forbid=(), admitted=frozenset())

    assert grant.refuse_as_pinned("t") is None
    assert grant.refuse("t", definition="any") is None
    assert grant.refuse_removed([]) == {}
