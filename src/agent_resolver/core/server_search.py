"""Finds servers by words: the same answer for the same index, whatever its order."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

_SEPARATOR: Final = re.compile(r"[^0-9a-z]+")


class ServerText(Struct, frozen=True):
    """The texts of a server that are searched."""

    id: str
    version: str
    name: str
    description: str
    categories: tuple[str, ...]


class Match(Struct, frozen=True):
    """A server that has some of the words, and how well it fits."""

    text: ServerText
    words: int
    """The number of words that it has."""
    score: int


def search_servers(words: Sequence[str], texts: Iterable[ServerText]) -> list[Match]:
    """The servers in which the most of these words occur, the best first."""
    # Words are taken apart as the texts are, so that an id can be searched for as it is
    # written.
    asked = [part for part in _words_of(*words) if part]
    matches = [_match(asked, text) for text in texts]
    most = max((match.words for match in matches), default=0)
    # Where no word is found at all, there is no match, and not a list of all servers.
    if not most:
        return []
    found = [match for match in matches if match.words == most]
    return sorted(found, key=_match_sort_key)


def _match_sort_key(match: Match) -> tuple[int, str, str]:
    return (-match.score, match.text.id, match.text.version)


def _match(words: Sequence[str], text: ServerText) -> Match:
    scores = [_score_word(word, text) for word in words]
    found = [score for score in scores if score > 0]
    return Match(text, words=len(found), score=sum(found))


def _score_word(word: str, text: ServerText) -> int:
    """The best place that a word has in a server; 0 if it has none."""
    # For a whole word, from the best place to the least: the first that has it counts.
    places = (
        (100, [text.id, text.name]),
        (50, _words_of(text.id, text.name)),
        (40, _words_of(*text.categories)),
        (10, _words_of(text.description)),
    )
    for score, found in places:
        if word in map(str.lower, found):
            return score
    # Part of a word counts least: `repo` for `repository`.
    if word in text.id.lower() or word in text.name.lower():
        return 20
    if any(word in category.lower() for category in text.categories):
        return 15
    if word in text.description.lower():
        return 3
    return 0


def _words_of(*texts: str) -> list[str]:
    found: list[str] = []
    for text in texts:
        found += _SEPARATOR.split(text.lower())
    return found
