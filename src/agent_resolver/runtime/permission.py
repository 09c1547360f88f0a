"""Permission rules of an agent, parsed when its plan is made: a malformed rule must not wait for a call."""

from typing import Final

from msgspec import Struct

from agent_resolver.core.permission_rule import BadRule, CallMatch, parse_rule
from agent_resolver.runtime.default_plugin import Behavior, PermissionConfig, RuleScope
from agent_resolver.runtime.errors import InvalidPluginConfig

_SECTION: Final = "permission"


class ParsedRule(Struct, frozen=True, kw_only=True):
    """A rule: the calls that it is about, and what happens to them."""

    text: str
    """The rule as it is written."""
    calls: CallMatch
    behavior: Behavior
    scope: RuleScope


class Permissions(Struct, frozen=True, kw_only=True):
    """What happens when a tool is about to be called."""

    default_behavior: Behavior
    rules: tuple[ParsedRule, ...]


def parse_permissions(config: PermissionConfig) -> Permissions:
    """The section with its rules parsed.

    Raises:
        InvalidPluginConfig: Rules are malformed; with the place of each.
    """
    rules: list[ParsedRule] = []
    faults: list[str] = []
    for place, rule in enumerate(config.rules):
        try:
            calls = parse_rule(rule.tool)
        except BadRule as error:
            faults.append(f"rules.{place}.tool: {error}")
            continue
        rules.append(ParsedRule(text=rule.tool, calls=calls, behavior=rule.behavior, scope=rule.scope))
    if faults:
        raise InvalidPluginConfig(_SECTION, _SECTION, "; ".join(faults))
    return Permissions(default_behavior=config.default_behavior, rules=tuple(rules))
