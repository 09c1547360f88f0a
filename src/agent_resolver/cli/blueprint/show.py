"""The command `agent blueprint show`."""

import argparse
from typing import Any

from agent_resolver.cli.blueprint.chosen_blueprint import open_chosen
from agent_resolver.cli.errors import InvalidFile, InvalidFiles
from agent_resolver.cli.output import err, out, out_json
from agent_resolver.core.blueprint.drawing import draw_text
from agent_resolver.core.blueprint.prepared_blueprint import waves_of
from agent_resolver.core.blueprint.step_words import words_of_steps
from agent_resolver.core.blueprint.svg_drawing import draw_svg
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.issue import only_errors
from agent_resolver.storage.file import write_atomic


def run(options: argparse.Namespace) -> int:
    """Draw one blueprint, as text and as SVG."""
    [examined] = open_chosen(options, [options.chosen])
    blueprint = examined.blueprint
    descriptor = examined.descriptor
    if blueprint is None or descriptor is None:
        # What has a fault may have no order to draw.
        faults = tuple(only_errors(examined.issues))
        raise InvalidFiles([InvalidFile(examined.file, examined.file, faults)])
    # Written before anything is printed, so that a failure is all that is reported.
    if options.svg:
        write_atomic(options.svg, [draw_svg(blueprint).encode()])
    if options.json:
        out_json(_document(examined.file, blueprint, descriptor))
        return 0
    for line in draw_text(blueprint).splitlines():
        out(line)
    _print_facts(examined.file, descriptor)
    if options.svg:
        err(f"✓ Wrote {options.svg}")
    return 0


def _print_facts(file: str, descriptor: Descriptor) -> None:
    rules = descriptor.rules
    approval = ", takes an approval" if rules.takes_approval else ""
    scopes = ", ".join(rules.required_scopes) or "(none)"
    out()
    out(descriptor.description)
    for label, value in (
        ("File", file),
        ("Digest", descriptor.code),
        ("Classification", f"{rules.classification}{approval}"),
        ("Scopes that a caller needs", scopes),
    ):
        out(f"  {label}: {value}")


def _document(
    file: str, blueprint: Blueprint, descriptor: Descriptor
) -> dict[str, Any]:
    words = words_of_steps(blueprint)
    waves = waves_of(blueprint)
    # Wave by wave, the steps come in the order in which they run, which may not be that
    # of the file.
    steps = [words[step] for wave in waves for step in wave]
    return {
        "id": blueprint.id,
        "version": blueprint.version,
        "file": file,
        "digest": descriptor.code,
        "description": descriptor.description,
        "classification": descriptor.rules.classification,
        "requiredScopes": descriptor.rules.required_scopes,
        "waves": waves,
        "steps": [
            {
                "id": step.id,
                "action": step.action,
                "isWait": step.is_wait,
                "details": step.details,
            }
            for step in steps
        ],
    }
