"""Cursors: opaque, and good for one listing only."""

import base64

import pytest
from hypothesis import assume, given, strategies as st

from agent_resolver.catalog import BadCursor, decode_cursor, encode_cursor

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(listing=TEXT, last=TEXT)
def test_a_cursor_gives_back_where_it_was_made(listing: str, last: str) -> None:
    assert decode_cursor(encode_cursor(listing, last), listing) == last


@given(listing=TEXT, other=TEXT, last=TEXT)
def test_a_cursor_of_another_listing_is_stale(listing: str, other: str, last: str) -> None:
    assume(listing != other)

    with pytest.raises(BadCursor, match="the listing has changed"):
        decode_cursor(encode_cursor(listing, last), other)


@given(cursor=st.text(max_size=80) | st.binary(max_size=60).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_any_text_that_was_not_given_is_refused(cursor: str) -> None:
    with pytest.raises(BadCursor):
        decode_cursor(cursor, "listing")


@given(last=TEXT, at=st.integers(0, 200), character=st.characters())
def test_a_cursor_with_one_character_changed_is_refused(last: str, at: int, character: str) -> None:
    good = encode_cursor("listing", last)
    bad = good[: at % len(good)] + character + good[at % len(good) + 1 :]
    assume(bad != good)

    with pytest.raises(BadCursor):
        decode_cursor(bad, "listing")


@pytest.mark.parametrize("change", ["{}=", "{}==", " {}", "{}\n", "{}A", "{}{}", "-{}", "{}!"])
def test_another_spelling_of_a_cursor_is_refused(change: str) -> None:
    good = encode_cursor("listing", "agent://a")

    with pytest.raises(BadCursor):
        decode_cursor(change.format(good, good), "listing")


@pytest.mark.parametrize("cursor", ["", "0", "20", "-1", "99999999999999999999", "null", "é", "\ud800", "A" * 10_000])
def test_offsets_and_other_guesses_are_refused(cursor: str) -> None:
    with pytest.raises(BadCursor):
        decode_cursor(cursor, "listing")
