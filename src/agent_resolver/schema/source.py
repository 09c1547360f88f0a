"""Bytes to text: encoding faults are found and located before any parser runs."""

import re
from bisect import bisect_right

from agent_resolver.schema.issue import Issue, IssueCode, Severity

BYTE_ORDER_MARK = "\ufeff"
_LINE_BREAK = re.compile(r"\r\n?|\n")


class Lines:
    """The starts of the lines of a text, to turn an offset into a line and a column, both from 1.

    `first` is the line of its file that the text starts on, and `column` the column.
    """

    def __init__(self, text: str, first: int = 1, column: int = 1) -> None:
        self._first, self._column = first, column
        self._starts = [0, *(found.end() for found in _LINE_BREAK.finditer(text))]

    def place(self, offset: int) -> tuple[int, int]:
        """The line and column of the character at `offset`."""
        line = bisect_right(self._starts, offset)
        # Only the first line may begin further to the right.
        start_column = self._column if line == 1 else 1
        column = start_column + offset - self._starts[line - 1]
        return self._first + line - 1, column


class Unreadable(Exception):
    """A parser cannot go on; carries the one issue that stopped it."""

    def __init__(self, issue: Issue) -> None:
        super().__init__(str(issue))
        self.issue = issue


def unreadable(
    code: IssueCode,
    message: str,
    place: tuple[int, int] = (1, 1),
    *,
    hint: str = "",
    at: tuple[str, ...] = (),
) -> Unreadable:
    """The exception for a text that cannot be read past `place`."""
    line, column = place
    return Unreadable(
        Issue(at=at, code=code, message=message, hint=hint, line=line, column=column)
    )


def decode(raw: bytes) -> str:
    """The text of a file in UTF-8, with its byte order mark if it has one.

    Raises:
        Unreadable: The bytes are not UTF-8, or hold a NUL.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise _not_utf8(raw, error) from None
    if "\0" in text:
        raise unreadable(
            IssueCode.CONTROL_CHARACTER,
            "The file holds a NUL character",
            Lines(text).place(text.index("\0")),
            hint="remove it, or save the file as plain text",
        )
    return text


def _not_utf8(raw: bytes, error: UnicodeDecodeError) -> Unreadable:
    utf16 = raw.startswith((b"\xff\xfe", b"\xfe\xff"))
    before = raw[: error.start].decode()
    return unreadable(
        IssueCode.ENCODING,
        "The file is UTF-16, not UTF-8"
        if utf16
        else f"Byte 0x{raw[error.start]:02x} is not valid UTF-8",
        Lines(before).place(len(before)),
        hint="save the file as UTF-8",
    )


def byte_order_mark_warning() -> Issue:
    """The warning for a text that opens with a byte order mark."""
    return Issue(
        at=(),
        code=IssueCode.BYTE_ORDER_MARK,
        severity=Severity.WARNING,
        message="The file opens with a byte order mark",
        hint="save the file as UTF-8 without it",
    )
