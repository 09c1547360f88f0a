"""The records of a task as the story that they tell: who decided what about which content, and in which order."""

from collections.abc import Iterable
from typing import Any

from agent_resolver.schema.audit import AuditKind, AuditRecord
from agent_resolver.schema.evidence import TaskEvidence


class Story:
    """The records in a document, for questions about them."""

    def __init__(self, evidence: TaskEvidence) -> None:
        self.task = evidence.task.task_id
        self.records = evidence.records
        self.own = tuple(
            record for record in evidence.records if record.run == self.task
        )
        """The records of the task itself."""
        self.decisions = tuple(
            record for record in self.own if record.kind == AuditKind.TASK_DECIDED
        )

    def decided(
        self,
        stage: str,
        *choices: str,
        about: str = "",
        content: str = "",
    ) -> list[AuditRecord]:
        """The decisions of a stage, the oldest first.

        Args:
            stage: The stage that decided.
            choices: What it chose; any of these, or anything if none is given.
            about: The name of something that was decided about.
            content: The digest that it had.
        """
        found = [
            record for record in self.decisions if record.body.get("stage") == stage
        ]
        if choices:
            found = [record for record in found if record.body.get("choice") in choices]
        if about:
            found = [record for record in found if digest_in(record, about) == content]
        return found

    def calls(self, kind: AuditKind, tool: str) -> list[AuditRecord]:
        """The records of the task's own calls of a tool."""
        return [
            record
            for record in self.own
            if record.kind == kind and record.body.get("tool") == tool
        ]

    def about_action(self, action: str, *kinds: AuditKind) -> list[AuditRecord]:
        """The records about a question, also those of the run in which a person answered it."""
        return [
            record
            for record in self.records
            if record.kind in kinds and record.body.get("action") == action
        ]

    def plan_runs(self, plan: str) -> list[AuditRecord]:
        """The starts of the runs that executed a plan, whichever content they had."""
        starts = (
            record
            for record in self.records
            if record.run != self.task and record.kind == AuditKind.RUN_STARTED
        )
        # A run names its blueprint as `id@version`.
        return [
            record
            for record in starts
            if str(record.body.get("blueprint", "")).rpartition("@")[0] == plan
        ]


def digest_in(record: AuditRecord, name: str) -> str:
    """The digest that a decision names something by; empty if it does not name it."""
    digests: Any = record.body.get("digests")
    found = digests.get(name) if isinstance(digests, dict) else None
    if isinstance(found, str):
        return found
    return ""


def position_of(records: Iterable[AuditRecord]) -> int:
    """The place of the first of some records in the trail; 0 if there is none."""
    return next((record.position for record in records), 0)
