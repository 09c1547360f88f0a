"""Decides for many decoded entries at once that they are certain to be right."""

import re
from collections.abc import Iterator
from itertools import chain

import msgspec
from msgspec import UNSET, Struct, UnsetType

from agent_resolver.schema.index import UNVERSIONED, Index, IndexEntry, is_object
from agent_resolver.schema.limit import MAX_DEPTH
from agent_resolver.schema.vocabulary import SEPARATORS

_HIGH_CONTROL = re.compile(rb"\xc2[\x80-\x9f]")
_ENCODED_CONTROL = re.compile(rb"\\[bfnrtu]|\x7f|\xc2[\x80-\x9f]")
_STRING = re.compile(rb'"[^"]*"')
_NEITHER_BRACKET_NOR_QUOTE = bytes(set(range(256)) - set(b'[]{}"'))
_CURLY_TO_SQUARE = bytes.maketrans(b"{}", b"[]")
_ESCAPED_COLON = b"\\u003"
"""The beginning of every escape that may mean a colon; some mean a digit."""
BATCH = 100
"""The number of entries that are checked at a time: so few stay in the processor's cache from check to check."""


def is_surely_clean(raw: bytes, entries: Index) -> bool:
    """True if decoded entries are certain to have no error; False means that the walker must look.

    Each check runs over many entries at once, so that 100,000 servers cost milliseconds.
    """
    comparison = _compared(raw, entries)
    if comparison is None:
        return False
    return comparison.has_only_known_keys() or (
        _is_shallow(raw) and _has_unique_keys(raw)
    )


def is_surely_unremarkable(raw: bytes, entries: Index) -> bool:
    """True if decoded entries are certain to have no error and no warning: no unknown key, no invisible character."""
    if not raw.isascii() or b"\\" in raw:
        return False
    comparison = _compared(raw, entries)
    return comparison is not None and comparison.has_only_known_keys()


class _Comparison:
    """Compares a file with what this package writes for its entries, to find keys that decoding dropped.

    1. Skip the entries at its start that are written to the byte as this package writes them, which is all of an
       imported index.
    2. Count the colons of the rest, and those of its entries when they are written again. Text keeps its colons
       through both, and each key has one more. So a key that decoding dropped, since it is unknown or given twice, is
       a colon more in the file, with any value; white space changes nothing.
    """

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._skipped = 0
        self._skipped_bytes = 0
        self._is_skipping = True
        self._colons = 0
        self._has_launch = False

    def add(self, batch: Index, text: bytes) -> None:
        """Go on with the next entries, and with what is written for them, without white space."""
        self._is_skipping = self._is_skipping and self._skip(batch, text)
        if not self._is_skipping:
            self._colons += text.count(b":")
            self._has_launch = self._has_launch or any(entry.launch for entry in batch)

    def _skip(self, batch: Index, text: bytes) -> bool:
        """Skip a batch if the file goes on with it."""
        # Without the brackets, which the file has once for all entries.
        indented = msgspec.json.format(text, indent=2)[1:-2]
        # The byte before a batch need not be compared: in valid JSON it is the first
        # bracket, or a comma.
        start = self._skipped_bytes + 1
        if not self._raw.startswith(indented, start):
            return False
        self._skipped += len(batch)
        self._skipped_bytes = start + len(indented)
        return True

    def has_only_known_keys(self) -> bool:
        """True if the file has no other keys than the entries need, and none of them twice."""
        left_out = _count_left_out(self._raw, self._skipped) if self._has_launch else 0
        key_of_servers = 1 if is_object(self._raw) else 0
        return _has_colons(
            self._raw,
            self._colons + key_of_servers - left_out,
            start=self._skipped_bytes,
        )


def _compared(raw: bytes, entries: Index) -> _Comparison | None:
    """The file beside its entries; None if a value of theirs is not valid for certain."""
    if not _is_utf8(raw):
        return None
    comparison = _Comparison(raw)
    may_hold_control = _may_hold_control_character(raw)
    names: set[str] = set()
    for batch in _batches(entries):
        text = msgspec.json.encode(batch)
        if may_hold_control and _ENCODED_CONTROL.search(text):
            return None
        if not _has_no_separator(batch) or not all(map(_states_its_endpoint, batch)):
            return None
        names.update([f"{entry.id}@{entry.version or UNVERSIONED}" for entry in batch])
        comparison.add(batch, text)
    return comparison if len(names) == len(entries) else None


def _batches(entries: Index) -> Iterator[Index]:
    return (entries[start : start + BATCH] for start in range(0, len(entries), BATCH))


def _is_utf8(raw: bytes) -> bool:
    # Decoding looks only into the keys it knows.
    if raw.isascii():
        return True
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _may_hold_control_character(raw: bytes) -> bool:
    # JSON spells them with a backslash, all but U+007F to U+009F.
    if b"\\" in raw or b"\x7f" in raw:
        return True
    return not raw.isascii() and _HIGH_CONTROL.search(raw) is not None


def _has_no_separator(entries: Index) -> bool:
    """True if no value has a character that separates it from the next in what a lock hashes."""
    identifiers = _join_identifiers(entries)
    endpoints = "".join([entry.endpoint or "" for entry in entries])
    launches = [entry.launch for entry in entries if entry.launch]
    variables = "".join(chain.from_iterable([launch.env for launch in launches]))
    has_separator = any(separator in identifiers for separator in SEPARATORS)
    return not has_separator and "|" not in endpoints and "=" not in variables


def _join_identifiers(entries: Index) -> str:
    """Every id, version and scope in one text, which is searched faster than each of them."""
    ids = [entry.id for entry in entries]
    versions = [entry.version or "" for entry in entries]
    scopes = chain.from_iterable([entry.scopes or () for entry in entries])
    maps = [entry.tool_scopes for entry in entries if entry.tool_scopes]
    scopes_of_tools = chain.from_iterable(
        chain.from_iterable([scopes.values() for scopes in maps])
    )
    return "".join(chain(ids, versions, scopes, scopes_of_tools))


def _states_its_endpoint(entry: IndexEntry) -> bool:
    if isinstance(entry.launch, UnsetType):
        return entry.endpoint is not UNSET
    return entry.endpoint is UNSET or entry.endpoint == entry.launch.endpoint


def _is_shallow(raw: bytes) -> bool:
    """True if no value nests deeper than `MAX_DEPTH`.

    1. Take away what a string may escape, then all but brackets and quotes, then the strings.
    2. Each round takes the innermost brackets away. All are square here, or two levels would go at once.
    3. What is left after the last round was too deep.
    """
    escaped = raw.replace(rb"\\", b"").replace(rb"\"", b"")
    compact = escaped.translate(_CURLY_TO_SQUARE, _NEITHER_BRACKET_NOR_QUOTE)
    brackets = _STRING.sub(b"", compact.replace(b'""', b""))
    for _ in range(MAX_DEPTH - 1):
        brackets = brackets.replace(b"[]", b"")
    return not brackets


def _has_unique_keys(raw: bytes) -> bool:
    """True if no object has a key twice: reading keeps one of the two."""
    try:
        content = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return _has_colons(raw, msgspec.json.encode(content).count(b":"))


def _has_colons(raw: bytes, expected: int, start: int = 0) -> bool:
    # An escaped colon is one only after decoding, and would make up for that of a
    # dropped key.
    return raw.count(b":", start) == expected and raw.find(_ESCAPED_COLON, start) < 0


class _WrittenLaunch(Struct, gc=False):
    """The keys of a launch record that a file has."""

    command: msgspec.Raw
    args: msgspec.Raw | UnsetType = UNSET
    env: msgspec.Raw | UnsetType = UNSET
    transport: msgspec.Raw | UnsetType = UNSET


class _WrittenEntry(Struct, gc=False):
    launch: _WrittenLaunch | UnsetType = UNSET


class _WrittenFile(Struct):
    servers: list[_WrittenEntry]


_written = msgspec.json.Decoder(list[_WrittenEntry])
_written_file = msgspec.json.Decoder(_WrittenFile)


def _count_left_out(raw: bytes, skipped: int) -> int:
    """The number of keys of launch records that decoding has added after some entries: each of three has a default."""
    # The entries cannot tell: a default looks the same whether or not the file states
    # it.
    written = (
        _written_file.decode(raw).servers if is_object(raw) else _written.decode(raw)
    )
    launches = [entry.launch for entry in written[skipped:] if entry.launch]
    return sum(
        (launch.args is UNSET) + (launch.env is UNSET) + (launch.transport is UNSET)
        for launch in launches
    )
