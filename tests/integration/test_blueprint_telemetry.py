"""The spans of a blueprint's run through a real collector, `rotel`: one trace, over all processes that drove it."""

import getpass
import json
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.cli.blueprint_project import MODULE, BlueprintProject, write_shop
from tests.integration.collector import Sink, values
from tests.integration.conftest import Project
from tests.process import eventually

BLUEPRINT = """\
blueprint_metadata: { id: shop.deliver, version: 1.0.0, description: Deliver an item., cost_center: cc-7 }
hitl_requirements: [{ step: label, reason: canary-reason }]
dag:
  input_schema: { type: object, properties: { item: { type: string } }, required: [item], additionalProperties: false }
  steps:
    - id: reserve
      capability: shop.reserve
      input_mapping: { item: "${input.item}" }
      compensation: { capability: shop.release, input_mapping: { id: "${result.id}" } }
    - id: label
      capability: shop.release
      input_mapping: { id: canary-label }
    - id: agree
      wait: { kind: person, question: "Send ${input.item} to canary-street?" }
    - id: send
      capability: shop.send
      input_mapping: { id: "${steps.reserve.id}" }
"""
LOCAL = f"local:{getpass.getuser()}"
SPANS = 9
GOLDEN = {"golden.cost_center": "cc-7", "golden.initiator_id": LOCAL, "golden.data_classification": "INTERNAL"}


def below(spans: list[Span], parent: Span) -> list[Span]:
    """The spans right below another one, in the order of time."""
    found = [span for span in spans if span.parent_span_id == parent.span_id]
    return sorted(found, key=lambda span: span.start_time_unix_nano)


def attribute(spans: list[Span], name: str) -> list[Any]:
    return [values(span.attributes).get(f"golden.{name}") for span in spans]


@pytest.fixture
def shop(project: Project, collector: str) -> BlueprintProject:
    made = write_shop(project.folder)
    made.write("deliver.yaml", BLUEPRINT)
    settings = f'[tools]\nmodules = ["{MODULE}"]\nblueprints = ["blueprints"]\n'
    (project.folder / "agent.toml").write_text(settings)
    project.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector
    return made


def answer(project: Project, verb: str, *words: str) -> None:
    """Answer the one question that there is, and let a worker of its own go on."""
    [action] = json.loads(project.agent("inbox", "list", "--json").stdout)
    answered = project.agent("inbox", verb, action["id"], *words, "--trust")
    worked = project.agent("worker", "--until-idle", "--trust")
    assert (answered.returncode, worked.returncode) == (0, 0), answered.stderr + worked.stderr


def test_one_trace_has_every_segment_and_call_of_a_run(project: Project, shop: BlueprintProject, sink: Sink) -> None:
    """It begins in one process, and three others drive it: up to an approval, up to a question, and to its end."""
    given = ("--input", json.dumps({"item": "broken-canary"}), "--detach", "--trust", "--json")
    begun = project.agent("blueprint", "run", "shop.deliver", *given)
    assert project.agent("worker", "--until-idle", "--trust").returncode == 0
    answer(project, "approve")
    answer(project, "answer", "canary-yes")

    assert shop.notes == ["reserve broken-canary", "release canary-label", "release broken-canary-1"]
    assert eventually(lambda: len(sink.spans()) == SPANS)
    spans = [span for _, span in sink.spans()]
    outcome = json.loads(begun.stdout)["outcome"]
    assert {span.trace_id.hex() for span in spans} == {outcome["traceId"]}
    [start] = [span for span in spans if not span.parent_span_id]
    assert start.name == "execute_tool shop.deliver"
    segments = below(spans, start)
    assert [span.name for span in segments] == ["invoke_workflow shop.deliver"] * 3
    assert attribute(segments, "component_type") == ["ORCHESTRATOR"] * 3
    assert attribute(segments, "outcome") == ["WAITS", "WAITS", "FAILED"]
    calls = [below(spans, segment) for segment in segments]
    assert [[span.name.removeprefix("execute_tool shop.") for span in each] for each in calls] == [
        ["reserve", "release"],
        ["release"],
        ["send", "release"],
    ]
    assert [attribute(each, "is_compensation") for each in calls] == [[False, False], [False], [False, True]]
    assert attribute([start, *segments], "is_compensation") == [False] * 4
    for span in (*segments, *(call for each in calls for call in each)):
        assert GOLDEN.items() <= values(span.attributes).items()
    # No argument, result, question, answer or reason, in any span, log or measurement.
    assert not [path for path, body in sink.bodies if b"canary" in body]
