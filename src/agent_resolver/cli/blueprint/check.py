"""The command `agent blueprint check`."""

import argparse
import os
from typing import Any

from agent_resolver.cli.blueprint.chosen_blueprint import open_chosen
from agent_resolver.cli.output import (
    err_faults,
    err_warnings,
    issue_document,
    out,
    out_json,
)
from agent_resolver.core.count import counted
from agent_resolver.project.blueprint import ExaminedBlueprint
from agent_resolver.project.blueprint_file import files_in_folder
from agent_resolver.schema.issue import Severity, only_errors


def run(options: argparse.Namespace) -> int:
    """Report every fault and warning of blueprints, each with its place."""
    examined = open_chosen(
        options, [name for chosen in options.chosen for name in _names_in(chosen)]
    )
    is_good = all(_is_good(each, is_strict=options.strict) for each in examined)
    if options.json:
        out_json(
            {"success": is_good, "blueprints": [_document(each) for each in examined]}
        )
        return 0 if is_good else 1
    for each in examined:
        _report(each)
    return 0 if is_good else 1


def _names_in(chosen: str) -> list[str]:
    """The files of a folder; of anything else, the name itself."""
    if os.path.isdir(chosen):
        return files_in_folder(chosen)
    return [chosen]


def _is_good(examined: ExaminedBlueprint, *, is_strict: bool) -> bool:
    # Hints refuse nothing, not even with `--strict`.
    refused = {Severity.ERROR, Severity.WARNING} if is_strict else {Severity.ERROR}
    return not any(issue.severity in refused for issue in examined.issues)


def _report(examined: ExaminedBlueprint) -> None:
    faults = only_errors(examined.issues)
    if faults:
        err_faults(examined.file, examined.file, faults)
    err_warnings(
        examined.file,
        [issue for issue in examined.issues if issue.severity is not Severity.ERROR],
    )
    blueprint = examined.blueprint
    if not faults and blueprint is not None:
        steps = counted(len(blueprint.dag.steps), "step")
        out(f"✓ {examined.file}: {blueprint.id} {blueprint.version}, {steps}")


def _document(examined: ExaminedBlueprint) -> dict[str, Any]:
    blueprint = examined.blueprint
    descriptor = examined.descriptor
    named = (None, None) if blueprint is None else (blueprint.id, blueprint.version)
    # The digest names what would run, so a blueprint with a fault has none.
    digest = None if descriptor is None else descriptor.code
    return {
        "path": examined.file,
        "id": named[0],
        "version": named[1],
        "digest": digest,
        "issues": list(map(issue_document, examined.issues)),
    }
