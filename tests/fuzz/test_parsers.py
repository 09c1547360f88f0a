"""Whatever bytes the readers are given: an answer or an `InvalidInput`, and twice the same.

`make fuzz` repeats these tests with new seeds, and with more examples each time.
"""

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from agent_resolver.core import examine
from agent_resolver.schema import (
    InvalidInput,
    Issue,
    find_conflict,
    only_errors,
    parse_agent_file,
    parse_index,
    parse_lockfile,
    read_agent_file,
    read_index,
)
from tests.strategies import agent_texts, edited, index_texts

FUZZ = settings(max_examples=2000 if "FUZZ_SECONDS" in os.environ else 150, deadline=None)

# Not only noise: brackets, fences and marks are what parsers stumble over.
WORDS = rb"""[ ] { } : , " ' ! | # ~ *a &a !!str --- ... %YAML <<: name: null true NaN -Infinity 0x1F 0o7 1e999
    "id": "launch":{ \u00 \ud800 \n""".split()
SPACES = [b" ", b"\n", b"\r", b"\r\n", b"\n  ", b"\t", b"\n- ", b"\n? ", b": ", b" #"]
ODDITIES = [b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\x1b", b"\x85", b"\xed", "\u2028".encode(), b"9" * 400]
TOKENS = st.sampled_from([*WORDS, *SPACES, *ODDITIES])
NOISE = st.binary(max_size=200) | st.lists(TOKENS | st.binary(max_size=3), max_size=60).map(b"".join)
FRONT_MATTER = NOISE.map(lambda noise: b"---\n" + noise + b"\n---\n")
DEEP = st.tuples(st.sampled_from([b"[", b"{a: ", b'{"a":', b"- ", b"? ", b"[{a: "]), st.integers(1, 3000)).map(
    lambda pair: b"---\n" + pair[0] * pair[1] + b"\n---\n"
)


def outcome(parse: Callable[[bytes], Any], raw: bytes) -> Any:
    """What became of it; anything but an answer or an `InvalidInput` fails the test."""
    try:
        return parse(raw)
    except InvalidInput as refused:
        issues = refused.issues
    assert issues
    assert list(issues) == only_errors(issues)
    return issues


def check_places(raw: bytes, issues: tuple[Issue, ...]) -> None:
    """Every issue stands somewhere in the file, or right after its end."""
    lines = raw.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for issue in issues:
        assert 1 <= issue.line <= len(lines)
        assert 1 <= issue.column <= len(lines[issue.line - 1]) + 2


@FUZZ
@given(raw=NOISE | FRONT_MATTER | DEEP | agent_texts())
@example(raw=b"---\nx: [&a " + b"[" * 60 + b"0" + b"]" * 60 + b", &b " + b"[" * 60 + b"*a" + b"]" * 60 + b"]\n---\n")
@example(raw=b"---\nname: !!python/name:os.system ''\n---\n")
def test_an_agent_file_is_read_or_refused_and_always_the_same_way(raw: bytes) -> None:
    reading = read_agent_file(raw)
    parsed = outcome(parse_agent_file, raw)

    # As text, since `.nan` under a free key is not equal to itself.
    assert repr(parsed) == repr(tuple(only_errors(reading.issues)) or reading.agent)
    assert repr(parsed) == repr(outcome(parse_agent_file, raw))
    check_places(raw, reading.issues)


@FUZZ
@given(raw=NOISE | index_texts() | edited(index_texts()))
@example(raw=b"[" * 100_000)
@example(raw=b"\xef\xbb\xbf" * 2 + b"[]")
@example(raw=b'[{"policy": {"rateLimitPerMin": ' + b"9" * 350 + b"}}]")
def test_an_index_is_read_or_refused_and_always_the_same_way(raw: bytes) -> None:
    reading = read_index(raw)
    parsed = outcome(parse_index, raw)

    assert parsed == (tuple(only_errors(reading.issues)) or reading.value)
    assert parsed == outcome(parse_index, raw)
    check_places(raw, reading.issues)


@FUZZ
@given(raw=NOISE | edited(st.sampled_from([b'{"agentName":"a","agentVersion":"","resolvedAt":"","servers":[]}'])))
def test_a_lockfile_is_read_or_refused_and_always_the_same_way(raw: bytes) -> None:
    assert outcome(parse_lockfile, raw) == outcome(parse_lockfile, raw)


LOCK = b'{\n  "agentName": "a",\n  "agentVersion": "1",\n  "resolvedAt": "",\n  "servers": [],\n  "lockVersion": 2\n}\n'
MARKERS = st.sampled_from([b"<<<<<<< a\n", b"||||||| b\n", b"=======\n", b">>>>>>> c\n", LOCK, b"<<<<<<<", b"\r\n"])
AGENT = parse_agent_file(
    "---\nname: a\nversion: '1'\nrequires: {mcp: [{category: b, permissions: [c]}]}\n---\n",
)


@FUZZ
@given(raw=NOISE | edited(st.just(LOCK)) | st.lists(MARKERS | TOKENS, max_size=12).map(b"".join))
@example(raw=b'{"agentName":' + b"[" * 100_000)
@example(raw=b'{"agentName": "a", "lockVersion": ' + b"9" * 5000 + b"}")
@example(raw=b"<<<<<<< a\n" * 20_000)
def test_whatever_stands_in_place_of_a_lock_is_named_and_never_holds(raw: bytes) -> None:
    """The agent requires a server that none of these locks has."""
    examined = examine(raw, AGENT, ())

    assert examined.differences
    assert examined == examine(raw, AGENT, ())
    conflict = find_conflict(raw)
    assert conflict is None or raw.splitlines()[conflict.line - 1].startswith(b"<<<<<<<")


@pytest.mark.parametrize("parse", [parse_agent_file, parse_index, parse_lockfile])
def test_every_single_byte_and_every_pair_of_one_is_read_or_refused(parse: Callable[[bytes], Any]) -> None:
    for byte in range(256):
        outcome(parse, bytes([byte]))
        outcome(parse, bytes([byte, byte]))
