"""The rules of the tool that a blueprint is: a caller needs all that its steps need together."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from agent_resolver.core.blueprint.template import Place
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.classification import CLASSIFICATION_RANK, Classification
from agent_resolver.schema.descriptor import Descriptor, Rules

_LOWEST: Classification = "PUBLIC"


class BlueprintCall(Struct, frozen=True):
    """A tool that a blueprint calls, and the place that names it."""

    at: Place
    tool: str


def calls_of(blueprint: Blueprint) -> Iterator[BlueprintCall]:
    """Every call that a run of a blueprint can make: that of each step, and of each compensation."""
    for position, step in enumerate(blueprint.dag.steps):
        at: Place = ("dag", "steps", position)
        if step.capability:
            yield BlueprintCall((*at, "capability"), step.capability)
        if step.compensation:
            yield BlueprintCall(
                (*at, "compensation", "capability"), step.compensation.capability
            )


def blueprint_rules(blueprint: Blueprint, tools: Mapping[str, Descriptor]) -> Rules:
    """The rules of the tool that a blueprint is.

    Classification and scopes are the highest and all of those of its steps. An approval is asked for where the
    classification demands one; what a single step asks for besides is asked when that step is called. The secrets of
    the steps are given to the steps alone. The same key never starts a second run, so the tool is idempotent.
    """
    # A tool that does not exist is reported by the check of calls, and has no rules.
    called = [
        tools[call.tool].rules for call in calls_of(blueprint) if call.tool in tools
    ]
    own = blueprint.security_logic
    levels = [rules.classification for rules in called]
    # The declared level can only raise the one that the steps need.
    levels.append(own.data_classification or _LOWEST)
    scopes = {*own.required_scopes}.union(*(rules.required_scopes for rules in called))
    # A field that a step hides may come in as an argument of the blueprint, under the
    # same name.
    hidden = frozenset[str]().union(*(rules.secret_fields for rules in called))
    return Rules(
        classification=max(levels, key=CLASSIFICATION_RANK.__getitem__),
        required_scopes=tuple(sorted(scopes)),
        is_idempotent=True,
        secret_fields=tuple(sorted(hidden)),
    )
