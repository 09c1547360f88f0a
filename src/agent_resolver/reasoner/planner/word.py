"""Words as they are compared: lower case, split at case, `_` and `.`, and without their common English endings."""

import re
import unicodedata
from functools import lru_cache
from typing import Final

_WORD = re.compile(r"[^\W_]+")
# A capital after a small letter begins a word: `orderNumber` has two, while `SKU` stays
# whole.
_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_POSSESSIVE = re.compile(r"['\u2019]s\b")
_SHORTEST: Final = 3
_VOWELS: Final = frozenset("aeiouy")
_KEPT_DOUBLES: Final = frozenset("lsz")
_ENDINGS: Final = (
    ("ications", "i"),
    ("ication", "i"),
    ("ations", ""),
    ("ation", ""),
    ("itions", "it"),
    ("ition", "it"),
    ("ments", ""),
    ("ment", ""),
    ("ions", ""),
    ("ion", ""),
    ("ings", ""),
    ("ing", ""),
    ("ied", "i"),
    ("ed", ""),
    ("ies", "i"),
    ("sses", "ss"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("xes", "x"),
)
"""Each ending with what takes its place, the longest first; one is taken off at most."""

_STOP_WORDS_TEXT: Final = """\
a an the this that these those my our your his her its their some any all each every both another other one
ones i me we us you he she it they them him who whom whose which what there here is are was were be been being
am do does did done has have had having can could shall should will would may might must and or but nor so if
of in on at to for from by with about as into onto over under up out off via per than please kindly just also
then next first second finally now today tomorrow yesterday tonight soon asap again too very really quickly
immediately urgently right away not no yes need needs want wants like let lets us get got new named called
titled following given same own such only more most how many much when where why something anything everything
thing things stuff way sure ok okay hi hello hey thanks thank
"""
STOP_WORDS: Final = frozenset(_STOP_WORDS_TEXT.split())
"""Words that say nothing about which tool is meant."""


def split_words(text: str) -> list[str]:
    """The words of a text or of an identifier, in lower case."""
    # The same letters may come in several forms of Unicode, and have to be equal here.
    plain = unicodedata.normalize("NFKC", text)
    spaced = _CASE.sub(" ", _POSSESSIVE.sub("", plain))
    return [word.lower() for word in _WORD.findall(spaced)]


# A manifest repeats its words: with a cache, a thousand tools take tens of
# milliseconds.
@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """The part of a lower-case word that its forms share: `tickets`, `ticket`; `creating`, `created`, `creates`."""
    for ending, instead in _ENDINGS:
        kept = word.removesuffix(ending)
        if kept != word and _is_long_enough(kept):
            return _final(_undoubled(kept) + instead)
    # "Access", "status" and "analysis" end in "s" in the singular as well.
    if (
        word.endswith("s")
        and not word.endswith(("ss", "us", "is"))
        and len(word) > _SHORTEST
    ):
        return _final(word[:-1])
    return _final(word)


def _is_long_enough(kept: str) -> bool:
    """True if what is left can be a word: `sing` is not a form of `s`."""
    return len(kept) >= _SHORTEST and any(letter in _VOWELS for letter in kept)


def _undoubled(kept: str) -> str:
    """`cancell` of `cancelled` is `cancel`, while `mess` stays."""
    is_double = len(kept) > _SHORTEST and kept[-1] == kept[-2]
    return (
        kept[:-1]
        if is_double and (kept[-1] not in _KEPT_DOUBLES or kept.endswith("ll"))
        else kept
    )


def _final(kept: str) -> str:
    """The ending that forms do not share: `creat` for `create`, `repli` for `reply`."""
    if len(kept) > _SHORTEST and kept.endswith("e"):
        return kept[:-1]
    if len(kept) > _SHORTEST and kept.endswith("y") and kept[-2] not in _VOWELS:
        return f"{kept[:-1]}i"
    return kept


def stems(text: str) -> list[str]:
    """The stems of the words of a text that say something, in order."""
    return [stem(word) for word in split_words(text) if word not in STOP_WORDS]


def singular(word: str) -> str:
    """A lower-case noun without the ending of a plural, for names: `tickets` is `ticket`."""
    if word.endswith("ies") and len(word) > len("ties"):
        return f"{word[:-3]}y"
    if word.endswith(("sses", "ches", "shes", "xes")):
        return word[:-2]
    is_plural = (
        word.endswith("s")
        and not word.endswith(("ss", "us", "is"))
        and len(word) > _SHORTEST
    )
    return word[:-1] if is_plural else word
