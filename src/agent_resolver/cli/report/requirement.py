"""The part of a report about one requirement: the server chosen for it, the reason, and the rejected ones."""

import shlex
from collections import Counter
from itertools import islice
from typing import Final

from msgspec import Struct

from agent_resolver.core.admission import Grant, Refused, grants_of
from agent_resolver.core.choice import Choice, rejections, selection
from agent_resolver.core.lock import lock_entry
from agent_resolver.core.resolution import Resolution
from agent_resolver.core.rule import promises_asked_region
from agent_resolver.schema.explanation import Rejection, RejectionCode
from agent_resolver.schema.index import Server

MOST_SHOWN: Final = 200
"""How many rejections, tools or differences one section lists in full."""


class ListedTool(Struct, frozen=True):
    """A tool that the index lists, the scopes it needs, and why the granted scopes do not open it, if so."""

    name: str
    scopes: tuple[str, ...]
    refused: Refused | None


class Answer(Struct, frozen=True, kw_only=True):
    """The outcome for one requirement."""

    number: int
    choice: Choice
    shown: tuple[Rejection, ...]
    """The first of the rejected servers that offer the category."""
    codes: dict[RejectionCode, int]
    """How many were rejected for each reason."""
    others: int
    """How many servers do not offer the category."""
    tools: tuple[ListedTool, ...]
    """Every tool that the index lists for the chosen server, by name."""
    promises_region: bool
    """False if the chosen server passes because it says `any`, where a region is asked for."""

    @property
    def category(self) -> str:
        """The category that is required."""
        return self.choice.requirement.category

    @property
    def asked(self) -> list[str]:
        """The scopes that the agent file asks for, each once."""
        # The order of the agent file is kept, and a scope that is written twice counts
        # once.
        return list(dict.fromkeys(self.choice.requirement.permissions))

    @property
    def server(self) -> Server | None:
        """The server that was chosen, if any was."""
        return self.choice.server

    @property
    def reason(self) -> str:
        """The reason why the server was chosen."""
        chosen = selection(self.choice)
        return chosen.selection_reason if chosen else ""

    @property
    def unused(self) -> list[str]:
        """The scopes that the chosen server offers and the agent file does not ask for."""
        offered = self.server.scopes if self.server else None
        return sorted(set(offered or ()) - set(self.choice.requirement.permissions))

    @property
    def command(self) -> str:
        """The command line that starts the chosen server, if it is one to start."""
        launch = self.server.launch if self.server else None
        if launch:
            return shlex.join((launch.command, *launch.args))
        return ""

    @property
    def open_tools(self) -> int:
        """The number of tools that the granted scopes open."""
        return sum(tool.refused is None for tool in self.tools)

    @property
    def rejected(self) -> int:
        """The number of servers that offer the category and were rejected."""
        return sum(self.codes.values())


def answers(resolution: Resolution) -> list[Answer]:
    """The outcome for each requirement."""
    # The entries are those that a lock would have, so that the tools are judged as a
    # run would judge them.
    entries = [
        lock_entry(choice.requirement, choice.server)
        for choice in resolution.choices
        if choice.server
    ]
    # No tool is admitted by name here: that is a setting of the project, and a page
    # rests on its inputs alone.
    grants = grants_of(entries, resolution.limits.forbid, ())
    found = []
    for number, choice in enumerate(resolution.choices, start=1):
        servers = resolution.pool.offering(choice.requirement.category)
        # The rejections are an iterator: of a large index only the first are kept, and
        # the rest is counted.
        rejected = rejections(choice, resolution.limits, servers)
        shown = tuple(islice(rejected, MOST_SHOWN))
        codes = Counter(rejection.reason.code for rejection in shown)
        codes.update(rejection.reason.code for rejection in rejected)
        found.append(
            Answer(
                number=number,
                choice=choice,
                shown=shown,
                # The order of the enum decides, so that the same reasons always appear
                # in the same order.
                codes={
                    reason: codes[reason] for reason in RejectionCode if codes[reason]
                },
                others=len(resolution.pool) - len(servers),
                tools=_listed_tools(choice.server, grants.get(str(choice.server))),
                promises_region=choice.server is None
                or promises_asked_region(choice.server, resolution.limits),
            )
        )
    return found


def _listed_tools(server: Server | None, grant: Grant | None) -> tuple[ListedTool, ...]:
    # Without a list of tools in the index, nothing can be said about them before the
    # server is asked.
    if server is None or grant is None or not server.tool_scopes:
        return ()
    by_name = sorted(server.tool_scopes.items())
    return tuple(
        ListedTool(name, tuple(sorted(scopes)), grant.refuse_as_pinned(name))
        for name, scopes in by_name
    )
