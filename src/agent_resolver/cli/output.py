"""The output of commands: data on stdout, the rest on stderr, colour only where a person looks."""

import os
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Final, TextIO, TypeVar

from agent_resolver.schema.issue import Issue
from agent_resolver.schema.lockfile import to_json

_COLOURS = {
    "✓": "32",
    "✗": "31",
    "error:": "31",
    "warning:": "33",
    "hint:": "36",
    "ℹ": "36",  # noqa: RUF001 - the sign
}

MANY: Final = 10
"""Of a kind with more items only the first few are shown."""
FEW: Final = 3

_Item = TypeVar("_Item")
_Kind = TypeVar("_Kind", bound=Hashable)


_results: TextIO | None = None
"""Where results go while stdout is kept for them."""


def use_utf8() -> None:
    """Print the same bytes whatever the locale is."""
    for stream in (sys.stdout, sys.stderr):
        # What UTF-8 cannot hold is escaped instead of failing in the middle of a
        # result; `\n` stays itself on Windows too.
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")  # type: ignore[union-attr]


@contextmanager
def only_results_on_stdout() -> Iterator[None]:
    """Keep stdout for results: what a module, a tool or a process that they start prints goes to stderr."""
    global _results  # noqa: PLW0603 - a process has one stdout
    stdout = sys.stdout
    # The descriptor is replaced as well as the object: a process that a tool starts
    # inherits descriptor 1.
    kept = _take_stdout(stdout)
    _results = stdout if kept is None else kept
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _results = None
        if kept is not None:
            _give_back_stdout(stdout, kept)


def _take_stdout(stdout: TextIO) -> TextIO | None:
    """The open file behind stdout, under another number; None if stdout is not that of the process, as in a test."""
    try:
        # In a test stdout may be a buffer without a descriptor, or one of another
        # number: then only the object is replaced.
        if stdout.fileno() != 1:
            return None
    except (OSError, ValueError):
        return None
    # What is buffered belongs before the switch, else it would come out at the wrong
    # place.
    stdout.flush()
    kept = os.fdopen(
        os.dup(1), "w", encoding="utf-8", errors="backslashreplace", newline="\n"
    )
    # From here on descriptor 1 leads to stderr for this process and for those it
    # starts.
    os.dup2(2, 1)
    return kept


def _give_back_stdout(stdout: TextIO, kept: TextIO) -> None:
    with suppress(ValueError):  # Code of the project has closed it.
        stdout.flush()  # What was printed and not yet written is not a result either.
    os.dup2(kept.fileno(), 1)
    # The reader may have gone, and a full disk was reported already.
    with suppress(OSError):
        kept.close()


def out(line: str = "") -> None:
    """A line of the result."""
    _write_line(line, _results or sys.stdout)


def err(line: str = "") -> None:
    """A line about the result, after what was printed of it so far."""
    flush_out()
    _write_line(line, sys.stderr)


def out_text(text: str) -> None:
    """A text that is the result, as it is."""
    _write(text, _results or sys.stdout)


def is_out_terminal() -> bool:
    """True if a person reads the result as it is written."""
    return (_results or sys.stdout).isatty()


def out_piece(text: str) -> None:
    """A piece of a text that is the result, at once: on a terminal without what would steer it."""
    _write(_safe_lines(text) if is_out_terminal() else text, _results or sys.stdout)
    flush_out()


def out_json_line(value: object) -> None:
    """One JSON value on a line of its own, at once."""
    import msgspec

    _write(
        f"{_safe_json(msgspec.json.encode(value).decode())}\n", _results or sys.stdout
    )
    flush_out()


def err_dim(line: str) -> None:
    """A line about the result that matters less than the others."""
    flush_out()
    line = safe(line)
    _write(
        f"\x1b[2m{line}\x1b[0m\n" if _has_colour(sys.stderr) else f"{line}\n",
        sys.stderr,
    )


def flush_out() -> None:
    """Hand on what was printed so far."""
    stream = _results or sys.stdout
    try:
        stream.flush()
    except BrokenPipeError:
        _discard(stream)


def discard_out() -> None:
    """Let the rest of the result go nowhere: closing the output at exit must not complain once more."""
    _discard(_results or sys.stdout)


def out_json(value: object) -> None:
    """The whole result as JSON."""
    # The value is serialized as a whole before anything is written, so an error leaves
    # no half document.
    try:
        text = _safe_json(to_json(value).decode())
    except UnicodeEncodeError:
        # A path may be any bytes, and JSON takes those that are no UTF-8 only as
        # escapes.
        import json

        import msgspec

        text = json.dumps(msgspec.to_builtins(value), indent=2) + "\n"
    _write(text, _results or sys.stdout)


def _safe_json(text: str) -> str:
    """JSON that means the same, without what would steer a terminal: that is only ever inside of strings."""
    # ASCII without DEL needs no work: JSON escapes the other control characters itself.
    if text.isascii() and "\x7f" not in text:
        return text
    return _escape_unprintable(text, _json_escape, kept="\n")


def _json_escape(character: str) -> str:
    # JSON escapes code points above U+FFFF as two surrogates (RFC 8259, section 7),
    # hence UTF-16.
    units = character.encode("utf-16-be")
    return "".join(
        f"\\u{units[place]:02x}{units[place + 1]:02x}"
        for place in range(0, len(units), 2)
    )


def _write_line(line: str, stream: TextIO) -> None:
    # Every line, since names come from files and from the names of files: none may
    # steer a terminal or forge a line.
    line = safe(line)
    _write((_colour_first_word(line) if _has_colour(stream) else line) + "\n", stream)


def _write(text: str, stream: TextIO) -> None:
    try:
        stream.write(text)
    except BrokenPipeError:
        _discard(stream)


def _discard(stream: TextIO) -> None:
    """Let the rest go nowhere: the reader has seen enough, and the exit code still says what the answer is."""
    # The descriptor is replaced, not the object, since the interpreter flushes the same
    # object once more at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _has_colour(stream: TextIO) -> bool:
    # The variable NO_COLOR counts if it is not empty, as its convention says; a dumb
    # terminal shows escapes as text.
    return (
        stream.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )


def _colour_first_word(line: str) -> str:
    word = line.lstrip(" ").split(" ", 1)[0]
    colour = _COLOURS.get(word)
    if colour:
        return line.replace(word, f"\x1b[{colour}m{word}\x1b[0m", 1)
    return line


def shown(path: str) -> str:
    """A path as it appears in `file:line:column`."""
    return path.replace("\\", "/").removeprefix("./")


def place(path: str, issue: Issue) -> str:
    """The place of an issue, in the form that editors and terminals follow."""
    return f"{shown(path)}:{issue.line}:{issue.column}"


def condense(
    items: Iterable[_Item], kind_of: Callable[[_Item], _Kind]
) -> tuple[list[_Item], dict[_Kind, list[_Item]]]:
    """The items to show of many, in their order: the first few of a kind with many. Then those left out, by kind."""
    kinds: dict[_Kind, list[_Item]] = {}
    for item in (ordered := list(items)):
        kinds.setdefault(kind_of(item), []).append(item)
    left_out = {kind: found[FEW:] for kind, found in kinds.items() if len(found) > MANY}
    # Identity, not equality, decides: equal items are still different findings.
    hidden = {id(item) for found in left_out.values() for item in found}
    return [item for item in ordered if id(item) not in hidden], left_out


def condense_issues(issues: Iterable[Issue]) -> tuple[list[Issue], list[str]]:
    """The issues to show of many, and a line for each kind of which some are left out."""
    shown, left_out = condense(issues, lambda issue: (issue.severity, issue.code))
    lines = []
    for (_, code), hidden in left_out.items():
        # Issues of one kind often differ by an index alone, so the numbers are masked
        # and each pattern is named once.
        paths = list(dict.fromkeys(map(_path_without_numbers, hidden)))
        names = [f"`{path}`" for path in paths[:FEW]]
        if len(paths) > FEW:
            names.append("…")
        named = ", ".join(names)
        lines.append(
            f"… and {len(hidden)} more of `{code}`, at {named}: `agent validate --all` shows each"
        )
    return shown, lines


def _path_without_numbers(issue: Issue) -> str:
    return ".".join(map(_step_without_number, issue.at)) or issue.path


def _step_without_number(step: str | int) -> str:
    return "*" if isinstance(step, int) else step


def err_faults(label: str, path: str, issues: Iterable[Issue]) -> None:
    """The report of a file that is refused."""
    err(f"✗ {label} validation failed:")
    shown, left_out = condense_issues(issues)
    for issue in shown:
        err(f"  - {safe(str(issue))} ({place(path, issue)})")
        if issue.hint:
            err(f"    hint: {safe(issue.hint)}")
    for line in left_out:
        err(f"  {line}")


def err_warnings(
    path: str, issues: Sequence[Issue], *, shows_all: bool = False
) -> None:
    """Warnings and hints about a file that is used all the same."""
    shown, left_out = (issues, []) if shows_all else condense_issues(issues)
    for issue in shown:
        hint = f"; {safe(issue.hint)}" if issue.hint else ""
        err(f"{issue.severity}: {safe(str(issue))}{hint} ({place(path, issue)})")
    for line in left_out:
        err(line)


def issue_document(issue: Issue) -> dict[str, object]:
    """An issue as every `--json` shows it."""
    return {
        "path": issue.path,
        "code": issue.code,
        "severity": issue.severity,
        "message": issue.message,
        "hint": issue.hint or None,
        "line": issue.line,
        "column": issue.column,
    }


def safe(text: str) -> str:
    """Text from a file, without what would steer a terminal."""
    if text.isprintable():
        return text
    return _escape_unprintable(text, _python_escape)


def _safe_lines(text: str) -> str:
    """Text of several lines, without what would steer a terminal."""
    return _escape_unprintable(text, _python_escape, kept="\n\t")


def _python_escape(character: str) -> str:
    # `repr` yields an escape such as `\x1b`; the slice takes its quotes away.
    return repr(character)[1:-1]


def _escape_unprintable(
    text: str, escape: Callable[[str], str], *, kept: str = ""
) -> str:
    """The text with every character escaped that is neither printable nor kept."""
    # A long text has few different characters, so that looking at each of those once
    # is quick.
    unprintable = [
        each for each in set(text) if not (each.isprintable() or each in kept)
    ]
    if not unprintable:
        return text
    return text.translate({ord(each): escape(each) for each in unprintable})
