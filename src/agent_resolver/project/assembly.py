"""Installs certified plans as blueprints of the project, and writes scaffolds for capabilities that are missing.

Both are tools: a task reaches them through the registry like every other effect, so that each is recorded, and done
once under its key.
"""

import os
from collections.abc import Callable
from typing import Any, Final

from msgspec import structs

from agent_resolver.capability.certificate import Certificate, certify
from agent_resolver.project.blueprint import (
    CheckedBlueprint,
    DescribedBlueprint,
    load_blueprints,
)
from agent_resolver.project.capability import load_capabilities
from agent_resolver.project.errors import InvalidBlueprints
from agent_resolver.project.manifest import committed_manifest, manifest_path
from agent_resolver.project.scaffold import scaffold_source
from agent_resolver.project.session import Session
from agent_resolver.reasoner.artifact import Artifacts
from agent_resolver.reasoner.task_tool import INSTALL, OWN_RULES, SCAFFOLD
from agent_resolver.registry.errors import ToolFailure
from agent_resolver.registry.tool import CallContext, Tool
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.blueprint_file import blueprint_bytes
from agent_resolver.schema.descriptor import Descriptor, Labels, ManifestTool
from agent_resolver.schema.limit import MAX_BLUEPRINT_BYTES
from agent_resolver.schema.lockfile import to_json
from agent_resolver.schema.manifest import Manifest, manifest_digest
from agent_resolver.schema.outcome import FailureCode
from agent_resolver.schema.planning import CapabilityDraft
from agent_resolver.storage.errors import FileError
from agent_resolver.storage.file import read_bounded, write_atomic

_ARGUMENTS: Final = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "maxLength": 200},
        "artifact": {"type": "string", "pattern": "^sha256-[0-9a-f]{64}$"},
        "id": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,128}$"},
    },
    "required": ["task", "artifact", "id"],
    "additionalProperties": False,
}
_SOURCE: Final = "the reasoner"

Offer = Callable[[CheckedBlueprint], None]
"""Offers a blueprint that was just installed, in the registry that is open."""


class InstallTool:
    """Installs a plan: its file, its entry in the committed manifest, and the tool in the open registry."""

    descriptor = Descriptor(
        id=INSTALL,
        description="Install a certified plan as a blueprint of the project.",
        input_schema=_ARGUMENTS,
        source=_SOURCE,
        rules=OWN_RULES,
        labels=Labels(kind="CAPABILITY"),
    )

    def __init__(self, session: Session, artifacts: Artifacts, offer: Offer) -> None:
        self._session = session
        self._artifacts = artifacts
        self._offer = offer

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Install the plan, or leave everything as it was.

        Raises:
            ToolFailure: The project is not set up for it, or its tools do not pass `agent tools certify` with it.
        """
        # Without this, a task could install a plan that was certified for another task.
        if arguments["task"] != context.run:
            raise ToolFailure(
                FailureCode.FORBIDDEN_ACTION, "A task installs its own plans alone"
            )
        blueprint = await self._artifacts.load(
            arguments["task"], arguments["artifact"], Blueprint
        )
        # Records and questions show the id of the call, so the artifact has to be what
        # they name.
        if blueprint.id != arguments["id"]:
            raise ToolFailure(
                FailureCode.TOOL_ERROR,
                f"The artifact is `{blueprint.id}`, not `{arguments['id']}`",
            )
        self._offer(_install(self._session, blueprint))
        return {"tool": blueprint.id}


class ScaffoldTool:
    """Writes the scaffold of a capability: a module that a person implements, and that no settings name yet."""

    descriptor = Descriptor(
        id=SCAFFOLD,
        description="Write the scaffold of a capability that has to be implemented.",
        input_schema=_ARGUMENTS,
        source=_SOURCE,
        rules=OWN_RULES,
        labels=Labels(kind="CAPABILITY"),
    )

    def __init__(self, session: Session, artifacts: Artifacts) -> None:
        self._session = session
        self._artifacts = artifacts

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Write the scaffold, unless there is a file in its place that a person may have worked on.

        Raises:
            ToolFailure: The file cannot be written.
        """
        if arguments["task"] != context.run:
            raise ToolFailure(
                FailureCode.FORBIDDEN_ACTION, "A task scaffolds its own drafts alone"
            )
        draft = await self._artifacts.load(
            arguments["task"], arguments["artifact"], CapabilityDraft
        )
        return {"file": _scaffold(self._session, draft)}


def assembly_tools(
    session: Session, artifacts: Artifacts, offer: Offer
) -> tuple[Tool, ...]:
    """The tools with which tasks change the project."""
    return InstallTool(session, artifacts, offer), ScaffoldTool(session, artifacts)


# Installing ---------------------------------------------------------------------------


def _install(session: Session, blueprint: Blueprint) -> CheckedBlueprint:
    """Write the file and the manifest, certify the tools with them, and undo both if that fails."""
    folder = _own_folder(session, session.config.reasoner.blueprints)
    _require_loaded(session, folder)
    path = os.path.join(folder, f"{blueprint.id}.json")
    content = blueprint_bytes(blueprint)
    # What is in both places is read before anything is written, so that it can be put
    # back.
    before = _bytes_of(path)
    # An interrupted attempt may have left the same bytes. Any other file is not the
    # task's to replace.
    if before is not None and before != content:
        message = f"`{path}` holds another blueprint"
        raise ToolFailure(FailureCode.NOT_CONFIGURED, message, "move it away")
    manifest = manifest_path(session)
    manifest_before = _bytes_of(manifest)
    is_done = False
    try:
        _write(path, content)
        # The plan is loaded from its file, as the next command will do it, and not
        # taken from the artifact.
        checked = _load(session, blueprint.id)
        committed = committed_manifest(manifest)
        # Without a committed manifest there is nothing that the tools could drift from.
        if committed is not None:
            _write(manifest, to_json(_with_entry(committed, checked.descriptor)))
        certificate = _certificate(session)
        if not certificate.success:
            message = (
                f"The tools do not pass with the plan: {_first_findings(certificate)}"
            )
            raise ToolFailure(
                FailureCode.TOOL_ERROR, message, "`agent tools certify` shows all of it"
            )
        is_done = True
    finally:
        # A plan that does not pass must leave no trace: the next command would load its
        # file.
        if not is_done:
            _restore(path, before)
            _restore(manifest, manifest_before)
    return checked


def _scaffold(session: Session, draft: CapabilityDraft) -> str:
    """Write a scaffold, and return its path below the project."""
    # The name of a Python module has neither dots nor dashes.
    name = draft.id.replace(".", "_").replace("-", "_").lower()
    path = os.path.join(
        _own_folder(session, session.config.reasoner.drafts), f"{name}.py"
    )
    if not os.path.lexists(path):
        _write(path, scaffold_source(draft).encode())
    return os.path.relpath(path, session.root)


def _load(session: Session, blueprint_id: str) -> CheckedBlueprint:
    """The blueprint as the project loads it from its file."""
    own = [capability.descriptor for capability in load_capabilities(session)]
    try:
        found = {each.blueprint.id: each for each in load_blueprints(session, own)}
    except InvalidBlueprints as error:
        raise ToolFailure(
            FailureCode.TOOL_ERROR, f"The plan cannot be loaded: {error}"
        ) from error
    if blueprint_id not in found:
        raise ToolFailure(
            FailureCode.TOOL_ERROR, f"No file of a blueprint is `{blueprint_id}`"
        )
    return found[blueprint_id]


def _with_entry(committed: Manifest, descriptor: Descriptor) -> Manifest:
    """A manifest with one more tool. The others stay as they are committed: a drift of theirs must not be hidden."""
    others = [tool for tool in committed.tools if tool.id != descriptor.id]
    tools = tuple(
        sorted((*others, ManifestTool.of(descriptor)), key=lambda tool: tool.order)
    )
    return structs.replace(committed, tools=tools, digest=manifest_digest(tools))


def _certificate(session: Session) -> Certificate:
    capabilities = load_capabilities(session)
    blueprints = load_blueprints(
        session, [capability.descriptor for capability in capabilities]
    )
    tools: list[Tool] = [
        *capabilities,
        *(DescribedBlueprint(each.descriptor) for each in blueprints),
    ]
    return certify(tools, committed_manifest(manifest_path(session)))


def _first_findings(certificate: Certificate) -> str:
    failed = [check for check in certificate.checks if check.status == "failed"]
    return "; ".join(
        f"{check.name}: {check.findings[0]}" for check in failed if check.findings
    )


# Files --------------------------------------------------------------------------------


def _own_folder(session: Session, named: str) -> str:
    """A folder of the project that the settings name; one outside of it, also behind a link, is refused."""
    folder = os.path.realpath(os.path.join(session.root, named))
    root = os.path.realpath(session.root)
    if os.path.commonpath([folder, root]) != root or folder == root:
        message = f"`{named}` is not a folder below the project"
        raise ToolFailure(
            FailureCode.NOT_CONFIGURED,
            message,
            "name one in `[reasoner]` of agent.toml",
        )
    return folder


def _require_loaded(session: Session, folder: str) -> None:
    """Refuse to install where nothing would be loaded from."""
    named = session.config.tools.blueprints
    loaded = {os.path.realpath(os.path.join(session.root, each)) for each in named}
    if folder not in loaded:
        shown = os.path.relpath(folder, session.root)
        message = (
            f"`[tools] blueprints` of agent.toml does not name the folder `{shown}`"
        )
        raise ToolFailure(FailureCode.NOT_CONFIGURED, message, f'add "{shown}" to it')


def _bytes_of(path: str) -> bytes | None:
    if not os.path.lexists(path):
        return None
    try:
        # The bound is for the manifest as well, which holds many tools.
        return read_bounded(path, 64 * MAX_BLUEPRINT_BYTES)
    except FileError as error:
        raise ToolFailure(FailureCode.TOOL_ERROR, str(error)) from error


def _write(path: str, content: bytes) -> None:
    try:
        write_atomic(path, [content])
    except FileError as error:
        raise ToolFailure(FailureCode.TOOL_ERROR, str(error)) from error


def _restore(path: str, before: bytes | None) -> None:
    """Put a file back as it was."""
    if before is not None:
        _write(path, before)
    elif os.path.lexists(path):
        os.unlink(path)
