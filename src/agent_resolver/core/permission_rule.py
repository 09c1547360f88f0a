r"""The language of permission rules: which calls of which tools a rule is about.

    Bash                               every call of the tool
    notes.*                            tools by a pattern: `*`, `?`, `[a-z]`, `[!a-z]`, and `\` before a literal
    /^mcp__.*__delete/                 tools by a regular expression
    Bash(npm *)                        calls by a pattern for their main argument
    Edit(path ~ "src/*", n != "1")     calls by fields, all of which must hold

The signs between a field and its value are `=` (equal), `~` (pattern) and `=~` (regular expression), each with `!`
before it for the reverse. It is neither the language of tool catalogs nor that of `forbid`.
"""

import re
from typing import Final, Literal

from msgspec import Struct

MAX_RULE: Final = 1024
"""How many characters a rule may have."""
MAX_FIELDS: Final = 16
"""How many fields a rule may ask for."""
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_-]*"
# At most nine digits, so that a position is a small number however it is written.
_PLACE: Final = r"\[(?:[0-9]{1,9}|\*)\]"
_PATH: Final = rf"(?:{_NAME}|\*|{_PLACE})(?:\.(?:{_NAME}|\*)|{_PLACE})*"
_FIELD: Final = re.compile(rf'\s*(?P<path>{_PATH})\s*(?P<sign>!=~|!=|!~|=~|=|~)\s*"')
_AMBIGUOUS_CLASS: Final = re.compile(
    r"(?<!\\)\[\^?\]?(?:\\.|[^]\\])*?(?<!\\)(?:\[|--|&&|~~|\|\|)"
)
"""An opening bracket, and before the closing one a sign that has two meanings."""
_STEP: Final = re.compile(rf"{_NAME}|\*|[0-9]+")
_KINDS: Final[dict[str, "MatchKind"]] = {"=": "exact", "~": "glob", "=~": "regex"}

MatchKind = Literal["exact", "glob", "regex"]


class BadRule(ValueError):
    """A text that is not a rule, and the place in it where that shows."""

    def __init__(self, at: int, problem: str) -> None:
        super().__init__(f"parse error at {at}: {problem}")
        self.at = at


class TextMatch(Struct, frozen=True):
    """A text that another must be equal to, or follow."""

    kind: MatchKind
    text: str
    """An exact text without escapes; a pattern as it is written; a regular expression without its slashes."""


class FieldMatch(Struct, frozen=True):
    """A condition on a field of the arguments."""

    path: tuple[str, ...]
    """The way to it: names, positions in lists, and `*` for any."""
    match: TextMatch
    is_negated: bool = False


class CallMatch(Struct, frozen=True):
    """The calls that a rule is about."""

    tool: TextMatch
    main_argument: TextMatch | None = None
    fields: tuple[FieldMatch, ...] = ()


def parse_rule(text: str) -> CallMatch:
    """The calls that a rule is about.

    Raises:
        BadRule: The text is not a rule.
    """
    if len(text) > MAX_RULE:
        raise BadRule(MAX_RULE, f"a rule has at most {MAX_RULE} characters")
    # The tool is read first, since as a regular expression it may have parentheses of
    # its own.
    end = _end_of_tool(text)
    tool = _tool_match(text[:end].rstrip())
    if end == len(text):
        return CallMatch(tool)
    if not text.endswith(")"):
        raise BadRule(len(text), "the parenthesis is not closed")
    start = end + 1
    inner = text[end + 1 : -1]
    if not inner.strip():
        raise BadRule(start, "there is nothing between the parentheses")
    # A name, a sign and a quote make a field; all else is one pattern for the main
    # argument.
    if _FIELD.match(inner):
        return CallMatch(tool, fields=_field_matches(inner, start))
    return CallMatch(tool, _glob_match(inner, start))


def _end_of_tool(text: str) -> int:
    """The place where the name of the tool ends: at the parenthesis, or at the end of the rule."""
    is_regex = text.startswith("/")
    place = 1 if is_regex else 0
    while place < len(text):
        # A character behind a backslash ends nothing: `\(` and `\/` belong to the name.
        if text[place] == "\\":
            place += 2
            continue
        if is_regex and text[place] == "/":
            return _end_of_regex(text, place + 1)
        if not is_regex and text[place] == "(":
            return place
        place += 1
    if is_regex:
        raise BadRule(len(text), "the regular expression has no closing slash")
    return len(text)


def _end_of_regex(text: str, place: int) -> int:
    """The place of the parenthesis behind a regular expression, or the end of the rule."""
    rest = text[place:].lstrip()
    if rest and not rest.startswith("("):
        raise BadRule(place, "after a regular expression there is only `(`")
    return len(text) - len(rest)


def _tool_match(name: str) -> TextMatch:
    if not name.strip():
        raise BadRule(0, "it names no tool")
    if name.startswith("/"):
        return _regex_match(name[1:-1], 1)
    return _glob_match(name, 0)


def _field_matches(inner: str, start: int) -> tuple[FieldMatch, ...]:
    found: list[FieldMatch] = []
    place = 0
    while True:
        field = _FIELD.match(inner, place)
        if field is None:
            raise BadRule(start + place, 'expected a field, as `path ~ "pattern"`')
        value, place = _quoted_text(inner, field.end(), start)
        sign = field["sign"]
        match = _value_match(sign.removeprefix("!"), value, start + field.end())
        found.append(
            FieldMatch(tuple(_STEP.findall(field["path"])), match, sign.startswith("!"))
        )
        rest = inner[place:].lstrip()
        if not rest:
            return tuple(found)
        place = len(inner) - len(rest)
        if rest[0] != ",":
            raise BadRule(start + place, "expected `,` between two fields")
        if len(found) == MAX_FIELDS:
            raise BadRule(start + place, f"a rule asks for at most {MAX_FIELDS} fields")
        place += 1


def _value_match(sign: str, value: str, at: int) -> TextMatch:
    kind = _KINDS[sign]
    if kind == "exact":
        return TextMatch("exact", value)
    if kind == "glob":
        return _glob_match(value, at)
    return _regex_match(value, at)


def _quoted_text(inner: str, place: int, start: int) -> tuple[str, int]:
    """The text up to its closing quote, and the place behind that; a backslash is for a quote or another backslash."""
    characters: list[str] = []
    while place < len(inner):
        character = inner[place]
        if character == '"':
            return "".join(characters), place + 1
        # Any other backslash is kept: patterns and regular expressions have escapes of
        # their own.
        if character == "\\" and inner[place + 1 : place + 2] in {'"', "\\"}:
            place += 1
            character = inner[place]
        characters.append(character)
        place += 1
    raise BadRule(start + len(inner), "the quote is not closed")


def _regex_match(pattern: str, at: int) -> TextMatch:
    if not pattern:
        raise BadRule(at, "the regular expression is empty")
    # Python warns of these, since they may mean sets of sets one day, as they do in
    # other languages.
    if ambiguous := _AMBIGUOUS_CLASS.search(pattern):
        raise BadRule(
            at + ambiguous.start(),
            "a class in a regular expression has no `[`, `--`, `&&`, `~~` and `||`",
        )
    # This only finds faults: the judge is given an engine of its own, whose time is
    # linear.
    try:
        re.compile(pattern)
    except re.error as error:
        raise BadRule(
            at + (error.pos or 0), f"no regular expression: {error.msg}"
        ) from None
    except (OverflowError, RecursionError):
        raise BadRule(at, "no regular expression: it is too large") from None
    return TextMatch("regex", pattern)


def _glob_match(pattern: str, at: int) -> TextMatch:
    """A pattern; without a sign that stands for others, the text that it stands for."""
    # Other dialects negate a pattern by a leading `!` and list alternatives in braces,
    # so neither is taken literally.
    if pattern.startswith("!"):
        raise BadRule(
            at, "a pattern cannot be negated with `!`; write `\\!` for the character"
        )
    literal: list[str] = []
    is_literal = True
    place = 0
    while place < len(pattern):
        character = pattern[place]
        if character in "{}":
            raise BadRule(
                at + place,
                f"a pattern has no braces; write `\\{character}` for the character",
            )
        if character == "\\":
            place += 1
            if place == len(pattern):
                raise BadRule(at + place, "dangling escape")
            literal.append(pattern[place])
        elif character == "[":
            place = _end_of_class(pattern, place, at)
            is_literal = False
        elif character in "*?":
            is_literal = False
        else:
            literal.append(character)
        place += 1
    # An exact text ranks above a pattern, also where it was written with escapes.
    return (
        TextMatch("exact", "".join(literal))
        if is_literal
        else TextMatch("glob", pattern)
    )


def _end_of_class(pattern: str, opening: int, at: int) -> int:
    """The place of the bracket that closes a class of characters."""
    place = opening + 1
    if pattern[place : place + 1] in {"!", "^"}:
        place += 1
    # A bracket right at the start is one of the characters, as in shells.
    closing = pattern.find("]", place + 1)
    if closing < 0:
        raise BadRule(at + opening, "the class of characters is not closed")
    for first, last in re.findall(r"(.)-(.)", pattern[place:closing], re.DOTALL):
        if first > last:
            raise BadRule(
                at + opening, f"`{first}-{last}` is not a range of characters"
            )
    return closing
