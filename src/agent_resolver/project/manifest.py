"""The manifest of tools that is committed beside the settings."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agent_resolver.core.manifest_diff import manifest_difference
from agent_resolver.project.errors import ManifestDrift, RefusedManifest
from agent_resolver.schema.errors import EditedManifest, InvalidManifest
from agent_resolver.schema.limit import MAX_MANIFEST_BYTES
from agent_resolver.schema.manifest import MANIFEST_NAME, Manifest, parse_manifest
from agent_resolver.storage.file import read_bounded, read_head

if TYPE_CHECKING:
    from agent_resolver.project.session import Session
    from agent_resolver.schema.descriptor import Descriptor


def manifest_path(project: "Session") -> str:
    """The path at which the manifest of a project is, or would be."""
    return os.path.relpath(os.path.join(project.root, MANIFEST_NAME))


def read_manifest(path: str) -> Manifest:
    """The manifest in a file.

    Raises:
        UnreadableFile: There is none, or it may not be read.
        RefusedManifest: It is no manifest, or not what was written.
    """
    try:
        return parse_manifest(read_bounded(path, MAX_MANIFEST_BYTES))
    except InvalidManifest as error:
        raise RefusedManifest(path, str(error), issues=error.issues) from None
    except EditedManifest as error:
        raise RefusedManifest(path, str(error), hint=error.hint) from None


def committed_manifest(path: str) -> Manifest | None:
    """The manifest in a file, or None where there is no file."""
    return None if read_head(path, 1) is None else read_manifest(path)


def require_no_drift(project: "Session", descriptors: Iterable["Descriptor"]) -> None:
    """Stop where the code offers other tools than the committed manifest says; where none is committed, go on.

    Raises:
        ManifestDrift: With every change.
        RefusedManifest: What is committed is no manifest, or not what was written.
    """
    from agent_resolver.registry.manifest import manifest_of

    path = manifest_path(project)
    committed = committed_manifest(path)
    if committed and (
        changes := manifest_difference(committed, manifest_of(descriptors))
    ):
        raise ManifestDrift(path, changes)
