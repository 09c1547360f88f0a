"""The bytes of an agent file to what the catalog knows of it; what can be served is served, with a warning."""

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import structs

from agent_resolver.catalog.capability import derived_capabilities
from agent_resolver.catalog.entry import Entry
from agent_resolver.catalog.repair import repaired
from agent_resolver.schema.classification import CLASSIFICATION_OF, Classification
from agent_resolver.schema.conflict import conflict_issue
from agent_resolver.schema.front_matter import split
from agent_resolver.schema.governing_key import governing_key_faults
from agent_resolver.schema.issue import Issue, IssueCode, Severity
from agent_resolver.schema.source import Unreadable, decode, unreadable
from agent_resolver.schema.tool_list import tool_names
from agent_resolver.schema.tree import Item, Mapping, Node, Scalar, Sequence, located
from agent_resolver.schema.yaml_tree import parse_yaml

_MAX_NAME: Final = 200
_COMMENT_BEFORE = re.compile(
    r"(?:<!--(?:(?!-->).)*-->|#[^\r\n]*|//[^\r\n]*)\s*---[ \t]*[\r\n]", re.DOTALL
)
"""A comment of HTML, or one line of another kind, right before front matter."""


def read_entry(raw: bytes, stem: str) -> Entry | Issue:
    """The entry of an agent file, or the issue that keeps it from being served: a hint where it has no front matter."""
    try:
        text = decode(raw)
        document = split(text)
        if isinstance(document, Issue):
            return _without_front_matter(text, document)
        tree, issues = _parse_or_repair(document.front_matter)
        name, noticed = _read_name(tree, stem)
    except Unreadable as stop:
        return stop.issue
    front_matter: dict[str, Any] = _value_of_node(tree)
    said = {item.key: item.value for item in tree.items}
    description = _scalar_text(said.get("description"))
    capabilities = _list_of_words(said.get("capabilities"))
    role = _scalar_text(said.get("role"))
    tools = tool_names(said["tools"]) if "tools" in said else ()
    return Entry(
        name=name,
        description=description,
        model=_scalar_text(said.get("model")) or None,
        version=_scalar_text(said.get("version")) or None,
        capabilities=capabilities or derived_capabilities(description),
        is_derived=not capabilities,
        tools=tools,
        tags=_list_of_words(said.get("tags")),
        use_when=_scalar_text(said.get("useWhen", said.get("use_when"))),
        role=role or None,
        roles=(role,) if role else (),
        fallbacks=_list_of_words(said.get("fallbacks")),
        classification=_classification_of(front_matter),
        requires="requires" in front_matter,
        front_matter=front_matter,
        digest=content_digest(raw),
        size=len(raw),
        # A token has about four characters: the estimate needs no tokenizer.
        tokens=(len(text) + 3) // 4,
        # The body is cut from the raw bytes, so that its place is counted in bytes.
        body_at=len(raw) - len(document.body.encode()),
        issues=(*issues, *noticed, *_repeated_keys(tree), *_governing_keys(tree)),
    )


def content_digest(raw: bytes) -> str:
    """The digest of an agent file's bytes, as its entry has it."""
    return f"sha256-{sha256(raw).hexdigest()}"


def _classification_of(front_matter: dict[str, Any]) -> Classification:
    """The classification of the data that an agent file is meant for."""
    constraints = front_matter.get("constraints")
    data = constraints.get("data") if isinstance(constraints, dict) else None
    sensitivity = data.get("sensitivity") if isinstance(data, dict) else None
    if sensitivity is None:
        return "PUBLIC"
    # A word that is not known could mean anything, so it counts as the most sensitive
    # one.
    return CLASSIFICATION_OF.get(str(sensitivity), "RESTRICTED")


def front_matter_tree(raw: bytes) -> Mapping:
    """The front matter of an agent file that is served, with the place of every value.

    Raises:
        Unreadable: It has none.
    """
    document = split(decode(raw))
    if isinstance(document, Issue):
        raise Unreadable(document)
    return _parse_or_repair(document.front_matter)[0]


def left_out(reason: str, hint: str = "") -> Issue:
    """The hint that a file is not taken for an agent."""
    message = f"Left out: {reason}"
    return Issue(
        at=(),
        code=IssueCode.LEFT_OUT,
        message=message,
        severity=Severity.HINT,
        hint=hint,
    )


def _without_front_matter(text: str, fault: Issue) -> Issue:
    """The fault of a file whose front matter starts late; a hint for any other file without front matter."""
    if _opens_late(text):
        return fault
    return left_out(*_why_no_front_matter(text))


def _why_no_front_matter(text: str) -> tuple[str, str]:
    """The reason, and what to do if the file is meant to be an agent."""
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith("+++"):
        return "its front matter is TOML", "write it as YAML, between two lines `---`"
    if _COMMENT_BEFORE.match(start):
        return (
            "a comment is before the front matter",
            "move the comment below the second `---`",
        )
    return "no front matter", ""


def _opens_late(text: str) -> bool:
    """True if a file has front matter, but something blank before it."""
    return text.lstrip("\ufeff \t\r\n").startswith("---")


def _parse_or_repair(front_matter: str) -> tuple[Mapping, list[Issue]]:
    """The front matter, repaired where it is not YAML."""
    try:
        return _with_keys(front_matter), []
    except Unreadable as stop:
        if conflict := conflict_issue(front_matter.encode()):
            # What a person has to settle is not repaired.
            raise Unreadable(
                structs.replace(conflict, line=conflict.line + 1)
            ) from None
        # What is too large or nested too deeply is not a slip that quotes could mend.
        if stop.issue.code is IssueCode.LIMIT:
            raise
        issue = structs.replace(
            stop.issue, severity=Severity.WARNING, code=IssueCode.FRONT_MATTER_REPAIRED
        )
        try:
            tree = _with_keys(repaired(front_matter))
        except Unreadable:
            # The author is shown the fault of the text as it is written, not one that
            # the repair made.
            raise stop from None
        return tree, [
            structs.replace(issue, hint="`agent catalog check --fix` repairs it")
        ]


def _with_keys(front_matter: str) -> Mapping:
    tree = parse_yaml(front_matter, line=2)
    if not isinstance(tree, Mapping):
        raise unreadable(IssueCode.FRONT_MATTER, "Front matter must have keys", (2, 1))
    return tree


def _value_of_node(node: Node) -> Any:  # noqa: ANN401 - a JSON value is any of six types
    """The value without its positions; a number that JSON would write otherwise is the text of the file."""
    match node:
        case Mapping():
            return {item.key: _value_of_node(item.value) for item in node.items}
        case Sequence():
            return [_value_of_node(item) for item in node.items]
        case Scalar(value=int() | float() as number, source=source) if not isinstance(
            number, bool
        ):
            in_json = msgspec.json.encode(number).decode()
            is_spelled_so = str(number) == source == in_json
            return number if is_spelled_so else source
    return node.value


def _read_name(tree: Mapping, stem: str) -> tuple[str, list[Issue]]:
    """The name of an agent: the one that it states, or else, with a warning, the one of its file."""
    item = _last_item(tree, "name")
    name = _scalar_text(item.value) if item else ""
    place = (item.line, item.column) if item else (1, 1)
    reason = refused_name(name) if name else ""
    if name and not reason:
        return name, []
    fault = f"`{name[:_MAX_NAME]}` {reason}" if name else "Absent"
    if refusal := refused_name(stem):
        message = fault if name else f"`{stem[:_MAX_NAME]}` {refusal}"
        raise unreadable(IssueCode.NAME_REFUSED, message, place, at=("name",))
    by_file = Issue(
        at=("name",),
        code=IssueCode.NAME_REFUSED if name else IssueCode.NAME_ABSENT,
        message=f"{fault}, so the agent goes by the name of its file, `{stem}`",
        severity=Severity.WARNING,
        line=place[0],
        column=place[1],
    )
    return stem, [by_file]


def _last_item(tree: Mapping, key: str) -> Item | None:
    # The last one counts where a key is repeated, as the warning of `_repeated_keys`
    # says.
    return next((item for item in reversed(tree.items) if item.key == key), None)


def _repeated_keys(tree: Mapping) -> Iterator[Issue]:
    """A warning for every key that is given again."""
    first: dict[str, int] = {}
    for item in tree.items:
        if item.key in first:
            message = f"Duplicate key, first given on line {first[item.key]}; the last one counts"
            yield located(
                item, IssueCode.DUPLICATE_KEY, message, Severity.WARNING
            ).within(item.key)
        first.setdefault(item.key, item.line)


def _governing_keys(tree: Mapping) -> Iterator[Issue]:
    """A warning for every key that keeps the agent from being planned; repeated ones have theirs already."""
    for fault in governing_key_faults(tree):
        if fault.code is not IssueCode.DUPLICATE_KEY:
            message = f"{fault.message}, so that the agent is served but has no plan"
            yield structs.replace(fault, severity=Severity.WARNING, message=message)


def refused_name(name: str) -> str:
    """The reason why a name cannot be part of a URI, or nothing."""
    if name in {"", ".", ".."} or "/" in name or "\\" in name:
        return "would be a path"
    if len(name) > _MAX_NAME:
        return f"is longer than {_MAX_NAME} characters"
    if name.isprintable():
        return ""
    return "holds characters that cannot be printed"


def _scalar_text(node: Node | None) -> str:
    """A scalar as the file spells it, so that version 1.10 is not 1.1."""
    if not isinstance(node, Scalar) or node.value is None:
        return ""
    return (node.source or str(node.value)).strip()


def _list_of_words(node: Node | None) -> tuple[str, ...]:
    """A list, or a text with commas, as a list without repetitions."""
    if isinstance(node, Sequence):
        words = map(_scalar_text, node.items)
    else:
        words = map(str.strip, _scalar_text(node).split(","))
    return tuple(dict.fromkeys(filter(None, words)))
