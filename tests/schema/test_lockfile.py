"""Lockfiles: written with a fixed layout, read back as they were, and told from the files of others."""

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from agent_resolver.schema import (
    InvalidLockfile,
    Launch,
    LockedServer,
    Lockfile,
    is_newer,
    is_ours,
    parse_lockfile,
    to_json,
)
from tests.schema.sample import shown
from tests.strategies import FEW

PLAIN = LockedServer(
    category="audiences",
    server_id="acme",
    version="1.0.0",
    endpoint="https://acme.example",
    scopes=("read:audiences",),
    hash="0" * 64,
)
LAUNCH = Launch(command="acme", args=("",))
STARTED = structs.replace(
    PLAIN, endpoint=LAUNCH.endpoint, launch=LAUNCH, tool_scopes={"list": ("read:audiences",)}, integrity="sha256-0"
)
LOCK = Lockfile(agent_name="hello", agent_version="1.0.0", resolved_at="1970-01-01T00:00:00.000Z", servers=(PLAIN,))
NEWER = structs.replace(LOCK, servers=(STARTED,), lock_version=2)

LAYOUT = """\
{
  "agentName": "hello",
  "agentVersion": "1.0.0",
  "resolvedAt": "1970-01-01T00:00:00.000Z",
  "servers": [
    {
      "category": "audiences",
      "serverId": "acme",
      "version": "1.0.0",
      "endpoint": "https://acme.example",
      "scopes": [
        "read:audiences"
      ],
      "hash": "0000000000000000000000000000000000000000000000000000000000000000"
    }
  ]
}
"""


def faults(raw: bytes) -> list[str]:
    with pytest.raises(InvalidLockfile) as caught:
        parse_lockfile(raw)
    return shown(caught.value.issues)


def test_a_lockfile_has_the_keys_order_and_layout_of_the_seed() -> None:
    assert to_json(LOCK).decode() == LAYOUT


def test_keys_the_seed_does_not_have_come_last_and_only_where_they_are_used() -> None:
    written = msgspec.json.decode(to_json(NEWER))

    assert list(written) == ["agentName", "agentVersion", "resolvedAt", "servers", "lockVersion"]
    assert list(written["servers"][0])[6:] == ["launch", "toolScopes", "integrity"]


def test_text_is_written_raw_and_empty_lists_on_one_line() -> None:
    assert to_json({"a": 'é😀\u2028"\\\n', "b": [], "c": {}}).decode() == (
        '{\n  "a": "é😀\u2028\\"\\\\\\n",\n  "b": [],\n  "c": {}\n}\n'
    )


@pytest.mark.parametrize("lock", [LOCK, NEWER, structs.replace(LOCK, agent_name="", servers=())])
def test_a_lockfile_is_read_back_as_it_was(lock: Lockfile) -> None:
    assert parse_lockfile(to_json(lock)) == lock


@FEW
@given(name=st.text(st.characters(exclude_categories=["Cc", "Cs"])), scopes=st.lists(st.text("ab:é", min_size=1)))
def test_any_name_and_any_scopes_are_read_back(name: str, scopes: list[str]) -> None:
    lock = structs.replace(LOCK, agent_name=name, servers=(structs.replace(PLAIN, scopes=tuple(scopes)),))

    assert parse_lockfile(to_json(lock)) == lock


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"hello"', "5", '2:3 agentName: Expected string, received number (quote it: "5")'),
        ('"agentVersion": "1.0.0",', "", "1:1 agentVersion: Required"),
        ('"acme"', '"a@b"', "8:7 servers.0.serverId: Must not contain '@': the hash of a lock separates fields by it"),
        ('"https://acme.example"', '""', "10:7 servers.0.endpoint: String must contain at least 1 character(s)"),
        ('"hash"', '"hash": "1", "hash"', "14:20 servers.0.hash: Duplicate key, first given on line 14"),
        ('"agentName"', '"lockVersion": 3, "agentName"', "2:3 lockVersion: Invalid enum value. Expected 2, received 3"),
        ('"agentName"', '"lockVersion": "2", "agentName"', "2:3 lockVersion: Expected 2, received string"),
        ('"agentName"', '"lockVersion": 2.0, "agentName"', "2:3 lockVersion: Expected 2, received number"),
        ('"agentName"', '"lockVersion": true, "agentName"', "2:3 lockVersion: Expected 2, received boolean"),
        ("{", "[", "2:14 (file): Expected `,` or `]`"),
    ],
)
def test_a_fault_in_a_lockfile_is_located(old: str, new: str, expected: str) -> None:
    assert faults(LAYOUT.replace(old, new, 1).encode()) == [expected]


def test_a_file_of_another_tool_lacks_every_key() -> None:
    keys = ("agentName", "agentVersion", "resolvedAt", "servers")

    assert faults(b'{"packages": {}}') == [f"1:1 {key}: Required" for key in keys]


def test_pins_are_compared_whenever_they_were_resolved() -> None:
    later = structs.replace(LOCK, resolved_at="2030-01-01T00:00:00.000Z")
    moved = structs.replace(LOCK, servers=(structs.replace(PLAIN, endpoint="https://moved.example"),))

    assert LOCK.pins_the_same(later)
    assert later.pins_the_same(LOCK)
    assert not LOCK.pins_the_same(moved)
    assert not LOCK.pins_the_same(NEWER)
    assert not LOCK.pins_the_same(structs.replace(LOCK, agent_version="1.0.1"))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (to_json(LOCK), False),
        (to_json(NEWER), False),
        (b'{"lockVersion": 3, "servers": "unknown"}', True),
        (b'{"lockVersion": "3"}', False),
        (b'{"lockVersion": 3', False),
        (b"\xff", False),
        (b"[" * 100_000, False),
    ],
)
def test_a_lock_of_a_newer_version_is_known_by_its_number(raw: bytes, expected: bool) -> None:  # noqa: FBT001 - as above
    assert is_newer(raw) is expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (to_json(LOCK), True),
        (to_json(NEWER), True),
        (b' \r\n{\t"agentName" : ', True),
        (b"", False),
        (b'{"packages": {"agentName": 1}}', False),
        (b'{"agentNames":', False),
        (b"agentName: hello", False),
        (b"[package]\nname = 'x'\n", False),
        (b"\xff\xfe", False),
    ],
)
def test_a_file_of_ours_is_known_by_how_it_starts(head: bytes, expected: bool) -> None:  # noqa: FBT001 - parametrised
    assert is_ours(head) is expected
