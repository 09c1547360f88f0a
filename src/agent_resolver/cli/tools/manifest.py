"""Runs `agent tools manifest`."""

import argparse
import os
from typing import TYPE_CHECKING

from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json
from agent_resolver.cli.resolved_at import resolved_at
from agent_resolver.cli.tools.diff import print_changes
from agent_resolver.core.count import counted
from agent_resolver.core.manifest_diff import manifest_difference
from agent_resolver.project.manifest import committed_manifest, manifest_path
from agent_resolver.schema.lockfile import to_json
from agent_resolver.schema.manifest import MANIFEST_NAME, Manifest, is_manifest
from agent_resolver.storage.file import read_head, write_atomic

if TYPE_CHECKING:
    from agent_resolver.project.session import Session

_HEAD_BYTES = 4096
_CODE = "the code"


def run(options: argparse.Namespace) -> int:
    """Print the manifest, write it, or compare it with the one that is committed."""
    with session_of(options) as session:
        manifest = manifest_of_session(session)
        path = options.out or manifest_path(session)
    # `--check` comes first, since `--out` then names the file to compare with.
    if options.check:
        return _check_manifest(path, manifest, as_json=options.json)
    if options.out:
        return _write_manifest(options.out, manifest, as_json=options.json)
    out_json(manifest)
    return 0


def manifest_of_session(session: "Session") -> Manifest:
    """The manifest of the tools that the code of a project offers."""
    from agent_resolver.project.blueprint import own_descriptors
    from agent_resolver.registry.manifest import manifest_of

    if not (session.config.tools.modules or session.config.tools.blueprints):
        err(
            "hint: there are no tools here: `[tools] modules` in agent.toml names the modules that have them"
        )
    return manifest_of(own_descriptors(session), resolved_at(None))


def _write_manifest(path: str, manifest: Manifest, *, as_json: bool) -> int:
    head = read_head(path, _HEAD_BYTES)
    if head and not is_manifest(head):
        raise Refusal(
            f"`{path}` exists and was not written by `agent tools manifest`",
            "name another file, or move it away",
        )
    status = "written" if write_atomic(path, [to_json(manifest)]) else "unchanged"
    if as_json:
        out_json(
            {"success": True, "path": path, "status": status, "digest": manifest.digest}
        )
    else:
        out(
            f"✓ {path} {status}: {counted(len(manifest.tools), 'tool')}, {manifest.digest}"
        )
    return 0


def _check_manifest(path: str, manifest: Manifest, *, as_json: bool) -> int:
    # A missing file is a fault here: a check that compares with nothing would always
    # pass.
    committed = committed_manifest(path)
    if committed is None:
        raise Refusal(
            f"`{path}` is missing",
            f"write it with `agent tools manifest --out {_name_file(path)}`, and commit it",
        )
    changes = manifest_difference(committed, manifest)
    if as_json:
        out_json(
            {
                "success": not changes,
                "path": path,
                "digest": manifest.digest,
                "changes": changes,
            }
        )
    elif changes:
        print_changes(path, _CODE, changes)
        err(f"✗ {path} differs from the code")
        err(
            f"hint: review what changed, then run `agent tools manifest --out {_name_file(path)}` and commit it"
        )
    else:
        out(f"✓ {path} is what the code offers: {counted(len(manifest.tools), 'tool')}")
    return 1 if changes else 0


def _name_file(path: str) -> str:
    if os.path.dirname(path):
        return path
    return os.path.basename(path) or MANIFEST_NAME
