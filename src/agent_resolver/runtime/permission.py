"""The permission rules of an agent: parsed when its plan is made, and applied before each call of a run."""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Final

from msgspec import Struct

from agent_resolver._extra import needing_extra
from agent_resolver.core.permission_rule import CallMatch, parse_rule
from agent_resolver.core.permission_verdict import (
    Behavior,
    BehaviorRule,
    PermissionJudge,
    PermissionVerdict,
)
from agent_resolver.runtime.default_plugin import (
    PERMISSION,
    DefaultPlugin,
    PermissionConfig,
    RuleScope,
)
from agent_resolver.runtime.errors import InvalidPluginConfig
from agent_resolver.runtime.hook import Block, Command, PhaseContext, Suspend

_KEPT: Final = 128
"""How many sections are kept parsed and compiled: every run makes its plan again."""


class ParsedRule(BehaviorRule, frozen=True, kw_only=True):
    """A rule of the section, and for how long an answer to it shall hold."""

    scope: RuleScope


class Permissions(Struct, frozen=True, kw_only=True):
    """What happens when a tool is about to be called."""

    default_behavior: Behavior
    rules: tuple[ParsedRule, ...]


class PermissionGate(Struct, frozen=True, eq=False, dict=True):
    """A hook that blocks the calls that the rules deny, and lets those wait that the rules ask about."""

    permissions: Permissions

    @cached_property
    def judge(self) -> PermissionJudge:
        """The rules, compiled once for all calls."""
        return _judge_of(self.permissions)

    def __call__(self, context: PhaseContext) -> Command | None:
        """The answer of the gate to a call; None where it is allowed."""
        call = context.call
        if call is None:
            return None
        verdict = self.judge.verdict(call.tool, call.arguments)
        if verdict.behavior == "deny":
            return Command(gate=Block(f"Tool '{call.tool}' denied by permission rules"))
        if verdict.behavior == "ask":
            return Command(gate=Suspend(_reason_to_ask(verdict)))
        return None


@lru_cache(maxsize=_KEPT)
def permission_gate(permissions: Permissions) -> DefaultPlugin:
    """Applies the rules before each call."""
    return DefaultPlugin(
        PERMISSION, phases=(("tool_gate", PermissionGate(permissions)),)
    )


def hidden_tools(
    permissions: Permissions | None, tool_ids: Iterable[str]
) -> frozenset[str]:
    """The tools that are denied whatever their arguments are: there is no use in showing them to a model."""
    return _judge_of(permissions).denied_tools(tool_ids) if permissions else frozenset()


@lru_cache(maxsize=_KEPT)
def parse_permissions(config: PermissionConfig) -> Permissions:
    """The section with its rules parsed.

    Raises:
        InvalidPluginConfig: Texts are not rules; with the place of each.
        MissingExtra: A rule has a regular expression, and the engine for them is not installed.
    """
    rules: list[ParsedRule] = []
    faults: list[str] = []
    for place, rule in enumerate(config.rules):
        try:
            calls = parse_rule(rule.tool)
            # Compiled here, so that a bad expression is refused with the plan and not
            # at the first call.
            for expression in _expressions_of(calls):
                _compile_regex(expression)
        except ValueError as error:
            faults.append(f"rules.{place}.tool: {error}")
            continue
        rules.append(
            ParsedRule(
                text=rule.tool, calls=calls, behavior=rule.behavior, scope=rule.scope
            )
        )
    if faults:
        raise InvalidPluginConfig(PERMISSION, PERMISSION, "; ".join(faults))
    return Permissions(default_behavior=config.default_behavior, rules=tuple(rules))


@lru_cache(maxsize=_KEPT)
def _judge_of(permissions: Permissions) -> PermissionJudge:
    return PermissionJudge(
        permissions.rules, permissions.default_behavior, _compile_regex
    )


def _expressions_of(calls: CallMatch) -> Iterator[str]:
    matches = (calls.tool, *(field.match for field in calls.fields))
    return (match.text for match in matches if match.kind == "regex")


def _compile_regex(pattern: str) -> Callable[[str], bool]:
    # Only a rule with a regular expression needs the extra.
    with needing_extra("tools"):
        from agent_resolver.registry.linear_regex import compile_linear_regex

    try:
        return compile_linear_regex(pattern)
    except ValueError as error:
        raise ValueError(f"`{pattern}`: {error}") from None


def _reason_to_ask(verdict: PermissionVerdict) -> str:
    if verdict.rule is None:
        return "no permission rule is about this call, and the default is to ask"
    return f"permission rule `{verdict.rule}` asks before this call"
