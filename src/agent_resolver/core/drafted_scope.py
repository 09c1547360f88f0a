"""Scopes drafted from what a server says of its tools, and an index entry with the definitions of its tools pinned.

A draft is a proposal: it is listed under `drafted` until a person confirms it. A server may lie about its tools, so the
rule errs on the strict side: what a server does not say has the protocol's default, which is the stricter value, and
hints that contradict each other count as the stricter one.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from agent_resolver.core.tool_definition import definition_digest
from agent_resolver.schema.vocabulary import SEPARATORS

_UNFIT: Final = re.compile(rf"[\s{SEPARATORS}]+")

Value = TypeVar("Value")
Entry = Mapping[str, Any]
"""An entry of an index as it is written."""


def draft_scopes(definition: Mapping[str, Any], subject: str) -> tuple[str, ...]:
    """The scopes that a tool should need, by its annotations.

    1. `read:` if it only reads: `readOnlyHint` is true, and nothing says that it destroys.
    2. `write:` if it changes something and destroys nothing: `destructiveHint` is false.
    3. `delete:` otherwise, and so without any annotation.
    4. `network:` as well, unless `openWorldHint` is false.

    Args:
        definition: The tool as its server lists it.
        subject: What the tools are about: the part of the scope after the colon.
    """
    annotations = definition.get("annotations")
    hints = annotations if isinstance(annotations, Mapping) else {}
    destroys = hints.get("destructiveHint")
    # A server may send any JSON value for a hint, and only a real `true` or `false`
    # counts.
    if hints.get("readOnlyHint") is True and destroys is not True:
        verb = "read"
    elif destroys is False and hints.get("readOnlyHint") is not True:
        verb = "write"
    else:
        verb = "delete"
    reach = () if hints.get("openWorldHint") is False else (f"network:{subject}",)
    return (f"{verb}:{subject}", *reach)


def scope_subject(entry: Entry) -> str:
    """The subject of a server's drafted scopes: its first category, else its id."""
    categories = entry.get("categories") or (entry["id"],)
    return _UNFIT.sub("-", categories[0])


def with_pins(
    entry: Entry,
    found: Mapping[str, Mapping[str, Any] | None],
    confirmed: Collection[str] = (),
) -> dict[str, Any]:
    """An entry with the digests of these tools, and drafted scopes for those whose scopes no person has stated.

    Args:
        entry: The entry as it is written; keys that are not known here stay as they are.
        found: The definition of each tool, None for one that is gone. Tools that are not named stay as they are.
        confirmed: The tools whose scopes the overlay states.
    """
    gone = {tool for tool, definition in found.items() if definition is None}
    stated, drafts = _divided_scopes(entry)
    digests = dict(entry.get("tools", {}))
    for tool, definition in found.items():
        if definition is None:
            continue
        digests[tool] = definition_digest(definition)
        # A draft is made again from the new definition; scopes that a person has stated
        # stay as they are.
        is_confirmed = tool in stated or (tool in confirmed and tool not in drafts)
        if not is_confirmed:
            subject = scope_subject(entry)
            drafts[tool] = list(draft_scopes(definition, subject))
    drafts = _sorted_without(drafts, gone)
    changed = {
        "tools": _sorted_without(digests, gone),
        "scopes": _scopes_with(drafts, entry.get("scopes", [])),
        "toolScopes": {**stated, **drafts},
        "drafted": list(drafts),
    }
    result = _changed_entry(entry, changed)
    if not drafts:
        result.pop("drafted", None)
    return result


def _changed_entry(entry: Entry, changed: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with these values, without a new key for what is empty."""
    result = dict(entry)
    for key, value in changed.items():
        # An empty list of scopes would say that there are none, where nothing is known.
        # No tools is an answer, too.
        is_known = value or key == "tools"
        if is_known or key in entry:
            result[key] = value
    return result


def _sorted_without(
    values: Mapping[str, Value],
    gone: Collection[str],
) -> dict[str, Value]:
    """The values of the tools that are still there, by name."""
    return {tool: values[tool] for tool in sorted(values) if tool not in gone}


def _scopes_with(drafts: Mapping[str, list[str]], offered: list[str]) -> list[str]:
    """The scopes that a server offers, and behind them those that only drafts need."""
    needed = set[str]().union(*drafts.values())
    unlisted = needed.difference(offered)
    return [*offered, *sorted(unlisted)]


def _divided_scopes(entry: Entry) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The scopes of tools that a person stated, and those that were drafted."""
    drafted = entry.get("drafted", ())
    stated: dict[str, list[str]] = {}
    drafts: dict[str, list[str]] = {}
    for tool, scopes in entry.get("toolScopes", {}).items():
        side = drafts if tool in drafted else stated
        side[tool] = list(scopes)
    return stated, drafts
