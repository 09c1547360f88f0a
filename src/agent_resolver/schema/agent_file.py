"""The agent file, as far as the resolver reads it: `requires`, `constraints` and `trust`."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from agent_resolver.schema.conflict import conflict_issue
from agent_resolver.schema.errors import InvalidAgentFile
from agent_resolver.schema.explanation import AppliedConstraints
from agent_resolver.schema.front_matter import split
from agent_resolver.schema.governing_key import place_keys
from agent_resolver.schema.issue import Issue, IssueCode, only_errors
from agent_resolver.schema.limit import MAX_FORBID_PATTERNS
from agent_resolver.schema.source import (
    BYTE_ORDER_MARK,
    Unreadable,
    byte_order_mark_warning,
    decode,
)
from agent_resolver.schema.tree import (
    EMPTY,
    Item,
    Mapping,
    Node,
    Scalar,
    find,
    located,
    plain,
)
from agent_resolver.schema.vocabulary import (
    AgentName,
    AgentVersion,
    Identifier,
    Residency,
    Sensitivity,
    Text,
)
from agent_resolver.schema.walker import walk
from agent_resolver.schema.yaml_tree import parse_yaml

_INNER: Final = ("constraints", "trust", "requireSigned")
_OUTER: Final = ("trust", "requireSigned")
"""Both places of the rule about signed servers; the second is the spelling of the specification."""


class Requirement(Struct, frozen=True, kw_only=True):
    """One category of servers that the agent needs, and the scopes it needs there."""

    category: Text
    """The category of servers that the agent needs."""
    permissions: Annotated[tuple[Identifier, ...], Meta(min_length=1)]
    """The scopes that the agent needs there."""


class Requires(Struct, frozen=True, kw_only=True):
    """What the agent needs."""

    mcp: Annotated[tuple[Requirement, ...], Meta(min_length=1)]
    """The requirements, at least one."""


class DataConstraints(Struct, frozen=True, kw_only=True):
    """Rules about the data the agent handles."""

    sensitivity: Sensitivity | UnsetType = UNSET
    """The most sensitive data that the agent handles, [low to high](resolution.md#sensitivity)."""
    residency: Residency | UnsetType = UNSET
    """The region that [data must stay in](resolution.md#residency)."""


class ActionConstraints(Struct, frozen=True, kw_only=True):
    """Rules about what the agent may do."""

    forbid: (
        Annotated[tuple[Text, ...], Meta(max_length=MAX_FORBID_PATTERNS)] | UnsetType
    ) = UNSET
    """Patterns of scopes that [no requirement may ask for](resolution.md#forbidden-actions), and of tools that
    [may not be called](governed-tools.md#which-tools-are-open); `*` stands for any run of characters."""


class TrustConstraints(Struct, frozen=True, kw_only=True, rename="camel"):
    """Rules about who vouches for a server."""

    require_signed: bool | UnsetType = UNSET
    """If true, only [signed servers](resolution.md#signed-servers) are chosen."""


class Constraints(Struct, frozen=True, kw_only=True):
    """Rules that every chosen server must follow."""

    data: DataConstraints | UnsetType = UNSET
    actions: ActionConstraints | UnsetType = UNSET
    trust: TrustConstraints | UnsetType = UNSET


class Limits(Struct, frozen=True, kw_only=True):
    """The constraints of an agent file without their sections; None where it has none."""

    residency: Residency | None = None
    sensitivity: Sensitivity | None = None
    require_signed: bool | None = None
    forbid: tuple[str, ...] = ()

    @property
    def applied(self) -> AppliedConstraints:
        """The part that an explanation states."""
        return AppliedConstraints(
            residency=self.residency,
            sensitivity=self.sensitivity,
            require_signed=self.require_signed,
        )


def limits_in(
    constraints: Constraints | UnsetType, trust: TrustConstraints | UnsetType = UNSET
) -> Limits:
    """The limits that `constraints` set, and `trust` where it has a key of its own."""
    given = constraints or Constraints()
    data = given.data or DataConstraints()
    actions = given.actions or ActionConstraints()
    return Limits(
        residency=data.residency or None,
        sensitivity=data.sensitivity or None,
        require_signed=_require_signed(given.trust, trust),
        forbid=actions.forbid or (),
    )


def _require_signed(*rules: TrustConstraints | UnsetType) -> bool | None:
    """True if one of the rules asks for signed servers; None if none states the key."""
    stated = [
        rule.require_signed
        for rule in rules
        if rule and rule.require_signed is not UNSET
    ]
    return any(stated) if stated else None


def limits_in_front_matter(front_matter: Mapping) -> Limits:
    """The limits of an agent file that need not ask for servers; the caller has checked them."""
    said = {item.key: plain(item.value) for item in front_matter.items}
    constraints = msgspec.convert(said.get("constraints", {}), Constraints)
    return limits_in(
        constraints, msgspec.convert(said.get("trust", {}), TrustConstraints)
    )


class AgentFile(Struct, frozen=True, kw_only=True, rename="camel"):
    """The front matter of an agent file."""

    name: AgentName
    """The name of the agent."""
    version: AgentVersion
    """The version of the agent: any string, by habit [a semantic version](https://semver.org)."""
    requires: Requires
    constraints: Constraints | UnsetType = UNSET
    trust: TrustConstraints | UnsetType = UNSET
    """Another spelling of `constraints.trust`; if both are given, they must agree."""

    # The keys below belong to other readers of the same file; the resolver only knows
    # that they are no typing errors.
    description: Any = UNSET
    """For other readers, such as the [catalog](catalog.md#front-matter)."""
    model: Any = UNSET
    """For other readers, such as [plans](plan.md#models)."""
    capabilities: Any = UNSET
    """For other readers, such as the [catalog](catalog.md#derived-capabilities)."""
    tools: Any = UNSET
    """For other readers, such as [plans](plan.md#lists-of-tools)."""
    tags: Any = UNSET
    """For other readers, such as the [catalog](catalog.md#front-matter)."""
    use_when: Any = UNSET
    """For other readers, such as the [catalog](catalog.md#front-matter)."""
    runtime: Any = UNSET
    """For other readers, such as [plans](plan.md)."""


class Reading(Struct, frozen=True):
    """An agent file as far as it could be read, with all that was found in it."""

    issues: tuple[Issue, ...]
    tree: Node
    agent: AgentFile | None
    """None when one of the issues is an error."""


def read_agent_file(raw: bytes) -> Reading:
    """Read an agent file to the end, whatever is wrong with it."""
    try:
        document = split(decode(raw))
        missing = [document] if isinstance(document, Issue) else []
        tree = (
            EMPTY
            if isinstance(document, Issue)
            else parse_yaml(document.front_matter, line=2)
        )
    except Unreadable as stop:
        return Reading((conflict_issue(raw) or stop.issue,), EMPTY, None)
    mark = (
        [byte_order_mark_warning()] if raw.startswith(BYTE_ORDER_MARK.encode()) else []
    )
    issues = (*mark, *missing, *front_matter_issues(tree))
    return Reading(
        issues,
        tree,
        None if only_errors(issues) else msgspec.convert(plain(tree), AgentFile),
    )


def front_matter_issues(tree: Node) -> list[Issue]:
    """Every issue of the front matter of an agent file, in the order of the file."""
    found = walk(tree, AgentFile)
    if not isinstance(tree, Mapping):
        return found
    issues = [*place_keys(tree, found), *trust_contradictions(tree)]
    return sorted(issues, key=lambda issue: (issue.line, issue.column))


def trust_contradictions(front_matter: Mapping) -> Iterator[Issue]:
    """The error of a file whose two spellings of `requireSigned` disagree."""
    inner = _stated_word(front_matter, *_INNER)
    outer = _stated_word(front_matter, *_OUTER)
    if inner and outer and inner.value != outer.value:
        message = f"It is {outer.source} here, and {inner.source} in `constraints`"
        issue = located(
            outer, IssueCode.CONTRADICTION, message, hint="keep one of the two"
        )
        yield issue.within("requireSigned").within("trust")


def find_in_agent_file(tree: Node, path: Iterable[str | int]) -> Node | Item:
    """The value at `path`, as `find` does; `constraints.trust` may also be spelt `trust`."""
    steps = (*path,)
    is_outer = (
        steps == _INNER
        and _stated_word(tree, *_INNER) is None
        and _stated_word(tree, *_OUTER)
    )
    return find(tree, _OUTER if is_outer else steps)


def _stated_word(node: Node, *path: str) -> Scalar | None:
    """The boolean at `path`, or None where there is no boolean."""
    for step in path:
        members = node.items if isinstance(node, Mapping) else ()
        node = next((item.value for item in members if item.key == step), EMPTY)
    return node if isinstance(node, Scalar) and isinstance(node.value, bool) else None


def parse_agent_file(raw: bytes | str) -> AgentFile:
    """The front matter of an agent file.

    Raises:
        InvalidAgentFile: With every error in the file.
    """
    reading = read_agent_file(
        raw.encode(errors="surrogatepass") if isinstance(raw, str) else raw
    )
    if reading.agent is None:
        raise InvalidAgentFile(only_errors(reading.issues))
    return reading.agent
