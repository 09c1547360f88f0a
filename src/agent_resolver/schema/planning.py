"""What a planner is asked, and what it answers. Stages and planners share these; no planner has an effect."""

from typing import Any, Final, Literal

from msgspec import Struct

from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.golden_context import GoldenContext
from agent_resolver.schema.golden_path import Answer, IntentKind

INPUT_KEY: Final = "input."
"""Begins the key of a question for an argument of the plan."""
REQUEST_KEY: Final = "request"
"""The key of the question whose answer is read in place of the intent."""


class Snippet(Struct, frozen=True, kw_only=True):
    """A short passage of a document that may help to plan."""

    source: str
    """The document, such as a path or an address."""
    text: str
    tokens: int
    """How many tokens it has, as they are estimated for the budget."""


class PlanQuestion(Struct, frozen=True, kw_only=True):
    """A question that the planner cannot do without the answer of: it never guesses."""

    key: str
    """What the answer is for. `input.<name>` is an argument of the plan, `choice.<n>` picks one of `choices`, and
    `request` is read in place of the intent."""
    text: str
    """One or two sentences for the person who asked."""
    choices: tuple[str, ...] = ()
    """The answers that are taken, where not every text is one."""


class RemedyRequest(Struct, frozen=True, kw_only=True):
    """What Ops asks the Builder to change in a draft."""

    id: str
    """The id of the violation, such as `OPS-CMP-001/open`."""
    rule: str
    step: str = ""
    """The step that it is about; empty for the whole draft."""
    action: str = ""
    """What to do, such as `add-compensation`, `leave-out` or `batch`."""
    message: str = ""
    """What is wrong, in words: all that there is to go by if the action is `correct`."""


class PlanRequest(Struct, frozen=True, kw_only=True):
    """Everything that a planner may know."""

    intent: str
    tools: tuple[Descriptor, ...]
    """The tools that the plan may use, by id; a plan that names another one is refused."""
    context: GoldenContext
    snippets: tuple[Snippet, ...] = ()
    answers: tuple[Answer, ...] = ()
    chosen: tuple[str, ...] = ()
    """The tools that the classifier found, for the Builder."""
    missing: tuple[str, ...] = ()
    draft: Blueprint | None = None
    """The draft that was rejected, for the Builder to change."""
    remedies: tuple[RemedyRequest, ...] = ()
    tokens_left: int | None = None
    """How many tokens models may still use for the task; None if there is no limit."""


class Classified(Struct, frozen=True, kw_only=True):
    """What a request takes."""

    kind: IntentKind | None = None
    """None while questions are open."""
    tools: tuple[str, ...] = ()
    """The ids of the tools that it takes, in the order of the request."""
    missing: tuple[str, ...] = ()
    """What it asks for and no tool does, in words."""
    questions: tuple[PlanQuestion, ...] = ()
    tokens: int = 0
    codes: tuple[str, ...] = ()
    """How a model had a part in it, for the decision record, such as `PLANNER_FALLBACK`."""


class CapabilityDraft(Struct, frozen=True, kw_only=True):
    """A tool that is not there yet, as far as the request says what it is."""

    id: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]


class Drafted(Struct, frozen=True, kw_only=True):
    """What the Builder made of a request."""

    blueprint: Blueprint | None = None
    """None while questions are open, and for a request that takes no plan."""
    arguments: dict[str, Any] = {}
    """The arguments that the blueprint is called with."""
    capabilities: tuple[CapabilityDraft, ...] = ()
    questions: tuple[PlanQuestion, ...] = ()
    applied: tuple[str, ...] = ()
    """The ids of the remedies that this draft applies."""
    readings: tuple[Answer, ...] = ()
    """Arguments that a model found in the words of the request, as answers to the questions for them. The task keeps
    them, so that a draft that is changed later has the same arguments."""
    tokens: int = 0
    codes: tuple[str, ...] = ()
    """As in `Classified`."""


class AuditAdvice(Struct, frozen=True, kw_only=True):
    """What a planner says about a draft besides the rules of Ops. It can only add to what they find."""

    concerns: tuple[str, ...] = ()
    """Each in one sentence, for the person who approves."""
    tokens: int = 0
    codes: tuple[str, ...] = ()
    """As in `Classified`."""


Isolation = Literal["none", "process", "confined"]
"""Where acceptance tests ran: in the process of the task, in one of their own with bounds on what it uses, or in one
that besides can open no file and no socket."""


# Ops ----------------------------------------------------------------------------------


class Violation(Struct, frozen=True, kw_only=True):
    """A rule of Ops that a draft breaks, and what would mend it."""

    id: str
    """The rule and what it is about, such as `OPS-EGR-001/notify`: the same in every audit of the same fault."""
    rule: str
    standard: str
    """The standard that the rule stands for, such as `WCS-001`."""
    step: str = ""
    message: str
    remedy: str
    """What to do, in words."""
    action: str = ""
    """What the Builder can do about it by itself, as in `RemedyRequest.action`; empty if only a person can."""
    choices: tuple[str, ...] = ()
    """What a person may answer; `leave-out` lets the Builder leave the step out."""


class Evaluation(Struct, frozen=True, kw_only=True):
    """The outcome of an audit, as it is kept in an EVAL artifact."""

    artifact: str
    """The id of the artifact that was audited."""
    content: str
    """The digest of what was audited."""
    outcome: Literal["AUDITED", "REJECTED"]
    rules: tuple[str, ...]
    """Every rule that was checked."""
    violations: tuple[Violation, ...] = ()
    tests: tuple["TestResult", ...] = ()
    concerns: tuple[str, ...] = ()
    isolation: Isolation = "none"
    """Where the tests ran."""


class TestResult(Struct, frozen=True, kw_only=True):
    """How an acceptance test of a draft ended, with recorded results in place of its calls."""

    name: str
    passed: bool
    message: str = ""
    """What was different; empty where it passed."""
