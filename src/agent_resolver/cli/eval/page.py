"""The page of `agent eval run --report`: one HTML text, made of reports and of nothing else."""

from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from agent_resolver.cli.eval.text import render_pair
from agent_resolver.cli.report.markup import FILTERS
from agent_resolver.core.evaluation.difference import describe_answer
from agent_resolver.core.evaluation.report import passes_gate
from agent_resolver.schema.eval_report import Score

if TYPE_CHECKING:
    from agent_resolver.cli.eval.run import EvalOutcome

# The style and the macros that escape values are those of `agent report`.
_SHARED: Final = PackageLoader("agent_resolver.cli.report", "template")
_TEMPLATES: Final = ChoiceLoader(
    [PackageLoader("agent_resolver.cli.eval", "template"), _SHARED]
)


def render_page(outcome: "EvalOutcome") -> str:
    """The page; the same outcome gives the same text."""
    environment = Environment(
        loader=_TEMPLATES,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        **FILTERS,
        "score": _render_score,
        "pair": render_pair,
        "answer": describe_answer,
    }
    style = f"\n{_SHARED.get_source(environment, 'style.css')[0]}"
    return environment.get_template("eval.html").render(
        style=style,
        # The policy of the page lets a browser apply this style, and load nothing.
        style_digest=b64encode(sha256(style.encode()).digest()).decode(),
        reports=outcome.reports,
        differences=outcome.differences,
        has_baseline=outcome.has_baseline,
        gate=outcome.gate,
        is_passed=outcome.is_passed,
        reaches_gate=all(
            passes_gate(report, outcome.gate) for report in outcome.reports
        ),
    )


def _render_score(score: Score) -> str:
    return (
        f"{score.score:.3f} ({score.right:,} of {score.of:,})"
        if score.of
        else "no requests"
    )
