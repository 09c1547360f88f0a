"""Roles: which agent plays each, and who stands in, from `roles.yaml` at a root or from front matter."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, structs

from agent_resolver.catalog.entry import Entry
from agent_resolver.schema.issue import Issue, IssueCode, Severity
from agent_resolver.schema.source import Unreadable, decode
from agent_resolver.schema.tree import plain
from agent_resolver.schema.yaml_tree import parse_yaml

ROLES_FILE: Final = "roles.yaml"
MAX_FALLBACKS: Final = 3
"""How many agents may stand in for another, one after the other."""


class Role(Struct, frozen=True, kw_only=True):
    """A role, as `roles.yaml` states it."""

    name: str
    """The name of the role, which is its key in the file."""
    also: tuple[str, ...] = ()
    """The further roles of the same agent; what they say counts where the first says nothing."""
    primary: str
    """The name of the agent that plays the role. A category before a `:` does not count."""
    fallbacks: tuple[str, ...] = ()
    """The agents that take its place, in this order; the first three count."""
    capabilities: tuple[str, ...] = ()
    """Capabilities in addition to those that the agent states."""
    model: str | None = None
    """The model in place of the agent's."""
    use_when: str = ""
    """The occasions to use the agent, if its file states none; also spelled `useWhen`."""


def parse_roles(raw: bytes) -> tuple[dict[str, Role], list[Issue]]:
    """The roles of a `roles.yaml` by the agent that plays each, and what is wrong with the file.

    It holds `role: {primary, fallbacks, capabilities, model, use_when}`, maybe below a key `roles`. An agent may be
    written `category:agent`; only the last part counts.
    """
    try:
        content: Any = plain(parse_yaml(decode(raw)))
    except Unreadable as stop:
        # A fault in `roles.yaml` must not keep the agents from being served.
        return {}, [structs.replace(stop.issue, severity=Severity.WARNING)]
    listed = content.get("roles", content) if isinstance(content, dict) else None
    if not isinstance(listed, dict):
        issue = Issue(
            at=(),
            code=IssueCode.INVALID_TYPE,
            message="Expected roles by name",
            severity=Severity.WARNING,
        )
        return {}, [issue]
    roles: dict[str, Role] = {}
    issues = []
    for name, said in listed.items():
        if isinstance(said, dict) and isinstance(said.get("primary"), str):
            role = _make_role(name, said)
            first = roles.get(role.primary)
            # An agent may play several roles: the first one counts, and the others fill
            # its gaps.
            roles[role.primary] = _join_roles(first, role) if first else role
        else:
            message = "Expected an object with `primary`, the name of an agent"
            at = ("roles", name) if "roles" in content else (name,)
            issues.append(
                Issue(
                    at=at,
                    code=IssueCode.REQUIRED,
                    message=message,
                    severity=Severity.WARNING,
                )
            )
    return roles, issues


def _make_role(name: str, said: Mapping[str, Any]) -> Role:
    return Role(
        name=name,
        primary=_agent_name(said["primary"]),
        fallbacks=tuple(map(_agent_name, _texts_in(said.get("fallbacks"))))[
            :MAX_FALLBACKS
        ],
        capabilities=tuple(_texts_in(said.get("capabilities"))),
        model=str(said["model"]) if said.get("model") else None,
        use_when=str(said.get("use_when", said.get("useWhen", "")) or ""),
    )


def _join_roles(first: Role, further: Role) -> Role:
    return structs.replace(
        first,
        also=(*first.also, further.name),
        fallbacks=first.fallbacks or further.fallbacks,
        capabilities=tuple(dict.fromkeys((*first.capabilities, *further.capabilities))),
        model=first.model or further.model,
        use_when=first.use_when or further.use_when,
    )


def _agent_name(text: str) -> str:
    return text.rpartition(":")[2].strip()


def _texts_in(value: object) -> Iterable[str]:
    if isinstance(value, list):
        return [str(item) for item in value if item]
    return [value] if isinstance(value, str) else []


def with_role(entry: Entry, roles: Mapping[str, Role]) -> Entry:
    """The entry with the role that it plays.

    `roles.yaml` says what a team agreed on, so its model and fallbacks win over the file's; its capabilities are
    added, and its `use_when` counts where the file has none.
    """
    role = roles.get(entry.name)
    if role is None:
        return structs.replace(entry, fallbacks=entry.fallbacks[:MAX_FALLBACKS])
    # Capabilities that were only derived from the description give way to those that a
    # person stated.
    stated = () if entry.is_derived and role.capabilities else entry.capabilities
    return structs.replace(
        entry,
        role=role.name,
        roles=(role.name, *role.also),
        fallbacks=(role.fallbacks or entry.fallbacks)[:MAX_FALLBACKS],
        capabilities=tuple(dict.fromkeys((*stated, *role.capabilities))),
        is_derived=entry.is_derived and not role.capabilities,
        model=role.model or entry.model,
        use_when=entry.use_when or role.use_when,
    )
