"""Whether decoded entries are certain to be right, decided over the whole file at once."""

import re
from itertools import chain

import msgspec
from msgspec import UNSET, Struct, UnsetType

from agent_resolver.schema.index import UNVERSIONED, Index, IndexEntry
from agent_resolver.schema.limit import MAX_DEPTH
from agent_resolver.schema.vocabulary import SEPARATORS

_KEYS_OF_THE_COMMON_SHAPE = 11
"""Seven of the entry, two of `data`, two of `trust`."""

_HIGH_CONTROL = re.compile(rb"\xc2[\x80-\x9f]")
_ENCODED_CONTROL = re.compile(rb"\\[bfnrtu]|\x7f|\xc2[\x80-\x9f]")
_STRING = re.compile(rb'"[^"]*"')
_NEITHER_BRACKET_NOR_QUOTE = bytes(set(range(256)) - set(b'[]{}"'))
_CURLY_TO_SQUARE = bytes.maketrans(b"{}", b"[]")
_SPACE = b" \t\n\r"
CHUNK = 64 * 1024


def is_surely_clean(raw: bytes, entries: Index) -> bool:
    """Whether decoded entries are certain to have no error; False means that the walker must look.

    Each check runs over the whole file at once, so that 100,000 servers cost milliseconds.
    """
    return (
        _is_utf8(raw)
        and _has_no_control_character(raw, entries)
        and _has_no_separator(entries)
        and _has_no_duplicate(entries)
        and all(map(_states_its_endpoint, entries))
        and (_has_only_known_keys(raw, entries) or (_is_shallow(raw) and _has_unique_keys(raw)))
    )


def is_surely_unremarkable(raw: bytes, entries: Index) -> bool:
    """Whether decoded entries are certain to have no error and no warning: no unknown key, no invisible character."""
    return raw.isascii() and b"\\" not in raw and is_surely_clean(raw, entries) and _has_only_known_keys(raw, entries)


def _is_utf8(raw: bytes) -> bool:
    # Decoding looks only into the keys it knows.
    if raw.isascii():
        return True
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _has_no_control_character(raw: bytes, entries: Index) -> bool:
    # JSON spells them with a backslash, all but U+007F to U+009F.
    if b"\\" not in raw and b"\x7f" not in raw and (raw.isascii() or not _HIGH_CONTROL.search(raw)):
        return True
    return _ENCODED_CONTROL.search(msgspec.json.encode(entries)) is None


def _has_no_separator(entries: Index) -> bool:
    identifiers = "".join(
        chain(
            [entry.id for entry in entries],
            [entry.version or "" for entry in entries],
            chain.from_iterable([entry.scopes or () for entry in entries]),
            chain.from_iterable(
                scopes for entry in entries if entry.tool_scopes for scopes in entry.tool_scopes.values()
            ),
        )
    )
    endpoints = "".join([entry.endpoint or "" for entry in entries])
    variables = "".join(chain.from_iterable(entry.launch.env for entry in entries if entry.launch))
    has_separator = any(separator in identifiers for separator in SEPARATORS)
    return not has_separator and "|" not in endpoints and "=" not in variables


def _has_no_duplicate(entries: Index) -> bool:
    names = {f"{entry.id}@{entry.version or UNVERSIONED}" for entry in entries}
    return len(names) == len(entries)


def _states_its_endpoint(entry: IndexEntry) -> bool:
    if isinstance(entry.launch, UnsetType):
        return entry.endpoint is not UNSET
    return entry.endpoint is UNSET or entry.endpoint == entry.launch.endpoint


def _has_only_known_keys(raw: bytes, entries: Index) -> bool:
    """True if the file has as many keys as the entries need: then none is unknown and none is said twice."""
    if not all(map(_has_common_shape, entries)):
        # A launch record has defaults, which the entry has whether or not they were written.
        return _is_as_written(raw, entries) or _has_keys_of(raw, entries, left_out=_count_left_out(raw, entries))
    policies = [entry.policy for entry in entries if entry.policy]
    maps = [entry.tool_scopes for entry in entries if not isinstance(entry.tool_scopes, UnsetType)]
    expected = (
        _KEYS_OF_THE_COMMON_SHAPE * len(entries)
        + len(policies)
        + sum(policy.rate_limit_per_min is not UNSET for policy in policies)
        + len(maps)
        + sum(map(len, maps))
    )
    return count_keys(raw) == expected


def _has_common_shape(entry: IndexEntry) -> bool:
    """True if an entry states every fact, and has none of the keys that imported entries have."""
    data, trust = entry.data, entry.trust
    if not data or data.residency is UNSET or not data.max_sensitivity:
        return False
    if not trust or trust.signed is UNSET or trust.publisher is UNSET:
        return False
    if not entry.version or entry.scopes is UNSET or not entry.endpoint:
        return False
    # An import writes some of these keys, `agent index probe` the two others.
    is_imported = entry.source or entry.name or entry.description is not UNSET or entry.transport or entry.status
    is_probed = entry.tools is not UNSET or entry.drafted is not UNSET
    return not is_imported and not is_probed


def count_keys(raw: bytes) -> int:
    """How many keys the file has, or more where a string looks like one; in chunks, so that no copy is held."""
    count, last = 0, b""
    for start in range(0, len(raw), CHUNK):
        chunk = last + raw[start : start + CHUNK].translate(None, _SPACE)
        count += chunk.count(b'":')
        last = chunk[-1:]
    return count


def _is_shallow(raw: bytes) -> bool:
    """Whether no value nests deeper than `MAX_DEPTH`.

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
    return _has_keys_of(raw, content)


def _has_keys_of(raw: bytes, content: object, left_out: int = 0) -> bool:
    """True if the file has as many keys as its content has when it is written again, but for those left out."""
    # Writing spells `\\u0022` as a quote, which would be counted.
    return b"\\u" not in raw and count_keys(raw) == count_keys(msgspec.json.encode(content)) - left_out


def _is_as_written(raw: bytes, entries: Index) -> bool:
    """True if the file is what this package writes for these entries, but for white space."""
    # One entry tells whether it is worth while to write them all.
    opening = msgspec.json.format(msgspec.json.encode(entries[:1]), indent=2).removesuffix(b"\n]")
    # The shorter of the two texts is made: without white space.
    return raw.startswith(opening) and msgspec.json.format(raw, indent=-1) == msgspec.json.encode(entries)


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


def _count_left_out(raw: bytes, entries: Index) -> int:
    """The number of keys of launch records that decoding has added: each of three has a default."""
    if not any(entry.launch for entry in entries):
        return 0
    is_object = raw[:CHUNK].lstrip().startswith(b"{")
    written = _written_file.decode(raw).servers if is_object else _written.decode(raw)
    launches = [entry.launch for entry in written if entry.launch]
    return sum((launch.args is UNSET) + (launch.env is UNSET) + (launch.transport is UNSET) for launch in launches)
