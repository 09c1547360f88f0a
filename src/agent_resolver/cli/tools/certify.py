"""Runs `agent tools certify`."""

import argparse
from typing import TYPE_CHECKING

from agent_resolver.capability.certificate import (
    Certificate,
    Check,
    Finding,
    certify,
    refused,
)
from agent_resolver.capability.errors import UnsafeCapability
from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json
from agent_resolver.cli.resolved_at import resolved_at
from agent_resolver.core.count import counted
from agent_resolver.project.manifest import committed_manifest, manifest_path
from agent_resolver.schema.lockfile import to_json
from agent_resolver.storage.file import read_head, write_atomic

if TYPE_CHECKING:
    from agent_resolver.project.session import Session
    from agent_resolver.registry.tool import Tool

_SIGNS = {"failed": "✗", "passed": "✓", "skipped": "-"}
_HEADS = (b'{\n  "version": "1",\n  "success": ', b'{\n  "assessment-results": {\n')
"""What a file begins with that this command wrote."""


def run(options: argparse.Namespace) -> int:
    """Check every tool of the code, print what came of it and write the report."""
    certificate = _certify_project(session_of(options))
    is_oscal = options.format == "oscal"
    report: object = _oscal_report(certificate) if is_oscal else certificate
    if options.out:
        _write_certificate(options.out, report)
    if options.json or (is_oscal and not options.out):
        out_json(report)
    else:
        for check in certificate.checks:
            _print_check(check, certificate.tools)
        out(
            f"{'Certified' if certificate.success else 'Not certified'}: {counted(certificate.tools, 'tool')}"
        )
    return 0 if certificate.success else 1


def _certify_project(session: "Session") -> Certificate:
    from agent_resolver.project.blueprint import DescribedBlueprint, load_blueprints
    from agent_resolver.project.capability import load_capabilities

    try:
        capabilities = load_capabilities(session)
    except UnsafeCapability as error:
        # A tool that cannot be loaded at all is a failed check, and not an error of the
        # command.
        return refused(
            Finding(
                tool=error.capability_id,
                code=each.code,
                path=each.path,
                message=each.message,
            )
            for each in error.details
        )
    blueprints = load_blueprints(
        session, [capability.descriptor for capability in capabilities]
    )
    # Blueprints are offered as tools, and so certified as such, without an engine to
    # run them.
    tools: list[Tool] = [
        *capabilities,
        *(DescribedBlueprint(each.descriptor) for each in blueprints),
    ]
    if not tools:
        raise Refusal(
            "There are no tools to certify",
            "name modules in `[tools] modules` of agent.toml",
        )
    return certify(tools, committed_manifest(manifest_path(session)))


def _oscal_report(certificate: Certificate) -> dict[str, object]:
    from agent_resolver.exchange.oscal import oscal_document
    from agent_resolver.project.assessment import tools_assessment

    return oscal_document(tools_assessment(certificate, resolved_at(None)))


def _write_certificate(path: str, certificate: object) -> None:
    # A file is overwritten only if this command wrote it, in either of its formats.
    head = read_head(path, max(map(len, _HEADS)))
    if head and not head.startswith(_HEADS):
        raise Refusal(
            f"`{path}` exists and was not written by `agent tools certify`",
            "name another file, or move it away",
        )
    write_atomic(path, [to_json(certificate)])


def _print_check(check: Check, tools: int) -> None:
    count = (
        counted(len(check.findings), "finding")
        if check.findings
        else counted(tools, "tool")
    )
    show = err if check.status == "failed" else out
    show(
        f"{_SIGNS[check.status]} {check.name}: {check.note if check.status == 'skipped' else count}"
    )
    for finding in check.findings:
        err(f"  - {finding}")
    if check.note and check.status != "skipped":
        out(f"  note: {check.note}")
