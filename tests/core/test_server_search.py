"""Servers found by words."""

from random import Random

import pytest

from agent_resolver.core import ServerText, search_servers

TEXTS = [
    ServerText("github", "1.0.0", "", "Issues and repositories", ("devops", "version-control")),
    ServerText("github", "0.9.0", "", "Issues and repositories", ("devops", "version-control")),
    ServerText("acme-tracker", "2.0.0", "@acme/issue-tracker", "Work items", ("project-management",)),
    ServerText("wiki", "1.0.0", "", "Pages of a team, with an issue log", ("knowledge",)),
]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["github"], ["github@0.9.0", "github@1.0.0"]),
        (["GitHub!"], ["github@0.9.0", "github@1.0.0"]),
        (["acme"], ["acme-tracker@2.0.0"]),
        (["issue"], ["acme-tracker@2.0.0", "wiki@1.0.0", "github@0.9.0", "github@1.0.0"]),
        (["issue", "tracker"], ["acme-tracker@2.0.0"]),
        (["control"], ["github@0.9.0", "github@1.0.0"]),
        (["knowl"], ["wiki@1.0.0"]),
        (["trac"], ["acme-tracker@2.0.0"]),
        (["absent"], []),
        (["absent", "wiki"], ["wiki@1.0.0"]),
        (["-"], []),
    ],
)
def test_the_best_place_of_each_word_decides(words: list[str], found: list[str]) -> None:
    matches = search_servers(words, TEXTS)

    assert [f"{match.text.id}@{match.text.version}" for match in matches] == found


def test_an_index_without_servers_has_no_match() -> None:
    assert search_servers(["github"], []) == []


def test_the_order_of_the_servers_does_not_change_the_answer() -> None:
    shuffled = TEXTS.copy()
    Random(7).shuffle(shuffled)

    assert search_servers(["issue"], shuffled) == search_servers(["issue"], TEXTS)
