"""Proposes what an agent file requires of servers that are known, and says how certain each line is."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct, structs

from agent_resolver.core.pattern import matches
from agent_resolver.schema.index import IndexEntry, Server

Certainty = Literal["stated", "derived", "guessed"]
"""A person wrote it; it follows from what a server or a file says; or it may be something else."""

_WORD: Final = re.compile(r"[^a-z0-9]+")


class Wish(Struct, frozen=True):
    """A server that a file names, and what it wants of it."""

    server_id: str
    where: str
    """The file, or files, for people."""
    tools: tuple[str, ...] = ()
    """The only tools that it names; empty for all."""
    certainty: Certainty = "stated"


class ProposedRequirement(Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of `requires.mcp`, or why there is none for a server."""

    server: str
    category: str
    permissions: tuple[str, ...] = ()
    """Empty if it is not known which scopes there are."""
    certainty: Certainty
    why: str


def with_own_categories(
    entries: Sequence[IndexEntry], server_ids: Iterable[str]
) -> tuple[IndexEntry, ...]:
    """The same entries; a server without a category of its own gets one: a requirement must mean it alone."""
    named = set(server_ids)
    pairs = [(entry.id, entry.categories) for entry in entries]
    taken = {category for _, categories in pairs for category in categories}
    found = []
    for entry in entries:
        needs_own = entry.id in named and not _own_category(entry.id, pairs)
        found.append(_with_category(entry, taken) if needs_own else entry)
    return tuple(found)


def _with_category(entry: IndexEntry, taken: Collection[str]) -> IndexEntry:
    own = entry.id if entry.id not in taken else f"server-{entry.id}"
    return structs.replace(entry, categories=(*entry.categories, own))


def propose_requirements(
    servers: Sequence[Server], wishes: Iterable[Wish], allowed: Sequence[str] = ("*",)
) -> list[ProposedRequirement]:
    """What to require of each server, by id.

    Args:
        servers: Every server there is.
        wishes: The servers to require; those of one server are one requirement.
        allowed: Patterns of the scopes that may be asked for.
    """
    pairs = [(server.id, server.categories) for server in servers]
    by_id = {server.id: server for server in reversed(servers)}
    return [
        _propose(by_id[server_id], _own_category(server_id, pairs), wish, allowed)
        for server_id, wish in sorted(_joined(wishes).items())
        if server_id in by_id
    ]


def _joined(wishes: Iterable[Wish]) -> dict[str, Wish]:
    found: dict[str, Wish] = {}
    for wish in wishes:
        other = found.get(wish.server_id)
        if other is None:
            found[wish.server_id] = wish
            continue
        places = dict.fromkeys((*other.where.split(", "), *wish.where.split(", ")))
        # A file that names no tools wants all of them.
        wants_all = not other.tools or not wish.tools
        tools = () if wants_all else dict.fromkeys((*other.tools, *wish.tools))
        is_stated = "stated" in {other.certainty, wish.certainty}
        found[wish.server_id] = Wish(
            wish.server_id,
            ", ".join(places),
            tuple(tools),
            "stated" if is_stated else "derived",
        )
    return found


def _propose(
    server: Server,
    own_category: str,
    wish: Wish,
    allowed: Sequence[str],
) -> ProposedRequirement:
    scopes, certainty, why = _scopes_for(server, wish)
    category = own_category or next(iter(server.categories), server.id)
    if not own_category:
        certainty = "guessed"
        why = f"{why}; other servers have the category too"
    permissions = tuple(
        sorted(
            scope
            for scope in scopes
            if any(matches(pattern, scope) for pattern in allowed)
        )
    )
    if scopes and not permissions:
        why = f"none of its scopes is allowed: {', '.join(sorted(scopes))}"
    return ProposedRequirement(
        server=server.id,
        category=category,
        permissions=permissions,
        certainty=certainty,
        why=why,
    )


def _scopes_for(server: Server, wish: Wish) -> tuple[set[str], Certainty, str]:
    """The scopes that a wish needs, how certain they are, and the reason; no scopes if they are not known."""
    named = f"{wish.where} names it"
    unknown = _unknown_scopes(server, wish)
    if unknown:
        return set(), wish.certainty, f"{named}; {unknown} is not known"
    needs = server.tool_scopes or {}
    scopes = set(server.scopes or ())
    tools = wish.tools or tuple(needs)
    which = "every tool"
    if wish.tools:
        which = "the tools that it names"
        needed = {scope for tool in wish.tools for scope in needs[tool]}
        scopes = needed or scopes
    if not set(server.drafted).isdisjoint(tools):
        why = f"{named}; the scopes of {which} are drafted from what the server says"
        return scopes, "derived", why
    why = f"{named}; the index states the scopes of {which}"
    return scopes, wish.certainty, why


def _unknown_scopes(server: Server, wish: Wish) -> str:
    """The scopes that a wish needs and the index does not state, in words; empty if it states them all."""
    if not server.scopes:
        return "which scopes it has"
    needs = server.tool_scopes or {}
    unknown = [tool for tool in wish.tools if tool not in needs]
    if unknown:
        return f"which scopes open `{unknown[0]}`"
    return ""


def _own_category(server_id: str, pairs: Iterable[tuple[str, Sequence[str]]]) -> str:
    """A category that no other server has, best the one that is the id itself; empty if there is none."""
    own: dict[str, None] = {}
    others: set[str] = set()
    for other_id, categories in pairs:
        if other_id == server_id:
            own.update(dict.fromkeys(categories))
        else:
            others.update(categories)
    free = [category for category in own if category not in others]
    spelled = _WORD.sub("-", server_id.lower())
    return min(
        free,
        key=lambda category: (category != server_id, category != spelled, category),
        default="",
    )


def agent_file_text(
    name: str, made_by: str, requirements: Sequence[ProposedRequirement]
) -> str:
    """An agent file with these requirements. Those that cannot be stated yet are comments."""
    lines = [
        "---",
        f"# Proposed by `{made_by}`: read it, and take out what the agent does not need.",
        f"name: {json.dumps(name, ensure_ascii=False)}",
        "version: 0.1.0",
        "requires:",
        "  mcp:",
    ]
    for requirement in requirements:
        lines += _requirement_lines(requirement)
    lines += [
        "# constraints:                 rules for every server and tool; see `agent schema agents`",
        "#   data: { residency: eu-only, sensitivity: internal }",
        '#   actions: { forbid: ["delete:*"] }',
        "---",
        "",
        f"# {name}",
        "",
        "What the agent is for, and how it works, goes here.",
        "",
    ]
    return "\n".join(lines)


def _requirement_lines(requirement: ProposedRequirement) -> list[str]:
    category = json.dumps(requirement.category, ensure_ascii=False)
    # Names come from files of others: a line break in one must not add a line that
    # counts.
    comment = "".join(
        map(_space_or_sign, f"    # {requirement.certainty}: {requirement.why}")
    )
    if not requirement.permissions:
        return [comment, f"    # - category: {category}", "    #   permissions: []"]
    permissions = [
        f"        - {json.dumps(scope, ensure_ascii=False)}"
        for scope in requirement.permissions
    ]
    return [comment, f"    - category: {category}", "      permissions:", *permissions]


def _space_or_sign(sign: str) -> str:
    return sign if sign.isprintable() else " "


def missing_lines(requirement: ProposedRequirement) -> str:
    """The requirement on one line, for a person to add to an agent file."""
    values: Mapping[str, object] = {
        "category": requirement.category,
        "permissions": requirement.permissions,
    }
    return f"- {json.dumps(values, ensure_ascii=False)}"
