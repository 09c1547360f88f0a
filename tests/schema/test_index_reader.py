"""Index files: what is read, and every fault with its wording and its place."""

import json
from typing import Any

import pytest
from msgspec import UNSET

from agent_resolver.schema import UNVERSIONED, InvalidIndex, IssueCode, Launch, parse_index, read_index, server_of
from tests.schema.sample import LAUNCH, SERVER, index, index_with, server, shown

RESIDENCIES = "'any' | 'us-only' | 'eu-only'"
SEPARATES = "the hash of a lock separates fields by it"


def faults(raw: bytes) -> list[str]:
    """What the walker finds; the fast path must come to the same decision."""
    reading = read_index(raw)
    if reading.value is None:
        with pytest.raises(InvalidIndex) as caught:
            parse_index(raw)
        assert list(caught.value.issues) == [issue for issue in reading.issues if issue.severity == "error"]
    else:
        assert parse_index(raw) == reading.value
    return shown(reading.issues)


def column(raw: bytes, key: str) -> int:
    """Where `key` stands on line 2."""
    return raw.decode().splitlines()[1].index(f'"{key}"') + 1


# What is read ---------------------------------------------------------------------------------------------------------


def test_every_key_of_a_server_is_read() -> None:
    raw = index(server(policy={"rateLimitPerMin": 600}, toolScopes={"list": ["read:audiences"]}))
    (entry,) = parse_index(raw)

    assert (entry.id, entry.version, entry.endpoint) == ("acme", "1.0.0", "https://acme.example/mcp")
    assert (entry.categories, entry.scopes) == (("audiences",), ("read:audiences",))
    assert entry.data
    assert (entry.data.residency, entry.data.max_sensitivity) == (("any",), "pii.low")
    assert entry.trust
    assert (entry.trust.signed, entry.trust.publisher) == (True, "Acme")
    assert entry.policy
    assert entry.policy.rate_limit_per_min == 600
    assert entry.tool_scopes == {"list": ("read:audiences",)}
    assert entry.launch is UNSET
    assert faults(raw) == []


@pytest.mark.parametrize(
    "raw",
    [
        b"[]",
        b" \r\n[ \t]\n",
        index(server(categories=[], scopes=[], data={"residency": [], "maxSensitivity": "public"})),
        index(server(trust={"signed": False, "publisher": ""}, policy={}, toolScopes={})),
        index(server(policy={"rateLimitPerMin": -0.5}), server(id="other"), server(version="2")),
        index(server(id="é😀", categories=["a,b"], endpoint="a@b,c")),
        index(server(endpoint='":{[\\')),
    ],
)
def test_what_may_be_empty_absent_or_odd_is_accepted(raw: bytes) -> None:
    assert faults(raw) == []


def test_servers_stay_in_the_order_of_the_file() -> None:
    entries = parse_index(index(server(id="b"), server(id="a"), server(id="c")))

    assert [entry.id for entry in entries] == ["b", "a", "c"]


def test_another_layout_is_the_same_index() -> None:
    spaced = json.dumps([SERVER], indent="\t", separators=(" ,\r\n", "\n : ")).encode()
    escaped = index(SERVER).replace(b'"id"', b'"\\u0069d"').replace(b'"acme"', b'"\\u0061cme"')

    assert parse_index(spaced) == parse_index(escaped) == parse_index(index(SERVER))


def test_a_byte_order_mark_is_a_warning() -> None:
    raw = b"\xef\xbb\xbf" + index(SERVER)

    assert faults(raw) == [
        "1:1 warning: (file): The file opens with a byte order mark (save the file as UTF-8 without it)"
    ]
    assert parse_index(raw) == parse_index(index(SERVER))


@pytest.mark.parametrize("key", ["version", "scopes", "data", "trust"])
def test_a_fact_may_be_left_out(key: str) -> None:
    raw = index(server(**{key: ...}))

    assert faults(raw) == []


def test_what_is_left_out_is_not_known() -> None:
    raw = index({"id": "acme", "endpoint": "https://acme.example", "categories": []})
    (found,) = map(server_of, parse_index(raw))

    assert str(found) == f"acme@{UNVERSIONED}"
    assert (found.scopes, found.residency, found.max_sensitivity) == (None, None, None)
    assert (found.signed, found.publisher, found.tools) == (None, None, None)


def test_scopes_that_open_a_tool_are_offered() -> None:
    raw = index(server(scopes=..., toolScopes={"read": ["b"], "write": ["c", "b"]}))
    (found,) = map(server_of, parse_index(raw))

    assert found.scopes == ("b", "c")


def test_what_is_empty_is_known() -> None:
    raw = index(server(scopes=[], data={"residency": []}, trust={"publisher": ""}, tools={}))
    (found,) = map(server_of, parse_index(raw))

    assert (found.scopes, found.residency, found.publisher, found.tools) == ((), (), "", {})
    assert (found.max_sensitivity, found.signed) == (None, None)


def test_an_object_that_holds_servers_is_read_like_the_array() -> None:
    array = index(SERVER, server(id="other"))
    wrapped = b' \n{"servers": ' + array + b"}"

    assert parse_index(wrapped) == parse_index(array)
    assert faults(wrapped) == []


def test_faults_within_an_object_have_their_places() -> None:
    wrapped = b'{"servers": ' + index(server(id=""), SERVER, SERVER) + b', "more": 1}'

    assert faults(wrapped) == [
        "2:2 servers.0.id: String must contain at least 1 character(s)",
        "4:1 servers.2: Duplicate server `acme@1.0.0`, first given on line 3",
        "6:3 warning: more: Unknown key, it has no effect",
    ]


def test_servers_without_versions_are_told_apart_by_id() -> None:
    nameless = server(version=...)

    assert faults(index(nameless, server(id="other", version=...))) == []
    assert faults(index(nameless, nameless)) == [
        "3:1 1: Duplicate server `acme@unversioned`, first given on line 2",
    ]
    assert faults(index(nameless, server(version=UNVERSIONED))) == [
        "3:1 1: Duplicate server `acme@unversioned`, first given on line 2",
    ]


def test_the_value_of_a_variable_is_refused_and_not_repeated() -> None:
    raw = index(server(endpoint=..., launch={"command": "acme", "env": ["TOKEN=s3cret"]}))

    assert [line.partition(" ")[2] for line in faults(raw)] == [
        "0.launch.env.0: Must not contain '=': only the name of a variable belongs here, never its value"
    ]


# Faults of the schema, in the words of the seed -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"{}", "1:1 servers: Required"),
        (b'{"servers": {}}', "1:2 servers: Expected array, received object"),
        (b'{"servers": [1]}', "1:14 servers.0: Expected object, received number"),
        (b" null", "1:2 (file): Expected array, received null"),
        (b'"servers"', "1:1 (file): Expected array, received string"),
        (b"[1]", "1:2 0: Expected object, received number"),
        (b"[[]]", "1:2 0: Expected object, received array"),
    ],
)
def test_what_is_no_list_of_servers_is_refused(raw: bytes, expected: str) -> None:
    assert faults(raw) == [expected]


def test_an_empty_server_lacks_every_required_key() -> None:
    keys = ["id", "categories", "endpoint"]

    assert faults(b"[{}]") == [f"1:2 0.{key}: Required" for key in keys]


@pytest.mark.parametrize("key", ["id", "endpoint", "categories"])
def test_a_missing_key_is_required_at_its_server(key: str) -> None:
    assert faults(index(server(id="first"), server(**{key: ...}))) == [f"3:1 1.{key}: Required"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": ""}, "id: String must contain at least 1 character(s)"),
        ({"id": 1}, 'id: Expected string, received number (quote it: "1")'),
        ({"version": 1.5}, 'version: Expected string, received number (quote it: "1.5")'),
        ({"version": False}, 'version: Expected string, received boolean (quote it: "false")'),
        ({"endpoint": None}, "endpoint: Expected string, received null"),
        ({"endpoint": ""}, "endpoint: String must contain at least 1 character(s)"),
        ({"categories": "audiences"}, "categories: Expected array, received string"),
        ({"scopes": {}}, "scopes: Expected array, received object"),
        ({"data": []}, "data: Expected object, received array"),
        ({"trust": True}, "trust: Expected object, received boolean"),
        ({"policy": 600}, "policy: Expected object, received number"),
        ({"toolScopes": []}, "toolScopes: Expected object, received array"),
        ({"id": "a@b"}, f"id: Must not contain '@': {SEPARATES}"),
        ({"id": "a,b@|"}, f"id: Must not contain '@' or '|' or ',': {SEPARATES}"),
        ({"version": "1|2"}, f"version: Must not contain '|': {SEPARATES}"),
        ({"endpoint": "https://a|b"}, f"endpoint: Must not contain '|': {SEPARATES}"),
        ({"id": "a\nb"}, "id: Must not contain control characters, found U+000A"),
        ({"endpoint": "a\x7f"}, "endpoint: Must not contain control characters, found U+007F"),
    ],
)
def test_a_fault_of_a_key_is_placed_at_the_key(changes: dict[str, Any], message: str) -> None:
    raw = index(server(**changes))

    assert faults(raw) == [f"2:{column(raw, *changes)} 0.{message}"]


@pytest.mark.parametrize(
    ("changes", "path", "value", "message"),
    [
        ({"categories": ["a", ""]}, "categories.1", '""', "String must contain at least 1 character(s)"),
        ({"scopes": ["ok", 5]}, "scopes.1", "5", 'Expected string, received number (quote it: "5")'),
        ({"scopes": ["a,b"]}, "scopes.0", '"a,b"', f"Must not contain ',': {SEPARATES}"),
        ({"toolScopes": {"list": ["a@b"]}}, "toolScopes.list.0", '"a@b"', f"Must not contain '@': {SEPARATES}"),
        ({"toolScopes": {"list": "all"}}, "toolScopes.list", '"list"', "Expected array, received string"),
        ({"toolScopes": {"": []}}, "toolScopes.", '""', "String must contain at least 1 character(s)"),
        ({"trust": {"signed": "?", "publisher": ""}}, "trust.signed", '"signed"', "Expected boolean, received string"),
        ({"policy": {"rateLimitPerMin": "1"}}, "policy.rateLimitPerMin", '"rate', "Expected number, received string"),
        (
            {"data": {"residency": ["eu"], "maxSensitivity": "public"}},
            "data.residency.0",
            '"eu"',
            f"Invalid enum value. Expected {RESIDENCIES}, received 'eu'",
        ),
        (
            {"data": {"residency": [None], "maxSensitivity": "public"}},
            "data.residency.0",
            "null",
            f"Expected {RESIDENCIES}, received null",
        ),
    ],
)
def test_a_fault_further_in_is_placed_where_it_is(changes: dict[str, Any], path: str, value: str, message: str) -> None:
    raw = index(server(**changes))
    (key,) = changes
    line = raw.decode().splitlines()[1]
    where = line.index(value, line.index(f'"{key}"')) + 1

    assert faults(raw) == [f"2:{where} 0.{path}: {message}"]


def test_an_invisible_character_is_a_warning() -> None:
    raw = index(server(id="ac\u00adme"))

    assert faults(raw) == ["2:2 warning: 0.id: Contains the invisible character U+00AD (SOFT HYPHEN) (remove it)"]


def test_an_unknown_key_is_a_warning_with_a_suggestion() -> None:
    raw = index(server(scope=["a"], scopes=..., colour="red"))

    assert faults(raw) == [
        f"2:{column(raw, 'scope')} warning: 0.scope: Unknown key, it has no effect (did you mean `scopes`?)",
        f"2:{column(raw, 'colour')} warning: 0.colour: Unknown key, it has no effect",
    ]


def test_all_faults_of_a_file_arrive_at_once_in_the_order_of_the_file() -> None:
    raw = index(
        server(id="", scopes=[1]), server(trust={"signed": 1}), server(data={"residency": 5}, endpoint=...), SERVER
    )

    assert [line.partition(" ")[2] for line in faults(raw)] == [
        "0.id: String must contain at least 1 character(s)",
        '0.scopes.0: Expected string, received number (quote it: "1")',
        "1.trust.signed: Expected boolean, received number",
        "2.endpoint: Required",
        "2: Duplicate server `acme@1.0.0`, first given on line 3",
        "2.data.residency: Expected array, received number",
        "3: Duplicate server `acme@1.0.0`, first given on line 3",
    ]


# What is said twice ---------------------------------------------------------------------------------------------------


def test_the_same_server_twice_is_refused() -> None:
    assert faults(index(SERVER, server(id="other"), SERVER, SERVER)) == [
        "4:1 2: Duplicate server `acme@1.0.0`, first given on line 2",
        "5:1 3: Duplicate server `acme@1.0.0`, first given on line 2",
    ]


def test_servers_that_only_look_alike_when_joined_are_not_the_same() -> None:
    found = faults(index(server(id="a", version="b@c"), server(id="a@b", version="c")))

    assert not any("Duplicate" in line for line in found)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('"id": "twin"', "2:16 0.id: Duplicate key, first given on line 2"),
        ('"id" : "twin"', "2:17 0.id: Duplicate key, first given on line 2"),
        ('"\\u0069d": "twin"', "2:21 0.id: Duplicate key, first given on line 2"),
        ('"x": {"a": 1, "a": 2}', "2:16 0.x.a: Duplicate key, first given on line 2"),
        ('"x": [{"a" : 1, "\\u0061":\n2}]', "2:18 0.x.0.a: Duplicate key, first given on line 2"),
        ('"toolScopes": {"t": [], "t": []}', "2:26 0.toolScopes.t: Duplicate key, first given on line 2"),
    ],
)
def test_a_key_said_twice_is_refused_however_it_is_spelled(text: str, line: str) -> None:
    assert [found for found in faults(index_with(text)) if "warning" not in found] == [line]


# Launch and endpoint --------------------------------------------------------------------------------------------------

STARTED = Launch(command="acme-server", args=("--stdio",), env=("ACME_TOKEN",)).endpoint


@pytest.mark.parametrize("endpoint", [..., STARTED])
def test_a_server_that_is_started_needs_no_endpoint(endpoint: object) -> None:
    raw = index(server(endpoint=endpoint, launch=LAUNCH))

    assert faults(raw) == []
    assert parse_index(raw)[0].launch == Launch(command="acme-server", args=("--stdio",), env=("ACME_TOKEN",))


def test_an_endpoint_must_be_the_one_that_launch_stands_for() -> None:
    raw = index(server(launch=LAUNCH))

    (issue,) = read_index(raw).issues
    assert issue.hint == f"leave `endpoint` out, or make it `{STARTED}`"
    assert faults(raw) == [f"2:{column(raw, 'endpoint')} {issue} ({issue.hint})"]
    assert str(issue) == "0.endpoint: Does not match `launch`, which says how the server is reached"


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (None, "launch: Expected object, received null"),
        ({}, "launch.command: Required"),
        ({"command": ""}, "launch.command: String must contain at least 1 character(s)"),
        ({"command": "a", "args": [1]}, 'launch.args.0: Expected string, received number (quote it: "1")'),
        ({"command": "a", "env": [""]}, "launch.env.0: String must contain at least 1 character(s)"),
        ({"command": "a", "env": {"TOKEN": "x"}}, "launch.env: Expected array, received object"),
        (
            {"command": "a", "transport": "ws"},
            "launch.transport: Invalid enum value. Expected 'stdio' | 'streamable-http' | 'sse', received 'ws'",
        ),
    ],
)
@pytest.mark.parametrize("endpoint", [..., "https://acme.example"])
def test_a_broken_launch_record_is_the_only_fault(launch: object, message: str, endpoint: object) -> None:
    found = faults(index(server(launch=launch, endpoint=endpoint)))

    assert [line.partition(" ")[2] for line in found] == [f"0.{message}"]


def test_a_launch_record_may_have_empty_arguments_and_unknown_keys() -> None:
    raw = index(server(endpoint=..., launch={"command": "a", "args": [""], "cwd": "/"}))

    assert [line.partition(" ")[2] for line in faults(raw)] == ["warning: 0.launch.cwd: Unknown key, it has no effect"]


# Numbers --------------------------------------------------------------------------------------------------------------


def limit(spelling: str) -> bytes:
    return index_with(f'"policy": {{"rateLimitPerMin": {spelling}}}')


@pytest.mark.parametrize("spelling", ["0", "-0", "1.5e3", "9007199254740993", "1" * 250, "1" * 300, "1e308", "1e-999"])
def test_every_number_that_fits_is_accepted(spelling: str) -> None:
    (entry,) = parse_index(limit(spelling))

    assert entry.policy
    assert entry.policy.rate_limit_per_min == float(spelling)
    assert faults(limit(spelling)) == []


@pytest.mark.parametrize("spelling", ["1e309", "-1e999", "9" * 309, "-" + "9" * 320, "1" * 400, "1" * 5000])
def test_a_number_that_does_not_fit_is_refused(spelling: str) -> None:
    assert faults(limit(spelling)) == ["2:13 0.policy.rateLimitPerMin: Number out of range"]


@pytest.mark.parametrize("spelling", ["1e999", "1" * 5000])
def test_a_number_under_an_unknown_key_may_have_any_size(spelling: str) -> None:
    assert faults(index_with(f'"x": {spelling}')) == ["2:2 warning: 0.x: Unknown key, it has no effect"]


# Under unknown keys, where decoding does not look ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('"x": "\\ud800"', IssueCode.ENCODING),
        ('"\\udc00": 1', IssueCode.ENCODING),
        ('"x": "\\q"', IssueCode.SYNTAX),
        ('"x": "\\u12g4"', IssueCode.SYNTAX),
        ('"x": "a\tb"', IssueCode.SYNTAX),
        ('"x": 01', IssueCode.SYNTAX),
        ('"x": NaN', IssueCode.SYNTAX),
        ('"x" : Infinity', IssueCode.SYNTAX),
        ('"x": "\x00"', IssueCode.CONTROL_CHARACTER),
        ('"x": ' + "[" * 63 + "]" * 63, IssueCode.LIMIT),
        ('"x": ' + "[" * 5000 + "]" * 5000, IssueCode.LIMIT),
        ('"x": ' + '[{"a":' * 31 + "1" + "}]" * 31, IssueCode.LIMIT),
    ],
)
def test_a_fault_under_an_unknown_key_is_still_a_fault(text: str, code: IssueCode) -> None:
    faults(index_with(text))

    assert [issue.code for issue in read_index(index_with(text)).issues] == [code]


def test_bytes_that_are_not_utf8_are_found_under_an_unknown_key() -> None:
    raw = index_with('"x": "caf?"').replace(b"?", b"\xe9")

    assert faults(raw) == ["2:11 (file): Byte 0xe9 is not valid UTF-8 (save the file as UTF-8)"]


@pytest.mark.parametrize(
    "text",
    [
        '"x": "\\ud83d\\ude00 \\u0000 \\n @|,"',
        '"x": ' + "[" * 62 + "]" * 62,
        '"x": ' + '[{"a":' * 30 + "1" + "}]" * 30,
        '"x": "' + "[" * 100 + '"',
        '"x": "\\\\", "y": "\\"{"',
        '"": null',
    ],
)
def test_anything_else_under_an_unknown_key_is_only_a_warning(text: str) -> None:
    found = faults(index_with(text))

    assert found
    assert all("warning" in line for line in found)


def test_only_one_byte_order_mark_is_taken_for_one() -> None:
    assert faults(b"\xef\xbb\xbf" * 2 + index(SERVER)) == ["1:1 (file): Expected a value, found '\\ufeff'"]
