"""Faults in what a blueprint calls: tools that are not there, not allowed, or not taken back."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from agent_resolver.core.admission import Refused
from agent_resolver.core.blueprint.dependency import step_groups
from agent_resolver.core.blueprint.template import Place
from agent_resolver.core.blueprint.tool_rule import BlueprintCall, calls_of
from agent_resolver.core.pattern import matches
from agent_resolver.core.spelling import similar_scopes
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.classification import CLASSIFICATION_RANK, Classification
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.issue import Issue, IssueCode, Severity


class BlueprintLimits(Struct, frozen=True, kw_only=True):
    """The limits of the agent and the project that a blueprint is for."""

    classification: Classification = "RESTRICTED"
    """The highest classification that a step may have."""
    forbid: tuple[str, ...] = ()
    """Patterns of tools and scopes that `constraints.actions.forbid` names."""
    scopes: frozenset[str] | None = None
    """The scopes that the lock admits; None if there is no lock."""


def call_issues(
    blueprint: Blueprint,
    tools: Mapping[str, Descriptor],
    limits: BlueprintLimits,
    refused: Mapping[str, Refused],
) -> Iterator[Issue]:
    """The faults of the calls of a blueprint, apart from their arguments."""
    for call in calls_of(blueprint):
        if call.tool == blueprint.id:
            message = "A blueprint cannot call itself"
            yield Issue(
                at=call.at,
                code=IssueCode.STEP_CYCLE,
                message=message,
                hint="take its steps one after another",
            )
        elif call.tool in tools:
            yield from _forbidden(call, tools[call.tool], blueprint, limits)
            yield from _beyond_limits(call, tools[call.tool], limits)
        else:
            yield _unknown_capability(call, tools, refused)
    yield from _own_beyond_limits(blueprint, limits)
    yield from _compensation_issues(blueprint, tools)


def _unknown_capability(
    call: BlueprintCall,
    tools: Mapping[str, Descriptor],
    refused: Mapping[str, Refused],
) -> Issue:
    if call.tool in refused:
        message = f"The tool '{call.tool}' is refused: {refused[call.tool].message}"
        hint = refused[call.tool].remedy
    else:
        message = f"No tool has the id '{call.tool}'"
        near = similar_scopes(call.tool, tools)
        hint = (
            f"did you mean `{near[0]}`?"
            if near
            else "`agent tools list` shows the tools that there are"
        )
    return Issue(
        at=call.at,
        code=IssueCode.UNKNOWN_CAPABILITY,
        message=message,
        hint=hint,
    )


# Limits -------------------------------------------------------------------------------


def _forbidden(
    call: BlueprintCall,
    tool: Descriptor,
    blueprint: Blueprint,
    limits: BlueprintLimits,
) -> Iterator[Issue]:
    # A pattern may be about the tool itself, or about a scope that its server or its
    # rules ask for.
    names = (tool.id, *sorted({*tool.scopes, *tool.rules.required_scopes}))
    sides = (
        ("The agent", limits.forbid),
        ("`security_logic`", blueprint.security_logic.forbid),
    )
    for side, patterns in sides:
        hits = [
            (pattern, name)
            for pattern in sorted({*patterns})
            for name in names
            if matches(pattern, name)
        ]
        # One hit is enough to refuse a tool, and to understand why.
        for pattern, name in hits[:1]:
            message = f"{side} forbids '{pattern}', which matches '{name}'"
            hint = "call another tool, or narrow the pattern"
            yield Issue(
                at=call.at,
                code=IssueCode.FORBIDDEN_CAPABILITY,
                message=message,
                hint=hint,
            )
    if not blueprint.security_logic.allow_outbound and _reaches_out(tool):
        message = f"`security_logic` keeps data on this machine, and '{tool.id}' may reach other machines"
        hint = "call another tool, or set `allow_outbound: true`"
        yield Issue(
            at=call.at,
            code=IssueCode.FORBIDDEN_CAPABILITY,
            message=message,
            hint=hint,
        )


def _reaches_out(tool: Descriptor) -> bool:
    """True unless the tool is code of the project that promises not to. A server is another program: it may do so."""
    return tool.labels.allow_outbound or tool.labels.kind == "TOOL"


def _beyond_limits(
    call: BlueprintCall,
    tool: Descriptor,
    limits: BlueprintLimits,
) -> Iterator[Issue]:
    level = tool.rules.classification
    if CLASSIFICATION_RANK[level] > CLASSIFICATION_RANK[limits.classification]:
        yield _level_issue(call.at, f"The data of '{tool.id}' is {level}", limits)
    yield from _scope_issues(
        call.at,
        f"'{tool.id}' needs",
        tool.rules.required_scopes,
        limits,
    )


def _own_beyond_limits(
    blueprint: Blueprint,
    limits: BlueprintLimits,
) -> Iterator[Issue]:
    own = blueprint.security_logic
    level = own.data_classification
    if (
        level
        and CLASSIFICATION_RANK[level] > CLASSIFICATION_RANK[limits.classification]
    ):
        yield _level_issue(
            ("security_logic", "data_classification"),
            f"Its data is {level}",
            limits,
        )
    at = ("security_logic", "required_scopes")
    yield from _scope_issues(at, "The blueprint needs", own.required_scopes, limits)


def _level_issue(at: Place, words: str, limits: BlueprintLimits) -> Issue:
    message = f"{words}, and the agent may handle at most {limits.classification}"
    hint = (
        "leave the step to an agent that may, or raise `constraints.data.sensitivity`"
    )
    return Issue(at=at, code=IssueCode.BEYOND_LIMITS, message=message, hint=hint)


def _scope_issues(
    at: Place,
    words: str,
    needed: tuple[str, ...],
    limits: BlueprintLimits,
) -> Iterator[Issue]:
    # Without a lock there is nothing to hold the scopes against.
    if limits.scopes is None:
        return
    missing = sorted({*needed} - limits.scopes)
    if missing:
        message = f"{words} scopes that the lock does not admit: {', '.join(missing)}"
        hint = "ask for them in `requires` of the agent file, and lock again"
        yield Issue(at=at, code=IssueCode.BEYOND_LIMITS, message=message, hint=hint)


# Compensation -------------------------------------------------------------------------


def _compensation_issues(
    blueprint: Blueprint,
    tools: Mapping[str, Descriptor],
) -> Iterator[Issue]:
    """Steps that cannot be taken back, and compensations that may be done twice.

    A step whose tool is neither idempotent nor read-only needs a compensation, since a later step may fail. The last
    step needs none if it is alone at the end and makes a single call: then nothing can fail after it.
    """
    needs_none = _ends_with_single_call(blueprint)
    last = len(blueprint.dag.steps) - 1
    for position, step in enumerate(blueprint.dag.steps):
        at: Place = ("dag", "steps", position)
        if step.compensation:
            undo = tools.get(step.compensation.capability)
            if undo and has_lasting_effect(undo):
                yield _unsafe_compensation(at, undo)
        elif position != last or not needs_none:
            tool = tools.get(step.capability or "")
            if tool and has_lasting_effect(tool):
                yield _missing_compensation(at, tool)


def _ends_with_single_call(blueprint: Blueprint) -> bool:
    groups = step_groups(blueprint.dag.steps)
    return len(groups[-1]) == 1 and not groups[-1][0].for_each


def _missing_compensation(at: Place, tool: Descriptor) -> Issue:
    return Issue(
        at=(*at, "capability"),
        code=IssueCode.MISSING_COMPENSATION,
        message=f"If a later step fails, nothing takes back what '{tool.id}' has done",
        hint=f"say what does in `compensation`, or {_other_remedy(tool)}",
    )


def _unsafe_compensation(at: Place, undo: Descriptor) -> Issue:
    return Issue(
        at=(*at, "compensation", "capability"),
        code=IssueCode.UNSAFE_COMPENSATION,
        message=f"'{undo.id}' is not idempotent: if its outcome is unknown, it is not tried again",
        # The plan can still be run: a person is asked when a compensation cannot be
        # completed.
        severity=Severity.WARNING,
        hint="use a tool whose call can be repeated under one key",
    )


def _other_remedy(tool: Descriptor) -> str:
    """The way to make a compensation unnecessary, in words."""
    if tool.labels.kind == "TOOL":
        return "pin its definition with `agent index probe` if its server says there that it only reads"
    return "mark the capability as idempotent if that is what it is"


def has_lasting_effect(tool: Descriptor) -> bool:
    """True if a second call may do something again."""
    hints = tool.hints or {}
    is_read_only = hints.get("readOnlyHint", False)
    return not tool.rules.is_idempotent and not is_read_only
