"""Tells the keys of front matter from prose that looks like keys, such as the dialogue in a description."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

from agent_resolver.schema.governing_key import (
    GOVERNING_KEYS,
    TOOL_LISTS,
    governing_key_faults,
)
from agent_resolver.schema.tree import Item, Mapping, Scalar

USUAL_KEYS: Final = frozenset(
    {
        *(
            "name",
            "description",
            "model",
            "version",
            "capabilities",
            "tags",
            "color",
            "role",
            "fallbacks",
            "useWhen",
        ),
        *(
            "use_when",
            "author",
            "category",
            "title",
            "icon",
            "mode",
            "skills",
            "hooks",
            "mcpServers",
            "mcp-servers",
        ),
        *(
            "permissionMode",
            "maxTurns",
            "memory",
            "temperature",
            "license",
            "metadata",
            "argument-hint",
            "target",
        ),
        *(
            "handoffs",
            "isolation",
            "background",
            "effort",
            "user-invocable",
            "disable-model-invocation",
        ),
        *GOVERNING_KEYS,
        *TOOL_LISTS,
    }
)
"""The keys that agent files of this and other tools have."""
TEXT_KEYS: Final = frozenset(
    {"description", "useWhen", "use_when", "whenToUse", "when_to_use"}
)
"""The keys whose values people write as prose, over many lines and with examples."""
_SPEAKERS: Final = frozenset(
    {
        *(
            "user",
            "assistant",
            "human",
            "agent",
            "ai",
            "bot",
            "system",
            "context",
            "commentary",
            "comment",
            "example",
        ),
        *(
            "examples",
            "input",
            "output",
            "question",
            "answer",
            "response",
            "request",
            "result",
            "note",
            "notes",
        ),
        *("important", "warning", "tip", "reasoning", "thinking", "rationale"),
    }
)
"""Words before a colon that open a line of dialogue or a remark."""
_PLAIN_KEY = re.compile(r"[a-z_$][\w.$-]*")
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)>")


def keys_in_text(
    lines: Sequence[str], key_of: Callable[[str], str | None]
) -> list[bool]:
    """For each line, true if it starts a key rather than going on with the prose of the text key above it.

    Below a text key a usual key always counts, unless a tag such as `<example>` is open. Any other key counts only as
    long as nothing but keys has followed: it must be one plain word in lower case, given once, and not a speaker's.

    Args:
        lines: The lines of the front matter.
        key_of: Finds the key that a line at the margin starts with; None for any other line.
    """
    keys = list(map(key_of, lines))
    count = Counter(keys)
    is_in_text = False
    has_prose = False
    found = []
    for line, key, is_in_tag in zip(lines, keys, _lines_in_tags(lines), strict=True):
        is_key = key is not None
        if key is not None and is_in_text:
            may_be_key = not has_prose and count[key] == 1 and _may_be_key(key)
            is_key = not is_in_tag and (may_be_key or is_usual(key))
        if is_key:
            is_in_text = key in TEXT_KEYS
            has_prose = False
        elif line[:1] not in {"", " ", "\t", "\r", "\n", "#"}:
            has_prose = True
        found.append(is_key)
    return found


def is_usual(key: str) -> bool:
    """True for a key that agent files have, or for a slip of one that limits what an agent may do."""
    if key in USUAL_KEYS:
        return True
    item = Item(key, 1, 1, Scalar("", 1, 1))
    # Prose swallows no limit: rather a key too many than an agent that may do more than
    # was meant.
    return any(governing_key_faults(Mapping((item,), 1, 1)))


def _may_be_key(key: str) -> bool:
    return key.casefold() not in _SPEAKERS and _PLAIN_KEY.fullmatch(key) is not None


def _lines_in_tags(lines: Sequence[str]) -> list[bool]:
    """For each line, true if a tag that was opened on an earlier line is closed on this line or later."""
    steps = [0] * (len(lines) + 1)
    starts: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        for is_closing, name in _TAG.findall(line):
            if not is_closing:
                starts.setdefault(name, []).append(number)
            elif starts.get(name):
                steps[starts[name].pop()] += 1
                steps[number] -= 1
    # The sum up to a line counts the tags that are open at its end; those at the end of
    # the line before matter.
    return [depth > 0 for depth in (0, *accumulate(steps))][: len(lines)]
