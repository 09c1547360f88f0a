"""OSCAL 1.1.2 assessment results, as JSON: a finding for each check, an observation for all that it rests on.

Nothing in a document comes from a clock or from chance: its times are those of what was assessed, and each UUID is made
of a digest and of its place.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal
from uuid import NAMESPACE_URL, uuid5

from msgspec import Struct

OSCAL_VERSION: Final = "1.1.2"
_NAMESPACE: Final = "https://agent-resolver.invalid/ns/oscal"
"""The namespace of our own properties: a name, and not an address."""

Method = Literal["EXAMINE", "INTERVIEW", "TEST"]


class Observed(Struct, frozen=True, kw_only=True):
    """Something that was looked at."""

    name: str
    description: str
    method: Method
    at: str
    """The time, as ISO 8601 with an offset."""
    evidence: tuple[str, ...] = ()
    """The digests of the contents that show it."""


class AssessedCheck(Struct, frozen=True, kw_only=True):
    """A rule that something was held against."""

    id: str
    title: str
    standard: str = ""
    is_satisfied: bool | None
    """None if it was not assessed."""
    description: str
    observed: tuple[Observed, ...]


class AssessedSubject(Struct, frozen=True, kw_only=True):
    """Something that was assessed: a plan, or the tools of a project."""

    name: str
    description: str
    start: str
    end: str
    checks: tuple[AssessedCheck, ...]


class Assessment(Struct, frozen=True, kw_only=True):
    """Everything that one document reports."""

    title: str
    seed: str
    """A digest of what is reported: the same report has the same UUIDs."""
    version: str
    """The version of the product."""
    at: str
    rules: tuple[str, ...]
    """The ids of all rules."""
    rules_title: str
    rules_digest: str
    subjects: tuple[AssessedSubject, ...]
    """At least one."""
    contents: Mapping[str, str]
    """A title for each digest that observations name."""
    properties: Mapping[str, str] = {}


def oscal_document(assessment: Assessment) -> dict[str, Any]:
    """The document."""
    return {"assessment-results": _Writer(assessment).assessment_results()}


class _Writer:
    """Writes one document; every UUID is made of the assessment's seed and of the place that it names."""

    def __init__(self, assessment: Assessment) -> None:
        self._assessment = assessment

    def assessment_results(self) -> dict[str, Any]:
        assessment = self._assessment
        metadata = {
            "title": assessment.title,
            "last-modified": assessment.at,
            "version": assessment.seed,
            "oscal-version": OSCAL_VERSION,
            "props": _properties(
                {"product-version": assessment.version, **assessment.properties}
            ),
        }
        return {
            "uuid": self._uuid("document"),
            "metadata": metadata,
            # The plan of the assessment is the list of rules, which is named here and
            # not a document of its own.
            "import-ap": {"href": f"#{self._uuid('rules')}"},
            "results": [self._result(subject) for subject in assessment.subjects],
            "back-matter": {"resources": self._resources()},
        }

    def _uuid(self, *place: str) -> str:
        return str(
            uuid5(
                NAMESPACE_URL,
                ":".join(("agent-resolver", self._assessment.seed, *place)),
            )
        )

    def _result(self, subject: AssessedSubject) -> dict[str, Any]:
        findings = [
            self._finding(subject, check)
            for check in subject.checks
            if check.is_satisfied is not None
        ]
        observations = [
            self._observation(subject, check, place)
            for check in subject.checks
            for place in range(len(check.observed))
        ]
        chosen = [{"control-id": rule} for rule in self._assessment.rules]
        component = {
            "uuid": self._uuid("component", subject.name),
            "type": "software",
            "title": subject.name,
            "description": subject.description,
            "status": {"state": "operational"},
        }
        result: dict[str, Any] = {
            "uuid": self._uuid("result", subject.name),
            "title": subject.name,
            "description": subject.description,
            "start": subject.start,
            "end": subject.end,
            "local-definitions": {"components": [component]},
            "reviewed-controls": {"control-selections": [{"include-controls": chosen}]},
        }
        # OSCAL has no empty lists.
        result |= {"observations": observations} if observations else {}
        return result | ({"findings": findings} if findings else {})

    def _observation(
        self,
        subject: AssessedSubject,
        check: AssessedCheck,
        place: int,
    ) -> dict[str, Any]:
        observed = check.observed[place]
        written: dict[str, Any] = {
            # Two tests may have one name, and must not have one UUID.
            "uuid": self._uuid("observation", subject.name, check.id, str(place)),
            "title": observed.name,
            "description": observed.description or observed.name,
            "methods": [observed.method],
            "types": ["finding"],
            "subjects": [
                {
                    "subject-uuid": self._uuid("component", subject.name),
                    "type": "component",
                }
            ],
            "collected": observed.at,
        }
        if observed.evidence:
            written["relevant-evidence"] = [
                {
                    "href": f"#{self._uuid('content', each)}",
                    "description": self._assessment.contents[each],
                }
                for each in observed.evidence
            ]
        return written

    def _finding(
        self, subject: AssessedSubject, check: AssessedCheck
    ) -> dict[str, Any]:
        state = {"state": "satisfied", "reason": "pass"}
        if not check.is_satisfied:
            state = {"state": "not-satisfied", "reason": "fail"}
        written: dict[str, Any] = {
            "uuid": self._uuid("finding", subject.name, check.id),
            "title": check.title,
            "description": check.description,
            "target": {"type": "objective-id", "target-id": check.id, "status": state},
        }
        if check.standard:
            written["props"] = _properties({"standard": check.standard})
        related = [
            {
                "observation-uuid": self._uuid(
                    "observation", subject.name, check.id, str(place)
                )
            }
            for place in range(len(check.observed))
        ]
        return written | ({"related-observations": related} if related else {})

    def _resources(self) -> list[dict[str, Any]]:
        assessment = self._assessment
        rules = _resource(
            self._uuid("rules"), assessment.rules_title, assessment.rules_digest
        )
        contents = sorted(assessment.contents.items())
        return [
            rules,
            *(
                _resource(self._uuid("content", digest), title, digest)
                for digest, title in contents
            ),
        ]


def _properties(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [
        {"name": name, "ns": _NAMESPACE, "value": value}
        for name, value in sorted(values.items())
        if value
    ]


def _resource(uuid: str, title: str, digest: str) -> dict[str, Any]:
    """A content that is named by its digest: the evidence of the task has it under the same digest."""
    value = digest.removeprefix("sha256-")
    hashes = [{"algorithm": "SHA-256", "value": value}]
    return {
        "uuid": uuid,
        "title": title,
        "rlinks": [{"href": f"urn:agent-resolver:{digest}", "hashes": hashes}],
    }
