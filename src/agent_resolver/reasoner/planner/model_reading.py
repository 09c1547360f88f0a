"""The parts of a request that the rules leave open, and what the word of a model makes of them.

The rules come first: a part that they are certain about keeps its tool, and no model is asked about it. For the others
a model may choose among the tools that it was shown. For a part that asks to see something, tools that only read are
taken. Every other choice is a question to the person, who confirms it with a word; the answer names the tools, so that
nothing has to be asked again to know what was confirmed.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from agent_resolver.core.shorten import shorten
from agent_resolver.reasoner.planner.classifier import (
    NONE_OF_THEM,
    Routed,
    Routing,
    classify_routing,
    kind_of,
    missing_words,
    newest_answer,
)
from agent_resolver.reasoner.planner.clause import MAX_CLAUSES
from agent_resolver.reasoner.planner.synonym import is_reading
from agent_resolver.reasoner.planner.tool_profile import is_read_only
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.golden_path import Answer
from agent_resolver.schema.planning import Classified, PlanQuestion

Choice = tuple[str, ...]
"""The ids of the tools for a part, in order; empty where the person said that none is meant."""
_MAX_SHOWN: Final = 120
_MAX_TOOLS: Final = 50
_THEN: Final = " then "
_BETWEEN: Final = re.compile(r"\s*,\s*|\s+then\s+")


def open_parts(routing: Routing) -> tuple[Routed, ...]:
    """The parts without a tool: no tool fits, several do, or nothing is known of the words at all."""
    split = routing.split
    if routing.unclear is None:
        return tuple(part for part in routing.parts if part.tool is None)
    # Conditions and too long requests cannot be planned, whatever a model makes of
    # them.
    if split.condition or split.is_too_long:
        return ()
    return _whole_request(routing)


def _whole_request(routing: Routing) -> tuple[Routed, ...]:
    """Every clause as a part of its own, for a request in words that the rules do not know."""
    clauses = [
        clause
        for clause in routing.split.clauses
        if any(letter.isalnum() for letter in clause.text)
    ]
    return tuple(
        Routed(number=number, clauses=(clause,))
        for number, clause in enumerate(clauses, start=1)
    )


def confirmed_choices(
    parts: Sequence[Routed],
    answers: Sequence[Answer],
    tools: Mapping[str, Descriptor],
) -> dict[int, Choice]:
    """The parts about which the person has answered, with the tools of the answer; an answer of other words is none."""
    found: dict[int, Choice] = {}
    for part in parts:
        answer = newest_answer(answers, reading_key(part.text))
        # The answer is a choice as it was shown: the ids of tools with "then" or a
        # comma between them.
        named = tuple(_BETWEEN.split(answer.strip())) if answer else ()
        if answer == NONE_OF_THEM:
            found[part.number] = ()
        elif named and all(name in tools for name in named):
            found[part.number] = named
    return found


def apply_choices(
    routing: Routing,
    confirmed: Mapping[int, Choice],
    proposed: Mapping[int, Choice],
    tools: Mapping[str, Descriptor],
) -> Classified:
    """Classifies a request with the tools that a person confirmed and those that a model proposes.

    Args:
        routing: What the rules found. It is the answer wherever the others have nothing to add.
        confirmed: The tools of parts that the person confirmed.
        proposed: The tools of parts that a model proposes. One with a tool that is not there does not count.
        tools: The tools that a plan may use.
    """
    parts = open_parts(routing)
    known = {
        part.number: _usable(part, proposed.get(part.number, ()), tools)
        for part in parts
    }
    # With nothing new from a person or a model, the classification of the rules is the
    # answer.
    if not any(_has_news(part, confirmed, known) for part in parts):
        return classify_routing(routing)
    every = _whole_request(routing) if routing.unclear else routing.parts
    outcomes = [
        _outcome_of(part, confirmed.get(part.number), known.get(part.number, ()), tools)
        for part in every
    ]
    classified = _classified(outcomes)
    return classify_routing(routing) if classified is None else classified


def _has_news(
    part: Routed,
    confirmed: Mapping[int, Choice],
    known: Mapping[int, Choice],
) -> bool:
    """True if a person or a model said something about a part; a person also by denying what the rules ask about."""
    is_denied = part.question is not None and part.number in confirmed
    return is_denied or bool(known[part.number] or confirmed.get(part.number))


class _Outcome(Struct, frozen=True, kw_only=True):
    """The outcome for one part of a request: tools, a question, or words for what no tool does."""

    tools: Choice = ()
    question: PlanQuestion | None = None
    missing: str | None = None


def _classified(outcomes: Sequence[_Outcome]) -> Classified | None:
    """The classification by the outcomes of all parts; None if it is too long for the state of a task."""
    chosen = tuple(tool for outcome in outcomes for tool in outcome.tools)
    missing = tuple(
        outcome.missing for outcome in outcomes if outcome.missing is not None
    )
    # The state of a task is bounded: an answer that does not fit into it is not used at
    # all.
    if len(chosen) > _MAX_TOOLS or len(missing) > MAX_CLAUSES:
        return None
    questions = tuple(outcome.question for outcome in outcomes if outcome.question)
    if questions:
        return Classified(questions=questions)
    return Classified(kind=kind_of(chosen, missing), tools=chosen, missing=missing)


def _outcome_of(
    part: Routed,
    confirmed: Choice | None,
    proposal: Choice,
    tools: Mapping[str, Descriptor],
) -> _Outcome:
    """Decide about a part. The rules come first, then the person, and a model last."""
    if part.tool:
        return _Outcome(tools=(part.tool.id,))
    if confirmed:
        return _Outcome(tools=confirmed)
    # A person who confirmed no tool at all said that none of them is meant.
    is_open = confirmed is None
    if is_open and proposal:
        # A tool with an effect is not taken on the word of a model alone.
        if _only_looks(part, proposal, tools):
            return _Outcome(tools=proposal)
        return _Outcome(question=_confirmation(part, proposal))
    if is_open and part.question:
        return _Outcome(question=part.question)
    return _Outcome(missing=missing_words(part))


def _usable(part: Routed, proposal: Choice, tools: Mapping[str, Descriptor]) -> Choice:
    """A proposal that counts; empty for one that does not.

    Where the rules are certain that one of several tools is meant, a model can spare the person their question by one
    of those that only read, and cannot ask another one.
    """
    if not all(name in tools for name in proposal):
        return ()
    if part.question is None or NONE_OF_THEM in part.question.choices:
        return proposal
    is_choice = set(proposal) <= set(part.question.choices)
    return proposal if is_choice and _only_looks(part, proposal, tools) else ()


def _only_looks(
    part: Routed,
    proposal: Choice,
    tools: Mapping[str, Descriptor],
) -> bool:
    """True if a part asks to see something, and the tools only read: the worst that a wrong choice does is to show it.

    A part that asks to do something is not done by reading, whatever a model says.
    """
    asks_to_see = all(is_reading(clause.verb) for clause in part.clauses)
    return asks_to_see and all(is_read_only(tools[name]) for name in proposal)


def reading_key(words: str) -> str:
    """The key of the question about a part. It belongs to its words: an answer holds for no other request."""
    return f"choice.reading.{digest(words)[-12:]}"


def _confirmation(part: Routed, proposal: Choice) -> PlanQuestion:
    named = ", then ".join(f"`{name}`" for name in proposal)
    text = f'A model takes "{shorten(part.text, _MAX_SHOWN)}" to ask for {named}. Is that meant?'
    others = part.question.choices if part.question else (NONE_OF_THEM,)
    choices = dict.fromkeys((_THEN.join(proposal), *others))
    return PlanQuestion(key=reading_key(part.text), text=text, choices=tuple(choices))
