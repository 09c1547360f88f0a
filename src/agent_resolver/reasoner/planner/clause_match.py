"""Matches a clause with the tools that do what it asks for.

BM25 alone ranks tools, and cannot say that none fits. So a tool must pass a gate first: its verb must ask for the same
action as that of the clause, and it must be about the thing that the clause names. What passes only in part is in
doubt: a person is asked. Tools that pass are ranked by their score, and those within `MARGIN` of the best are equals.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from msgspec import Struct

from agent_resolver.reasoner.planner.clause import Clause
from agent_resolver.reasoner.planner.relevance import Relevance, count_matches, has_noun
from agent_resolver.reasoner.planner.synonym import (
    ALIKE,
    NONE,
    RELATED,
    is_light,
    is_listing,
    is_reading,
    makes_noun,
    verb_likeness,
)
from agent_resolver.reasoner.planner.tool_profile import ToolProfile, is_read_only

MARGIN: Final = 0.12
"""Tools whose scores differ by less than this part of the best are equals."""
LEAST_SCORE: Final = 0.15
"""A score that no tool with a matching word is below, whatever the number of tools."""
MAX_CHOICES: Final = 5
_VERB_WEIGHT: Final = 2.0
_OBJECT_WEIGHT: Final = 1.0
_OTHER_WEIGHT: Final = 0.4
_FITTING_ID: Final = 1.15
_UNFITTING_ID: Final = 0.8
# `summary` and `summarize` share six letters; with fewer, `contract` and `control`
# would be forms of one word.
_SAME_START: Final = 6


class Fit(IntEnum):
    """The certainty that a tool does what a clause asks for."""

    NO = 0
    DOUBT = 1
    CLEAR = 2


class ToolMatch(Struct, frozen=True, kw_only=True):
    """A tool for a clause."""

    profile: ToolProfile
    fit: Fit
    score: float

    @property
    def id(self) -> str:
        """The id of the tool."""
        return self.profile.id


class ClauseMatch(Struct, frozen=True, kw_only=True):
    """The tools that were found for a clause."""

    clause: Clause
    best: tuple[ToolMatch, ...] = ()
    """The best tool and its equals; none if no tool fits."""

    @property
    def is_certain(self) -> bool:
        """True if exactly one tool fits, without a doubt."""
        return len(self.best) == 1 and self.best[0].fit is Fit.CLEAR

    @property
    def is_missing(self) -> bool:
        """True if no tool fits."""
        return not self.best


def match_clause(
    clause: Clause,
    profiles: Sequence[ToolProfile],
    relevance: Relevance,
) -> ClauseMatch:
    """Find the tools for a clause, the best first; equal scores are in the order of ids."""
    found = []
    for profile in profiles:
        fit = judge(clause, profile)
        score = _score(clause, profile, relevance) if fit else 0.0
        if fit and score >= LEAST_SCORE:
            found.append(ToolMatch(profile=profile, fit=fit, score=score))
    if not found:
        return ClauseMatch(clause=clause)
    # A tool that clearly fits is never set aside for one in doubt that shares more
    # words with the clause.
    surest = max(match.fit for match in found)
    kept = sorted(
        (match for match in found if match.fit is surest),
        key=lambda match: (-match.score, match.id),
    )
    # Above the margin the best tool wins by itself; within it only the person can say
    # which one is meant.
    least = kept[0].score * (1 - MARGIN)
    return ClauseMatch(
        clause=clause,
        best=tuple(match for match in kept if match.score >= least)[:MAX_CHOICES],
    )


# The gate -----------------------------------------------------------------------------


def judge(clause: Clause, profile: ToolProfile, *, is_whole: bool = True) -> Fit:
    """Decide if a tool does what a clause asks for.

    Args:
        clause: The clause.
        profile: The tool.
        is_whole: False if the clause may be one of several things that the tool does.
    """
    verb_fit = _verb_fit(clause, profile, is_whole=is_whole)
    if verb_fit and not is_whole:
        # A part of what the tool does may name any of its nouns, and not only the thing
        # that the tool acts on.
        return (
            verb_fit
            if count_matches(clause.heads, profile.named) or not clause.heads
            else Fit.NO
        )
    # The weaker one counts: the right action on a doubtful thing is in doubt, and so is
    # the other way round.
    return min(verb_fit, _object_fit(clause, profile)) if verb_fit else Fit.NO


def _verb_fit(clause: Clause, profile: ToolProfile, *, is_whole: bool) -> Fit:
    if not clause.verb:
        # Words without a verb can be about a tool, but do not ask for it.
        return Fit.DOUBT
    # A verb that the description has besides makes a tool fit a part of its work, and
    # never a clause of its own.
    verbs = profile.verbs if is_whole else (*profile.verbs, *profile.later_verbs)
    likeness = _likeness(clause, verbs)
    if (
        likeness > RELATED
        or _is_noun_made(clause, profile)
        or _is_action_named(clause, profile)
    ):
        return Fit.CLEAR
    # To show something with a related verb does no harm. With any other verb, the
    # person is asked.
    if likeness == RELATED:
        return Fit.CLEAR if is_reading(clause.verb) else Fit.DOUBT
    return Fit.NO


def _likeness(clause: Clause, verbs: Sequence[str]) -> float:
    return max((verb_likeness(clause.verb, verb) for verb in verbs), default=NONE)


def _is_noun_made(clause: Clause, profile: ToolProfile) -> bool:
    """True if the verb of the clause is the noun of a tool that makes such things: "comment on ticket 7"."""
    return has_noun(clause.verb, profile.objects) and any(
        map(makes_noun, profile.verbs)
    )


def _is_action_named(clause: Clause, profile: ToolProfile) -> bool:
    """True if the object of the clause is the action of the tool: "make a reservation", "show me a summary".

    A verb that reads asks only for a tool that reads: to show a deployment is not to deploy.
    """
    is_asked = (
        is_read_only(profile.tool) if is_reading(clause.verb) else is_light(clause.verb)
    )
    return is_asked and any(
        _is_form(head, verb) for head in clause.heads for verb in profile.verbs
    )


def _is_form(noun: str, verb: str) -> bool:
    """True if a noun and a verb have the same stem, or begin alike as `summary` and `summarize` do."""
    return noun == verb or (
        len(verb) > _SAME_START and noun[:_SAME_START] == verb[:_SAME_START]
    )


# One function: each branch is one rule, and the first that applies decides; the order of
# the rules is the whole point.
def _object_fit(clause: Clause, profile: ToolProfile) -> Fit:
    """A tool must act on what the clause names; one that only has to do with such a thing is in doubt."""
    if clause.antecedents and _is_noun_made(clause, profile):
        # "Email each of them": who they are was said before, and is not what the tool
        # acts on.
        return Fit.CLEAR
    if len(clause.heads) > 1 and not _touches(clause.heads[-1], profile):
        # "Status of ticket 7": every thing may have a status, and only the ticket says
        # which one is meant.
        return Fit.DOUBT if count_matches(clause.heads, profile.objects) else Fit.NO
    if not clause.heads and is_reading(clause.verb):
        # "How many are left?" says nothing about what to look at.
        return Fit.DOUBT
    if not clause.heads or any(
        has_noun(head, profile.objects) for head in clause.heads
    ):
        return Fit.CLEAR
    if _is_action_named(clause, profile):
        return Fit.CLEAR
    return _indirect_fit(clause, profile)


def _indirect_fit(clause: Clause, profile: ToolProfile) -> Fit:
    """Judges a tool that acts on something else than the clause names."""
    if not any(_touches(head, profile) for head in clause.heads):
        return Fit.DOUBT if count_matches(clause.objects, profile.objects) else Fit.NO
    if _is_noun_made(clause, profile):
        return Fit.CLEAR
    if profile.has_own_noun:
        # "Delete ticket 7" does not ask for `tickets.remove_comment`.
        return Fit.DOUBT if clause.verb in profile.verbs else Fit.NO
    return Fit.CLEAR if _is_meant(clause, profile) else Fit.DOUBT


def _is_meant(clause: Clause, profile: ToolProfile) -> bool:
    """True if a tool that is called after its action alone does what the clause asks for."""
    if clause.verb in profile.verbs:
        return True
    # "Refund invoice 7": a tool of a related action is meant if it takes an invoice.
    takes_it = any(has_noun(head, profile.identified) for head in clause.heads)
    return takes_it and _likeness(clause, profile.verbs) > RELATED


def _touches(noun: str, profile: ToolProfile) -> bool:
    """True if a tool has to do with a thing, as what it acts on or as an input."""
    return has_noun(noun, profile.named) or has_noun(noun, profile.mentioned)


# The score ----------------------------------------------------------------------------


def _score(clause: Clause, profile: ToolProfile, relevance: Relevance) -> float:
    objects = dict.fromkeys(clause.objects, _OBJECT_WEIGHT)
    # A word that is an object already does not count once more among the others.
    others = {word: _OTHER_WEIGHT for word in clause.others if word not in objects}
    score = relevance.of_nouns({**others, **objects}, profile)
    # The verb may name the thing as well: "email Alice" asks for a mail.
    score += _OTHER_WEIGHT * relevance.of_word(clause.verb, profile)
    score += _VERB_WEIGHT * _verb_score(clause, profile)
    return score * _breadth(profile) * _identity(clause, profile)


def _verb_score(clause: Clause, profile: ToolProfile) -> float:
    is_alike = _is_noun_made(clause, profile) or _is_action_named(clause, profile)
    return max(ALIKE if is_alike else NONE, _likeness(clause, profile.verbs))


def _breadth(profile: ToolProfile) -> float:
    """A tool that does more than one thing does more than the clause asks for."""
    return 0.5 + 0.5 / (1 + len(profile.later_verbs))


def _identity(clause: Clause, profile: ToolProfile) -> float:
    """The factor for a tool that takes one thing or several, as the clause asks for."""
    if not is_reading(clause.verb):
        return 1.0
    # A number names one thing, so that the tool which takes an identifier is ahead of
    # the one that lists.
    if clause.has_number:
        return _FITTING_ID if profile.needs_id else 1.0
    if not clause.is_plural:
        return 1.0
    return _FITTING_ID if any(map(is_listing, profile.verbs)) else _UNFITTING_ID
