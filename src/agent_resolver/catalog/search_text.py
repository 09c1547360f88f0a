"""Text as the search sees it: one spelling for each thing, and questions in everyday words."""

import re
from collections.abc import Sequence
from typing import Final

_MOST_WORDS: Final = 16
"""How many words of a question count."""
_SHORTEST_START: Final = 3
"""How many letters a last word must have for longer words to count that begin like it."""
_WORD = re.compile(r"\w+")
_SIGNED_NAME = re.compile(
    r"(?<!\w)(?:(?P<cpp>c\+\+)|(?P<sharp>[cfj])\#|(?P<objc>objective-c)|(?P<asp>asp)?\.net\b"
    r"|(?P<js>node|vue|next|nuxt|react|express|three|d3)\.?js\b|(?P<cicd>ci(?: ?/ ?|[ -])cd\b)|(?P<ab>a/b)|(?P<r>r&d))",
    re.IGNORECASE,
)
"""Names that signs are part of, which a tokenizer would cut to pieces."""
_SPELLINGS: Final = {
    "a11y": "accessibility",
    "aks": "kubernetes",
    "auth": "authentication",
    "config": "configuration",
    "cpp": "cplusplus",
    "csharp": "csharp",
    "db": "database",
    "dbs": "database",
    "doc": "documentation",
    "docs": "documentation",
    "eks": "kubernetes",
    "gke": "kubernetes",
    "golang": "go",
    "i18n": "internationalization",
    "infra": "infrastructure",
    "js": "javascript",
    "k8s": "kubernetes",
    "kube": "kubernetes",
    "l10n": "localization",
    "nodejs": "node",
    "o11y": "observability",
    "objc": "objectivec",
    "perf": "performance",
    "postgres": "postgresql",
    "psql": "postgresql",
    "py": "python",
    "reactjs": "react",
    "repo": "repository",
    "repos": "repository",
    "ts": "typescript",
    "vuejs": "vue",
}
"""Maps other spellings of a word to the one that is indexed."""
_RELATED: Final = {
    "analyze": ("analysis", "analyst"),
    "analyse": ("analysis", "analyst"),
    "bug": ("debug", "debugger", "error"),
    "crash": ("debug", "debugger", "error"),
    "dataset": ("data",),
    "debug": ("debugger", "error"),
    "document": ("documentation",),
    "fast": ("performance", "latency"),
    "faster": ("performance", "latency"),
    "hack": ("penetration",),
    "llms": ("llm", "language"),
    "ml": ("machine", "learning"),
    "outage": ("incident",),
    "pr": ("review",),
    "pull": ("review",),
    "rag": ("retrieval", "augmented"),
    "secure": ("vulnerability",),
    "slow": ("performance", "latency"),
    "speed": ("performance", "latency"),
    "test": ("tester",),
    "tests": ("tester",),
    "translate": ("translation", "translator"),
}
"""Words that descriptions have where a question has another."""
_STOP_WORDS: Final = frozenset(
    """
    a about after again agent agents all also am an and any anyone are as at be because been before being best but by
    can cannot could did do does doing don each every find for from get give go had has have having help helps her here
    him his how i if in into is it its just know knows let like look looking make makes many me more most my myself need
    needs no not now of off on one only or other our ours out over own please run same she should show so some somebody
    someone something t take than that the their them then there these they thing things this those through to too under
    until up us use used using very want wants was we were what when where which while who whom why will with without
    would you your yours
    """.split()  # noqa: SIM905 - a hundred quotes would hide the words
) - {"go"}
"""Words that questions have and that say nothing of what is looked for."""


def searchable(text: str) -> str:
    """The text with one spelling for each name, as it is indexed."""
    named = _SIGNED_NAME.sub(_spell_out, text)
    return _WORD.sub(lambda found: _SPELLINGS.get(found[0].lower(), found[0]), named)


def _spell_out(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "cpp":
            name = "cplusplus"
        case "sharp":
            name = f"{found['sharp']}sharp"
        case "objc":
            name = "objectivec"
        case "js":
            name = f"{found['js']} javascript"
        case "cicd":
            name = "cicd deployment"
        case "ab":
            name = "abtest"
        case "r":
            name = "research"
        case _:
            name = f"{found['asp'] or ''} dotnet"
    return f" {name} "


def search_terms(text: str) -> list[str]:
    """The terms of the index for the words of a text, the last one also for words that only begin like it.

    Words that say nothing are left out, unless there are no others.
    """
    words = _WORD.findall(searchable(text))
    telling = [word for word in words if word.lower() not in _STOP_WORDS]
    kept = list(dict.fromkeys(telling or words))[:_MOST_WORDS]
    # In quotes a word is a word, whatever it may mean to the query language.
    terms = [f'"{word}"' for word in kept]
    if kept and kept[-1] == words[-1] and len(kept[-1]) >= _SHORTEST_START:
        terms[-1] += "*"  # It may not be whole yet.
    for word in kept:
        related = _RELATED.get(word.lower(), ())
        terms += [f'"{other}"' for other in related]
    return list(dict.fromkeys(terms))


def match_any(terms: Sequence[str], rare: Sequence[str]) -> str:
    """The question of the index for the agents that have any of the terms.

    Where some terms are rare, one of those has to be there: an agent that has only words that very many others have too
    is not worth the time it takes to rank it. The others still count for the rank.
    """
    any_term = " OR ".join(terms)
    if not rare or len(rare) == len(terms):
        return any_term
    return f"({' OR '.join(rare)}) AND ({any_term})"


def match_well(terms: Sequence[str]) -> Sequence[str]:
    """The questions of the index for agents that fit common terms well, those for the best fits first.

    To rank an agent takes twenty times as long as to find it, so a question should find few. First come the agents that
    have all terms outside their description, as in the name or the tags, then those that have all terms anywhere.
    """
    all_terms = " AND ".join(terms)
    # The second half finds nothing more: it makes the description count for the rank.
    outside_description = f"(- description : ({all_terms})) AND {all_terms}"
    if len(terms) == 1:
        return [outside_description]
    return [outside_description, all_terms]
