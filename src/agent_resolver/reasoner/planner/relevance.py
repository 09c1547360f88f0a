"""BM25 over the words of tools: how well a tool fits some words, where rare words count more than common ones."""

from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Final

from agent_resolver.reasoner.planner.synonym import ALIKE, noun_synonyms
from agent_resolver.reasoner.planner.tool_profile import ToolProfile

K1: Final = 1.2
"""How soon further occurrences of a word stop counting."""
B: Final = 0.5
"""How much a long description counts against a tool."""


class Relevance:
    """Ranks tools by BM25, as Robertson and Zaragoza give it, with weighted occurrences."""

    def __init__(self, profiles: Sequence[ToolProfile]) -> None:
        self._count = len(profiles)
        # Scores are divided by the average, which must not be 0 without tools or for
        # tools without words.
        self._average = (
            sum(profile.length for profile in profiles) / max(1, self._count) or 1.0
        )
        self._having: dict[str, int] = {}
        for profile in profiles:
            for word in profile.weights:
                self._having[word] = self._having.get(word, 0) + 1

    def knows(self, word: str) -> bool:
        """True if some tool has the word."""
        return word in self._having

    def rarity(self, word: str) -> float:
        """The inverse document frequency of a word, always above 0."""
        having = self._having.get(word, 0)
        # The 1 keeps a word that most tools have from counting against them.
        return log(1 + (self._count - having + 0.5) / (having + 0.5))

    def of_word(self, word: str, profile: ToolProfile) -> float:
        """The score of one word."""
        weight = profile.weights.get(word, 0.0)
        if not weight:
            return 0.0
        norm = K1 * (1 - B + B * profile.length / self._average)
        return self.rarity(word) * weight * (K1 + 1) / (weight + norm)

    def of_noun(self, noun: str, profile: ToolProfile) -> float:
        """The score of a noun, or of a word for the same thing, which counts a little less."""
        others = [ALIKE * self.of_word(other, profile) for other in noun_synonyms(noun)]
        return max([self.of_word(noun, profile), *others])

    def of_nouns(self, nouns: Mapping[str, float], profile: ToolProfile) -> float:
        """The score of several nouns, each with its weight."""
        return sum(
            weight * self.of_noun(noun, profile) for noun, weight in nouns.items()
        )


def has_noun(noun: str, words: frozenset[str]) -> bool:
    """True if a noun, or a word for the same thing, is among some words."""
    return noun in words or any(other in words for other in noun_synonyms(noun))


def count_matches(nouns: Iterable[str], words: frozenset[str]) -> int:
    """Counts the nouns that are among some words."""
    return sum(has_noun(noun, words) for noun in nouns)
