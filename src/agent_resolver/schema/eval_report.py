"""The report of an eval: what a planner answered to each request of a set, and what was right."""

from typing import Any, Final, Literal

from msgspec import Struct, structs

from agent_resolver.schema.errors import InvalidEvalReport
from agent_resolver.schema.golden_path import IntentKind
from agent_resolver.schema.issue import Issue, IssueCode, Severity, only_errors
from agent_resolver.schema.json_reader import read_json
from agent_resolver.schema.lockfile import to_json
from agent_resolver.schema.planning import INPUT_KEY
from agent_resolver.schema.vocabulary import OptionalText, Prose, Text

REPORT_VERSION: Final = "1"
_REMEDY: Final = "write it again with `agent eval run --save`"


class Score(Struct, frozen=True):
    """The part of the cases that were right."""

    right: int
    of: int
    score: float
    """From 0 to 1, with four digits; 1 where there are no cases."""


class SortScore(Struct, frozen=True, kw_only=True):
    """The scores of one sort of cases."""

    sort: Text
    routing: Score
    plan: Score


class AnsweredStep(Struct, frozen=True, kw_only=True):
    """A step of a plan, in the words of an eval set."""

    tool: OptionalText
    """Empty for a step that waits."""
    wave: int
    """When the step can start, counted from 1; 0 if the plan has a fault that leaves it open."""
    for_each: bool = False
    undo: OptionalText = ""
    from_request: dict[str, Any] = {}
    from_step: dict[str, str] = {}


class EvalAnswer(Struct, frozen=True, kw_only=True):
    """All that a planner answered to a request."""

    kind: IntentKind | None = None
    tools: tuple[Text, ...] = ()
    missing: int = 0
    asks: tuple[Text, ...] = ()
    steps: tuple[AnsweredStep, ...] = ()
    faults: tuple[Prose, ...] = ()
    """The rules of Ops that the plan breaks, each with its message."""

    @property
    def routing_asks(self) -> tuple[str, ...]:
        """The questions without whose answers the request cannot be routed."""
        return tuple(key for key in self.asks if not key.startswith(INPUT_KEY))

    @property
    def plan_asks(self) -> tuple[str, ...]:
        """The questions for arguments of the plan."""
        return tuple(key for key in self.asks if key.startswith(INPUT_KEY))


class CaseResult(Struct, frozen=True, kw_only=True):
    """A case, what was answered, and whether that was right."""

    id: Text
    request: Prose
    sort: Text
    unseen: bool
    case: Text
    """The digest of the case, which tells an edited case from one that is answered differently."""
    routing: bool
    """True if the kind, the tools, what is missing and the questions are right."""
    plan: bool | None
    """True if the plan, or the questions that it needs, are right; None if no plan is expected."""
    wrong: tuple[Prose, ...] = ()
    """Every fault of the answer, in a sentence."""
    answer: EvalAnswer


class EvalReport(Struct, frozen=True, kw_only=True):
    """The scores of a planner on a set, and every answer. The same set, tools and planner give the same report."""

    version: Literal["1"] = REPORT_VERSION
    planner: Text
    set: Text
    """The digest of the set."""
    tools: Text
    """The digest of the tools."""
    covered: int
    """The number of different tools that the set expects."""
    tokens: int
    """The tokens that models used."""
    fallbacks: dict[Text, int] = {}
    """Maps each reason why a model could not help to the number of requests that were planned without it."""
    routing: Score
    plan: Score
    unseen: SortScore
    """The scores of the cases that no planner was changed for."""
    sorts: tuple[SortScore, ...]
    cases: tuple[CaseResult, ...]


def encode_eval_report(report: EvalReport) -> bytes:
    """The bytes of the file that keeps a report."""
    return to_json(report)


def parse_eval_report(raw: bytes) -> EvalReport:
    """The content of a kept report.

    Raises:
        InvalidEvalReport: With every error in the file.
    """
    reading = read_json(raw, EvalReport)
    faults = only_errors(map(_judge_strictly, reading.issues))
    if reading.value is None or faults:
        raise InvalidEvalReport(faults)
    return reading.value


def _judge_strictly(issue: Issue) -> Issue:
    """The issue as it counts in a report: only a program writes one, so an unknown key is an error."""
    if issue.code is IssueCode.UNKNOWN_KEY:
        return structs.replace(
            issue, severity=Severity.ERROR, message="Unknown key", hint=_REMEDY
        )
    return issue if issue.hint else structs.replace(issue, hint=_REMEDY)
