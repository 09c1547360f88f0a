"""An example of a run of a draft, made from schemas alone: values of the request may be personal."""

from typing import Any, Final

from agent_resolver.core.blueprint.expression_value import ResultTooLarge
from agent_resolver.core.blueprint.template import evaluate, parse_template
from agent_resolver.reasoner.planner.input_field import fields_of
from agent_resolver.reasoner.planner.schema_sample import sample_value
from agent_resolver.schema.blueprint import AcceptanceTest, Dag, Step
from agent_resolver.schema.descriptor import Descriptor

EXAMPLE_NAME: Final = "values that follow the schemas"


def example_run(dag: Dag, tools: dict[str, Descriptor]) -> AcceptanceTest:
    """Makes an example of a run: its input, the result of each step, and the output that follows."""
    given = {
        field.name: sample_value(field.schema)
        for field in fields_of(dag.input_schema)
        if field.is_required
    }
    results: dict[str, Any] = {}
    # The scope holds the dict itself, so that later templates see each result as soon
    # as it is there.
    scope = {"input": given, "steps": results, "run": {}}
    for step in dag.steps:
        results[step.id] = _result(step, tools, scope)
    return AcceptanceTest(
        name=EXAMPLE_NAME,
        input=given,
        results=results,
        output=_value(dag.output_mapping, scope),
    )


def _result(step: Step, tools: dict[str, Descriptor], scope: dict[str, Any]) -> Any:  # noqa: ANN401 - a JSON value
    tool = tools.get(step.capability or "")
    schema = tool.output_schema if tool else None
    result = {} if schema is None else sample_value(schema)
    if not step.for_each:
        return result
    items = _value(step.for_each.items, scope)
    return [result for _ in items] if isinstance(items, list) else []


def _value(template: Any, scope: dict[str, Any]) -> Any:  # noqa: ANN401 - a JSON value
    try:
        return evaluate(parse_template(template), scope)
    except ResultTooLarge:
        # Samples can make an output grow past the bound of a run; the example shows
        # null in its place.
        return None
