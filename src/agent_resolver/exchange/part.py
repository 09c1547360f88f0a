"""A value of a source with the path to it: wrong types, lengths and characters become faults with a place."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from agent_resolver.exchange.imported import Imported, Note
from agent_resolver.schema.index import IndexEntry
from agent_resolver.schema.issue import Issue, IssueCode
from agent_resolver.schema.limit import MAX_SOURCE_LIST, MAX_SOURCE_TEXT

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_MAX_DESCRIPTION: Final = 500
_KINDS: Final = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


class EntryRefused(Exception):
    """An entry is not imported; the faults say why, or a note where there are none."""


class Part:
    """A value of a source, and the list that takes the faults of its entry. A value of null counts as absent."""

    def __init__(
        self,
        value: Any,  # noqa: ANN401 - any JSON value
        at: tuple[str | int, ...] = (),
        faults: list[Issue] | None = None,
    ) -> None:
        self.value = value
        self.at = at
        self.faults: list[Issue] = [] if faults is None else faults

    def __bool__(self) -> bool:
        return self.value is not None

    def member(self, *keys: str) -> "Part":
        """The member under the first of these keys that is there: releases of a format spell a key in several ways."""
        self._expect(dict)
        for key in keys:
            if isinstance(self.value, dict) and self.value.get(key) is not None:
                return Part(self.value[key], (*self.at, key), self.faults)
        return Part(None, (*self.at, keys[0]), self.faults)

    def members(self) -> Iterator[tuple[str, "Part"]]:
        """Every member that is not null."""
        if self._expect(dict):
            for key, value in self.value.items():
                if value is not None:
                    yield key, Part(value, (*self.at, key), self.faults)

    def elements(self) -> list["Part"]:
        """The elements of a list; nothing where it is absent."""
        if not self._expect(list):
            return []
        if len(self.value) > MAX_SOURCE_LIST:
            self.refuse(
                IssueCode.LIMIT,
                f"Array must contain at most {MAX_SOURCE_LIST} element(s)",
            )
            return []
        return [
            Part(value, (*self.at, position), self.faults)
            for position, value in enumerate(self.value)
        ]

    def text(self) -> str | None:
        """A text of one line; None where it is absent or empty."""
        if not self._expect(str):
            return None
        text: str = self.value.strip()
        if len(text) > MAX_SOURCE_TEXT:
            self.refuse(
                IssueCode.LIMIT, f"Text is longer than {MAX_SOURCE_TEXT} characters"
            )
            return None
        self._refuse_unprintable(text)
        return text or None

    def required_text(self) -> str:
        """A text that an entry cannot do without."""
        text = self.text()
        if text is not None:
            return text
        if self.value is None or (
            isinstance(self.value, str) and not self.value.strip()
        ):
            self.refuse(IssueCode.REQUIRED, "Required")
        raise EntryRefused

    def prose(self) -> str | None:
        """A text of any number of lines, as one line that is not long."""
        if not self._expect(str):
            return None
        text = " ".join(self.value[: 8 * _MAX_DESCRIPTION].split())
        self._refuse_control(text)
        # What joins emoji is left out as well: no one would notice what else could be
        # hidden with it.
        text = "".join(sign for sign in text if sign.isprintable())
        if len(text) <= _MAX_DESCRIPTION:
            return text
        return f"{text[:_MAX_DESCRIPTION].rstrip()}…"

    def texts(self) -> tuple[str, ...]:
        """The texts of a list."""
        found = (element.text() for element in self.elements())
        return tuple(text for text in found if text is not None)

    def words(self) -> tuple[str, ...]:
        """The words of a command line, each as it is: an empty one, or spaces at its ends, may be what is meant."""
        stated = [element for element in self.elements() if element]
        return tuple(map(_word_of, stated))

    def flag(self) -> bool:
        """True if the value is true; an absent one is not."""
        return self._expect(bool) and bool(self.value)

    def require_object(self) -> None:
        """Refuse an entry that is not an object."""
        if not self._expect(dict):
            raise EntryRefused

    def refuse(
        self,
        code: IssueCode,
        message: str,
        hint: str = "",
    ) -> None:
        """Record a fault here, and go on to find others."""
        self.faults.append(Issue(at=self.at, code=code, message=message, hint=hint))

    def refuse_entry(
        self,
        code: IssueCode,
        message: str,
        hint: str = "",
    ) -> EntryRefused:
        """Record a fault here after which nothing else can be said about the entry; for the caller to raise."""
        self.refuse(code, message, hint)
        return EntryRefused()

    def _expect(self, kind: type) -> bool:
        """True if the value is of this kind; False if it is absent, or of another kind, which is a fault."""
        if self.value is None:
            return False
        if type(self.value) is not kind:
            received = _KINDS.get(type(self.value), "another value")
            self.refuse(
                IssueCode.INVALID_TYPE, f"Expected {_KINDS[kind]}, received {received}"
            )
            return False
        return True

    def _refuse_unprintable(self, text: str) -> None:
        """Refuse what a person who reviews an entry could not see: bytes for a terminal, and marks that turn words."""
        if text.isprintable():
            return
        hidden = next(sign for sign in text if not sign.isprintable())
        word = "control character" if _CONTROL.match(hidden) else "invisible character"
        self.refuse(
            IssueCode.CONTROL_CHARACTER,
            f"Holds the {word} U+{ord(hidden):04X}",
            "remove it",
        )

    def _refuse_control(self, text: str) -> None:
        found = _CONTROL.search(text)
        if found:
            message = f"Holds the control character U+{ord(found.group()):04X}"
            self.refuse(IssueCode.CONTROL_CHARACTER, message, "remove it")


ReadEntry = Callable[[str, Part, list[Note]], IndexEntry]
"""Makes an entry from the name that the source has for it, its part, and a list that takes notes."""


def import_each(named: Iterable[tuple[str, Part]], read: ReadEntry) -> Imported:
    """The entries of a source. One that cannot be imported leaves its faults, and the others are kept."""
    entries: list[IndexEntry] = []
    notes: list[Note] = []
    faults: list[Issue] = []
    for name, part in named:
        part.faults = []
        own_notes: list[Note] = []
        found: list[IndexEntry] = []
        with suppress(EntryRefused):
            part.require_object()
            found.append(read(name, part, own_notes))
        if part.faults:
            # The same part may be looked at several times.
            faults += dict.fromkeys(part.faults)
            continue
        entries += found
        notes += own_notes
    return Imported(tuple(entries), tuple(notes), tuple(faults))


def _word_of(part: Part) -> str:
    """The text of a part, untrimmed; empty if it has none."""
    is_text = part.text() is not None
    word: str = part.value if is_text else ""
    return word
