"""The subject of an audit by Ops: a draft, and everything that decides whether it may become a tool."""

from collections.abc import Mapping

from msgspec import Struct

from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.golden_context import GoldenContext
from agent_resolver.schema.planning import TestResult


class OpsPolicy(Struct, frozen=True, kw_only=True):
    """The limits that the project sets."""

    egress: tuple[str, ...] = ()
    """Patterns of the hosts that data may leave for; `*` stands for any run of characters."""
    authorized: frozenset[str] = frozenset()
    """The ids of the tools that a plan may use."""
    locked_scopes: frozenset[str] | None = None
    """The scopes that the lock admits; None if there is no lock."""


class OpsSubject(Struct, frozen=True, kw_only=True):
    """A draft, and what it is held against."""

    blueprint: Blueprint
    tools: Mapping[str, Descriptor]
    """The tools that the plan may use, by id."""
    policy: OpsPolicy
    context: GoldenContext
    caller: Caller
    """The initiator: the plan is called with their rights."""
    secrets_present: frozenset[str] = frozenset()
    """The names of the secrets that the project has."""
    hosts: Mapping[str, tuple[str, ...] | None] = {}
    """Maps the id of each tool to the hosts that it reaches, as `egress_hosts` gives them; those of a tool that is not
    in it are not known."""
    tests: tuple[TestResult, ...] = ()
    """The outcome of each acceptance test of the draft."""
