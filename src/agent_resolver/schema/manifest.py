"""The manifest, `tools.manifest.json`: the tools that a project's own code offers, sorted."""

import math
import re
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, field, structs

from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.classification import Classification
from agent_resolver.schema.errors import EditedManifest, InvalidManifest
from agent_resolver.schema.issue import Issue, IssueCode, Severity, only_errors
from agent_resolver.schema.json_reader import read_json
from agent_resolver.schema.limit import MAX_DEPTH
from agent_resolver.schema.lockfile import to_json
from agent_resolver.schema.pending import Priority
from agent_resolver.schema.tree import Item, Mapping, Node, Scalar, Sequence, located
from agent_resolver.schema.vocabulary import CONTROL_CHARACTERS, OptionalText, Prose, Text

MANIFEST_NAME: Final = "tools.manifest.json"
MANIFEST_VERSION: Final = "1"

# What a manifest means that leaves these out, in whatever version of the program.
DEFAULT_TIMEOUT_SECONDS: Final = 60.0
DEFAULT_PRIORITY: Final[Priority] = "P4"

_WRITE_ANEW: Final = f"write it anew with `agent tools manifest --out {MANIFEST_NAME}`"
_HEAD = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:<{7}[^\n]*\n\s*)?\{\s*(?:<{7}[^\n]*\n\s*)?"generated_at"\s*:')
_CONTROL = re.compile(f"[{CONTROL_CHARACTERS}]")
_LINES = re.compile("[\t\n\r]")
_TOO_DEEP: Final = b"\n" + b"  " * MAX_DEPTH


class ManifestTool(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a caller must know of one tool."""

    id: Text
    type: Literal["BLUEPRINT", "CAPABILITY"]
    description: Prose
    data_classification: Classification = field(name="data_classification")
    json_schema: dict[str, Any] = field(name="json_schema")
    """What it takes."""

    # Each key below is present only where it says something.
    output_schema: dict[str, Any] | UnsetType = field(name="output_schema", default=UNSET)
    domain: OptionalText = ""
    subdomain: OptionalText = ""
    tags: tuple[Text, ...] = ()
    maintainer: OptionalText = ""
    required_scopes: tuple[Text, ...] = ()
    allow_outbound: bool = False
    is_idempotent: bool = False
    is_read_only: bool = False
    is_isolated: bool = False
    """Whether each call runs in a process of its own."""
    cost_factor: float | UnsetType = UNSET
    timeout_seconds: float | UnsetType = UNSET
    rate_limit_per_minute: float | UnsetType = UNSET
    needs_approval: bool = False
    approver_role: OptionalText = ""
    priority: Priority | UnsetType = UNSET
    """How soon a question for approval expires."""
    secrets: tuple[Text, ...] = ()
    """The names of the secrets that it is given."""
    examples: tuple[Any, ...] = ()
    """Arguments that a caller could give."""

    @property
    def order(self) -> tuple[str, bool, str, str]:
        """Sort key of the manifest: by domain and subdomain, tools without a subdomain last, then by id."""
        return (self.domain, not self.subdomain, self.subdomain, self.id)


class Manifest(Struct, frozen=True, kw_only=True):
    """The tools of a project at one time."""

    generated_at: Text
    """Outside the digest: the same tools have the same digest whenever they were written down."""
    version: Literal["1"] = MANIFEST_VERSION
    digest: Text
    tools: tuple[ManifestTool, ...]


def manifest_digest(tools: tuple[ManifestTool, ...]) -> str:
    """The digest of all that a manifest says, save for when it was written."""
    return digest({"version": MANIFEST_VERSION, "tools": tools})


def is_manifest(head: bytes) -> bool:
    """Whether a file that starts like this is a manifest, one with merge conflicts included."""
    return _HEAD.match(head) is not None


def parse_manifest(raw: bytes) -> Manifest:
    """The content of a manifest.

    Raises:
        InvalidManifest: With every error in the file.
        EditedManifest: Its digest does not fit the rest of it.
    """
    manifest = _as_written(raw) or _read(raw)
    expected = manifest_digest(manifest.tools)
    if manifest.digest != expected:
        raise EditedManifest(manifest.digest, expected)
    return manifest


def _as_written(raw: bytes) -> Manifest | None:
    """The quick way for a file that has exactly the bytes that we write; whatever else it is, is for the slow way."""
    try:
        manifest = msgspec.json.decode(raw, type=Manifest)
        is_same = to_json(manifest) == raw
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    # No text in JSON holds a line break, so that this is how far a line is indented.
    is_flat = is_same and _TOO_DEEP not in raw
    is_unique = len({tool.id for tool in manifest.tools}) == len(manifest.tools)
    has_control = _CONTROL.search(manifest.generated_at) or any(map(_has_control, manifest.tools))
    return manifest if is_flat and is_unique and not has_control else None


def _has_control(tool: ManifestTool) -> bool:
    """Whether the walker would find a control character."""
    lists = (*tool.tags, *tool.required_scopes, *tool.secrets, *tool.json_schema, *(tool.output_schema or ()))
    words = (tool.id, tool.domain, tool.subdomain, tool.maintainer, tool.approver_role, *lists)
    return bool(_CONTROL.search("".join(words)) or _CONTROL.search(_LINES.sub("", tool.description)))


def _read(raw: bytes) -> Manifest:
    reading = read_json(raw, Manifest, _rules)
    faults = only_errors(map(_strict, reading.issues))
    if reading.value is None or faults:
        raise InvalidManifest(faults)
    return reading.value


def _strict(issue: Issue) -> Issue:
    """An issue as it counts here: only a program writes manifests, so that nothing in them may be unknown to it."""
    if issue.code is IssueCode.UNKNOWN_KEY:
        return structs.replace(issue, severity=Severity.ERROR, message="Unknown key", hint=issue.hint or _WRITE_ANEW)
    if issue.code is IssueCode.MERGE_CONFLICT:
        return structs.replace(issue, hint=f"settle the code, then {_WRITE_ANEW}: it is made of the code alone")
    if issue.code is IssueCode.INVALID_ENUM and issue.at == ("version",):
        return structs.replace(issue, hint=f"upgrade `agent`, or {_WRITE_ANEW}")
    return issue


def _rules(tree: Node) -> Iterator[Issue]:
    yield from _out_of_range(tree)
    items = tree.items if isinstance(tree, Mapping) else ()
    for tools in (item.value for item in items if item.key == "tools"):
        yield from (issue.within("tools") for issue in _duplicates(tools))


def _out_of_range(node: Node) -> Iterator[Issue]:
    """Numbers that no float can hold: where the type is anything, nobody else looks at them."""
    match node:
        case Mapping():
            for item in node.items:
                yield from (issue.within(item.key) for issue in _out_of_range(item.value))
        case Sequence():
            for position, element in enumerate(node.items):
                yield from (issue.within(position) for issue in _out_of_range(element))
        case Scalar(value=float(value)) if not math.isfinite(value):
            yield located(node, IssueCode.OUT_OF_RANGE, "Number out of range")


def _duplicates(tools: Node) -> Iterator[Issue]:
    first: dict[object, Item] = {}
    for position, tool in enumerate(tools.items if isinstance(tools, Sequence) else ()):
        for item in tool.items if isinstance(tool, Mapping) else ():
            if item.key != "id" or not isinstance(item.value, Scalar):
                continue
            if item.value.value in first:
                message = f"Duplicate id, first given on line {first[item.value.value].line}"
                yield located(item, IssueCode.DUPLICATE_KEY, message).within("id").within(position)
            first.setdefault(item.value.value, item)
