"""The categories of an imported server, from the words that its catalogue uses."""

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Final

_ALIASES: Final = "category_alias.toml"
_NOT_A_PURPOSE: Final = frozenset(
    {"remote", "mcp", "model-context-protocol", "modelcontextprotocol", "server"}
)
"""Words that catalogues put beside categories and that say nothing about what a server is for."""


def categories_of(words: Iterable[str]) -> tuple[str, ...]:
    """The words of a catalogue in small letters, with the categories that they mean, in order."""
    aliases = category_aliases()
    spelled = {_spell_category(word) for word in words}.difference(_NOT_A_PURPOSE, {""})
    meant = {category for word in spelled for category in aliases.get(word, ())}
    return tuple(sorted(spelled | meant))


@cache
def category_aliases() -> dict[str, tuple[str, ...]]:
    """Maps a word of a catalogue to the categories that it means."""
    listed: dict[str, list[str]] = tomllib.loads(
        files(__package__).joinpath(_ALIASES).read_text("utf-8")
    )
    found: dict[str, list[str]] = {}
    for category, words in sorted(listed.items()):
        for word in words:
            found.setdefault(word, []).append(category)
    return {word: tuple(categories) for word, categories in found.items()}


def _spell_category(word: str) -> str:
    return "-".join(word.lower().replace("_", " ").split())
