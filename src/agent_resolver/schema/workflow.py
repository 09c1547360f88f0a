"""A workflow: Markdown whose headings are the steps, each with a mention of the agents that take it."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from agent_resolver.schema.errors import InvalidWorkflow
from agent_resolver.schema.front_matter import Document, split
from agent_resolver.schema.issue import Issue, IssueCode
from agent_resolver.schema.limit import (
    MAX_WORKFLOW_HEADING,
    MAX_WORKFLOW_STEPS,
    MAX_WORKFLOW_TEXT,
)
from agent_resolver.schema.mention import Mention, find_mentions
from agent_resolver.schema.source import BYTE_ORDER_MARK, Lines, Unreadable, decode
from agent_resolver.schema.vocabulary import CONTROL_CHARACTERS

_LINE_BREAK: Final = re.compile(r"\r\n?")
_CONTROL: Final = re.compile(f"(?![\t\n])[{CONTROL_CHARACTERS}]")
_HEADING: Final = re.compile(
    r"^ {0,3}(?P<marks>#{1,6})(?=[ \t]|$)(?P<words>.*)$", re.MULTILINE
)
# The information behind backticks has none itself: "```a``` b" is a line of text.
_UNREAD: Final = re.compile(
    r"^ {0,3}(?P<fence>`{3,}(?![^\n]*`)|~{3,}).*?(?P<closed>^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|<!--.*?(?P<ended>-->|\Z)",
    re.DOTALL | re.MULTILINE,
)
"""A block of code or a comment: a heading or a mention in there is an example, or was taken out."""
_VISIBLE: Final = re.compile(r"[^\n]")
_HINT: Final = "mention one like this: `@server:agent://name`"
_SHOWN: Final = 60
"""The number of characters of a heading that an issue shows."""


class WorkflowStep(Struct, frozen=True, kw_only=True):
    """One step: what is to do, and the agent that does it."""

    number: int
    heading: str
    text: str
    """The text below the heading; here and in the heading, mentions are plain names."""
    agent: str
    """The agent's id; where the mention asks for a version, its address with that."""
    line: int


class WorkflowSteps(Struct, frozen=True, kw_only=True):
    """A workflow as it began: it goes on by these steps, also if its file or the mentions in it change."""

    title: str
    """The heading at level 1 of its file; may be empty."""
    file: str
    """The whole path of its file."""
    digest: str
    """The digest of the file as it was read."""
    steps: tuple[WorkflowStep, ...]


class SectionMention(Struct, frozen=True):
    """A mention of an agent below a heading, and its place in the file."""

    mention: Mention
    line: int
    column: int


class WorkflowSection(Struct, frozen=True, kw_only=True):
    """A heading, the text below it, and the agents that both mention; the text is as it was written."""

    heading: str
    text: str
    line: int
    mentions: tuple[SectionMention, ...]

    @property
    def at(self) -> tuple[str, ...]:
        """The place of an issue about it."""
        return (self.heading[:_SHOWN],)


class Workflow(Struct, frozen=True, kw_only=True):
    """The parts of a workflow, each with at least one mention of an agent."""

    title: str
    """The heading at level 1 that the file begins with; may be empty."""
    sections: tuple[WorkflowSection, ...]


def parse_workflow(raw: bytes) -> Workflow:
    """The workflow that a file holds.

    Front matter is passed over. A first heading at level 1 is the title; every other heading begins a section. What is
    in a block of code or in a comment counts neither as a heading nor as a mention.

    Raises:
        InvalidWorkflow: With every fault, each with its place.
    """
    try:
        text = _LINE_BREAK.sub("\n", decode(raw)).removeprefix(BYTE_ORDER_MARK)
        body = _without_front_matter(text)
    except Unreadable as stop:
        raise InvalidWorkflow([stop.issue]) from None
    source = _Source(text, len(text) - len(body))
    workflow = source.read_workflow()
    if source.issues:
        raise InvalidWorkflow(
            sorted(source.issues, key=lambda issue: (issue.line, issue.column))
        )
    return workflow


def _without_front_matter(text: str) -> str:
    document = split(text)
    return document.body if isinstance(document, Document) else text


class _Source:
    """The text of a workflow, and the faults that were found in it."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._start = start
        """The place in the text at which the front matter ends."""
        self._lines = Lines(text)
        self.issues: list[Issue] = []

    def read_workflow(self) -> Workflow:
        """All sections, as far as they can be read; what is wrong with them is in `issues`."""
        if control := _CONTROL.search(self._text):
            message = (
                f"Must not contain control characters, found U+{ord(control[0]):04X}"
            )
            self._note(
                IssueCode.CONTROL_CHARACTER, message, control.start(), hint="remove it"
            )
        readable = self._readable_text()
        headings = list(_HEADING.finditer(readable, self._start))
        has_title = bool(headings) and headings[0]["marks"] == "#"
        title = self._heading_text(headings[0]) if has_title else ""
        steps = headings[1:] if has_title else headings
        end_of_preface = steps[0].start() if steps else len(readable)
        self._check_preface(readable, end_of_preface)
        if not steps:
            message = "No heading below the title" if title else "No heading"
            self._note(
                IssueCode.REQUIRED,
                message,
                self._start,
                hint="begin each step with a line such as `## Analysis`",
            )
        return Workflow(title=title, sections=tuple(self._sections(readable, steps)))

    def _readable_text(self) -> str:
        """The text with spaces in place of code and comments, so that every place in it stays the same."""

        def blank(found: re.Match[str]) -> str:
            place = self._start + found.start()
            # One that is left open hides every step behind it.
            if found["fence"] and not found["closed"]:
                self._note(
                    IssueCode.SYNTAX,
                    "The block of code is not closed",
                    place,
                    hint="close it",
                )
            if not found["fence"] and not found["ended"]:
                self._note(
                    IssueCode.SYNTAX,
                    "The comment is not closed",
                    place,
                    hint="close it with `-->`",
                )
            return _VISIBLE.sub(" ", found[0])

        front_matter = self._text[: self._start]
        body = self._text[self._start :]
        return front_matter + _UNREAD.sub(blank, body)

    def _check_preface(self, readable: str, end: int) -> None:
        """A mention that no step has would be passed over in silence."""
        for mention in islice(find_mentions(readable[:end]), MAX_WORKFLOW_STEPS):
            message = "An agent is mentioned above the first step"
            self._note(
                IssueCode.SYNTAX,
                message,
                mention.start,
                hint="mention it below a heading such as `## Analysis`",
            )

    def _sections(
        self, readable: str, headings: list[re.Match[str]]
    ) -> Iterator[WorkflowSection]:
        starts = [heading.start() for heading in headings]
        ends = [*starts[1:], len(readable)]
        count = 0
        for heading, end in zip(headings, ends, strict=False):
            section = self._section(readable, heading, end)
            count += max(1, len(section.mentions))
            if count > MAX_WORKFLOW_STEPS:
                # What follows is not looked at: of a thousand headings, each might have
                # its own fault.
                message = f"A workflow has at most {MAX_WORKFLOW_STEPS} steps"
                self._note(
                    IssueCode.LIMIT,
                    message,
                    heading.start(),
                    hint="make two workflows of it",
                )
                return
            self._check_section(section, heading.start())
            yield section

    def _section(
        self, readable: str, heading: re.Match[str], end: int
    ) -> WorkflowSection:
        line, _ = self._lines.place(heading.start())
        mentions = find_mentions(readable[heading.start() : end])
        return WorkflowSection(
            heading=self._heading_text(heading),
            text=self._text[heading.end() : end].strip(),
            line=line,
            mentions=tuple(
                self._placed(mention, heading.start()) for mention in mentions
            ),
        )

    def _placed(self, mention: Mention, start: int) -> SectionMention:
        return SectionMention(mention, *self._lines.place(start + mention.start))

    def _check_section(self, section: WorkflowSection, start: int) -> None:
        if not section.heading:
            self._note(
                IssueCode.EMPTY,
                "The heading has no words",
                start,
                hint="say what the step is about",
            )
        if not section.mentions:
            self._note(
                IssueCode.REQUIRED,
                "No agent is mentioned",
                start,
                hint=_HINT,
                at=section.at,
            )
        if len(section.text) > MAX_WORKFLOW_TEXT:
            message = f"The text of a step has at most {MAX_WORKFLOW_TEXT:,} characters"
            self._note(
                IssueCode.LIMIT,
                message,
                start,
                hint="make two steps of it",
                at=section.at,
            )

    def _heading_text(self, heading: re.Match[str]) -> str:
        """The words of a heading, without the `#` that may end it."""
        words = heading["words"].strip()
        opened = words.rstrip("#")
        is_ended = not opened or opened.endswith((" ", "\t"))
        text = opened.rstrip() if is_ended else words
        if len(text) > MAX_WORKFLOW_HEADING:
            message = f"A heading has at most {MAX_WORKFLOW_HEADING} characters"
            self._note(
                IssueCode.LIMIT, message, heading.start(), hint="move the rest below it"
            )
        return text

    def _note(
        self,
        code: IssueCode,
        message: str,
        offset: int,
        *,
        hint: str,
        at: tuple[str, ...] = (),
    ) -> None:
        line, column = self._lines.place(offset)
        self.issues.append(
            Issue(
                at=at, code=code, message=message, hint=hint, line=line, column=column
            )
        )
