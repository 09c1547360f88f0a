"""Front matter as people write it: what no YAML parser takes is quoted or moved, and nothing else is touched."""

import json
import re
from collections import Counter
from typing import Final

from agent_resolver.catalog.prose import TEXT_KEYS, is_usual, keys_in_text
from agent_resolver.catalog.strict_yaml import is_indented, is_strict_mapping
from agent_resolver.schema.source import Unreadable
from agent_resolver.schema.tree import Mapping, Node
from agent_resolver.schema.yaml_tree import parse_yaml

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_KEY = re.compile(
    r"""([ \t]*)("(?:[^"\\\r\n]|\\[^\r\n])*"|'(?:[^'\r\n]|'')*'|[A-Za-z_][\w.-]*)[ \t]*:(?![^ \t\r\n])"""
)
_WORDS_AS_KEY = re.compile(
    r"()([\w$/~](?:[^:#\r\n]|:(?=[^ \t\r\n])|(?<=[^ \t])#)*):(?![^ \t\r\n])"
)
"""A key that holds blanks; only at the margin, since prose that is pushed in looks the same."""
_ITEM = re.compile(r"([ \t]*)-(?![^ \t\r\n])")
_MARGIN = re.compile(r"[ \t]*")
_LINE_SEPARATORS = re.compile("[\x85\u2028\u2029]")
_BLOCK_SCALARS: Final = ("|", ">")
_TIGHT_KEYS: Final = (
    *(
        "name",
        "description",
        "model",
        "version",
        "capabilities",
        "tools",
        "tags",
        "color",
        "role",
        "fallbacks",
    ),
    *("useWhen", "use_when", "requires"),
)
_TIGHT_KEY = re.compile(rf"({'|'.join(_TIGHT_KEYS)}):(?=[^ \t\r\n])")
"""A usual key with no blank behind its colon; any other may be a text such as `http://`."""
_TIGHT_KEY_AT_START = re.compile(rf"\A{_TIGHT_KEY.pattern}")
_SLIP: Final = 3
"""So many spaces before a key are a slip; more of them, or tabs, may be prose, so that only usual keys count there."""
_MOST_LINES: Final = 2000
"""Longer front matter is no slip of a person, and each line takes a look of its own."""
_ONLY_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_MOST_LEVELS: Final = 4
_WORD = re.compile(r"\w+")


def repaired(front_matter: str) -> str:
    """The same front matter as YAML with keys that says what was meant, as far as that is plain.

    1. If the first key is pushed in, it goes to the margin, with all lines before the first key there.
    2. All is cut where a key starts a line; below a key for prose, `keys_in_text` tells keys from dialogue.
    3. A part that is YAML by itself stays as it is, but for lines that must not be at the margin.
    4. Any other is cut again where a key is pushed in by mistake, below one that has its value on its own line.
    5. In what is no YAML even so, the value becomes one quoted string, or a list whose items stand below each other,
       or a text whose lines are pushed in; below a key without a value, and in an item, all this happens again.

    Where no rule fits, a YAML 1.2 parser would refuse the result, or a word would be lost, all of it stays as it is, so
    that the parser can say where the fault is.
    """
    if _has_keys(front_matter):
        return front_matter
    mended = _repair_level(front_matter, 1)
    if not is_strict_mapping(mended):
        return front_matter
    # A repair quotes and moves: if a word is gone or new, it went wrong.
    has_same_words = _words_of(mended) == _words_of(front_matter)
    return mended if has_same_words else front_matter


def _words_of(text: str) -> Counter[str]:
    return Counter(_WORD.findall(_LINE_SEPARATORS.sub(" ", text)))


def _repair_level(front_matter: str, level: int) -> str:
    # Only YAML 1.1 takes these characters for line breaks: as blanks they mean the same
    # to every parser.
    lines = _LINE.findall(_LINE_SEPARATORS.sub(" ", front_matter))
    if len(lines) > _MOST_LINES:
        return front_matter
    spaced = [*map(_with_space_after_key, _from_margin(lines))]
    blocks: list[list[str]] = []
    for line, is_key in zip(spaced, keys_in_text(spaced, _key_at_margin), strict=True):
        if not blocks or is_key:
            blocks.append([])
        blocks[-1].append(line)
    return "".join(_mend_block(block, level) for block in blocks)


def _with_space_after_key(line: str) -> str:
    if _TIGHT_KEY.match(line):
        return _TIGHT_KEY.sub(r"\1: ", line, count=1)
    return line


def _from_margin(lines: list[str]) -> list[str]:
    """The lines, with those before the first key at the margin moved there if they start with a key."""
    first = next((line for line in lines if not _is_aside(line)), "")
    margin = _margin_of(first)
    if not margin or not (_match_key(first) or _TIGHT_KEY.match(first.lstrip(" \t"))):
        return lines
    at_margin = (number for number, line in enumerate(lines) if _starts_at_margin(line))
    end = next(at_margin, len(lines))
    return [*_cut_margin(lines[:end], len(margin)), *lines[end:]]


def _starts_at_margin(line: str) -> bool:
    return _key_at_margin(line) is not None


def _key_at_margin(line: str) -> str | None:
    return None if _margin_of(line) else _name_of_key(line)


def _name_of_key(line: str) -> str | None:
    key = _match_key(line)
    return key.group(2).strip("\"'") if key else None


def _mend_block(block: list[str], level: int) -> str:
    whole = "".join(block)
    if not _match_key(block[0]):
        return whole
    if _is_yaml(whole):
        if is_indented(whole):
            return whole
        head, *below = block
        return head + "".join(_pushed_in("".join(below), "  "))
    return "".join(_mended_part(part, level) for part in _split_blocks(block))


def _split_blocks(block: list[str]) -> list[list[str]]:
    parts = [block[:1]]
    for line in block[1:]:
        above = parts[-1][0]
        has_whole_value = _value_beside_key(above) and not _has_block_scalar(above)
        if has_whole_value and _is_pushed_in(line, above):
            parts.append([line.lstrip(" \t")])
        else:
            parts[-1].append(line)
    return parts


def _is_pushed_in(line: str, above: str) -> bool:
    key = _KEY.match(line)
    if key is None or not key.group(1):
        return False  # A line at the margin is here because it is prose.
    margin = key.group(1)
    is_slip = (
        "\t" not in margin
        and len(margin) <= _SLIP
        and _name_of_key(above) not in TEXT_KEYS
    )
    return is_slip or is_usual(key.group(2).strip("\"'"))


def _mended_part(part: list[str], level: int) -> str:
    """A key and what is below it; blank lines and comments at its end are not its own."""
    end = len(part)
    while end > 1 and _is_aside(part[end - 1]):
        end -= 1
    return _mended_key(part[:end], level) + "".join(part[end:])


def _mended_key(part: list[str], level: int) -> str:
    """A key and its value as YAML; as it is, where no rule fits."""
    head = part[0]
    below = part[1:]
    whole = "".join(part)
    key = _match_key(head)
    if key is None or _is_yaml(whole):
        return whole
    if _has_block_scalar(head):
        return head + _text_below(below)
    content = [line for line in below if not _is_aside(line)]
    value = _value_beside_key(head)
    is_text_key = _name_of_key(head) in TEXT_KEYS
    is_prose_below = bool(content) and is_text_key and not _ITEM.match(content[0])
    if value or is_prose_below:
        words = " ".join(filter(None, [value, *map(str.strip, below)]))
        return f"{key.group()} {_quote_for_yaml(words)}{_line_break(part[-1])}"
    return head + _mended_below(below, content, level)


def _mended_below(below: list[str], content: list[str], level: int) -> str:
    """The lines below a key that has no value beside it; `content` are those that are not blank or comments."""
    if content and all(map(_ITEM.match, content)):
        return _repair_list(below)
    if not content or level == _MOST_LEVELS:
        return "".join(below)
    if _ITEM.match(content[0]):
        return _long_list(below, level)
    return _repair_nested(below, _margin_of(content[0]), level)


def _text_below(below: list[str]) -> str:
    """The lines of a text, each at least as far to the right as the first."""
    first = next((_margin_of(line) for line in below if line.strip()), "")
    # YAML allows no tabs for indentation.
    margin = first if first and "\t" not in first else "  "
    return "".join(_at_least_at(margin, line) for line in below)


def _at_least_at(margin: str, line: str) -> str:
    is_far_enough = line.startswith(margin) or not line.strip()
    if is_far_enough:
        return line
    return margin + line.lstrip(" \t")


def _repair_nested(below: list[str], first: str, level: int) -> str:
    """The lines below a key that has keys of its own, repaired as if they stood alone."""
    margin = first if first and "\t" not in first else "  "
    mended = _mended_alone(_cut_margin(below, len(first)), level)
    return "".join(_pushed_in(mended, margin))


def _mended_alone(lines: list[str], level: int) -> str:
    alone = "".join(lines)
    if _is_yaml(alone):
        return alone
    return _repair_level(alone, level + 1)


def _cut_margin(lines: list[str], width: int) -> list[str]:
    """The lines, each nearer to the margin by so many blanks, as far as it has them."""
    return [_cut_line(line, width) for line in lines]


def _cut_line(line: str, width: int) -> str:
    # A blank line holds nothing but its margin, and its line break must stay.
    if line.strip():
        return line[min(width, len(_margin_of(line))) :]
    return line


def _pushed_in(text: str, margin: str) -> list[str]:
    return [_push_line(line, margin) for line in _LINE.findall(text)]


def _push_line(line: str, margin: str) -> str:
    return margin + line if line.strip() else line


def _repair_list(below: list[str]) -> str:
    first = next(_margin_of(line) for line in below if not _is_aside(line))
    margin = "  " if "\t" in first else first
    return "".join(_repair_item(line, margin) for line in below)


def _long_list(below: list[str], level: int) -> str:
    """Items of several lines, all at the margin of the first, and each repaired as if it stood alone."""
    start = next(number for number, line in enumerate(below) if not _is_aside(line))
    first = _margin_of(below[start])
    margin = "  " if "\t" in first else first
    items: list[list[str]] = []
    width = 0
    for line in below[start:]:
        if _ITEM.match(line) and (not items or len(_margin_of(line)) < width):
            items.append([])
            width = _item_indent(line)
        items[-1].append(line)
    mended = [_long_item(item, margin, level) for item in items]
    return "".join([*below[:start], *mended])


def _item_indent(line: str) -> int:
    """The column at which the text of an item starts."""
    dash = len(_margin_of(line)) + 1
    return dash + max(1, len(_margin_of(line[dash:])))


def _long_item(item: list[str], margin: str, level: int) -> str:
    head, *rest = item
    width = _item_indent(head)
    beside = head[width:]
    below = _cut_margin(rest, width)
    if not beside.strip():
        pushed = _pushed_in(_mended_alone(below, level), f"{margin}  ")
        return f"{margin}-{_line_break(head)}" + "".join(pushed)
    mended = _mended_alone([beside, *below], level)
    first, *more = _pushed_in(mended, f"{margin}  ")
    return f"{margin}- {first.lstrip(' ')}" + "".join(more)


def _repair_item(line: str, margin: str) -> str:
    if _is_aside(line):
        return line
    value = line.strip().removeprefix("-").strip()
    said = value if _is_yaml(f"- {value}\n") else _quote_for_yaml(value)
    return f"{margin}- {said}".rstrip() + _line_break(line)


def _value_beside_key(line: str) -> str:
    """The text beside a key, without the blanks around it."""
    key = _match_key(line)
    return line[key.end() :].strip() if key else ""


def _match_key(line: str) -> re.Match[str] | None:
    found = _KEY.match(line) or _WORDS_AS_KEY.match(line)
    # With what YAML does not take, it would be none whatever is done to its value.
    if found and found.group(2).isprintable():
        return found
    return None


def _has_block_scalar(line: str) -> bool:
    return _value_beside_key(line).startswith(_BLOCK_SCALARS)


def _is_aside(line: str) -> bool:
    """True if a line is blank or a comment."""
    return not line.strip() or line.lstrip(" \t").startswith("#")


def _margin_of(line: str) -> str:
    found = _MARGIN.match(line)
    return found.group() if found else ""


def _line_break(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _is_yaml(text: str) -> bool:
    return _try_parse(text) is not None


def _has_keys(text: str) -> bool:
    return isinstance(_try_parse(text), Mapping)


def _try_parse(text: str) -> Node | None:
    try:
        return parse_yaml(text)
    except Unreadable:
        return None


def _quote_for_yaml(value: str) -> str:
    """The text as YAML; quotes round all of it are not part of it, unless the first is closed before the end."""
    for quote in "\"'":
        if (
            len(value) > 1
            and value[0] == value[-1] == quote
            and not _is_closed_within(value[1:-1], quote)
        ):
            return _in_quotes(value[1:-1])
    # A quote that is never closed is a slip, and not part of the text.
    is_not_closed = value.startswith('"') and value.count('"') == 1
    return _in_quotes(value[is_not_closed:])


def _in_quotes(text: str) -> str:
    """The text as a string of JSON, which is one of YAML once what only JSON takes is escaped as well."""
    return _ONLY_IN_JSON.sub(
        lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False)
    )


def _is_closed_within(inside: str, quote: str) -> bool:
    """True if the first quote inside ends a quotation: a word behind it is one that it opens, or `it's`."""
    _, found, behind = inside.partition(quote)
    return bool(found) and not re.match(r"\w", behind)
