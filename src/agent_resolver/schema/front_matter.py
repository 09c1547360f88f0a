"""An agent file is Markdown that opens with YAML between two `---` lines."""

import re

from msgspec import Struct

from agent_resolver.schema.issue import Issue, IssueCode
from agent_resolver.schema.limit import MAX_FRONT_MATTER_CHARACTERS
from agent_resolver.schema.source import BYTE_ORDER_MARK, unreadable

_FENCE = re.compile(r"---[ \t]*(?:\r\n?|\n|\Z)")
_FENCE_AFTER_BREAK = re.compile(rf"(?<=[\r\n]){_FENCE.pattern}")


class Document(Struct, frozen=True):
    """The two parts of an agent file."""

    front_matter: str
    """The YAML; its first line is line 2 of the file."""
    body: str


def split(text: str) -> Document | Issue:
    """The front matter and the body of an agent file, or the issue that there is no front matter.

    Raises:
        Unreadable: The front matter is not closed, or is too long.
    """
    text = text.removeprefix(BYTE_ORDER_MARK)
    opening = _FENCE.match(text)
    if opening is None:
        return _missing_front_matter(text)
    # It may stand right after the line break that ends the opening fence: empty front
    # matter is closed too.
    closing = _FENCE_AFTER_BREAK.search(text, opening.end())
    if closing is None:
        raise unreadable(
            IssueCode.FRONT_MATTER,
            "Front matter is not closed",
            hint="add a line `---` after the last key",
        )
    front_matter = text[opening.end() : closing.start()]
    if len(front_matter) > MAX_FRONT_MATTER_CHARACTERS:
        message = (
            f"Front matter is longer than {MAX_FRONT_MATTER_CHARACTERS} characters"
        )
        raise unreadable(
            IssueCode.LIMIT, message, (2, 1), hint="move prose below the second `---`"
        )
    return Document(front_matter, text[closing.end() :])


def _missing_front_matter(text: str) -> Issue:
    if not text.strip():
        message = "The file is empty"
    elif re.match(r"\s+---[ \t]*$", text, re.MULTILINE):
        message = "Front matter must start on the first line"
    else:
        message = "No front matter found"
    return Issue(
        at=(),
        code=IssueCode.FRONT_MATTER,
        message=message,
        hint="start the file with a line `---`, then the keys, then another `---`",
    )
