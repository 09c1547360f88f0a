"""Bytes to text, and offsets to places."""

import pytest
from hypothesis import given, strategies as st

from agent_resolver.schema import IssueCode, Lines, Severity, Unreadable, byte_order_mark_warning, decode, unreadable
from tests.schema.sample import shown
from tests.strategies import FEW


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("", [(1, 1)]),
        ("ab", [(1, 1), (1, 2), (1, 3)]),
        ("a\nb", [(1, 1), (1, 2), (2, 1), (2, 2)]),
        ("a\rb", [(1, 1), (1, 2), (2, 1), (2, 2)]),
        ("a\r\nb", [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)]),
        ("\n\r\n\r", [(1, 1), (2, 1), (2, 2), (3, 1), (4, 1)]),
        ("😀\u2028\x85\x0bé", [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6)]),
    ],
)
def test_lines_end_at_any_of_the_three_endings_and_nowhere_else(text: str, places: list[tuple[int, int]]) -> None:
    lines = Lines(text)

    assert [lines.place(offset) for offset in range(len(text) + 1)] == places


def test_lines_may_start_further_down() -> None:
    assert Lines("a\nb", first=7).place(2) == (8, 1)


@FEW
@given(lines=st.lists(st.text("ab", max_size=3), min_size=1), ending=st.sampled_from(["\n", "\r", "\r\n"]))
def test_the_start_of_each_line_is_its_first_column(lines: list[str], ending: str) -> None:
    text = ending.join(lines)
    starts = [len(ending.join([*lines[:number], ""])) for number in range(len(lines))]

    assert [Lines(text).place(start) for start in starts] == [(number + 1, 1) for number in range(len(lines))]


def test_utf8_is_decoded_and_keeps_its_byte_order_mark() -> None:
    assert decode("\ufeffé😀\r\n\x01".encode()) == "\ufeffé😀\r\n\x01"
    assert decode(b"") == ""


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"a\r\nb\xff", "2:2 (file): Byte 0xff is not valid UTF-8 (save the file as UTF-8)"),
        ("é😀".encode() + b"\xc3", "1:3 (file): Byte 0xc3 is not valid UTF-8 (save the file as UTF-8)"),
        (b"\xed\xa0\x80", "1:1 (file): Byte 0xed is not valid UTF-8 (save the file as UTF-8)"),
        (b"\xc0\x80", "1:1 (file): Byte 0xc0 is not valid UTF-8 (save the file as UTF-8)"),
        (b"\xff\xfea\x00", "1:1 (file): The file is UTF-16, not UTF-8 (save the file as UTF-8)"),
        (b"\xfe\xff\x00a", "1:1 (file): The file is UTF-16, not UTF-8 (save the file as UTF-8)"),
        (
            b"a\nb\x00\x00",
            "2:2 (file): The file holds a NUL character (remove it, or save the file as plain text)",
        ),
        (b"[\x00]\x00", "1:2 (file): The file holds a NUL character (remove it, or save the file as plain text)"),
    ],
)
def test_bytes_that_are_no_text_are_located(raw: bytes, expected: str) -> None:
    with pytest.raises(Unreadable) as caught:
        decode(raw)

    assert shown([caught.value.issue]) == [expected]


def test_what_cannot_be_read_says_why_and_where() -> None:
    stop = unreadable(IssueCode.SYNTAX, "no", (3, 4), hint="yes", at=("a",))

    assert str(stop) == "a: no"
    assert shown([stop.issue]) == ["3:4 a: no (yes)"]


def test_a_byte_order_mark_is_only_worth_a_warning() -> None:
    assert byte_order_mark_warning().severity is Severity.WARNING
