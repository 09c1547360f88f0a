"""The manifest, `tools.manifest.json`: the tools that a project's own code offers, sorted."""

import math
import re
from collections.abc import Iterator
from itertools import chain
from operator import attrgetter
from typing import Final, Literal, get_type_hints

import msgspec
from msgspec import Struct, structs

from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.descriptor import ManifestTool
from agent_resolver.schema.errors import EditedManifest, InvalidManifest
from agent_resolver.schema.issue import Issue, IssueCode, Severity, only_errors
from agent_resolver.schema.json_reader import read_json
from agent_resolver.schema.limit import MAX_DEPTH
from agent_resolver.schema.lockfile import to_json
from agent_resolver.schema.tree import Item, Mapping, Node, Scalar, Sequence, located
from agent_resolver.schema.vocabulary import CONTROL_CHARACTERS, Text

MANIFEST_NAME: Final = "tools.manifest.json"
MANIFEST_VERSION: Final = "1"

_REMEDY: Final = f"write it again with `agent tools manifest --out {MANIFEST_NAME}`"
_HEAD: Final = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*(?:<{7}[^\n]*\n\s*)?\{\s*(?:<{7}[^\n]*\n\s*)?"generated_at"\s*:'
)
_CONTROL: Final = re.compile(f"[{CONTROL_CHARACTERS}]")
_LINE_CONTROL: Final = re.compile("[\t\n\r]")
_TOO_DEEP: Final = b"\n" + b"  " * MAX_DEPTH
_HINTS: Final = get_type_hints(ManifestTool)
_texts_of = attrgetter(
    *(name for name, hint in _HINTS.items() if hint is str and name != "description")
)
_word_lists_of = attrgetter(
    *(name for name, hint in _HINTS.items() if hint == tuple[str, ...])
)


class Manifest(Struct, frozen=True, kw_only=True):
    """The tools of a project at one time."""

    generated_at: Text
    """Outside the digest: the same tools have the same digest whenever they were written down."""
    version: Literal["1"] = MANIFEST_VERSION
    digest: Text
    tools: tuple[ManifestTool, ...]


def manifest_digest(tools: tuple[ManifestTool, ...]) -> str:
    """The digest of a manifest's version and tools; the time at which it was written is not covered."""
    return digest({"version": MANIFEST_VERSION, "tools": tools})


def is_manifest(head: bytes) -> bool:
    """True if a file that starts with these bytes is a manifest; one with merge conflicts is, too."""
    return _HEAD.match(head) is not None


def parse_manifest(raw: bytes) -> Manifest:
    """The content of a manifest.

    Raises:
        InvalidManifest: With every error in the file.
        EditedManifest: Its digest does not fit the rest of it.
    """
    manifest = _decode_as_written(raw) or _read_with_faults(raw)
    expected = manifest_digest(manifest.tools)
    if manifest.digest != expected:
        raise EditedManifest(manifest.digest, expected)
    return manifest


def _decode_as_written(raw: bytes) -> Manifest | None:
    """The quick way, for a file with exactly the bytes that we write; None for any other, which takes the slow way."""
    try:
        manifest = msgspec.json.decode(raw, type=Manifest)
        is_same = to_json(manifest) == raw
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    # No text in JSON holds a line break, so that this is how far a line is indented.
    is_flat = is_same and _TOO_DEEP not in raw
    ids = {tool.id for tool in manifest.tools}
    is_unique = len(ids) == len(manifest.tools)
    has_control = _CONTROL.search(manifest.generated_at) or any(
        map(_has_control_character, manifest.tools)
    )
    return manifest if is_flat and is_unique and not has_control else None


def _has_control_character(tool: ManifestTool) -> bool:
    """True if the walker would find a control character."""
    keys = (*tool.json_schema, *(tool.output_schema or ()))
    listed = chain.from_iterable(_word_lists_of(tool))
    words = (*_texts_of(tool), *listed, *keys)
    return bool(
        _CONTROL.search("".join(words))
        or _CONTROL.search(_LINE_CONTROL.sub("", tool.description))
    )


def _read_with_faults(raw: bytes) -> Manifest:
    """The slow way, which finds every fault and its place."""
    reading = read_json(raw, Manifest, _find_faults)
    faults = only_errors(map(_judge_strictly, reading.issues))
    if reading.value is None or faults:
        raise InvalidManifest(faults)
    return reading.value


def _judge_strictly(issue: Issue) -> Issue:
    """The issue as it counts in a manifest: only a program writes one, so an unknown key is an error."""
    if issue.code is IssueCode.UNKNOWN_KEY:
        return structs.replace(
            issue,
            severity=Severity.ERROR,
            message="Unknown key",
            hint=issue.hint or _REMEDY,
        )
    if issue.code is IssueCode.MERGE_CONFLICT:
        return structs.replace(
            issue, hint=f"settle the code, then {_REMEDY}: it is made of the code alone"
        )
    if issue.code is IssueCode.INVALID_ENUM and issue.at == ("version",):
        return structs.replace(issue, hint=f"upgrade `agent`, or {_REMEDY}")
    return issue


def _find_faults(tree: Node) -> Iterator[Issue]:
    yield from _numbers_out_of_range(tree)
    items = tree.items if isinstance(tree, Mapping) else ()
    for tools in (item.value for item in items if item.key == "tools"):
        yield from (issue.within("tools") for issue in _duplicate_ids(tools))


def _numbers_out_of_range(node: Node) -> Iterator[Issue]:
    """Numbers that no float can hold; the walker does not look at them where the type is anything."""
    match node:
        case Mapping():
            for item in node.items:
                yield from (
                    issue.within(item.key)
                    for issue in _numbers_out_of_range(item.value)
                )
        case Sequence():
            for position, element in enumerate(node.items):
                yield from (
                    issue.within(position) for issue in _numbers_out_of_range(element)
                )
        case Scalar(value=float(value)) if not math.isfinite(value):
            yield located(node, IssueCode.OUT_OF_RANGE, "Number out of range")


def _duplicate_ids(tools: Node) -> Iterator[Issue]:
    first: dict[object, Item] = {}
    for position, tool in enumerate(tools.items if isinstance(tools, Sequence) else ()):
        for item in tool.items if isinstance(tool, Mapping) else ():
            if item.key != "id" or not isinstance(item.value, Scalar):
                continue
            if item.value.value in first:
                message = (
                    f"Duplicate id, first given on line {first[item.value.value].line}"
                )
                yield (
                    located(item, IssueCode.DUPLICATE_KEY, message)
                    .within("id")
                    .within(position)
                )
            first.setdefault(item.value.value, item)
