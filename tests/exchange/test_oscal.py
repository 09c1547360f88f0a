"""OSCAL assessment results: as the model asks, the same each time, and true to what was assessed."""

from typing import Any

import pytest
from msgspec import structs

from agent_resolver.capability.certificate import Certificate, Check, Finding
from agent_resolver.exchange.oscal import AssessedCheck, AssessedSubject, Assessment, Observed, oscal_document
from agent_resolver.project.assessment import task_assessment, tools_assessment
from agent_resolver.registry.compiled_schema import compile_schema
from tests.core.evidence.sample import EVALUATION, PLAN, evaluation_of, forge, redo_contents, sample, whole
from tests.core.evidence.test_check import ENDINGS
from tests.exchange.oscal_model import ASSESSMENT_RESULTS, reference_faults

AT = "2026-01-01T00:00:00.000Z"
_MODEL = compile_schema(ASSESSMENT_RESULTS)


def written(assessment: Assessment) -> dict[str, Any]:
    """The document, once it is found to follow the model."""
    document = oscal_document(assessment)
    assert [fault.message for fault in _MODEL.iter_errors(document)] == []
    assert reference_faults(document) == []
    results: dict[str, Any] = document["assessment-results"]
    return results


def states(result: dict[str, Any]) -> dict[str, str]:
    """The state of each control."""
    targets = [finding["target"] for finding in result["findings"]]
    return {target["target-id"]: target["status"]["state"] for target in targets}


def test_a_certified_plan_has_a_finding_for_each_rule_and_its_approval() -> None:
    (result,) = written(task_assessment(whole()))["results"]

    assert set(states(result).values()) == {"satisfied"}
    assert states(result).keys() >= {"OPS-TOOL-001", "OPS-TST-001", "APPROVAL"}
    titles = [each["title"] for each in result["observations"]]
    assert "Acceptance test `a ticket`" in titles
    assert "Approval a1" in titles


def test_a_rejected_plan_has_a_finding_that_is_not_satisfied() -> None:
    document = sample()
    broken = {
        "id": "OPS-EGR-001/page",
        "rule": "OPS-EGR-001",
        "standard": "UIM-001",
        "message": "It pages",
        "remedy": "",
    }
    failed = [{"name": "a ticket", "passed": False, "message": "it loops"}]
    rejected = evaluation_of(document["references"][PLAN], outcome="REJECTED", violations=[broken], tests=failed)
    redo_contents(document, evaluation=rejected)

    (result,) = written(task_assessment(forge(document)))["results"]

    assert states(result)["OPS-EGR-001"] == "not-satisfied"
    assert any("failed: it loops" in each["description"] for each in result["observations"])


def test_a_rule_that_was_not_checked_has_no_finding() -> None:
    document = sample()
    redo_contents(document, evaluation=evaluation_of(document["references"][PLAN], rules=["OPS-FMT-001"]))

    (result,) = written(task_assessment(forge(document)))["results"]

    assert set(states(result)) == {"OPS-FMT-001", "APPROVAL"}


@pytest.mark.parametrize("document", ENDINGS.values(), ids=ENDINGS.keys())
def test_a_task_without_a_plan_says_that_nothing_is_certified(document: dict[str, Any]) -> None:
    (result,) = written(task_assessment(forge(document)))["results"]

    assert "nothing is certified" in result["description"]
    assert "findings" not in result


def test_a_plan_without_an_evaluation_is_left_out() -> None:
    document = sample()
    del document["references"][EVALUATION]

    assert "Nothing was audited" in written(task_assessment(forge(document)))["results"][0]["description"]


def test_the_same_evidence_gives_the_same_document() -> None:
    assert written(task_assessment(whole())) == written(task_assessment(whole()))


def test_other_evidence_has_other_ids() -> None:
    other = structs.replace(whole(), digest=f"sha256-{'1' * 64}")

    assert written(task_assessment(whole()))["uuid"] != written(task_assessment(other))["uuid"]


CERTIFICATE = Certificate(
    success=False,
    digest=f"sha256-{'0' * 64}",
    tools=2,
    checks=(
        Check(name="unique-ids", status="passed", findings=()),
        Check(name="fields-described", status="failed", findings=(Finding(tool="a.b", message="it has no words"),)),
        Check(name="drift", status="skipped", note="no manifest is committed", findings=()),
    ),
)


def test_tools_have_a_finding_for_each_check_that_was_made() -> None:
    (result,) = written(tools_assessment(CERTIFICATE, AT))["results"]

    assert states(result) == {"unique-ids": "satisfied", "fields-described": "not-satisfied"}
    assert [each["collected"] for each in result["observations"]] == [AT] * 3


def test_tools_that_cannot_be_loaded_are_reported_as_well() -> None:
    refused = Certificate(success=False, tools=0, checks=(Check(name="tools-load", status="failed", findings=()),))

    assert states(written(tools_assessment(refused, AT))["results"][0]) == {"tools-load": "not-satisfied"}


def test_a_check_without_observations_and_a_standard_is_written() -> None:
    check = AssessedCheck(id="x", title="X", is_satisfied=True, description="Fine.", observed=())
    empty = Observed(name="Seen", description="", method="TEST", at=AT)
    other = AssessedCheck(id="y", title="Y", is_satisfied=None, description="Not made.", observed=(empty,))
    subject = AssessedSubject(name="A", description="A.", start=AT, end=AT, checks=(check, other))
    rules = {"rules": ("x", "y"), "rules_title": "Rules", "rules_digest": f"sha256-{'0' * 64}"}
    assessment = Assessment(
        title="T",
        seed="s",
        version="0.1.0",
        at=AT,
        subjects=(subject,),
        contents={},
        **rules,  # type: ignore[arg-type]
    )

    (result,) = written(assessment)["results"]

    assert [each["description"] for each in result["observations"]] == ["Seen"]
