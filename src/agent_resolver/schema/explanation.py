"""The explanation, `agents.resolution.json`: every choice and every rejection, with its reason."""

from enum import StrEnum

from msgspec import UNSET, Struct, UnsetType

from agent_resolver.schema.vocabulary import Residency, Sensitivity


class RejectionCode(StrEnum):
    """The reasons for which a server is not chosen, in the order of the checks."""

    # Below each member: its messages, then the cause and the remedy, as
    # docs/reason-codes.md has them.

    MISSING_CATEGORY = "MISSING_CATEGORY"
    """Server does not support category '<category>'

    The server's `categories` do not list the category of the requirement. That is normal for most servers of an index.
    If the server should count, compare the spelling of both: categories are compared as plain strings.
    """
    MISSING_SCOPE = "MISSING_SCOPE"
    """Server missing required scopes: <scopes>

    The server offers the category, but not every permission that the requirement asks for. The missing ones are listed,
    sorted. Ask for less, split the requirement in two if different servers may serve it, or correct `scopes` in the
    index if the server does offer them.
    """
    SCOPES_UNKNOWN = "SCOPES_UNKNOWN"
    """Agent requires the scopes <scopes> but the server's scopes are not known; if it offers that, write in
        mcp.overlay.yaml: servers: <line>

    The entry of the server leaves `scopes` out, as entries of published catalogues do. What is not known serves no
    requirement. If you know that the server offers the scopes, state them in the
    [overlay](file-formats.md#the-overlay): the message has the line to write.
    """
    FORBIDDEN_ACTION = "FORBIDDEN_ACTION"
    """Agent forbids '<pattern>' which matches '<scope>'

    The requirement asks for a scope that `constraints.actions.forbid` of the same agent file forbids. No other server
    will help: drop the permission, or narrow the pattern. `agent validate` [warns](#forbidden-scope) beforehand.
    """
    RESIDENCY_MISMATCH = "RESIDENCY_MISMATCH"
    """Agent requires '<residency>' but server supports: <residencies>

    The agent file asks for data to stay in one region, and the server lists neither that region nor `any`. See
    [residency](resolution.md#residency). If the server's list is empty, the message ends in `(none)`.
    """
    RESIDENCY_UNKNOWN = "RESIDENCY_UNKNOWN"
    """Agent requires '<residency>' but the server's residency is not known; if it offers that, write in
        mcp.overlay.yaml: servers: <line>

    The agent file asks for a region, and the index does not state where the server keeps data. What is not known
    satisfies no constraint. Find out, and state it in the [overlay](file-formats.md#the-overlay): the message has the
    line to write. Or drop the constraint.
    """
    SENSITIVITY_EXCEEDED = "SENSITIVITY_EXCEEDED"
    """Agent sensitivity '<sensitivity>' exceeds server max '<sensitivity>'

    The agent handles data above the server's `maxSensitivity`. See [sensitivity](resolution.md#sensitivity) for the
    order of the levels. Use another server; lower the agent's level only if the data really is less sensitive.
    """
    SENSITIVITY_UNKNOWN = "SENSITIVITY_UNKNOWN"
    """Agent sensitivity '<sensitivity>' but the server's max is not known; if it offers that, write in
        mcp.overlay.yaml: servers: <line>

    As `RESIDENCY_UNKNOWN`, for the sensitivity.
    """
    UNSIGNED_NOT_ALLOWED = "UNSIGNED_NOT_ALLOWED"
    """Server is not signed and the agent requires signed servers

    The agent file has `constraints.trust.requireSigned: true`, and the server's entry says `"signed": false`, or does
    not say. Use a signed server, or drop the constraint.
    """
    SERVER_WITHDRAWN = "SERVER_WITHDRAWN"
    """Server was withdrawn by its publisher

    The entry of the server says `"status": "deleted"`. Use another server. A server that is merely `deprecated` may be
    chosen.
    """
    LOST_TIE_BREAK = "LOST_TIE_BREAK"
    """Not selected: lost tie-break to '<server>'

    Nothing is wrong with the server; another came before it in the [tie-break](resolution.md#the-tie-break), and is
    named. To prefer this one, narrow the constraints or the permissions so that the other does not pass, or take the
    other out of the index.
    """


class Reason(Struct, frozen=True, gc=False):
    """A code for machines and a sentence for people."""

    code: RejectionCode
    """The [code](reason-codes.md#why-a-server-was-not-chosen) of a rule that the server breaks."""
    message: str
    """The message for people."""


class Rejection(Struct, frozen=True, rename="camel", gc=False):
    """A server that was not chosen for one requirement, and why."""

    server_id: str
    """The id of a server that was not chosen."""
    version: str
    """The version of that server."""
    reason: Reason


class Selection(Struct, frozen=True, kw_only=True, rename="camel"):
    """The server that was chosen for one requirement, and why."""

    server_id: str
    """The id of the chosen server."""
    version: str
    """The version of the chosen server."""
    endpoint: str
    """The address of the chosen server, as in the lock."""
    scopes: tuple[str, ...]
    """The scopes that are locked."""
    selection_reason: str
    """`Only matching candidate`, or the course of the [tie-break](resolution.md#the-tie-break)."""


class AppliedConstraints(Struct, frozen=True, kw_only=True, rename="camel"):
    """The constraint values that every server was held against; null where the agent file has none."""

    residency: Residency | None
    """The value in the agent file; null if it has none."""
    sensitivity: Sensitivity | None
    """The value in the agent file; null if it has none."""
    require_signed: bool | None
    """The value in the agent file; null if it has none."""


class RequirementExplanation(Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of one requirement."""

    category: str
    """The category of the requirement."""
    required_permissions: tuple[str, ...]
    """The permissions of the requirement, sorted."""
    selected: Selection | None
    """The chosen server, or null."""
    rejected: tuple[Rejection, ...]
    """Every other server of the index, sorted by id and version, with the first rule that it breaks."""
    constraints_applied: AppliedConstraints
    """The values that the servers were held against. `constraints.actions.forbid` is not among them."""


class EditKind(StrEnum):
    """The kinds of edits of an agent file that a failed resolution suggests."""

    # Below each member: its messages, then the cause and the remedy, as
    # docs/reason-codes.md has them.

    FIX_CATEGORY = "fix-category"
    """write `<category>` for `<category>` in `category`

    No server of the index offers the category, and one is spelt much like it. Only tried if the category as written
    does not exist at all.
    """
    FIX_SCOPE = "fix-scope"
    """write `<scope>` for `<scope>` in `permissions`

    The server offers exactly one scope that the written one is a slip of: other capitals, other separators, two
    neighbours that changed places in one word, or one letter that is wrong, missing or too much in one word of five
    letters or more. A digit is never a slip, and `get` is not `set`. A scope that the agent forbids, or asks for
    already, is never proposed.
    """
    DROP_SCOPE = "drop-scope"
    """drop `<scope>` from `permissions`

    The agent asks for less. At least one scope always stays.
    """
    ACCEPT_RESIDENCY = "accept-residency"
    """set `constraints.data.residency` to `<residency>`, which is `<residency>` now

    Data may go to a region that the server lists, or anywhere. To accept `any` counts double in the ranking.
    """
    LOWER_SENSITIVITY = "lower-sensitivity"
    """set `constraints.data.sensitivity` to `<sensitivity>`, which is `<sensitivity>` now

    Do this only if the data really is less sensitive: the edit changes what the file says, not the data.
    """
    ALLOW_UNSIGNED = "allow-unsigned"
    """set `constraints.trust.requireSigned` to `false`, which is `true` now

    Servers that are not signed may be chosen, for every requirement.
    """
    ALLOW_ACTION = "allow-action"
    """drop `<pattern>` from `constraints.actions.forbid`

    The whole pattern goes, with everything else that it forbids: scopes and tools. A narrower pattern in its place is
    often better; write it yourself.
    """

    @property
    def loosens(self) -> bool:
        """True if a constraint holds less after it."""
        return self not in {
            EditKind.FIX_CATEGORY,
            EditKind.FIX_SCOPE,
            EditKind.DROP_SCOPE,
        }


class Edit(Struct, frozen=True):
    """One change of an agent file."""

    kind: EditKind
    """The [kind](reason-codes.md#what-an-edit-does) of the edit."""
    path: str
    """The key to change. A path that begins with `requires.mcp` belongs to the requirement that failed."""
    before: str
    """The value now."""
    after: str | None
    """The value after the edit; null if the value is removed."""

    def __str__(self) -> str:
        key = self.path.removeprefix("requires.mcp.")
        if self.after is None:
            return f"drop `{self.before}` from `{key}`"
        if self.kind in {EditKind.FIX_CATEGORY, EditKind.FIX_SCOPE}:
            return f"write `{self.after}` for `{self.before}` in `{key}`"
        return f"set `{key}` to `{self.after}`, which is `{self.before}` now"


class Suggestion(Struct, frozen=True, kw_only=True, rename="camel"):
    """Edits that together give a failed requirement a server, and take none from any other requirement."""

    server_id: str
    """The id of the server that is chosen after the edits."""
    version: str
    """The version of that server."""
    edits: tuple[Edit, ...]
    """The edits of the agent file."""
    resolves_all: bool
    """True if nothing fails any more after the edits."""

    @property
    def loosens(self) -> bool:
        """True if a constraint holds less after it."""
        return any(edit.kind.loosens for edit in self.edits)


class NearMiss(Struct, frozen=True, rename="camel"):
    """A server that offers the category and breaks few rules, with every rule that it breaks."""

    server_id: str
    """The id of a server of the category that [comes near](resolution.md#when-nothing-is-left)."""
    version: str
    """The version of that server."""
    reasons: tuple[Reason, ...]
    """Every rule that the server breaks."""


class FailedRequirement(Struct, frozen=True, kw_only=True, rename="camel"):
    """A requirement that no server can serve, and what would change that."""

    category: str
    """The category of a requirement that failed."""
    required_permissions: tuple[str, ...]
    """The permissions of that requirement, sorted."""
    nearest: tuple[NearMiss, ...]
    """The servers that come closest, the closest first."""
    suggestions: tuple[Suggestion, ...]
    """At most two [suggestions](resolution.md#suggested-edits), the one that gives up least first."""


class Explanation(Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of every requirement."""

    agent_name: str
    """The name in the agent file."""
    agent_version: str
    """The version in the agent file."""
    resolved_at: str
    """As in the lock."""
    success: bool
    """True if every requirement found a server."""
    requirements: tuple[RequirementExplanation, ...]
    """The requirements, in the order of the lock."""
    failed: tuple[FailedRequirement, ...] | UnsetType = UNSET
    """The requirements that failed; present only if there is one."""
