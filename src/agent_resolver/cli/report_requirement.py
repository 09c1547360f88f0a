"""What a report says of one requirement: the server chosen for it, why, and what was rejected."""

import shlex
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from agent_resolver.cli.report_drawing import residency_words
from agent_resolver.cli.report_markup import chips, code, constant, count, facts, name, sentence, table
from agent_resolver.core.admission import Grant, grants_of
from agent_resolver.core.choice import Choice, rejections, selection
from agent_resolver.core.lock import lock_entry
from agent_resolver.core.resolution import Resolution
from agent_resolver.core.server import Server, by_category
from agent_resolver.schema.explanation import Rejection, RejectionCode

_MOST_SHOWN: Final = 200
"""How many rejections, and how many tools, one section lists in full."""
_MOST_OPEN: Final = 25
"""How many rejections are in sight before a reader asks for them."""


class Answer(Struct, frozen=True, kw_only=True):
    """What became of one requirement."""

    number: int
    choice: Choice
    shown: tuple[Rejection, ...]
    """The first of the rejected servers that offer the category."""
    codes: dict[RejectionCode, int]
    """How many were rejected for each reason."""
    others: int
    """How many servers do not offer the category."""
    grant: Grant | None

    @property
    def rejected(self) -> int:
        """How many servers offer the category and were rejected."""
        return sum(self.codes.values())


def answers(resolution: Resolution) -> list[Answer]:
    """What became of each requirement."""
    offering = by_category(resolution.servers)
    entries = [lock_entry(choice.requirement, choice.server) for choice in resolution.choices if choice.server]
    grants = grants_of(entries, resolution.limits.forbid, ())
    found = []
    for number, choice in enumerate(resolution.choices, start=1):
        servers = offering.get(choice.requirement.category, [])
        rejected = rejections(choice, resolution.limits, servers)
        shown = tuple(islice(rejected, _MOST_SHOWN))
        codes = Counter(rejection.reason.code for rejection in shown)
        codes.update(rejection.reason.code for rejection in rejected)
        found.append(
            Answer(
                number=number,
                choice=choice,
                shown=shown,
                codes={reason: codes[reason] for reason in RejectionCode if codes[reason]},
                others=len(resolution.servers) - len(servers),
                grant=grants.get(str(choice.server)),
            )
        )
    return found


def requirement_section(answer: Answer) -> str:
    """The whole section of one requirement."""
    return "\n".join(_parts(answer))


def _parts(answer: Answer) -> Iterator[str]:
    anchor = f"requirement-{answer.number}"
    server = answer.choice.server
    state = '<span class="state good">Has a server</span>' if server else '<span class="state bad">No server</span>'
    yield f'<section class="card" id="{anchor}" aria-labelledby="{anchor}-title">'
    yield (
        f'<div class="requirement-head"><h3 id="{anchor}-title"><span class="number">{answer.number}</span> '
        f"<span>{name(answer.choice.requirement.category)}</span></h3>{state}</div>"
    )
    if server:
        yield from _chosen(answer, server)
    else:
        yield from _unserved(answer)
    yield from _rejections(answer)
    yield "</section>"


def _chosen(answer: Answer, server: Server) -> Iterator[str]:
    chosen = selection(answer.choice)
    reason = sentence(chosen.selection_reason) if chosen else ""
    yield f'<div class="chosen">{code(str(server))}<p>{reason}</p></div>'
    yield facts(_reach(answer, server))
    yield facts(_claims(server), "claims short")
    yield from _tools(answer, server)


def _reach(answer: Answer, server: Server) -> Iterator[tuple[str, str]]:
    asked = answer.choice.requirement.permissions
    unused = sorted(set(server.scopes) - set(asked))
    yield "Scopes granted", chips(dict.fromkeys(asked))
    yield "Offered, not granted", chips(unused, muted=True) if unused else "Nothing more"
    yield from _address(server)
    if not server.tool_scopes:
        said = "The index does not say which scopes open which tools. One is called only if admitted by name."
        yield "Tools", f'<span class="quiet">{said}</span>'


def _claims(server: Server) -> Iterator[tuple[str, str]]:
    yield "Publisher", name(server.publisher) if server.publisher else "Not stated"
    yield "Signed", {True: "Yes", False: "No", None: "Not known"}[server.signed]
    yield "Residency", chips(server.residency) if server.residency else residency_words(server).capitalize()
    yield "Highest sensitivity", code(server.max_sensitivity) if server.max_sensitivity else "Not known"
    if server.rate_limit_per_minute is not None:
        yield "Rate limit", f"{server.rate_limit_per_minute:g} calls a minute"


def _address(server: Server) -> Iterator[tuple[str, str]]:
    launch = server.launch
    if launch is None:
        yield "Endpoint", code(server.endpoint)
        return
    yield "Started as", code(shlex.join((launch.command, *launch.args)))
    yield "Speaks over", code(launch.transport)
    if launch.env:
        yield "Is given variables", chips(launch.env)
    yield "Pinned as", code(server.endpoint)


def _tools(answer: Answer, server: Server) -> Iterator[str]:
    if not server.tool_scopes or answer.grant is None:
        return
    tools = sorted(server.tool_scopes.items())
    refused = {tool: found for tool, _ in tools if (found := answer.grant.refuse(tool))}
    yield f"<h4>Tools: {len(tools) - len(refused):,} of {len(tools):,} open</h4>"
    rows = [
        (
            code(tool),
            ", ".join(map(code, sorted(scopes))) or "Nothing",
            f"Refused. {sentence(refused[tool].message)}" if tool in refused else "Open",
        )
        for tool, scopes in tools[:_MOST_SHOWN]
    ]
    caption = "Each tool that the index lists, the scopes it needs, and whether the granted scopes open it"
    yield table(caption, ("Tool", "Needs", "State"), rows, "tools")
    if len(tools) > _MOST_SHOWN:
        yield f'<p class="quiet">The index lists {count(len(tools) - _MOST_SHOWN, "more tool")}.</p>'


def _unserved(answer: Answer) -> Iterator[str]:
    offer = "1 server offers" if answer.rejected == 1 else f"{answer.rejected:,} servers offer"
    each = "it is" if answer.rejected == 1 else "each is"
    said = f"{offer} this category, and {each} rejected." if answer.rejected else "No server offers this category."
    yield f'<div class="chosen"><p>{said}</p></div>'
    yield facts([("Scopes asked for", chips(dict.fromkeys(answer.choice.requirement.permissions)))])


def _rejections(answer: Answer) -> Iterator[str]:
    yield "<h4>Other servers</h4>" if answer.choice.server else "<h4>Rejected servers</h4>"
    if answer.shown:
        tally = ", ".join(f"{number:,}\u00a0{constant(reason)}" for reason, number in answer.codes.items())
        opened = " open" if len(answer.shown) <= _MOST_OPEN else ""
        yield f"<details{opened}><summary>{count(answer.rejected, 'candidate')} rejected</summary>"
        rows = (
            (
                code(f"{rejection.server_id}@{rejection.version}"),
                constant(rejection.reason.code),
                sentence(rejection.reason.message),
            )
            for rejection in answer.shown
        )
        yield table(f"By reason: {tally}", ("Server", "Code", "Reason"), rows, "rejections")
        if answer.rejected > len(answer.shown):
            yield (
                f'<p class="quiet">{count(answer.rejected - len(answer.shown), "more candidate")} rejected: '
                "<code>agent resolve --explain</code> writes every one.</p>"
            )
        yield "</details>"
    yield f'<p class="quiet">{_others(answer)}</p>'


def _others(answer: Answer) -> str:
    match answer.others:
        case 0:
            whole = "Every server of the index offers this category."
            return whole if answer.rejected else "The index has no other server."
        case 1:
            return "1 server of the index does not offer this category."
        case number:
            return f"{number:,} servers of the index do not offer this category."
