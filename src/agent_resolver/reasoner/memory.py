"""Documents and states of systems in memory: the adapters for tests, examples and projects that have no others."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from math import log
from typing import Final

from msgspec import Struct

from agent_resolver.reasoner.knowledge_budget import measured_snippet
from agent_resolver.reasoner.port import HEALTH_STATES, HealthReport
from agent_resolver.schema.planning import Snippet

_WORD: Final = re.compile(r"\w+")
_BLANK_LINE: Final = re.compile(r"\n\s*\n")
_MAX_PASSAGE: Final = 2_000
_MAX_QUESTION_WORDS: Final = 64
# The usual constants of BM25: how soon more of the same word stops to count, and how
# much a long passage is held back.
_SATURATION: Final = 1.2
_LENGTH_WEIGHT: Final = 0.75
_DIGITS: Final = 9


class _Passage(Struct, frozen=True):
    source: str
    text: str
    counts: Counter[str]
    length: int


class MemoryRetriever:
    """Ranks the paragraphs of documents by their words with BM25. Equal fits come in the order of source and place."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        """A retriever of these documents: each text by its source."""
        self._passages = [
            _Passage(source, text, counts := Counter(_words(text)), counts.total())
            for source in sorted(documents)
            for text in _paragraphs(documents[source])
        ]
        self._frequency = Counter(
            word for passage in self._passages for word in passage.counts
        )
        total = sum(passage.length for passage in self._passages)
        self._usual_length = total / len(self._passages) if self._passages else 0.0

    async def find(self, text: str, limit: int) -> tuple[Snippet, ...]:
        """The paragraphs that share words with a text, the best fit first; at most `limit` of them."""
        # A request may have thousands of words, and each one costs a look at every
        # passage.
        words = list(dict.fromkeys(_words(text)))[:_MAX_QUESTION_WORDS]
        scored = [(self._score(passage, words), passage) for passage in self._passages]
        # The sort is stable, so equal scores keep the order of the passages.
        ranked = sorted(
            (pair for pair in scored if pair[0] > 0), key=lambda pair: -pair[0]
        )
        best = [passage for _, passage in ranked[: max(0, limit)]]
        return tuple(measured_snippet(passage.source, passage.text) for passage in best)

    def _score(self, passage: _Passage, words: list[str]) -> float:
        # BM25 normalises by length: a long passage has more words, and would else win
        # by its length alone.
        held_back = (
            1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * passage.length / self._usual_length
        )
        score = 0.0
        for word in words:
            count = passage.counts[word]
            score += (
                self._rarity(word)
                * count
                * (_SATURATION + 1)
                / (count + _SATURATION * held_back)
            )
        # The last digits may differ between machines, and must not decide about the
        # order.
        return round(score, _DIGITS)

    def _rarity(self, word: str) -> float:
        having = self._frequency[word]
        return log(1 + (len(self._passages) - having + 0.5) / (having + 0.5))


class MemoryHealth:
    """Knows the states that it was given."""

    def __init__(
        self, states: Mapping[str, str], summaries: Mapping[str, str] | None = None
    ) -> None:
        """States by system, such as `{"mail": "degraded"}`, and a sentence about those that have more to say.

        Raises:
            ValueError: A state is not one of `HEALTH_STATES`.
        """
        if unknown := sorted(set(states.values()) - set(HEALTH_STATES)):
            raise ValueError(
                f"a system is {', '.join(HEALTH_STATES)}, and not {', '.join(unknown)}"
            )
        self._states = dict(states)
        self._summaries = dict(summaries or {})

    async def report(self, systems: tuple[str, ...]) -> tuple[HealthReport, ...]:
        """Reports the state of each system, in the order asked; a system that was not given is `unknown`."""
        return tuple(
            HealthReport(
                system=system,
                state=self._states.get(system, "unknown"),
                summary=self._summaries.get(system, ""),
            )
            for system in systems
        )


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a document that have words; a long one comes in pieces that end after a word."""
    for paragraph in _BLANK_LINE.split(text):
        rest = paragraph.strip()
        while len(rest) > _MAX_PASSAGE:
            cut = rest.rfind(" ", 1, _MAX_PASSAGE + 1)
            # A piece without a blank is one very long word, which is cut inside.
            place = cut if cut > 0 else _MAX_PASSAGE
            yield rest[:place]
            rest = rest[place:].lstrip()
        if _WORD.search(rest):
            yield rest
