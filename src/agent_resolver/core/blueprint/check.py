"""Everything that is wrong with a blueprint, found before it runs.

The findings are issues without a place in a file: `at` is the path into the data. For a blueprint that was read from a
file, `located_findings` adds line and column.
"""

from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import Final

from msgspec import structs

from agent_resolver.core.admission import Refused
from agent_resolver.core.blueprint.call_check import BlueprintLimits, call_issues
from agent_resolver.core.blueprint.section import parse_section, sections_of
from agent_resolver.core.blueprint.structure_check import (
    cycle_issues,
    reference_issues,
    step_issues,
)
from agent_resolver.core.blueprint.type_check import type_issues
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.blueprint_file import BlueprintReading
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.issue import Issue, IssueCode
from agent_resolver.schema.tree import find

NO_LIMITS: Final = BlueprintLimits()
_MAX_FINDINGS: Final = 1_000
_NONE_REFUSED: Final[Mapping[str, Refused]] = {}


def check_blueprint(
    blueprint: Blueprint,
    tools: Mapping[str, Descriptor],
    limits: BlueprintLimits = NO_LIMITS,
    refused: Mapping[str, Refused] = _NONE_REFUSED,
) -> list[Issue]:
    """Everything that is wrong with a blueprint, errors and warnings, in the order of their paths.

    Args:
        blueprint: The blueprint.
        tools: The tools that may be called, by id.
        limits: What the agent that it is for allows.
        refused: The tools that may not be called, each with the reason.
    """
    # The sections are parsed first, and the checks share what could be read.
    parsed = [parse_section(section) for section in sections_of(blueprint)]
    findings = chain(
        (issue for each in parsed for issue in each.issues),
        step_issues(blueprint),
        reference_issues(blueprint, parsed),
        cycle_issues(blueprint, parsed),
        call_issues(blueprint, tools, limits, refused),
        type_issues(blueprint, tools, parsed),
    )
    # The findings are made one by one, so that a file with a fault in every word does
    # not take long.
    found = sorted(islice(findings, _MAX_FINDINGS), key=_sort_key)
    # One finding more than these is asked for, only to tell whether some are left out.
    if next(findings, None) is not None:
        message = f"More than {_MAX_FINDINGS:,} findings: the others are left out"
        found.append(
            Issue(
                at=(),
                code=IssueCode.LIMIT,
                message=message,
                hint="correct these first",
            )
        )
    return found


def _sort_key(issue: Issue) -> tuple[tuple[str, ...], str, str]:
    # Positions in lists have one width, so that the tenth step comes after the second.
    path = tuple(map(_sortable, issue.at))
    return path, issue.code, issue.message


def _sortable(key: str | int) -> str:
    if isinstance(key, int):
        return f"{key:09}"
    return key


def located_findings(
    reading: BlueprintReading,
    findings: Iterable[Issue],
) -> tuple[Issue, ...]:
    """The findings with the line and column that they are at in the file of the blueprint, in the order of the file."""
    located = []
    for issue in findings:
        place = find(reading.tree, issue.at)
        located.append(structs.replace(issue, line=place.line, column=place.column))
    # The sort is stable, so that findings at one place keep the order of their paths.
    return tuple(sorted(located, key=lambda issue: (issue.line, issue.column)))
