"""Finds the tools for the clauses of a request, the clauses that no tool does, and the questions to the person."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, structs

from agent_resolver.core.shorten import shorten
from agent_resolver.reasoner.planner.clause import (
    MAX_CLAUSES,
    Clause,
    SplitRequest,
    split_articles,
    split_request,
)
from agent_resolver.reasoner.planner.clause_match import (
    LEAST_SCORE,
    ClauseMatch,
    Fit,
    ToolMatch,
    judge,
    match_clause,
)
from agent_resolver.reasoner.planner.relevance import Relevance, has_noun
from agent_resolver.reasoner.planner.several_things import split_things
from agent_resolver.reasoner.planner.stated_value import read_stated
from agent_resolver.reasoner.planner.synonym import is_reading, is_verb
from agent_resolver.reasoner.planner.tool_profile import (
    ToolProfile,
    is_read_only,
    profile_tool,
)
from agent_resolver.reasoner.planner.value_use import unused_in
from agent_resolver.reasoner.planner.word import stem
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.golden_path import MAX_INTENT, Answer, IntentKind
from agent_resolver.schema.planning import (
    REQUEST_KEY,
    Classified,
    PlanQuestion,
    PlanRequest,
)

NONE_OF_THEM: Final = "none"
_MAX_SHOWN: Final = 120
_MAX_MISSING: Final = 300
_LEAST_COVERED: Final = 2
_EMPTY_QUESTION_TEXT: Final = """\
left still remaining available going happening know say look happen happened up going news latest
"""
_EMPTY_QUESTION: Final = frozenset(map(stem, _EMPTY_QUESTION_TEXT.split()))
"""Words of a question that do not name what it is about."""


class Routed(Struct, frozen=True, kw_only=True):
    """A part of a request, which is a clause or several, with the tool that does it; no tool if that is missing."""

    number: int
    """Its place in the request, from 1."""
    clauses: tuple[Clause, ...]
    tool: Descriptor | None = None
    question: PlanQuestion | None = None
    """The question which tool is meant, where only the person can say."""

    @property
    def text(self) -> str:
        """The part as it was written."""
        return ", ".join(clause.text for clause in self.clauses)


class Routing(Struct, frozen=True, kw_only=True):
    """The parts of a request, each with its tool or its question."""

    split: SplitRequest
    parts: tuple[Routed, ...] = ()
    unclear: PlanQuestion | None = None
    """The question that the request as a whole leaves open."""

    @property
    def routed(self) -> tuple[Routed, ...]:
        """The parts without an open question."""
        return tuple(part for part in self.parts if part.question is None)

    @property
    def questions(self) -> tuple[PlanQuestion, ...]:
        """Every question that is open."""
        open_questions = [part.question for part in self.parts if part.question]
        return (self.unclear,) if self.unclear else tuple(open_questions)


class ToolManifest:
    """The tools of a request, in the order of their ids, with the words that they are found by."""

    def __init__(self, tools: Sequence[Descriptor]) -> None:
        # Of two tools with one id the first counts, and the order of the list counts
        # for nothing else.
        by_id = {tool.id: tool for tool in reversed(tools)}
        self.tools = {name: by_id[name] for name in sorted(by_id)}
        self.profiles = tuple(profile_tool(tool) for tool in self.tools.values())
        self.relevance = Relevance(self.profiles)
        # A tool may be called after a verb that the lists lack; in requests over these
        # tools it counts as one then.
        self._verbs = frozenset(
            verb for profile in self.profiles for verb in profile.verbs
        )

    def is_verb(self, word: str) -> bool:
        """True if a stem is that of a verb, in English or in the id of a tool."""
        return is_verb(word) or word in self._verbs

    def knows(self, clause: Clause) -> bool:
        """True if a clause has a verb, or a word that some tool has."""
        return bool(clause.verb) or any(
            map(self.relevance.knows, (*clause.objects, *clause.others))
        )

    def match(self, clause: Clause) -> ClauseMatch:
        """The tools that fit a clause best."""
        return match_clause(clause, self.profiles, self.relevance)


def newest_answer(answers: Sequence[Answer], key: str) -> str | None:
    """The newest answer to a question; None if there is none."""
    found = [answer.words for answer in answers if answer.key == key]
    return found[-1].strip() if found else None


def words_of(request: PlanRequest) -> str:
    """The words of the request: the intent, or the answer of the person where the intent was not clear."""
    # An answer takes the place of the request, and is held to the same length.
    return (newest_answer(request.answers, REQUEST_KEY) or request.intent)[:MAX_INTENT]


def classify(request: PlanRequest) -> Classified:
    """Find the tools that a request takes, in its order."""
    return classify_routing(route(request, ToolManifest(request.tools)))


def classify_routing(routing: Routing) -> Classified:
    """Sums up the parts of a request: its kind, its tools and what is missing."""
    if routing.questions:
        return Classified(questions=routing.questions)
    tools = tuple(each.tool.id for each in routing.routed if each.tool)
    missing = tuple(missing_words(each) for each in routing.routed if not each.tool)
    return Classified(kind=kind_of(tools, missing), tools=tools, missing=missing)


def missing_words(part: Routed) -> str:
    """The words for a part that no tool does."""
    return shorten(part.text, _MAX_MISSING)


def kind_of(tools: tuple[str, ...], missing: tuple[str, ...]) -> IntentKind:
    """The word for a request that takes these tools and lacks those."""
    if tools and missing:
        return "BOTH"
    return "BLUEPRINT" if tools else "CAPABILITY"


# Routing ------------------------------------------------------------------------------


def route(request: PlanRequest, manifest: ToolManifest) -> Routing:
    """Find the tool of each clause."""
    split = split_request(words_of(request), manifest.is_verb)
    known = any(map(manifest.knows, split.clauses))
    if question := _unclear(split, is_known=known):
        return Routing(split=split, unclear=question)
    matches = [
        match for clause in split.clauses for match in _matches(clause, manifest)
    ]
    if whole := _tool_for_all(matches, manifest):
        return Routing(
            split=split, parts=(Routed(number=1, clauses=split.clauses, tool=whole),)
        )
    parts = [
        _decide(number, match, request.answers)
        for number, match in enumerate(matches, start=1)
    ]
    return Routing(split=split, parts=tuple(parts))


def _unclear(split: SplitRequest, *, is_known: bool) -> PlanQuestion | None:
    """The question that a request as a whole leaves open."""
    text = ""
    if split.condition:
        shown = shorten(split.condition, _MAX_SHOWN)
        text = f'A plan that is made without a model has no conditions and no repetition, as in "{shown}". '
        text += "What should be done, without them?"
    elif split.is_too_long:
        text = f"The request asks for more than {MAX_CLAUSES} things. What should be done first?"
    elif not split.clauses or not is_known:
        text = 'What should be done? Say it in a sentence, such as: Open a ticket titled "Login fails".'
    return PlanQuestion(key=REQUEST_KEY, text=text) if text else None


def _matches(clause: Clause, manifest: ToolManifest) -> list[ClauseMatch]:
    """The match of a clause; of its parts, if each of them clearly has a tool of its own."""
    whole = manifest.match(clause)
    # Several things of one verb come first: a tool that fits the whole clause would
    # take one value and drop the others.
    if several := _several(whole, manifest):
        return several
    if found := _looked_up(whole, manifest) or _other_antecedent(whole, manifest):
        return [found]
    parts = split_articles(clause, manifest.is_verb)
    if len(parts) > 1:
        matches = list(map(manifest.match, parts))
        tools = {match.best[0].id for match in matches if match.is_certain}
        # Two parts with one tool are more likely two objects of a single call.
        if len(tools) == len(parts):
            return matches
    return [whole]


def _several(whole: ClauseMatch, manifest: ToolManifest) -> list[ClauseMatch]:
    """The matches of several things of one verb; empty unless they take values that the clause as a whole does not."""
    ways = [*split_things(whole.clause, manifest.is_verb)]
    if not ways or (whole.is_certain and _takes_all(whole)):
        return []
    for parts in ways:
        matches = list(map(manifest.match, parts))
        # Every part has to be certain: a reading that leaves a value over is no better
        # than the whole clause.
        if all(match.is_certain and _takes_all(match) for match in matches):
            return matches
    return []


def _looked_up(whole: ClauseMatch, manifest: ToolManifest) -> ClauseMatch | None:
    """The match of a question that names only values, such as "Is any SKU-31 left?"; None if it is not one.

    It asks for the one tool that only reads, needs nothing else, and takes all of the values.
    """
    clause = whole.clause
    # A clause that names its thing and has a certain tool for it needs no second
    # reading.
    if not is_reading(clause.verb) or (whole.is_certain and clause.heads):
        return None
    readers = [profile for profile in manifest.profiles if is_read_only(profile.tool)]
    found = [profile for profile in readers if _answers(clause, profile)]
    # Of several tools that could answer none is picked here: the usual rules decide, or
    # the person does.
    if len(found) != 1:
        return None
    # The words gave no score, since the question names only values; the match has the
    # least score that counts.
    match = ToolMatch(profile=found[0], fit=Fit.CLEAR, score=LEAST_SCORE)
    return ClauseMatch(clause=clause, best=(match,))


def _answers(clause: Clause, profile: ToolProfile) -> bool:
    """True if a question states all that a tool must be told, and asks about nothing that the tool does not know."""
    stated = read_stated(clause.source, profile.fields, profile.things, clause.verb)
    required = [field.name for field in profile.fields if field.is_required]
    # A field that is stated twice, with different words, is as open as one that is not
    # stated at all.
    is_told = bool(required) and all(
        len(stated.values.get(name, ())) == 1 for name in required
    )
    if not is_told or unused_in(clause.source, stated.spans):
        return False
    words = frozenset(profile.weights)
    return all(
        has_noun(word, words) for word in clause.objects if word not in _EMPTY_QUESTION
    )


def _other_antecedent(whole: ClauseMatch, manifest: ToolManifest) -> ClauseMatch | None:
    """The match of a clause whose pronoun means another thing than the object before it; None if that is not clear."""
    if not whole.is_missing:
        return None
    found = []
    for noun in whole.clause.antecedents:
        clause = structs.replace(whole.clause, objects=(noun,), heads=(noun,))
        match = manifest.match(clause)
        if match.is_certain:
            found.append(match)
    return found[0] if len(found) == 1 else None


def _takes_all(match: ClauseMatch) -> bool:
    """True if the best tool takes every value that the clause states."""
    clause = match.clause
    profile = match.best[0].profile
    # The head of the clause is the person's own word for the thing, which a bare number
    # may follow.
    things = [*profile.things, *clause.heads[:1]]
    stated = read_stated(clause.source, profile.fields, things, clause.verb)
    return not unused_in(clause.source, stated.spans)


def _tool_for_all(
    matches: list[ClauseMatch], manifest: ToolManifest
) -> Descriptor | None:
    """The one tool that does all clauses by itself, and little else; None if there is none, or several.

    It fits better than a tool for each clause only if it does at least as many things as there are clauses.
    """
    clauses = [match.clause for match in matches]
    if len(clauses) < _LEAST_COVERED:
        return None
    found = [profile for profile in manifest.profiles if _covers(profile, clauses)]
    return found[0].tool if len(found) == 1 else None


def _covers(profile: ToolProfile, clauses: list[Clause]) -> bool:
    verbs = len(profile.verbs) + len(profile.later_verbs)
    # A tool that does far more things than the request has clauses would do what the
    # request does not ask for.
    does_several = profile.later_verbs and abs(verbs - len(clauses)) <= 1
    return bool(does_several) and all(
        judge(clause, profile, is_whole=False) is Fit.CLEAR for clause in clauses
    )


def _decide(number: int, match: ClauseMatch, answers: Sequence[Answer]) -> Routed:
    """The tool of a clause, or the question which one is meant."""
    part = Routed(number=number, clauses=(match.clause,))
    if match.is_missing:
        return part
    tools = {each.id: each.profile.tool for each in match.best}
    if match.is_certain:
        return structs.replace(part, tool=match.best[0].profile.tool)
    # Only where it is in doubt that any tool is meant may the person say that none is.
    in_doubt = match.best[0].fit is Fit.DOUBT
    choices = (*tools, NONE_OF_THEM) if in_doubt else (*tools,)
    key = f"choice.{number}"
    answer = newest_answer(answers, key)
    # Any other answer leads to the same question again, with a note that it is not one
    # of the choices.
    if answer is not None and answer in choices:
        return structs.replace(part, tool=tools.get(answer))
    question = PlanQuestion(
        key=key, text=_which(match, tools, answer, in_doubt=in_doubt), choices=choices
    )
    return structs.replace(part, question=question)


def _which(
    match: ClauseMatch,
    tools: dict[str, Descriptor],
    answer: str | None,
    *,
    in_doubt: bool,
) -> str:
    shown = shorten(match.clause.text, _MAX_SHOWN)
    names = " or ".join(f"`{name}`" for name in tools)
    asked = (
        f'Is {names} meant by "{shown}"?'
        if in_doubt
        else f'Which tool is meant by "{shown}": {names}?'
    )
    again = (
        ""
        if answer is None
        else f'"{shorten(answer, _MAX_SHOWN)}" is not one of the choices. '
    )
    return again + asked
