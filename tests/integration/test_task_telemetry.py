"""A task through a real collector, `rotel`: one trace from the request to the last call, over every process."""

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.integration.collector import Sink, values
from tests.integration.conftest import ROOT, Project
from tests.integration.task_project import CLAIMS, SETTINGS, USERS
from tests.integration.test_identity import AUDIENCE, Issuer, running
from tests.process import eventually

REQUEST = "Open a ticket titled 'canary-title' and assign it to the team with the name"
FIRST = ["request_intake", "context_bind", "tool_surface", "intent_classification", "builder"]
SECOND = ["hitl_resolution", "builder", "ops_audit"]
THIRD = ["hitl_resolution", "ops_audit", "assembly", "execution"]
MANDATORY = {
    "golden.app_id": "helpdesk",
    "golden.component_type": "REASONER",
    "golden.data_classification": "INTERNAL",
    "golden.cost_center": "CC-17",
    "golden.initiator_id": "ada",
    "golden.is_compensation": False,
}


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running(tmp_path_factory.mktemp("issuer"), users=USERS) as found:
        yield found


@pytest.fixture
def desk(project: Project, issuer: Issuer, collector: str) -> Project:
    shutil.copy(ROOT / "examples" / "helpdesk" / "helpdesk.py", project.folder)
    settings = SETTINGS.format(issuer=issuer.name, audience=AUDIENCE, modules="")
    (project.folder / "agent.toml").write_text(settings)
    assert project.agent("trust-folder").returncode == 0
    project.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector
    return project


def by(project: Project, issuer: Issuer, person: str, *command: str) -> Any:
    """What a command prints for a person, in a process of its own."""
    form = {"username": person, "scope": "use", "extra": json.dumps(CLAIMS)}
    project.environment["AGENT_TOKEN"] = issuer.of_person(**form)["access_token"]
    ran = project.agent(*command, "--json")
    assert ran.stdout, ran.stderr
    return json.loads(ran.stdout)


def waiting(task: Any) -> str:
    [action] = [each["id"] for each in task["pending_actions"] if not each["resolved"]]
    return str(action)


def in_time(spans: list[Span]) -> list[Span]:
    return sorted(spans, key=lambda span: span.start_time_unix_nano)


def attribute(spans: list[Span], name: str) -> list[Any]:
    return [values(span.attributes).get(f"golden.{name}") for span in spans]


def component(spans: list[Span], kind: str) -> list[Span]:
    return in_time([span for span in spans if values(span.attributes)["golden.component_type"] == kind])


def test_one_trace_has_every_stage_and_call_of_a_task(desk: Project, issuer: Issuer, sink: Sink) -> None:
    """Three processes drive it: up to a question, up to the approval that `prd` takes, and to its end."""
    task = by(desk, issuer, "ada", "task", "start", REQUEST, "--environment", "prd")
    by(desk, issuer, "ada", "inbox", "answer", waiting(task), "devices")
    audited = by(desk, issuer, "ada", "task", "resume", task["task_id"])
    by(desk, issuer, "ben", "inbox", "approve", waiting(audited), "--reason", "canary-reason")
    done = by(desk, issuer, "ada", "task", "resume", task["task_id"])
    assert done["status"] == "done", done

    stages = [*FIRST, *SECOND, *THIRD]
    assert eventually(lambda: len(component([span for _, span in sink.spans()], "REASONER")) >= len(stages))
    spans = [span for _, span in sink.spans()]
    assert {span.trace_id.hex() for span in spans} == {task["trace_id"]}

    reasoned = component(spans, "REASONER")
    assert attribute(reasoned, "stage") == stages
    assert [span.name for span in reasoned] == [f"invoke_stage {stage}" for stage in stages]
    for span in reasoned:
        assert MANDATORY.items() <= values(span.attributes).items()
    waits = [stage for stage, how in zip(stages, attribute(reasoned, "outcome"), strict=True) if how == "WAITS"]
    assert waits == ["builder", "ops_audit"]

    # The run of the blueprint is below the call that executes the plan, which is below its stage.
    by_id = {span.span_id: span for span in spans}
    [segment] = component(spans, "ORCHESTRATOR")
    executing = by_id[segment.parent_span_id]
    assert executing.name == f"execute_tool {only_blueprint(done)}"
    assert by_id[executing.parent_span_id].name == "invoke_stage execution"
    calls = in_time([span for span in spans if span.parent_span_id == segment.span_id])
    assert [span.name for span in calls] == ["execute_tool tickets.open", "execute_tool tickets.assign"]
    for span in (segment, *component(spans, "EXECUTABLE")):
        golden = {name: value for name, value in MANDATORY.items() if name in ONE_FOR_ALL}
        assert golden.items() <= values(span.attributes).items()


ONE_FOR_ALL = ("golden.cost_center", "golden.initiator_id", "golden.is_compensation")


def only_blueprint(task: Any) -> str:
    [name] = [name for name, artifact in task["artifacts"].items() if artifact["type"] == "BLUEPRINT"]
    return str(name)


def stage_points(sink: Sink) -> set[tuple[Any, Any]]:
    """The stages that were counted, with their outcomes."""
    found = [values(point.attributes) for point in sink.metrics()["golden_reasoner_stages"].sum.data_points]
    return {(each["golden.stage"], each["golden.outcome"]) for each in found if each}


def test_stages_are_counted_and_logged_and_no_word_of_people_leaves(desk: Project, issuer: Issuer, sink: Sink) -> None:
    task = by(desk, issuer, "ada", "task", "start", REQUEST)
    by(desk, issuer, "ada", "inbox", "answer", waiting(task), "canary-team")
    failed = by(desk, issuer, "ada", "task", "resume", task["task_id"])
    assert failed["status"] == "failed", failed
    # There is no such team, and the tool says so in words that are not exported either.
    assert "canary-team" in failed["reason"]

    assert eventually(lambda: {"golden_reasoner_stages", "golden_reasoner_duration"} <= sink.metrics().keys())
    assert eventually(lambda: any(values(each.attributes).get("golden.stage") == "execution" for each in sink.logs()))
    # Metrics are sent again and again: the first may come before the task is through.
    assert eventually(lambda: ("assembly", "DONE") in stage_points(sink))
    points = stage_points(sink)
    assert ("assembly", "DONE") in points
    logged = [values(record.attributes) for record in sink.logs()]
    assert {each["golden.app_id"] for each in logged if "golden.stage" in each} == {"helpdesk"}
    assert {*FIRST, "hitl_resolution", "ops_audit", "assembly", "execution"} <= {
        each.get("golden.stage") for each in logged
    }
    assert {record.trace_id.hex() for record in sink.logs()} == {task["trace_id"]}
    # No word of the request, of an answer, of an argument or of a failure, in any span, log or measurement.
    assert not [path for path, body in sink.bodies if b"canary" in body]
