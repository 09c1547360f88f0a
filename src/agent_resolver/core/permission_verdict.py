"""Decides by permission rules what happens to a call: allow, ask or deny.

Of the rules that match a call, a deny wins over an allow, and that over an ask; where several of one behaviour match,
the most specific is named. Without a matching rule the default counts.

Whether a rule matches cannot always be told: the text may be longer than patterns are applied to, or not be text. Such
a rule matches where it denies or asks, and does not match where it allows.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from agent_resolver.core.permission_glob import compile_glob, matches_anything
from agent_resolver.core.permission_rule import CallMatch, FieldMatch, TextMatch

Behavior = Literal["allow", "ask", "deny"]
IsMatch = bool | None
"""None where it cannot be told."""
FindsMatch = Callable[[str], IsMatch]
CompileRegex = Callable[[str], Callable[[str], bool]]
"""Makes of a regular expression what looks for it anywhere in a text, in time in proportion to the text."""

MAX_MATCHED: Final = 65_536
"""The longest text that patterns and regular expressions are applied to, in characters."""
_MAX_KNOWN: Final = 1_024
"""For how many tools the judge remembers which rules are about them; a model can make up any number of names."""
_NO_TOOLS: Final[frozenset[str]] = frozenset()
"""One value for all: each waiting run holds one."""
_BEHAVIOR_RANK: Final[dict[Behavior, int]] = {"deny": 2, "allow": 1, "ask": 0}
_KIND_RANK: Final = {"exact": 3, "glob": 2, "regex": 1}


class BehaviorRule(Struct, frozen=True, kw_only=True):
    """A rule: the calls that it is about, and what happens to them."""

    text: str
    """The rule as it is written."""
    calls: CallMatch
    behavior: Behavior


class PermissionVerdict(Struct, frozen=True):
    """The behaviour that applies to a call, and the rule that says so; None for the default."""

    behavior: Behavior
    rule: str | None = None


def is_about_any_arguments(calls: CallMatch) -> bool:
    """True for a rule about every call of its tools, as `Bash` and `Bash(*)` are."""
    main = calls.main_argument
    if calls.fields:
        return False
    if main is None:
        return True
    return main.kind == "glob" and matches_anything(main.text)


def rank_of(rule: BehaviorRule) -> tuple[int, ...]:
    """Sort key of rules: the highest that matches a call decides; among equals the first in the section's order.

    1. Deny before allow before ask.
    2. A tool by its name before a pattern for it, and that before a regular expression.
    3. A rule about some arguments before one about any.
    4. More fields before fewer.
    5. Exact values before patterns, and those before regular expressions; those of several fields count together.
    """
    calls = rule.calls
    is_any = is_about_any_arguments(calls)
    asked = [each.match for each in calls.fields]
    # `Bash(*)` asks for nothing, and is no more precise than `Bash`.
    if calls.main_argument is not None and not is_any:
        asked = [calls.main_argument]
    precision = sum(_KIND_RANK[match.kind] for match in asked)
    return (
        _BEHAVIOR_RANK[rule.behavior],
        _KIND_RANK[calls.tool.kind],
        not is_any,
        len(calls.fields),
        precision,
    )


class PermissionJudge:
    """Rules that are compiled once, for all calls of a plan."""

    def __init__(
        self,
        rules: Sequence[BehaviorRule],
        default_behavior: Behavior,
        compile_regex: CompileRegex | None = None,
    ) -> None:
        """Compile the rules.

        Args:
            rules: The rules in the order of their section.
            default_behavior: What happens to a call that no rule is about.
            compile_regex: Needed if a rule has a regular expression.
        """
        # The first that matches decides then. The sort keeps the order of equals, also
        # where it is reversed.
        ranked = sorted(rules, key=rank_of, reverse=True)
        compiler = _Compiler(compile_regex)
        self._rules = tuple(_CompiledRule(rule, compiler) for rule in ranked)
        self._default = PermissionVerdict(default_behavior)
        self._known: dict[str, tuple[_CompiledRule, ...]] = {}

    def verdict(self, tool_id: str, arguments: dict[str, Any]) -> PermissionVerdict:
        """The verdict on a call, by the highest rule that matches it."""
        main = _MainText(arguments)
        for rule in self._rules_for(tool_id):
            if rule.counts_for(arguments, main):
                return rule.verdict
        return self._default

    def denied_tools(self, tool_ids: Iterable[str]) -> frozenset[str]:
        """The tools among these that are denied whatever their arguments are."""
        shutting = [
            rule
            for rule in self._rules
            if rule.is_any and rule.verdict.behavior == "deny"
        ]
        if self._default.behavior != "deny" and not shutting:
            return _NO_TOOLS
        asked_about = frozenset(tool_ids)
        denied = _tools_about(shutting, asked_about)
        if self._default.behavior == "deny":
            # What no rule opens or asks about is denied as well.
            opening = [rule for rule in self._rules if rule.verdict.behavior != "deny"]
            denied |= asked_about - _tools_about(opening, asked_about)
        return denied or _NO_TOOLS

    def _rules_for(self, tool_id: str) -> "tuple[_CompiledRule, ...]":
        """The rules that may be about calls of a tool, the highest first."""
        known = self._known.get(tool_id)
        if known is None:
            known = tuple(rule for rule in self._rules if rule.is_about(tool_id))
            # Once the memory is full, further names are looked up each time, which is
            # slower and never wrong.
            if len(self._known) < _MAX_KNOWN:
                self._known[tool_id] = known
        return known


def _tools_about(
    rules: "Iterable[_CompiledRule]",
    tool_ids: frozenset[str],
) -> frozenset[str]:
    """The tools among these that one of the rules names."""
    return frozenset().union(*(rule.tools_among(tool_ids) for rule in rules))


class _MainText:
    """The text of a call that a rule without fields is held against; made once, and only where a rule needs it."""

    __slots__ = ("_arguments", "_text")

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._arguments = arguments
        # Empty stands for not made yet; a value that is itself empty is only made
        # again.
        self._text: str | None = ""

    def get(self) -> str | None:
        """The value of the only argument, else all of them as JSON; None if they cannot be written."""
        if self._text == "":
            # A rule such as `Bash(npm *)` is about the only argument, whatever its name
            # is.
            values = list(self._arguments.values())
            shown = values[0] if len(values) == 1 else self._arguments
            self._text = _text_of(shown)
        return self._text


class _Compiler:
    """Makes functions of texts, patterns and regular expressions."""

    def __init__(self, compile_regex: CompileRegex | None) -> None:
        self._compile_regex = compile_regex

    def compile(self, match: TextMatch) -> FindsMatch:
        if match.kind == "exact":
            return match.text.__eq__
        if match.kind == "glob":
            return _bounded_glob(match.text)
        if self._compile_regex is None:
            raise ValueError(f"nothing compiles the regular expression `{match.text}`")
        return _bounded_regex(self._compile_regex(match.text))


def _bounded_glob(pattern: str) -> FindsMatch:
    if matches_anything(pattern):
        # Stars alone match a text of any length, so this needs no bound.
        return lambda _: True
    fits = compile_glob(pattern).fullmatch

    def find(text: str) -> IsMatch:
        if len(text) > MAX_MATCHED:
            return None
        return fits(text) is not None

    return find


def _bounded_regex(is_found: Callable[[str], bool]) -> FindsMatch:
    def find(text: str) -> IsMatch:
        if len(text) > MAX_MATCHED:
            return None
        try:
            return is_found(text)
        except ValueError:
            # An engine may refuse what is no character.
            return None

    return find


class _CompiledRule:
    """A rule, ready to be held against calls."""

    __slots__ = (
        "_fields",
        "_finds_main",
        "_finds_tool",
        "_tool_name",
        "is_any",
        "verdict",
    )

    def __init__(self, rule: BehaviorRule, compiler: _Compiler) -> None:
        calls = rule.calls
        self.verdict = PermissionVerdict(rule.behavior, rule.text)
        self.is_any = is_about_any_arguments(calls)
        self._finds_tool = compiler.compile(calls.tool)
        self._tool_name = calls.tool.text if calls.tool.kind == "exact" else None
        self._finds_main: FindsMatch | None = None
        if calls.main_argument is not None:
            self._finds_main = compiler.compile(calls.main_argument)
        self._fields = tuple(
            (field, compiler.compile(field.match)) for field in calls.fields
        )

    def tools_among(self, tool_ids: frozenset[str]) -> frozenset[str]:
        """The tools among these that the rule names."""
        if self._tool_name is not None:
            # An agent may have thousands of tools, and most rules name one.
            return tool_ids & {self._tool_name}
        return frozenset(tool_id for tool_id in tool_ids if self.is_about(tool_id))

    def is_about(self, tool_id: str) -> bool:
        """True if the rule names the tool; where that cannot be told, unless it allows."""
        return self._counts(self._finds_tool(tool_id))

    def counts_for(self, arguments: dict[str, Any], main: _MainText) -> bool:
        """True if the rule is about a call of a tool that it names; where that cannot be told, unless it allows."""
        if self.is_any:
            return True
        if self._finds_main is not None:
            text = main.get()
            is_match = None if text is None else self._finds_main(text)
            return self._counts(is_match)
        all_hold: IsMatch = True
        # A field that does not hold settles it, also where another field cannot be
        # judged.
        for field, finds in self._fields:
            holds = _field_holds(field, finds, arguments)
            if holds is False:
                return False
            if holds is None:
                all_hold = None
        return self._counts(all_hold)

    def _counts(self, is_match: IsMatch) -> bool:
        # Uncertainty counts against the call: a rule that allows is skipped, one that
        # asks or denies applies.
        if is_match is None:
            return self.verdict.behavior != "allow"
        return is_match


def _field_holds(
    field: FieldMatch,
    finds: FindsMatch,
    arguments: dict[str, Any],
) -> IsMatch:
    """True if one of the values at a path is as asked, None if that cannot be told; False if there is no value."""
    # Where there is no value, a negated sign does not hold either: a missing field is
    # not `!= "x"`.
    holds: IsMatch = False
    for value in _values_at(arguments, field.path):
        text = _text_of(value)
        is_match = None if text is None else finds(text)
        if is_match is None:
            # Another value at the path may still hold, so the search goes on.
            holds = None
        elif is_match is not field.is_negated:
            return True
    return holds


def _values_at(value: Any, path: tuple[str, ...]) -> Iterator[Any]:  # noqa: ANN401 - a JSON value
    """The values that a path leads to, of which `*` may give several."""
    if not path:
        yield value
        return
    step = path[0]
    rest = path[1:]
    members: Iterable[Any] = ()
    if step == "*":
        members = _members_of(value)
    elif step.isdecimal():
        position = int(step)
        # A slice beyond the end is empty, where an index would raise.
        members = value[position : position + 1] if isinstance(value, list) else ()
    elif isinstance(value, dict) and step in value:
        members = (value[step],)
    for member in members:
        yield from _values_at(member, rest)


def _members_of(value: Any) -> Iterable[Any]:  # noqa: ANN401 - as above
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list):
        return value
    return ()


def _text_of(value: Any) -> str | None:  # noqa: ANN401 - as above
    """A value as rules see it: a text as it is, all else as JSON with sorted keys; None if it cannot be written.

    A number that is whole is written without a fraction: `1.0` is `1` for every schema.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    try:
        return msgspec.json.encode(value, order="sorted").decode()
    # Arguments come from a model, and may nest deeper than the encoder follows.
    except (TypeError, ValueError, RecursionError):
        return None
