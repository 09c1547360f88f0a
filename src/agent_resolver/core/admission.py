"""Decides which tools of a locked server an agent may call: those that the locked scopes open, less the forbidden."""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from msgspec import UNSET, Struct

from agent_resolver.core.pattern import matches
from agent_resolver.core.tool_id import MAX_TOOL_NAME, is_usable_name, tool_id_fault
from agent_resolver.schema.lockfile import LockedServer


class AdmissionCode(StrEnum):
    """The reasons for which a tool is refused."""

    FORBIDDEN_ACTION = "FORBIDDEN_ACTION"
    SCHEMA_UNUSABLE = "SCHEMA_UNUSABLE"
    SCOPE_NOT_LOCKED = "SCOPE_NOT_LOCKED"
    TOOL_CHANGED = "TOOL_CHANGED"
    TOOL_ID_RESERVED = "TOOL_ID_RESERVED"
    TOOL_NAME_REPEATED = "TOOL_NAME_REPEATED"
    TOOL_NAME_UNUSABLE = "TOOL_NAME_UNUSABLE"
    TOOL_NOT_MAPPED = "TOOL_NOT_MAPPED"


class Refused(Struct, frozen=True):
    """A refusal of a tool: the reason, and what would have to change."""

    code: AdmissionCode
    message: str
    remedy: str
    details: tuple[str, ...] = ()
    """More for the operator, such as what changed. Callers do not see it: it may quote a text that a server wrote."""


class Grant(Struct, frozen=True, kw_only=True):
    """The rights over one locked server: which of its tools may be called."""

    server: str
    """The server's id."""
    scopes: frozenset[str]
    tool_scopes: Mapping[str, tuple[str, ...]]
    forbid: tuple[str, ...]
    admitted: frozenset[str]
    """Ids of tools that no tool map tells apart, and that the project admits by name."""
    nested: tuple[str, ...] = ()
    """Ids of other locked servers that begin with this server's id and a dot."""
    tools: Mapping[str, str] | None = None
    """The digest of the definition of each tool that the lock pins; None if it pins none."""

    def refuse(
        self,
        tool: str,
        *,
        is_repeated: bool = False,
        definition: str = "",
    ) -> Refused | None:
        """Return the reason why `tool` of this server may not be called, or None when it may.

        Args:
            tool: The name of the tool.
            is_repeated: True if the server lists the name more than once.
            definition: The digest of the definition that the server gives now; empty if it has none.

        1. Its name must be one that people can read and that no other tool of the server has, and its id must not be
           one that belongs to another server.
        2. Nothing that matches `constraints.actions.forbid`, by the tool's name or by a scope that it needs.
        3. Where the lock pins definitions, the tool must have the one that is pinned.
        4. A tool in the index's map needs all its scopes locked.
        5. A tool that no map mentions could do anything: it must be admitted by name.
        """
        if refused := self._unusable_name(tool, is_repeated=is_repeated):
            return refused
        needed = self.tool_scopes.get(tool)
        # A pattern may be written for the name, for the whole id, or for a scope that
        # the tool needs.
        if refused := forbidden(
            (tool, f"{self.server}.{tool}", *(needed or ())), self.forbid
        ):
            return refused
        if refused := self._changed_definition(tool, definition):
            return refused
        # An empty list of scopes states that the tool needs none; None states nothing
        # about it.
        if needed is not None:
            return self._missing_scopes(needed)
        if f"{self.server}.{tool}" in self.admitted:
            return None
        return Refused(
            AdmissionCode.TOOL_NOT_MAPPED,
            f"The lock does not say which scope opens '{tool}'",
            f'add it to `toolScopes` in the index, or `admit = ["{self.server}.{tool}"]` to `[tools]` in agent.toml',
        )

    def refuse_as_pinned(self, tool: str) -> Refused | None:
        """Return the reason why `tool` may not be called, if the server still gives the definition that the lock pins.

        For commands that look at a lock and ask no server.
        """
        return self.refuse(tool, definition=(self.tools or {}).get(tool, ""))

    def _unusable_name(self, tool: str, *, is_repeated: bool) -> Refused | None:
        # The message does not quote such a name, which may hold characters that steer a
        # terminal.
        if not is_usable_name(tool):
            return Refused(
                AdmissionCode.TOOL_NAME_UNUSABLE,
                f"A name of a tool has 1 to {MAX_TOOL_NAME} characters that can be printed",
                "ask the operator of the server to rename it",
            )
        if fault := tool_id_fault(f"{self.server}.{tool}"):
            return Refused(
                AdmissionCode.TOOL_NAME_UNUSABLE,
                f"With the id of its server before it, {fault}",
                "lock the server under a shorter id",
            )
        if is_repeated:
            return Refused(
                AdmissionCode.TOOL_NAME_REPEATED,
                f"{self.server} lists more than one tool named '{tool}', and a call could reach any of them",
                "ask the operator of the server to rename all but one",
            )
        # A tool `crm.find` of the server `acme` would have an id that belongs to a
        # server `acme.crm`.
        owner = next(
            (
                other
                for other in self.nested
                if f"{self.server}.{tool}".startswith(f"{other}.")
            ),
            None,
        )
        if owner is None:
            return None
        return Refused(
            AdmissionCode.TOOL_ID_RESERVED,
            f"{self.server} lists '{tool}', but ids that begin with '{owner}.' are those of the server {owner}",
            "rename the tool, or lock the other server under another id",
        )

    def refuse_removed(self, listed: Collection[str]) -> dict[str, Refused]:
        """The pinned tools that the server does not list any longer."""
        removed = (tool for tool in sorted(self.tools or ()) if tool not in listed)
        return {
            tool: Refused(
                AdmissionCode.TOOL_CHANGED,
                f"{self.server} no longer lists '{tool}', which the lock pins",
                self._how_to_accept(tool),
            )
            for tool in removed
        }

    def _changed_definition(self, tool: str, definition: str) -> Refused | None:
        if self.tools is None or self.tools.get(tool) == definition:
            return None
        if tool in self.tools:
            message = f"{self.server} has changed the definition of '{tool}' that the lock pins"
            return Refused(
                AdmissionCode.TOOL_CHANGED,
                message,
                self._how_to_accept(tool),
            )
        # A tool that a lock with pinned definitions does not name came after the lock
        # was made.
        unknown = f"{self.server} has added '{tool}', which the lock does not pin"
        return Refused(AdmissionCode.TOOL_CHANGED, unknown, self._how_to_accept(tool))

    def _how_to_accept(self, tool: str) -> str:
        return f"look at the change with `agent tools accept {self.server}.{tool}`"

    def _missing_scopes(self, needed: Iterable[str]) -> Refused | None:
        missing = [scope for scope in sorted(needed) if scope not in self.scopes]
        if not missing:
            return None
        return Refused(
            AdmissionCode.SCOPE_NOT_LOCKED,
            f"It needs scopes that are not locked: {', '.join(missing)}",
            "add them to the requirement's `permissions` in the agent file, and resolve again",
        )


def forbidden(names: Iterable[str], forbid: Iterable[str]) -> Refused | None:
    """Return the reason why a tool of these names and scopes is forbidden, or None when it is not."""
    for name in names:
        # Sorted, so that the message names the same pattern whatever the order in the
        # agent file.
        for pattern in sorted(forbid):
            if matches(pattern, name):
                return Refused(
                    AdmissionCode.FORBIDDEN_ACTION,
                    f"Agent forbids '{pattern}' which matches '{name}'",
                    "narrow `constraints.actions.forbid` in the agent file",
                )
    return None


def grants_of(
    entries: Iterable[LockedServer],
    forbid: tuple[str, ...],
    admitted: Iterable[str],
) -> dict[str, Grant]:
    """The rights over each locked server, by `id@version`: the scopes of all its entries together."""
    grants: dict[str, Grant] = {}
    locked = tuple(entries)
    by_name = frozenset(admitted)
    server_ids = sorted({entry.server_id for entry in locked})
    for entry in locked:
        name = f"{entry.server_id}@{entry.version}"
        # Two requirements may lock the same server, which then has one grant with the
        # scopes of both.
        before = grants[name].scopes if name in grants else frozenset()
        grants[name] = Grant(
            server=entry.server_id,
            scopes=before | frozenset(entry.scopes),
            tool_scopes=entry.tool_scopes or {},
            forbid=forbid,
            admitted=by_name,
            tools=None if entry.tools is UNSET else entry.tools,
            nested=tuple(
                other for other in server_ids if other.startswith(f"{entry.server_id}.")
            ),
        )
    return grants
