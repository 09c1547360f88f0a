"""A Markdown page as the tests see it: headings, links, and fenced blocks with what is said about them.

A comment on a line of its own, before a block, says what the block is:

    <!-- project: NAME -->   from here on, work in a fresh copy of `projects/NAME` or `examples/NAME`; `new` is empty
    <!-- file: PATH -->      the next block is put there; unless it is `text`, it must be a valid file of its kind
    <!-- shows: PATH -->     the next block is what stands there by now
    <!-- made by: NAME -->   the next block is what the function of that name in `made.py` gives
    <!-- output -->          the next block is what the Python block before it printed
    <!-- exit: CODE -->      the last command of the next block ends like this; without it, 0
    <!-- not run: REASON --> the next block is only read

In what a command prints, `[..]` stands for what differs from run to run and must be there all the same: a time, a trace
id, the hash of a chain, the folder of a test. It stands for one word at most, without blanks, quotes and commas, and is
for such parts alone: what can be the same every time is shown. An update of the page keeps it where it still fits.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

_FENCE = re.compile(r"```(\w*)$")
_COMMENT = re.compile(r"<!-- (.*) -->$")
_DIRECTIVE = re.compile(r"(project|file|shows|made by|exit|not run): (.+)|output$")
_HEADING = re.compile(r"#{1,6} (.+)")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`[^`]*`")

_VARIES = "[..]"


class Block(Struct, frozen=True, kw_only=True):
    """A fenced block."""

    page: Path
    line: int
    """Where its fence opens, from 1."""
    language: str
    lines: tuple[str, ...]
    said: dict[str, str]
    """The directives before it: `{"exit": "1"}`."""

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


class Section(Struct, frozen=True, kw_only=True):
    """The blocks that work in one project, in order."""

    page: Path
    project: str
    blocks: tuple[Block, ...]

    def __str__(self) -> str:
        return f"{self.blocks[0].place} ({self.project or 'no project'})"


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    said: dict[str, str] = {}
    numbered = enumerate(lines, start=1)
    for number, line in numbered:
        if fence := _FENCE.match(line):
            body = []
            for _, inside in numbered:
                if inside == "```":
                    break
                body.append(inside)
            yield Block(page=page, line=number, language=fence[1], lines=tuple(body), said=said)
            said = {}
        elif comment := _COMMENT.match(line):
            said |= _directive(comment[1], f"{page.name}:{number}")
        elif line.strip() and set(said) - {"project"}:
            raise ValueError(f"{page.name}:{number}: a block must follow {said}")


def sections(page: Path) -> list[Section]:
    """The blocks of a page, parted where another project begins."""
    found: list[list[Block]] = [[]]
    for block in blocks(page):
        if "project" in block.said:
            found.append([])
        found[-1].append(block)
    return [Section(page=page, project=part[0].said.get("project", ""), blocks=tuple(part)) for part in found if part]


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """The lines outside blocks and comments, with their numbers."""
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("```"):
            inside = not inside
        elif not inside and not _COMMENT.match(line):
            yield number, line


def kept(shown: tuple[str, ...], printed: list[str]) -> list[str]:
    """What was printed, in the words of the page wherever its `[..]` stands for what differs from run to run."""
    patterns = [line for line in shown if _VARIES in line]
    lines = []
    for line in printed:
        found = next((position for position, pattern in enumerate(patterns) if _fits(pattern, line)), None)
        lines.append(line if found is None else patterns[found])
        # The page shows its lines in order, so what stands before this one is not to be found any more.
        patterns = patterns if found is None else patterns[found + 1 :]
    return lines


def _fits(pattern: str, line: str) -> bool:
    return re.fullmatch(r'[^\s",]+'.join(map(re.escape, pattern.split(_VARIES))), line) is not None


def anchors(page: Path) -> list[str]:
    """What a link to a heading of this page may end in, as GitHub makes it."""
    headings = [match[1] for _, line in prose(page) if (match := _HEADING.match(line))]
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def links(page: Path) -> Iterator[tuple[int, str]]:
    """Every link, with its line."""
    for number, line in prose(page):
        yield from ((number, match[1]) for match in _LINK.finditer(_CODE.sub("", line)))


def code_spans(page: Path) -> Iterator[tuple[int, str]]:
    """Every `span of code` in the prose, with its line."""
    for number, line in prose(page):
        yield from ((number, span[1:-1]) for span in _CODE.findall(line))


def _directive(comment: str, place: str) -> dict[str, str]:
    if comment.startswith("Generated by "):
        return {}
    found = _DIRECTIVE.match(comment)
    if not found:
        raise ValueError(f"{place}: unknown comment `{comment}`")
    return {found[1] or "output": found[2] or ""}
