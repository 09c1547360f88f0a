"""Front matter as people write it: what no YAML parser takes is quoted or moved, and nothing else is touched."""

import json
import re
from typing import Final

from agent_resolver.schema.source import Unreadable
from agent_resolver.schema.yaml_tree import parse_yaml

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_KEY = re.compile(r"([ \t]*)([A-Za-z_][\w.-]*):(?![^ \t\r\n])")
_ITEM = re.compile(r"([ \t]*)-(?![^ \t\r\n])")
_MARGIN = re.compile(r"[ \t]*")
_LINE_SEPARATORS = re.compile("[\x85\u2028\u2029]")
_BLOCK_SCALARS: Final = ("|", ">")
_USUAL_KEYS: Final = frozenset(
    "name description model version capabilities tools tags color role fallbacks useWhen use_when requires".split()  # noqa: SIM905
)
_SLIP: Final = 3
"""So many spaces before a key are a slip; more of them, or tabs, may be prose, so that only usual keys count there."""
_MOST_LINES: Final = 2000
"""Longer front matter is no slip of a person, and each line takes a look of its own."""
_MOST_LEVELS: Final = 3


def repaired(front_matter: str) -> str:
    """The same front matter as YAML that says what was meant, as far as that is plain.

    1. It is cut where a key starts a line.
    2. A part that is YAML by itself stays as it is.
    3. Any other is cut again where a key is pushed in by mistake, below one that has its value on its own line.
    4. In what is no YAML even so, the value becomes one quoted string, or a list of quoted strings where each line
       starts with `-`, or a text whose lines are pushed in; below a key without a value all this happens again.

    A line that no rule fits stays, so that the parser can say where it is.
    """
    return _repaired(front_matter, 1)


def _repaired(front_matter: str, level: int) -> str:
    lines = _LINE.findall(_LINE_SEPARATORS.sub(" ", front_matter))
    if len(lines) > _MOST_LINES or _is_yaml(front_matter):
        return front_matter
    blocks: list[list[str]] = []
    for line in lines:
        if not blocks or (_margin(line) == "" and _KEY.match(line)):
            blocks.append([])
        blocks[-1].append(line)
    return "".join(_mended(block, level) for block in blocks)


def _mended(block: list[str], level: int) -> str:
    whole = "".join(block)
    if not _KEY.match(block[0]) or _is_yaml(whole):
        return whole
    return "".join(_mended_part(part, level) for part in _parts(block))


def _parts(block: list[str]) -> list[list[str]]:
    parts = [block[:1]]
    for line in block[1:]:
        if _value(parts[-1][0]) and not _has_block_scalar(parts[-1][0]) and _is_pushed_in(line):
            parts.append([line.lstrip(" \t")])
        else:
            parts[-1].append(line)
    return parts


def _is_pushed_in(line: str) -> bool:
    key = _KEY.match(line)
    if key is None:
        return False
    margin = key.group(1)
    return key.group(2) in _USUAL_KEYS or ("\t" not in margin and len(margin) <= _SLIP)


def _mended_part(part: list[str], level: int) -> str:
    """A key and what is below it; blank lines and comments at its end are not its own."""
    end = len(part)
    while end > 1 and _is_aside(part[end - 1]):
        end -= 1
    return _mended_key(part[:end], level) + "".join(part[end:])


def _mended_key(part: list[str], level: int) -> str:
    whole = "".join(part)
    key = _KEY.match(part[0])
    if key is None or _is_yaml(whole):
        return whole
    value, below = _value(part[0]), part[1:]
    lines = [line for line in below if not _is_aside(line)]
    if _has_block_scalar(part[0]):
        return part[0] + _text(below)
    if value:
        text = " ".join([value, *(line.strip() for line in below if line.strip())])
        return f"{key.group()} {_quoted(text)}{_line_break(part[-1])}"
    if lines and all(map(_ITEM.match, lines)):
        return part[0] + _list(below)
    return part[0] + _nested(below, _margin(lines[0]), level) if lines and level < _MOST_LEVELS else whole


def _text(below: list[str]) -> str:
    """The lines of a text, each at least as far to the right as the first."""
    first = next((_margin(line) for line in below if line.strip()), "")
    margin = first if first and "\t" not in first else "  "
    return "".join(
        line if line.startswith(margin) or not line.strip() else margin + line.lstrip(" \t") for line in below
    )


def _nested(below: list[str], first: str, level: int) -> str:
    """The lines below a key that has keys of its own, repaired as if they stood alone."""
    margin = first if first and "\t" not in first else "  "
    alone = "".join(line[min(len(first), len(_margin(line))) :] if line.strip() else line for line in below)
    return "".join(margin + line if line.strip() else line for line in _LINE.findall(_repaired(alone, level + 1)))


def _list(below: list[str]) -> str:
    first = next(_margin(line) for line in below if not _is_aside(line))
    margin = "  " if "\t" in first else first
    return "".join(line if _is_aside(line) else _item(line, margin) for line in below)


def _item(line: str, margin: str) -> str:
    value = line.strip().removeprefix("-").strip()
    said = value if _is_yaml(f"- {value}\n") else _quoted(value)
    return f"{margin}- {said}".rstrip() + _line_break(line)


def _value(line: str) -> str:
    """What stands beside a key."""
    key = _KEY.match(line)
    return line[key.end() :].strip() if key else ""


def _has_block_scalar(line: str) -> bool:
    return _value(line).startswith(_BLOCK_SCALARS)


def _is_aside(line: str) -> bool:
    """Whether a line is blank or a comment."""
    return not line.strip() or line.lstrip(" \t").startswith("#")


def _margin(line: str) -> str:
    found = _MARGIN.match(line)
    return found.group() if found else ""


def _line_break(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _is_yaml(text: str) -> bool:
    try:
        parse_yaml(text)
    except Unreadable:
        return False
    return True


def _quoted(value: str) -> str:
    for quote in "\"'":
        if len(value) > 1 and value[0] == value[-1] == quote:
            return json.dumps(value[1:-1], ensure_ascii=False)
    is_not_closed = value.startswith('"') and value.count('"') == 1
    return json.dumps(value[is_not_closed:], ensure_ascii=False)
