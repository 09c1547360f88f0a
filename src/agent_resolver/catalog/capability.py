"""Derives the capabilities of an agent file that states none."""

import re
from itertools import pairwise
from typing import Final

WORDS: Final = frozenset(
    """
    accessibility analytics android angular ansible api architecture authentication automation aws azure backend
    blockchain caching ci/cd cloud code-review compliance css data database debugging deployment design devops django
    docker documentation elasticsearch encryption fastapi flutter frontend gcp git go graphql infrastructure
    integration ios java javascript kafka kotlin kubernetes linux llm logging machine-learning marketing microservices
    migration mobile mongodb monitoring networking node observability optimization orchestration payments performance
    php planning postgresql python rag react redis refactoring research rest ruby rust sales scalability scraping
    search security seo sql swift terraform testing typescript ui ux vue websocket writing
    """.split()  # noqa: SIM905 - a hundred quotes would hide the words
)
"""The capabilities that a description can state."""

_WORD = re.compile(r"[a-z0-9]+(?:[-/][a-z0-9]+)*")
SYNONYMS: Final = {
    "architect": "architecture",
    "architectural": "architecture",
    "architectures": "architecture",
    "apis": "api",
    "ci-cd": "ci/cd",
    "containerization": "docker",
    "databases": "database",
    "deployments": "deployment",
    "documenting": "documentation",
    "golang": "go",
    "k8s": "kubernetes",
    "ml": "machine-learning",
    "optimizing": "optimization",
    "postgres": "postgresql",
    "refactor": "refactoring",
    "secure": "security",
    "test": "testing",
    "tests": "testing",
}


def derived_capabilities(description: str) -> tuple[str, ...]:
    """The capabilities that a description names, in order: whole words of a fixed list, capitals aside.

    Two neighbours count as one word with a hyphen, so that `code review` is `code-review`.
    """
    words = _WORD.findall(description.lower())
    named = [f"{one}-{other}" for one, other in pairwise(words)]
    for word in words:
        named.append(word)
        named += re.split("[-/]", word)
    meant = {SYNONYMS.get(word, word) for word in named}
    return tuple(sorted(meant & WORDS))
