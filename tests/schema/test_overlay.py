"""Overlay files: what is read, and every fault with its wording and its place."""

import pytest

from agent_resolver.schema import InvalidOverlay, Overlay, OverlayFacts, ServerData, parse_overlay, read_overlay
from tests.schema.sample import shown

WHOLE = b"""\
servers:
  "acme-*":
    categories: [reporting]
    scopes: [read:reports]
    data: {residency: [eu-only], maxSensitivity: internal}
    trust: {signed: true, publisher: Acme}
    toolScopes: {list_reports: [read:reports]}
aliases:
  code: [devtools, git]
"""


def test_every_key_is_read() -> None:
    overlay = parse_overlay(WHOLE).overlay

    assert overlay is not None
    facts = overlay.servers["acme-*"]
    assert (facts.categories, facts.scopes) == (("reporting",), ("read:reports",))
    assert facts.data
    assert (facts.data.residency, facts.data.max_sensitivity) == (("eu-only",), "internal")
    assert facts.trust
    assert (facts.trust.signed, facts.trust.publisher) == (True, "Acme")
    assert facts.tool_scopes == {"list_reports": ("read:reports",)}
    assert overlay.aliases == {"code": ("devtools", "git")}


@pytest.mark.parametrize("raw", [b"", b"\xef\xbb\xbf", b"# nothing yet\n", b"servers: {}\n"])
def test_an_overlay_that_says_nothing_is_fine(raw: bytes) -> None:
    assert parse_overlay(raw).overlay == Overlay()


def test_json_is_an_overlay_too() -> None:
    raw = b'{"servers": {"acme": {"data": {"residency": ["eu-only"]}}}}'

    assert parse_overlay(raw).overlay == Overlay(
        servers={"acme": OverlayFacts(data=ServerData(residency=("eu-only",)))}
    )


def test_a_misspelt_key_is_an_error() -> None:
    raw = b"servers:\n  acme:\n    data: {residensy: [eu-only]}\n"

    with pytest.raises(InvalidOverlay) as caught:
        parse_overlay(raw)
    assert shown(caught.value.issues) == [
        "3:12 servers.acme.data.residensy: Unknown key (did you mean `residency`?)",
    ]


def test_all_faults_arrive_together() -> None:
    raw = b"servers:\n  acme: {scopes: read, data: {residency: [mars]}}\naliases: []\nserver: {}\n"

    assert [line.partition(" ")[2] for line in shown(read_overlay(raw).issues)] == [
        "servers.acme.scopes: Expected array, received string",
        "servers.acme.data.residency.0: Invalid enum value. Expected 'any' | 'us-only' | 'eu-only', received 'mars'",
        "aliases: Expected object, received array",
        "server: Unknown key",
    ]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"- a\n", "Expected object, received array"),
        (b"servers: [\n", "Invalid YAML"),
        (b"\xff", "UTF-8"),
        (b"<<<<<<< ours\nservers: {}\n=======\naliases: {}\n>>>>>>> theirs\n", "merge conflict"),
        (b"[" * 100, "deep"),
    ],
)
def test_what_is_no_overlay_is_refused(raw: bytes, words: str) -> None:
    with pytest.raises(InvalidOverlay, match=words):
        parse_overlay(raw)
