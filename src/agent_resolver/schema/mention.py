"""Finds mentions of agents in Markdown: `@server:agent://name`."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

_MENTION: Final = re.compile(
    r"@(?P<server>[\w.-]+):agent://(?P<name>[^\s<>\"'`)\]}|]*)"
)
_OPENING: Final = re.compile(r"@[\w.-]+:(?=agent://)")
_FENCE: Final = re.compile(r" {0,3}(?P<mark>`{3,}|~{3,})(?P<rest>[^\r\n]*)")
_BACKTICKS: Final = re.compile(r"`+")
_SCHEME: Final = "agent://"
_TRAILING: Final = ".,;:!?"
"""Punctuation that ends a sentence, and never a name."""
_EMPHASIS: Final = f"{_TRAILING}*_~"


class Mention(Struct, frozen=True):
    """One mention of an agent in a text."""

    server: str
    """The name of the server in the reader's configuration."""
    name: str
    """The text after `agent://`, as it is written: percent-encoded, with its query if it has one."""
    start: int
    end: int

    @property
    def names(self) -> tuple[str, ...]:
        """The names it may mean, the likeliest first: what ends emphasis may also end a name."""
        plainer = self.name.rstrip(_EMPHASIS)
        if plainer == self.name:
            return (self.name,)
        return (self.name, plainer)

    @property
    def spellings(self) -> tuple[str, ...]:
        """The addresses it may mean, the likeliest first."""
        return tuple(f"{_SCHEME}{name}" for name in self.names)


def find_mentions(text: str) -> tuple[Mention, ...]:
    """The mentions in a text, in its order. Those in fenced blocks and inline code are examples, and do not count."""
    found = list(_MENTION.finditer(text))
    if not found:
        return ()
    spans = list(code_spans(text))
    starts = [start for start, _ in spans]
    mentions = []
    for match in found:
        before = bisect_right(starts, match.start()) - 1
        is_code = before >= 0 and match.start() < spans[before][1]
        if not is_code:
            name = match["name"].rstrip(_TRAILING)
            end = match.start("name") + len(name)
            mentions.append(Mention(match["server"], name, match.start(), end))
    return tuple(mentions)


def without_mentions(text: str, names: Mapping[str, str]) -> str:
    """The text without any mention, so that nothing which reads it next brings in an agent.

    A mention of one of the addresses in `names` becomes the plain name that it is mapped to. Any other, such as one in
    the answer of a model, gets a space behind its colon.
    """

    def plain_name(found: re.Match[str]) -> str:
        written: str = found["name"]
        mention = Mention("", written.rstrip(_TRAILING), 0, 0)
        for name, address in zip(mention.names, mention.spellings, strict=True):
            if address in names:
                return names[address] + written[len(name) :]
        return found[0]

    # The first pass could join two halves of a mention. The second leaves none: what it
    # inserts separates each `@server:` from the `agent://` behind it, and it removes
    # nothing.
    return _OPENING.sub(r"\g<0> ", _MENTION.sub(plain_name, text))


def code_spans(text: str) -> Iterator[tuple[int, int]]:
    """The starts and ends of code in Markdown, in its order: fenced blocks, and inline code within one line."""
    mark, begun, place = "", 0, 0
    for line in text.splitlines(keepends=True):
        fence = _FENCE.match(line)
        end = place + len(line)
        if mark:
            # A longer fence closes the block as well, but nothing may follow it.
            if fence and fence["mark"].startswith(mark) and not fence["rest"].strip():
                yield begun, end
                mark = ""
        elif fence and not (fence["mark"][0] == "`" and "`" in fence["rest"]):
            mark, begun = fence["mark"], place
        else:
            yield from _inline_code(line, place)
        place = end
    if mark:
        yield begun, place


def _inline_code(line: str, offset: int) -> Iterator[tuple[int, int]]:
    """The starts and ends of the texts between two runs of as many backticks each."""
    runs = [run.span() for run in _BACKTICKS.finditer(line)]
    closing: list[int | None] = []
    next_of_length: dict[int, int] = {}
    # From the end, so that a line of nothing but backticks takes no longer than any
    # other.
    for place in reversed(range(len(runs))):
        length = runs[place][1] - runs[place][0]
        closing.append(next_of_length.get(length))
        next_of_length[length] = place
    closing.reverse()
    place = 0
    while place < len(runs):
        end = closing[place]
        if end is not None:
            opening, closing_run = runs[place], runs[end]
            yield offset + opening[0], offset + closing_run[1]
            place = end
        place += 1
