"""The errors of a project.

ResolverError
├── DuplicateServers   several indexes have one server; holds every such pair
├── InvalidBlueprints  blueprints have faults; holds every one of each file
├── InvalidConfig      agent.toml, a variable or a flag is refused; holds every issue
├── InvalidSkills      prompts have faults; holds every one of each file
├── LockRefused        the lock does not hold, so nothing is connected
├── ManifestDrift      the code offers other tools than the committed manifest says; holds every change
├── MoveRefused        the state cannot be moved to another place
├── RefusedManifest    the committed manifest of tools cannot be used
├── RefusedStep        a step of a workflow cannot be taken
├── RotationRefused    the state cannot be sealed with another key
├── UntrustedFolder    a folder would decide what runs, and no person said that it may
├── UnusableBlueprints a folder that the settings name has no blueprints
├── UnusableEvals      there is no eval set, or its tools cannot be used
├── UnusableModule     a module of the project gives no tools
├── UnusableProvider   nothing can answer for the models of a provider
├── UnusableState      the state cannot be kept where the settings say
└── UnusableWorkspace  a folder cannot be searched for agent files
    └── EmptyWorkspace there are none
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agent_resolver.core.count import plural
from agent_resolver.core.lock_difference import Difference
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.issue import Issue

if TYPE_CHECKING:
    from agent_resolver.core.manifest_diff import ToolChange


_MOST_NAMED = 20


class InvalidConfig(ResolverError):
    """A layer of the settings is refused; holds every issue of it."""

    def __init__(self, source: str, issues: Sequence[Issue]) -> None:
        super().__init__(f"{source} is refused")
        self.source = source
        self.issues = tuple(issues)


class DuplicateServers(ResolverError):
    """Indexes that are compiled together have a server with one id and version; holds every such pair."""

    hint = "leave it in one of them"

    def __init__(self, twice: Sequence[str]) -> None:
        super().__init__(
            f"{len(twice)} {plural(len(twice), 'server is', 'servers are')} in more than one index"
        )
        self.details = tuple(twice[:_MOST_NAMED])


class InvalidBlueprints(ResolverError):
    """Blueprints of a project cannot be run; holds the faults of every file that has some."""

    def __init__(self, faults: Mapping[str, Sequence[Issue]]) -> None:
        super().__init__("; ".join(f"`{path}` is refused" for path in faults))
        self.faults = {path: tuple(issues) for path, issues in faults.items()}
        self.hint = "`agent blueprint check` checks them all"


class InvalidSkills(ResolverError):
    """Prompts of a planner cannot be used; holds the faults of every file that has some."""

    def __init__(self, faults: Mapping[str, Sequence[Issue]]) -> None:
        super().__init__("; ".join(f"`{path}` is refused" for path in faults))
        self.faults = {path: tuple(issues) for path, issues in faults.items()}
        self.hint = "`agent task skills` checks them"


class UnusableBlueprints(ResolverError):
    """The blueprints that `[tools] blueprints` names are not there."""

    def __init__(
        self, message: str, hint: str = "see `[tools] blueprints` in agent.toml"
    ) -> None:
        super().__init__(message)
        self.hint = hint


class UntrustedFolder(ResolverError):
    """Folders decide what would run, or which secrets are used, and no person trusts them."""

    def __init__(self, folders: Sequence[str], why: str) -> None:
        named = " and ".join(f"`{folder}`" for folder in folders)
        super().__init__(
            f"{named} {plural(len(folders), 'is', 'are')} not trusted, and {why}"
        )
        self.folders = tuple(folders)
        # Quoted, since a person copies the command, and the author of a repository
        # chose the name.
        commands = " and ".join(
            f"`agent trust-folder {shlex.quote(folder)}`" for folder in folders
        )
        self.hint = f"read what would run, then run {commands}; in CI give `--trust`"


class RotationRefused(ResolverError):
    """The state cannot be sealed with another key; it is as it was."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class MoveRefused(ResolverError):
    """The state cannot be moved to another place; it is as it was, and nothing is in the other place."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UnusableEvals(ResolverError):
    """There is no eval set to run, or its tools cannot be used."""

    def __init__(self, message: str, hint: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code


class UnusableModule(ResolverError):
    """A module that `[tools] modules` names gives no tools."""

    def __init__(
        self, name: str, why: str, hint: str = "see `[tools] modules` in agent.toml"
    ) -> None:
        super().__init__(f"The module `{name}` {why}")
        self.hint = hint


class UnusableProvider(ResolverError):
    """Nothing can answer for the models of a provider: its settings, its key or its script are not right."""

    def __init__(self, name: str, why: str, hint: str = "") -> None:
        super().__init__(f"The provider `{name}` cannot be used: {why}")
        self.name = name
        self.hint = hint or f"see `[providers.{name}]` in agent.toml"


class UnusableState(ResolverError):
    """The state cannot be kept where the settings say."""

    def __init__(
        self,
        what: str,
        hint: str = "use a `sqlite:///` or `postgresql://` address in `state.url`",
    ) -> None:
        super().__init__(f"The state cannot be kept with {what}")
        self.hint = hint


class LockRefused(ResolverError):
    """The lock is missing or does not hold; holds every difference."""

    details: tuple[Difference, ...]

    def __init__(
        self, message: str, differences: Sequence[Difference] = (), hint: str = ""
    ) -> None:
        super().__init__(message)
        self.details = tuple(differences)
        self.hint = hint


class ManifestDrift(ResolverError):
    """The code offers other tools than the committed manifest says; holds every change."""

    details: tuple["ToolChange", ...]

    def __init__(self, path: str, changes: Sequence["ToolChange"]) -> None:
        super().__init__(f"`{path}` differs from the code")
        self.details = tuple(changes)
        self.hint = f"review what changed, then run `agent tools manifest --out {path}` and commit it"


class RefusedManifest(ResolverError):
    """A manifest of tools is none, or is not what was written; holds every issue of it."""

    def __init__(
        self, path: str, why: str, *, issues: Sequence[Issue] = (), hint: str = ""
    ) -> None:
        super().__init__(f"`{path}` is refused: {why}")
        # Only issues have places, which are shown with the file that they lie in.
        self.source = path if issues else ""
        self.issues = tuple(issues)
        self.hint = hint


class RefusedStep(ResolverError):
    """A step of a workflow cannot be taken; has all that the reason says."""

    def __init__(self, number: int, heading: str, reason: ResolverError) -> None:
        super().__init__(f"Step {number}, `{heading}`: {reason}")
        self.number = number
        self.reason = reason
        self.hint = reason.hint
        self.source = reason.source
        self.issues = reason.issues
        self.details = reason.details
        self.exit_code = reason.exit_code


class UnusableWorkspace(ResolverError):
    """A folder cannot be searched for agent files."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class EmptyWorkspace(UnusableWorkspace):
    """No agent file below a folder has `requires`, so that it may be the wrong one."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"No agent file below `{folder}` has `requires`",
            "name the folder that holds them",
        )
