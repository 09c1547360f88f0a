"""The command `agent blueprint show`."""

import argparse
from typing import Any

from msgspec import UNSET

from agent_resolver.cli.blueprint.chosen_blueprint import open_chosen
from agent_resolver.cli.blueprint.drawing import DrawnStep, draw_svg, draw_text
from agent_resolver.cli.errors import InvalidFile, InvalidFiles
from agent_resolver.cli.output import err, out, out_json, safe
from agent_resolver.core.blueprint.prepared_blueprint import prepare, waves_of
from agent_resolver.project.blueprint import ExaminedBlueprint
from agent_resolver.schema.blueprint import Blueprint, Step, Wait
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.issue import only_errors
from agent_resolver.storage.file import write_atomic


def run(options: argparse.Namespace) -> int:
    """Draw one blueprint, as text and as SVG."""
    [examined] = open_chosen(options, [options.chosen])
    blueprint = examined.blueprint
    if blueprint is None or examined.descriptor is None:
        faults = tuple(only_errors(examined.issues))
        raise InvalidFiles([InvalidFile(examined.file, examined.file, faults)])
    rows = _rows(blueprint)
    if options.svg:
        title = f"{blueprint.id} {blueprint.version}"
        write_atomic(options.svg, [draw_svg(title, rows).encode()])
    if options.json:
        out_json(_document(examined, blueprint, examined.descriptor, rows))
        return 0
    _print_facts(examined.file, blueprint, examined.descriptor)
    for line in draw_text(rows):
        out(line)
    if options.svg:
        err(f"✓ Wrote {options.svg}")
    return 0


def _print_facts(file: str, blueprint: Blueprint, descriptor: Descriptor) -> None:
    out(f"{blueprint.id} {blueprint.version}: {descriptor.description}")
    rules = descriptor.rules
    approval = ", takes an approval" if rules.takes_approval else ""
    out(f"  File: {file}")
    out(f"  Classification: {rules.classification}{approval}")
    if rules.required_scopes:
        out(f"  Caller needs: {', '.join(rules.required_scopes)}")
    out(f"  Digest: {descriptor.code}")
    out()


def _rows(blueprint: Blueprint) -> list[list[DrawnStep]]:
    """The steps as they can start together, each with those before it that it waits for."""
    steps = {step.id: step for step in blueprint.dag.steps}
    reasons = {required.step: required.reason for required in blueprint.hitl_requirements}
    before = _steps_before(blueprint)
    return [
        [_drawn(steps[step], before[step], reasons.get(step, "")) for step in wave] for wave in waves_of(blueprint)
    ]


def _steps_before(blueprint: Blueprint) -> dict[str, tuple[str, ...]]:
    """Maps each step to those that must have ended: of its group, else the last ones of the group before."""
    found: dict[str, tuple[str, ...]] = {}
    last: tuple[str, ...] = ()
    for group in prepare(blueprint).groups:
        for step, needed in group.needs.items():
            found[step] = tuple(sorted(needed)) or last
        last = tuple(step for step in sorted(group.needs) if not group.needed_by.get(step))
    return found


def _drawn(step: Step, before: tuple[str, ...], reason: str) -> DrawnStep:
    is_wait = step.wait is not UNSET
    return DrawnStep(
        id=step.id,
        action=_wait_text(step.wait) if step.wait is not UNSET else str(step.capability),
        is_wait=is_wait,
        notes=tuple(_notes(step, reason)),
        after=before,
    )


def _wait_text(wait: Wait) -> str:
    match wait.kind:
        case "person":
            return f"asks a person ({wait.role}): {wait.question}"
        case "signal":
            return f"waits for the signal {wait.signal}"
        case _:
            return f"waits until {wait.until}" if wait.until else f"waits {wait.seconds:g} s"


def _notes(step: Step, reason: str) -> list[str]:
    notes = []
    if step.condition:
        notes.append(f"if {step.condition}")
    if step.for_each is not UNSET:
        each = step.for_each
        batches = "" if each.batch_size is UNSET else f", {each.batch_size} at a time"
        notes.append(f"for each of {each.items}{batches}")
    if reason:
        notes.append(f"takes an approval: {reason}")
    if step.retry is not UNSET and step.retry.max_attempts > 1:
        notes.append(f"up to {step.retry.max_attempts} attempts")
    if step.compensation is not UNSET:
        notes.append(f"taken back by {step.compensation.capability}")
    if step.wait is not UNSET and step.wait.timeout_seconds is not UNSET:
        notes.append(f"for {step.wait.timeout_seconds:g} s at most")
    return notes


def _document(
    examined: ExaminedBlueprint, blueprint: Blueprint, descriptor: Descriptor, rows: list[list[DrawnStep]]
) -> dict[str, Any]:
    return {
        "id": blueprint.id,
        "version": blueprint.version,
        "file": examined.file,
        "digest": descriptor.code,
        "description": safe(descriptor.description),
        "classification": descriptor.rules.classification,
        "requiredScopes": descriptor.rules.required_scopes,
        "waves": [[step.id for step in row] for row in rows],
        "steps": [step for row in rows for step in row],
    }
