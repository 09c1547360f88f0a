"""Bounds what a planner reads: a few passages of documents, and how systems are in one short paragraph.

Documents are as long as their authors like. Without a bound, a task would fail for the size of its prompt and not for
a reason that a person could act on.
"""

import re
from collections.abc import Sequence
from typing import Final

from agent_resolver.core.shorten import shorten
from agent_resolver.core.token_estimate import (
    BYTES_PER_TOKEN,
    estimate_text,
    size_of_text,
)
from agent_resolver.reasoner.port import HEALTH_STATES, HealthReport
from agent_resolver.schema.planning import Snippet

MAX_SNIPPETS: Final = 5
MAX_SNIPPET_TOKENS: Final = 1_200
"""The most tokens of all snippets of a task together, their sources included."""
MAX_HEALTH_CHARACTERS: Final = 500

_MAX_SOURCE: Final = 200
_MAX_SYSTEM: Final = 60
_MAX_STATEMENT: Final = 120
_LOOKED_AT: Final = 4
"""How many times the budget is looked at in a document: blanks that are left out make room for more of its words."""
_ELLIPSIS: Final = "…"
_SENTENCE_END: Final = re.compile(r"[.!?](?= )")


def measured_snippet(source: str, text: str) -> Snippet:
    """A passage with its tokens, as they are estimated for the budget: those of its source and of its text."""
    return Snippet(
        source=source, text=text, tokens=estimate_text(source) + estimate_text(text)
    )


def bounded_snippets(
    snippets: Sequence[Snippet],
    max_snippets: int = MAX_SNIPPETS,
    max_tokens: int = MAX_SNIPPET_TOKENS,
) -> tuple[Snippet, ...]:
    """The first snippets, cut so that all of them together take no more than `max_tokens`.

    1. An empty snippet and one that repeats another are left out, and so are those after the first `max_snippets`.
    2. Each has the same share of the tokens. What a short one leaves of its share goes to the longer ones.
    3. A longer one keeps its beginning: whole sentences if they fill half of the room, else whole words. It is on one
       line, and ends with `…`.

    The tokens are estimated here: what an adapter says of them is not relied on.
    """
    candidates = (_on_one_line(snippet, max_tokens) for snippet in snippets)
    # Of equal passages the first is kept, and with it the order of relevance.
    distinct = list(dict.fromkeys(snippet for snippet in candidates if snippet.text))[
        : max(0, max_snippets)
    ]
    shares = _shares([snippet.tokens for snippet in distinct], max_tokens)
    cut = (
        _cut_snippet(snippet, share)
        for snippet, share in zip(distinct, shares, strict=True)
    )
    return tuple(snippet for snippet in cut if snippet is not None)


def health_summary(
    reports: Sequence[HealthReport], max_characters: int = MAX_HEALTH_CHARACTERS
) -> str:
    """Summarizes the health of systems, the worst first, in at most `max_characters`; the rest is counted.

    A state that is not one of the four counts as `unknown`.
    """
    ranked = sorted(
        reports, key=lambda report: HEALTH_STATES.index(_known_state(report))
    )
    statements = list(map(_statement, ranked))
    # All statements are tried first, then one fewer each time, until what is left and
    # its count fit.
    for count in range(len(statements), 0, -1):
        left_out = len(statements) - count
        parts = statements[:count] + ([f"{left_out} more"] if left_out else [])
        if len(summary := "; ".join(parts)) <= max_characters:
            return summary
    # Not even the worst state fits as a whole, and its beginning says more than
    # nothing.
    return (
        shorten("; ".join(statements), max_characters)
        if statements and max_characters > 0
        else ""
    )


def _on_one_line(snippet: Snippet, max_tokens: int) -> Snippet:
    """The snippet without its line breaks; of a document without end, only as much is looked at as could be kept."""
    looked_at = snippet.text[: max(0, max_tokens) * BYTES_PER_TOKEN * _LOOKED_AT]
    text = " ".join(looked_at.split())
    source = shorten(snippet.source[: _MAX_SOURCE * _LOOKED_AT], _MAX_SOURCE)
    return measured_snippet(source, text)


def _shares(sizes: Sequence[int], budget: int) -> list[int]:
    """The share of a budget for each of several sizes: all of the size, or an equal part of what smaller ones left."""
    shares = [0] * len(sizes)
    left = budget
    # The smallest come first, so that what they leave of their share goes to the larger
    # ones.
    smallest_first = sorted(range(len(sizes)), key=lambda place: (sizes[place], place))
    for rank, place in enumerate(smallest_first):
        shares[place] = min(sizes[place], left // (len(sizes) - rank))
        left -= shares[place]
    return shares


def _cut_snippet(snippet: Snippet, share: int) -> Snippet | None:
    """The snippet within its share of the tokens; None if the share is too small for any of its words."""
    if snippet.tokens <= share:
        return snippet
    of_source = estimate_text(snippet.source)
    text = _cut_text(snippet.text, (share - of_source) * BYTES_PER_TOKEN)
    return measured_snippet(snippet.source, text) if text else None


def _cut_text(line: str, max_bytes: int) -> str:
    """The beginning of a line that does not fit, in at most `max_bytes` of UTF-8; empty if there is no room."""
    room = max_bytes - size_of_text(_ELLIPSIS)
    if room <= 0:
        return ""
    # The cut may split a character of several bytes: `ignore` drops its first half.
    start = line.encode("utf-8", "surrogatepass")[:room].decode("utf-8", "ignore")
    # The text goes on after the cut, so a sentence or a word is whole only if a blank
    # follows it in the text.
    reach = line[: len(start) + 1]
    ends = [found.end() for found in _SENTENCE_END.finditer(reach)]
    if ends and ends[-1] * 2 >= len(start):
        return f"{reach[: ends[-1]]}{_ELLIPSIS}"
    words, _, _ = reach.rpartition(" ")
    kept = words or start
    return f"{kept}{_ELLIPSIS}" if kept else ""


def _known_state(report: HealthReport) -> str:
    return report.state if report.state in HEALTH_STATES else "unknown"


def _statement(report: HealthReport) -> str:
    state = _known_state(report)
    system = shorten(report.system, _MAX_SYSTEM)
    summary = shorten(report.summary, _MAX_STATEMENT)
    return f"{system} is {state} ({summary})" if summary else f"{system} is {state}"
