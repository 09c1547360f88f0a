"""Rules of Ops, and what a rule says about a draft that breaks it."""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from agent_resolver.core.ops.draft import AuditedDraft

LEAVE_OUT: Final = "leave-out"
"""The answer that lets the Builder leave a step out."""
ALLOWED: Final = "allowed"
"""The answer that the operator has changed the settings or the rights. It allows nothing by itself: Ops looks again."""
ABOUT_STEP: Final = (LEAVE_OUT, ALLOWED)


class OpsRule(Struct, frozen=True, kw_only=True):
    """A rule that a draft must follow before it may become a tool."""

    id: str
    standard: str
    """The standard that it stands for, such as `UIM-001`."""
    title: str
    """What it asks for, in one sentence."""


class OpsFinding(Struct, frozen=True, kw_only=True):
    """One place at which a draft breaks a rule. The fields are those of a `Violation`, which adds the rule."""

    about: str
    """What distinguishes it from the other findings of its rule: a step, a secret, a path. Its id is made of this."""
    step: str = ""
    message: str
    remedy: str
    action: str = ""
    choices: tuple[str, ...] = ()


FindFaults = Callable[[AuditedDraft], Iterator[OpsFinding]]
"""Finds every place at which a draft breaks one rule, in the order of its steps."""
