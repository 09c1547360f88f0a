"""The keys of an agent file that say what its agent may do. One that is overlooked would allow more than was meant.

There are two readers. Where an agent file governs a project, its keys are known and anything like a slip is refused. An
agent file of the catalog may have been written for another tool, whose keys are not ours to judge: there, only a key
that is almost one of these, or one of these in the wrong place, is refused.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from msgspec import structs

from agent_resolver.schema.issue import Issue, IssueCode, Severity, only_errors
from agent_resolver.schema.tree import Item, Mapping, Scalar, located

GOVERNING_KEYS: Final = ("constraints", "requires", "runtime", "trust")
ALLOW_LISTS: Final = ("tools", "allowed-tools", "allowed_tools", "allowedTools")
"""How agent files of this and other tools spell the list of the tools that an agent may call."""
DENY_LISTS: Final = (
    *("disallowedTools", "disallowed-tools", "disallowed_tools"),
    *("excluded_tools", "excluded-tools", "excludedTools"),
    *("exclude_tools", "exclude-tools", "excludeTools"),
)
"""How they spell the list of the tools that an agent may not call."""
TOOL_LISTS: Final = (*ALLOW_LISTS, *DENY_LISTS)

RESOLVER_PLACES: Final = {
    "residency": "constraints.data.residency",
    "sensitivity": "constraints.data.sensitivity",
    "forbid": "constraints.actions.forbid",
    "requireSigned": "constraints.trust.requireSigned",
    "data": "constraints.data",
    "actions": "constraints.actions",
    "permissions": "requires.mcp[].permissions",
}
"""The keys that decide what is locked, each with its place."""
SECTIONS: Final = ("data", "actions")
"""Those of them that hold other keys: with any other value, a key of this name at the top has another meaning."""
BELOW_PLACES: Final = {
    "category": "requires.mcp[].category",
    "mcp": "requires.mcp",
    "trust": "constraints.trust",
}
"""Keys that other tools have at the top, with a meaning of their own; below a key of ours they can only be ours."""
_RUNTIME_PLACES: Final = {
    **{
        name: f"runtime.{name}"
        for name in (
            *(
                "delegates",
                "max_rounds",
                "max_continuation_retries",
                "stop_conditions",
                "context_policy",
            ),
            *(
                "plugin_ids",
                "active_hook_filter",
                "allowed_tool_patterns",
                "excluded_tool_patterns",
                "sections",
            ),
        )
    },
    "permission": "runtime.sections.permission",
}
"""The keys that decide how an agent runs, each with its place."""

_MERGE_KEY: Final = "<<"
"""Has no meaning in YAML 1.2; a file that relies on it has keys that nothing reads."""
_NEAR: Final = 0.86
"""How alike a key must be to be a slip and not another word."""
_NEAR_TOOLS: Final = 0.8
"""The same for lists of tools, whose names are short."""
_LONGEST_KEY: Final = 100
"""Nothing longer is a slip, and what was compared is kept for the next file."""
_SHORTEST_SLIP: Final = 6
"""Among shorter names, slips are other words: `date` is not `data`."""
_READ_KEYS: Final = frozenset({*GOVERNING_KEYS, *TOOL_LISTS, "model"})
_USUAL_KEYS: Final = frozenset(
    "name description version capabilities tags role fallbacks useWhen use_when color icon mode title author".split()  # noqa: SIM905
)
"""Keys that govern nothing: looked at first, since a catalog has many files, and none of them is a slip."""
_DENIALS: Final = (
    "ban",
    "block",
    "deni",
    "deny",
    "disable",
    "disallow",
    "exclu",
    "forbid",
    "prohibit",
    "without",
)
_ALLOWANCES: Final = ("allow", "filter", "list", "permi", "restrict")
"""Words in keys that other tools may have for lists of tools."""
_LOOK_ALIKES: Final = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0455\u0458\u0501\u0261\u04cf\u0442\u043a\u043c\u043d\u0432\u0131\u0251"
    "\u03b1\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c3\u03c4\u03c5\u057d\u057801",
    "aeopcyxisjdgltkmhbiaaeikvopotuunol",
)
"""Cyrillic, Greek and Armenian letters, and digits, that look like a letter of ours."""


def governing_faults(issues: Iterable[Issue]) -> list[Issue]:
    """The errors among the issues of an agent file, and each unknown key that may be a misspelt one as an error.

    Unknown keys below a governing key always may be; others only where the issue has a hint at a known key.
    """
    issues = tuple(issues)
    unknown = (issue for issue in issues if issue.code is IssueCode.UNKNOWN_KEY)
    misspelt = [
        issue for issue in unknown if issue.at[0] in GOVERNING_KEYS or issue.hint
    ]
    refused = [
        structs.replace(issue, severity=Severity.ERROR, message="Unknown key")
        for issue in misspelt
    ]
    return [*only_errors(issues), *refused]


def governing_key_faults(front_matter: Mapping) -> Iterator[Issue]:
    """The governing keys that are given twice, misspelt, or in the wrong place."""
    for item in front_matter.items:
        if item.key in _USUAL_KEYS:
            continue
        if item.key in _READ_KEYS:
            count = sum(other.key == item.key for other in front_matter.items)
            if count > 1:
                issue = located(item, IssueCode.DUPLICATE_KEY, "Duplicate key")
                yield issue.within(item.key)
        elif place := _right_place(item):
            issue = _misplaced(located(item, IssueCode.MISPLACED_KEY, ""), place)
            yield issue.within(item.key)
        elif hint := _meant_key(item):
            issue = located(item, IssueCode.UNKNOWN_KEY, "Unknown key", hint=hint)
            yield issue.within(item.key)


def place_keys(front_matter: Mapping, issues: Iterable[Issue]) -> Iterator[Issue]:
    """The issues of an agent file as the resolver reads it, each unknown key with what it was meant to be.

    A known spelling of a list of tools is not unknown. A key that decides what is locked is refused where it would have
    no effect.
    """
    top = {item.key: item for item in front_matter.items}
    for issue in issues:
        if issue.code is not IssueCode.UNKNOWN_KEY:
            yield issue
        elif len(issue.at) > 1:
            yield place_below(issue)
        elif issue.at[0] not in TOOL_LISTS:
            yield _place_at_top(issue, top[str(issue.at[0])])


def place_below(issue: Issue) -> Issue:
    """The issue of an unknown key below a governing key; where another place is right, an error that names it."""
    *steps, key = issue.at
    place = _BY_FOLDED_NAME.get(fold(str(key)), "")
    # A place puts the brackets of a list right behind the name of the list.
    above = ".".join(map(_spell_step, steps)).replace(".[]", "[]")
    is_misspelt = place.rpartition(".")[0] in {above, f"constraints.{above}"}
    return issue if not place or is_misspelt else _misplaced(issue, place)


def _spell_step(step: str | int) -> str:
    """One step to a key, as places spell it: `[]` for an element of a list."""
    return "[]" if isinstance(step, int) else step


def fold(key: str) -> str:
    """A key without what a reader overlooks: capitals, separators, marks, and letters of look-alike scripts."""
    if not key.isascii():
        import unicodedata  # Slow to load, and few keys need it.

        key = unicodedata.normalize("NFKD", key)
    letters = key.casefold().translate(_LOOK_ALIKES)
    return "".join(letter for letter in letters if letter.isalnum())


_BY_FOLDED_NAME: Final = {
    fold(name): place for name, place in {**RESOLVER_PLACES, **BELOW_PLACES}.items()
}
_FOLDED_RUNTIME: Final = {fold(name): place for name, place in _RUNTIME_PLACES.items()}
_FOLDED_TOOL_LISTS: Final = {fold(name): name for name in reversed(TOOL_LISTS)}
_LONG_NAMES: Final = {
    **{
        name: place
        for name, place in {**_FOLDED_RUNTIME, **_BY_FOLDED_NAME}.items()
        if len(name) >= _SHORTEST_SLIP and name not in {*BELOW_PLACES, *SECTIONS}
    },
    "forbidden": RESOLVER_PLACES["forbid"],
    "dataresidency": RESOLVER_PLACES["residency"],
    "datasensitivity": RESOLVER_PLACES["sensitivity"],
}


def _place_at_top(issue: Issue, item: Item) -> Issue:
    place = _right_place(item)
    if place and not place.startswith("runtime."):
        return _misplaced(issue, place)
    # The walker takes any word for a slip of one so short.
    suggested = "" if "`trust`" in issue.hint else issue.hint
    hint = f"write it as `{place}`" if place else _meant_key(item)
    return structs.replace(issue, hint=hint or suggested)


def _misplaced(issue: Issue, place: str) -> Issue:
    hint = f"write it as `{place}`"
    message = "Has no effect here"
    return structs.replace(
        issue,
        code=IssueCode.MISPLACED_KEY,
        severity=Severity.ERROR,
        message=message,
        hint=hint,
    )


def _right_place(item: Item) -> str:
    """The place of a key that is at the top of the front matter and does not belong there, or nothing."""
    name = fold(item.key)
    if name in BELOW_PLACES or (
        name in SECTIONS and not isinstance(item.value, Mapping)
    ):
        return ""
    return _BY_FOLDED_NAME.get(name) or _FOLDED_RUNTIME.get(name, "")


def _meant_key(item: Item) -> str:
    """A hint at the governing key that a key at the top was meant to be, or nothing."""
    if item.key == _MERGE_KEY:
        return "write out the keys that it stands for"
    meant = _nearest_key(item.key) if len(item.key) <= _LONGEST_KEY else ""
    if not meant or (meant in TOOL_LISTS and not _may_list_tools(item)):
        return ""
    return f"did you mean `{meant}`?"


@lru_cache(1024)  # Most files of a catalog have the same few keys.
def _nearest_key(key: str) -> str:
    """The governing key, or its place, that a key at the top was meant to be; nothing for any other key."""
    name = fold(key)
    if sorted(name) == sorted("model"):
        return "model"
    return (
        _find_near(name, {key: key for key in GOVERNING_KEYS}, _NEAR)
        or _find_near(name, _FOLDED_TOOL_LISTS, _NEAR_TOOLS)
        or _kind_of_tool_list(name)
        or _find_near(name, _LONG_NAMES, _NEAR)
    )


def _find_near(name: str, known: dict[str, str], cutoff: float) -> str:
    from difflib import get_close_matches  # Slow to import, and rarely needed.

    near = get_close_matches(name, known, 1, cutoff)
    return known[near[0]] if near else ""


def _may_list_tools(item: Item) -> bool:
    """False for a number, such as that of `max_tools`."""
    return not isinstance(item.value, Scalar) or isinstance(
        item.value.value, str | bool | None
    )


def _kind_of_tool_list(name: str) -> str:
    """The list of tools that a key which speaks of tools was meant to be; nothing for any other key.

    A list that shuts tools is never taken for one that opens them.
    """
    is_list = name.startswith("tools") or name.endswith(
        ("tool", "tools", "toolset", "toolsets")
    )
    is_denial = any(word in name for word in _DENIALS)
    if is_list or (
        name.startswith("tool")
        and (is_denial or any(word in name for word in _ALLOWANCES))
    ):
        return "disallowedTools" if is_denial else "tools"
    return ""
