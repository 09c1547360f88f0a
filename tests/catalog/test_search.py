"""Everyday questions to the search, with the answers that a person judged right."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.catalog import Catalog, Query
from tests.catalog.conftest import Make, agent

EVALUATION: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "search.json").read_text())


@pytest.fixture
def library(tmp_path: Path, make: Make) -> Catalog:
    for each in EVALUATION["agents"]:
        agent(tmp_path / f"{each['name']}.md", **each)
    return make(tmp_path)


def best(catalog: Catalog, text: str, count: int = 3) -> list[str]:
    return [found.name for found in catalog.search(Query(text=text), count)]


def test_nine_of_ten_everyday_questions_have_a_right_answer_on_top(library: Catalog) -> None:
    """A right answer is among the first three for at least 90 % of the questions."""
    questions = EVALUATION["queries"]
    missed = [each["text"] for each in questions if not {*best(library, each["text"])} & {*each["answers"]}]

    assert len(questions) == 60
    assert len(missed) <= 6, missed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c++", "cpp-pro"),
        ("C#", "csharp-developer"),
        ("csharp", "csharp-developer"),
        (".net", "dotnet-architect"),
        ("dotnet", "dotnet-architect"),
        ("ASP.NET", "dotnet-architect"),
        ("k8s", "kubernetes-operator"),
        ("go", "golang-pro"),
        ("CI/CD", "devops-engineer"),
        ("ci cd", "devops-engineer"),
        ("smart contract", "blockchain-developer"),
        ("please can you help me with a budget", "financial-analyst"),
        ("games", "game-developer"),
        ("screen reader", "accessibility-tester"),
    ],
)
def test_names_with_signs_plurals_and_filler_words_find_what_they_mean(
    library: Catalog, text: str, expected: str
) -> None:
    assert best(library, text, 1) == [expected]


def test_one_language_is_not_taken_for_another(library: Catalog) -> None:
    assert "c-pro" not in best(library, "C++", 100)
    assert not {"c-pro", "cpp-pro"} & {*best(library, "C#", 100)}


def test_a_question_of_filler_words_alone_looks_for_those(library: Catalog) -> None:
    assert "database-administrator" not in best(library, "what about it", 100)
    assert best(library, "before they are", 1) == ["code-reviewer"]


def test_a_word_that_no_agent_has_takes_none_away(library: Catalog) -> None:
    assert best(library, "flibbertigibbet stripe", 100) == best(library, "stripe", 100) == ["payment-integrator"]


@pytest.fixture
def crowd(tmp_path: Path, make: Make) -> Catalog:
    """More agents than a search would rank for a common word."""
    for number in range(620):
        agent(tmp_path / f"worker-{number:03d}.md", description="Does common chores" if number % 2 else "Does chores")
    agent(tmp_path / "gardener.md", description="Does common chores in the orchard")
    agent(tmp_path / "zookeeper.md", description="Feeds the animals that live in the orchard")
    return make(tmp_path)


def test_among_many_agents_a_rare_word_decides_and_common_ones_count_too(crowd: Catalog) -> None:
    assert best(crowd, "chores in the orchard", 5) == ["gardener", "zookeeper"]


def test_among_many_agents_common_words_find_those_with_all_of_them(crowd: Catalog) -> None:
    assert best(crowd, "does chores", 3) == ["worker-000", "worker-002", "worker-004"]
    assert len(best(crowd, "does chores", 100)) == 100


def test_agents_that_fit_equally_well_are_listed_by_name(crowd: Catalog) -> None:
    assert best(crowd, "chores", 3) == ["worker-000", "worker-002", "worker-004"]
    assert best(crowd, "orchard chores common", 2) == ["gardener", "zookeeper"]


def test_among_many_agents_a_common_word_finds_first_those_that_are_named_for_it(tmp_path: Path, make: Make) -> None:
    for number in range(620):
        agent(tmp_path / f"worker-{number:03d}.md", description="Chores, chores and chores")
    for number in range(3):
        agent(tmp_path / f"chores-{number}.md", description="Sweeps and does many more things that none other does")
    catalog = make(tmp_path)

    assert best(catalog, "chores", 3) == ["chores-0", "chores-1", "chores-2"]
    assert best(catalog, "chores", 4)[3] == "worker-000"
    assert len(catalog.search(Query(text="chores"), None)) == 623
