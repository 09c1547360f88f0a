"""`agent why`: why a server was chosen or not, with each fact and where it came from."""

import argparse
from collections.abc import Sequence

from msgspec import Struct

from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.fact_place import FactPlaces, position_in_file
from agent_resolver.cli.input import INDEX, load
from agent_resolver.cli.option import (
    Commands,
    add_agents,
    add_command,
    add_index,
    add_json,
)
from agent_resolver.cli.output import err, err_warnings, out, out_json, safe
from agent_resolver.core.constraint import positions_of
from agent_resolver.core.count import counted, plural
from agent_resolver.core.resolution import Resolution, resolve
from agent_resolver.core.rule import CONSTRAINTS, FACTS, names_behind
from agent_resolver.core.why_chosen import Answer, Verdict, why
from agent_resolver.project.open_index import OpenIndex
from agent_resolver.schema.agent_file import find_in_agent_file
from agent_resolver.schema.explanation import Reason
from agent_resolver.schema.index import Server
from agent_resolver.schema.tree import Node

_MOST_SHOWN = 50
_EXAMPLES = """\
  agent why reporting                which server serves the category, and every reason against the others
  agent why acme-reporting           for what it was chosen, or what speaks against it
  agent why acme-reporting@2.1.0 --json
"""


class Fact(Struct, frozen=True):
    """A value that decided something, and where it stands."""

    name: str
    value: object
    at: str

    def __str__(self) -> str:
        return f"{self.name}: {_render_value(self.value)} ({self.at})"


class _Places(FactPlaces):
    """The places of the values in the agent file, the index and the overlay."""

    def __init__(
        self, options: argparse.Namespace, tree: Node, index: OpenIndex
    ) -> None:
        super().__init__(index)
        self._agent_path = options.agents
        self._tree = tree

    def in_agent_file(self, path: Sequence[str | int]) -> str:
        return position_in_file(self._agent_path, find_in_agent_file(self._tree, path))


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "why",
        "say why a server was chosen, or every reason against it",
        _EXAMPLES,
    )
    parser.add_argument(
        "word",
        metavar="CATEGORY|SERVER",
        help="a category of the agent file, a server id or id@version",
    )
    add_agents(parser)
    add_index(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Answer for every requirement that the question is about; exit 1 if no server serves one of them."""
    inputs = load(options.agents, options.index or INDEX)
    resolution = resolve(inputs.agent, inputs.servers)
    answers = why(resolution, options.word)
    if not answers:
        raise _refuse_unknown_word(options.word, resolution)
    places = _Places(options, inputs.tree, inputs.index)
    standing = _places_of_requirements(answers, resolution, places)
    # A person reads the first servers alone; programs get all of them.
    most = None if options.json else _MOST_SHOWN
    code = 1 if any(map(_is_no, answers)) else 0
    # Positions are looked up only for the servers that are shown: finding them means
    # parsing the index once more.
    places.read_entries(
        verdict.server for answer in answers for verdict in answer.verdicts[:most]
    )
    if options.json:
        documents = [
            _answer_document(answer, resolution, places, at)
            for answer, at in zip(answers, standing, strict=True)
        ]
        out_json(
            {"success": code == 0, "word": options.word, "requirements": documents}
        )
        return code
    err_warnings(options.agents, inputs.warnings)
    _print_answers(answers, resolution, places, standing)
    return code


def _is_no(answer: Answer) -> bool:
    """True if the answer is no: none of the servers that offer the category serves it."""
    category = answer.requirement.category
    # The question may be about a server that does not offer the category, and then says
    # nothing about the category.
    is_about_category = all(
        category in verdict.server.categories for verdict in answer.verdicts
    )
    return is_about_category and not answer.is_served


def _refuse_unknown_word(word: str, resolution: Resolution) -> Refusal:
    from agent_resolver.schema.walker import suggestion

    asked = {choice.requirement.category for choice in resolution.choices}
    # The word may be a category that the index has and the agent file does not ask for.
    offering = len(resolution.pool.offering(word))
    if offering:
        offer = plural(offering, "offers", "offer")
        servers = counted(offering, "server")
        message = f"The agent file does not require `{word}`, which {servers} of the index {offer}"
        return Refusal(
            message,
            f"it requires {', '.join(f'`{category}`' for category in sorted(asked))}",
        )
    # The word may be a known server at a version that the index does not have.
    versions = sorted(map(str, resolution.pool.named(word.rpartition("@")[0])))
    if versions:
        return Refusal(
            f"The index does not have `{word}`",
            f"it has {', '.join(f'`{version}`' for version in versions)}",
        )
    known = {*asked, *(server.id for server in resolution.pool)}
    message = f"`{word}` is neither a category that the agent file requires nor a server of the index"
    return Refusal(message, suggestion(word, known) or "`agent discover` lists both")


def _limit_facts(resolution: Resolution, places: _Places) -> list[Fact]:
    found = [(limit, limit.value(resolution.limits)) for limit in CONSTRAINTS]
    return [
        Fact(limit.name, value, places.in_agent_file(limit.path))
        for limit, value in found
        if value is not None
    ]


def _server_facts(server: Server, places: _Places) -> dict[str, Fact]:
    return {
        fact.name: Fact(
            fact.name, fact.value(server), places.of_fact(server, fact.path)
        )
        for fact in FACTS
        if fact.is_worth_reporting(server)
    }


def _places_of_requirements(
    answers: Sequence[Answer], resolution: Resolution, places: _Places
) -> list[str]:
    """The place of the requirement of each answer; of equal ones each has its own."""
    positions = positions_of(
        (answer.requirement for answer in answers), resolution.agent
    )
    return [
        places.in_agent_file(("requires", "mcp", position)) for position in positions
    ]


def _decisive_facts(
    reason: Reason, facts: dict[str, Fact], limits: list[Fact]
) -> list[Fact]:
    """The facts that a reason rests on."""
    # A fact of the server takes the place of a constraint of the same name, such as
    # `residency`.
    known = {**{limit.name: limit for limit in limits}, **facts}
    return [known[name] for name in names_behind(reason.code)]


def _answer_document(
    answer: Answer, resolution: Resolution, places: _Places, at: str
) -> dict[str, object]:
    limits = _limit_facts(resolution, places)
    return {
        "category": answer.requirement.category,
        "permissions": answer.requirement.permissions,
        "at": at,
        "constraints": limits,
        "servers": [
            _verdict_document(verdict, limits, places) for verdict in answer.verdicts
        ],
        "otherServers": answer.others,
    }


def _verdict_document(
    verdict: Verdict, limits: list[Fact], places: _Places
) -> dict[str, object]:
    facts = _server_facts(verdict.server, places)
    return {
        "serverId": verdict.server.id,
        "version": verdict.server.version,
        "at": places.in_index(verdict.server),
        "chosen": verdict.chosen_because is not None,
        "selectionReason": verdict.chosen_because,
        "reasons": [
            {
                "code": reason.code,
                "message": reason.message,
                "facts": _decisive_facts(reason, facts, limits),
            }
            for reason in verdict.reasons
        ],
        "facts": list(facts.values()),
    }


def _print_answers(
    answers: Sequence[Answer],
    resolution: Resolution,
    places: _Places,
    standing: Sequence[str],
) -> None:
    """Print each answer, with an empty line between two of them."""
    for position, (answer, at) in enumerate(zip(answers, standing, strict=True)):
        if position:
            out()
        _print_answer(answer, resolution, places, at)


def _print_answer(
    answer: Answer, resolution: Resolution, places: _Places, at: str
) -> None:
    need = answer.requirement
    limits = _limit_facts(resolution, places)
    out(f"{safe(need.category)} asks for {', '.join(need.permissions)} ({at})")
    for limit in limits:
        out(f"  {limit}")
    out()
    for verdict in answer.verdicts[:_MOST_SHOWN]:
        _print_verdict(verdict, limits, places)
    more = len(answer.verdicts) - _MOST_SHOWN
    if more > 0:
        out(f"… and {more} more: `--json` has every one")
    if _is_no(answer):
        err(f"✗ No server serves `{safe(need.category)}`")
        err("hint: `agent resolve` says what would change that")
    if answer.others:
        do = plural(answer.others, "does", "do")
        out(
            f"{counted(answer.others, 'other server')} {do} not offer {safe(need.category)}"
        )


def _print_verdict(verdict: Verdict, limits: list[Fact], places: _Places) -> None:
    facts = _server_facts(verdict.server, places)
    at = places.in_index(verdict.server)
    if verdict.chosen_because is not None:
        out(
            f"✓ {safe(str(verdict.server))} is chosen: {safe(verdict.chosen_because)} ({at})"
        )
        # Id and version come first among the facts, and are in the line above already.
        for name in list(facts)[2:]:
            out(f"    {facts[name]}")
        return
    out(f"✗ {safe(str(verdict.server))} is not chosen ({at})")
    for reason in verdict.reasons:
        out(f"    {reason.code}: {safe(reason.message)}")
        for fact in _decisive_facts(reason, facts, limits):
            out(f"      {fact}")


def _render_value(value: object) -> str:
    if isinstance(value, tuple):
        return safe(", ".join(map(str, value))) or "(none)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "not known"
    return safe(str(value))
