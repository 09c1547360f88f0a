"""Parts of pages that are made from the program: `<!-- made by: NAME -->` stands before such a block."""

from itertools import groupby
from textwrap import fill

from agent_resolver.catalog import SYNONYMS, WORDS
from agent_resolver.runtime import known_models

_WIDTH = 116


def capabilities() -> str:
    """The words that a description can state."""
    return fill(" ".join(sorted(WORDS)), _WIDTH, break_on_hyphens=False) + "\n"


def synonyms() -> str:
    """The words that count as another one."""
    pairs = sorted((meant, written) for written, meant in SYNONYMS.items())
    groups = groupby(pairs, key=lambda pair: pair[0])
    return "".join(f"{', '.join(written for _, written in group)} → {meant}\n" for meant, group in groups)


def models() -> str:
    """The models that need no entry, by provider, and the families that other tools name."""
    table = known_models()
    lines = [f"as of {table.as_of}"]
    for name, provider in table.providers.items():
        served = [model for model, known in table.models.items() if known.provider == name]
        lines.append(f"{name} ({provider.api_key_env}): {', '.join(served)}")
    lines += [f"{family} → {newest}" for family, newest in table.families.items()]
    return "".join(fill(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False) + "\n" for line in lines)


MADE = {"capabilities": capabilities, "models": models, "synonyms": synonyms}
