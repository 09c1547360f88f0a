"""Listings, searches and statuses: the same whatever came first."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from agent_resolver.catalog import (
    MAX_PAGE,
    AgentUri,
    BadCursor,
    BadLimit,
    Catalog,
    Judge,
    Query,
    UnknownAgent,
    Verdict,
    View,
    encode_cursor,
    parse_uri,
)
from tests.catalog.conftest import Make, agent, uris

WORDS = ["python", "review", "security", "kubernetes", "deployment", "tests", "writes", "reads"]


def agents(count: int) -> list[tuple[str, dict[str, Any]]]:
    """Agent files as paths and keys, the same every time, some with the name of another."""
    dice = Random(5)
    return [
        (
            f"{dice.choice('abc')}/{number}.md",
            {
                "name": f"agent-{number % (count - 5):03d}",
                "description": " ".join(dice.choices(WORDS, k=6)),
                "model": dice.choice(["haiku", "sonnet"]),
                "role": dice.choice([None, "tester"]),
                "tags": dice.choices(WORDS, k=2),
                "requires": dice.choice([None, {"mcp": []}]),
            },
        )
        for number in range(count)
    ]


def fits(raw: bytes) -> Verdict:
    return Verdict("resolved") if b"sonnet" in raw else Verdict("unresolved", "no candidates for categories: x")


def everything(catalog: Catalog) -> list[object]:
    """All that can be asked, but where the files are."""
    pages = [catalog.page(limit=7)]
    while pages[-1].next_cursor:
        pages.append(catalog.page(pages[-1].next_cursor, 7))
    queries = [Query(text=text) for text in ("", "python", "review security", "kube", "zzz", "writes tests reads")]
    queries += [Query(capability="python"), Query(role="tester"), Query(model="haiku", text="python")]
    return [
        pages,
        [catalog.search(query, None) for query in queries],
        [catalog.search(query, 5, view=View(is_strict=True)) for query in queries],
        catalog.completions("agent-0"),
        [catalog.definition(parse_uri(uri)).to_dict() for uri in uris(catalog)],
        [found.issue.code for found in catalog.findings()],
        catalog.listing,
    ]


def test_neither_the_order_of_files_nor_of_indexing_shows_anywhere(tmp_path: Path, make: Make) -> None:
    made = agents(60)
    judge = Judge("k", fits)
    for path, keys in made:
        agent(tmp_path / "one" / "root" / path, **keys)
    expected = everything(make(tmp_path / "one" / "root", judge=judge))

    for seed in range(3):
        shuffled = list(made)
        Random(seed).shuffle(shuffled)
        root = tmp_path / str(seed) / "root"
        root.mkdir(parents=True)
        catalog = make(root, index=tmp_path / f"{seed}.db")
        # Bit by bit, with some that go again.
        for at, (path, keys) in enumerate(shuffled):
            agent(root / path, **keys)
            if at % 20 == 10:
                passing = agent(root / "passing.md", name=f"agent-{at:03d}", description="python python")
                catalog.refresh()
                passing.unlink()
        catalog.refresh(judge)

        assert everything(catalog) == expected
        assert everything(make(root, judge=judge)) == expected


# Pages ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def catalog(tmp_path: Path, make: Make) -> Catalog:
    for number in range(25):
        agent(tmp_path / f"agent-{number:02d}.md", requires=None if number % 5 else {"mcp": []})
    return make(tmp_path, judge=Judge("none", lambda _: Verdict("unresolved", "nobody")))


def paged(catalog: Catalog, limit: int, *, is_strict: bool = False) -> list[list[str]]:
    pages, cursor = [], None
    while True:
        page = catalog.page(cursor, limit, view=View(is_strict=is_strict))
        assert page.total == (20 if is_strict else 25)
        pages.append([found.name for found in page.agents])
        cursor = page.next_cursor
        if cursor is None:
            return pages


@pytest.mark.parametrize("limit", [1, 7, 20, 24, 25, 26, 100])
@pytest.mark.parametrize("is_strict", [False, True])
def test_pages_of_any_size_hold_every_agent_once_and_in_order(catalog: Catalog, limit: int, *, is_strict: bool) -> None:
    pages = paged(catalog, limit, is_strict=is_strict)
    names = [name for page in pages for name in page]

    assert names == [f"agent-{number:02d}" for number in range(25) if number % 5 or not is_strict]
    assert all(pages)
    assert {len(page) for page in pages[:-1]} <= {limit}


@pytest.mark.parametrize("limit", [0, -1, MAX_PAGE + 1, 10**30, True, 1.0, "5", None])
def test_any_other_limit_is_refused(catalog: Catalog, limit: int) -> None:
    with pytest.raises(BadLimit):
        catalog.page(None, limit)
    if limit is not None:
        with pytest.raises(BadLimit):
            catalog.search(Query(), limit)


@pytest.mark.parametrize("cursor", ["0", "20", "1000000", "x", "\x00", "A" * 10_000])
def test_a_cursor_that_nobody_gave_is_refused(catalog: Catalog, cursor: str) -> None:
    with pytest.raises(BadCursor):
        catalog.page(cursor)


def test_a_cursor_beyond_the_end_or_of_nobody_is_refused(catalog: Catalog) -> None:
    """Even one that is made with all that a client could know."""
    for last in ("agent://agent-24", "agent://zzz", ""):
        with pytest.raises(BadCursor):
            catalog.page(encode_cursor(catalog.listing, last))
    assert len(catalog.page().agents) == 20


def test_a_cursor_holds_for_its_own_listing_only(catalog: Catalog) -> None:
    loose = catalog.page(limit=5).next_cursor
    strict = catalog.page(limit=5, view=View(is_strict=True)).next_cursor

    assert loose != strict
    with pytest.raises(BadCursor, match="changed"):
        catalog.page(loose, view=View(is_strict=True))
    with pytest.raises(BadCursor, match="changed"):
        catalog.page(strict)


def test_a_cursor_is_stale_after_a_change_and_good_again_when_that_is_undone(tmp_path: Path, catalog: Catalog) -> None:
    cursor = catalog.page(limit=5).next_cursor
    agent(tmp_path / "new.md")
    catalog.refresh()
    with pytest.raises(BadCursor, match="changed"):
        catalog.page(cursor)

    (tmp_path / "new.md").unlink()
    catalog.refresh()
    assert catalog.page(cursor).agents[0].name == "agent-05"


# Search ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def library(tmp_path: Path, make: Make) -> Catalog:
    agent(tmp_path / "reviewer.md", description="Looks at code", capabilities=["Code Review", "c++"])
    agent(tmp_path / "writer.md", description="Writes about the reviewer", model="opus")
    agent(tmp_path / "other.md", description="Nothing of the kind", tags=["reviewer"], useWhen="in doubt")
    agent(tmp_path / "naïve-日本.md", description="Ünïcode 名前 emoji 😀")
    return make(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("reviewer", ["reviewer", "other", "writer"]),
        ("REVIEWERS", ["reviewer", "other", "writer"]),
        ("revie", ["reviewer", "other", "writer"]),
        ("writes reviewer", ["writer", "reviewer", "other"]),
        ("doubt", ["other"]),
        ("naive", ["naïve-日本"]),
        ("日本", ["naïve-日本"]),
        ("writes nonsense", ["writer"]),
        ("nonsense", []),
        ("!!!", []),
        ("😀", []),
    ],
)
def test_the_best_fit_comes_first(library: Catalog, text: str, expected: list[str]) -> None:
    assert [found.name for found in library.search(Query(text=text))] == expected


@pytest.mark.parametrize(
    "text",
    [
        '"',
        '""',
        '"reviewer',
        "'; DROP TABLE agent; --",
        "name: reviewer",
        "name : reviewer",
        "{name description} : reviewer",
        "NEAR(reviewer writer, 5)",
        "reviewer AND",
        "OR OR OR",
        "NOT reviewer",
        "^reviewer",
        "reviewer*",
        "*",
        "-reviewer",
        "(",
        ")))",
        "a + b",
        "\\",
        "%",
        "_",
        "___",
        "\x00reviewer\x00",
        "\ud800",
        "reviewer " * 1500,
        "x" * 10_000,
        "a " * 5000,
        "²",
        "\u0301",
        "😀" * 100,
        "\n\t ",
    ],
)
def test_hostile_words_are_only_words(library: Catalog, text: str) -> None:
    for query in (Query(text=text), Query(text=text, capability=text), Query(role=text), Query(model=text)):
        library.search(query)

    assert library.total == 4
    assert library._index.rows("SELECT count(*) FROM words")[0][0] == 4


def test_a_capability_is_asked_for_whole_and_capitals_do_not_count(library: Catalog) -> None:
    assert uris(library, capability="code review") == uris(library, capability="CODE REVIEW") == ["agent://reviewer"]
    assert uris(library, capability="C++") == ["agent://reviewer"]
    assert uris(library, capability="code") == []
    assert uris(library, capability="%") == []


def test_all_that_is_asked_for_must_fit(library: Catalog) -> None:
    assert uris(library, text="reviewer", model="opus") == ["agent://writer"]
    assert uris(library, text="reviewer", model="Opus") == []
    assert uris(library, text="looks", capability="c++") == ["agent://reviewer"]


def test_completions_take_every_character_as_it_is(tmp_path: Path, make: Make) -> None:
    for number, name in enumerate(["a%b", "a_b", "axb", "a\u00e4", "A-b", "b"]):
        agent(tmp_path / f"{number}.md", name=name)
    agent(tmp_path / "again" / "b.md")
    catalog = make(tmp_path)

    assert catalog.completions("a%") == (("a%b",), 1)
    assert catalog.completions("a_") == (("a_b",), 1)
    assert catalog.completions("%") == ((), 0)
    assert catalog.completions("\\") == ((), 0)
    assert catalog.completions("b") == (("b",), 1)
    assert catalog.completions("") == (("A-b", "a%b", "a_b", "axb", "aä", "b"), 6)
    assert catalog.completions("", 2) == (("A-b", "a%b"), 6)
    assert catalog.completions("x" * 10_000) == ((), 0)


# Whether `requires` resolve -------------------------------------------------------------------------------------------


def statuses(catalog: Catalog) -> dict[str, tuple[str, str]]:
    return {found.name: (found.status, found.reason) for found in catalog.search(Query(), None)}


def test_a_status_follows_whoever_judges(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "free.md")
    agent(tmp_path / "bound.md", requires={"mcp": []})
    catalog = make(tmp_path)
    assert statuses(catalog) == {"free": ("not-required", ""), "bound": ("unresolved", "there is no index")}

    yes = Judge("yes", lambda _: Verdict("resolved"))
    assert catalog.refresh(yes).uris == {"agent://bound"}
    assert statuses(catalog)["bound"] == ("resolved", "")
    assert catalog.refresh().uris == frozenset()
    assert statuses(catalog)["bound"] == ("resolved", "")

    no = Judge("no", lambda _: Verdict("unresolved", "nobody"))
    assert catalog.refresh(no).uris == {"agent://bound"}
    assert statuses(catalog)["bound"] == ("unresolved", "nobody")

    assert catalog.refresh(None).uris == {"agent://bound"}
    assert statuses(catalog)["bound"] == ("unresolved", "there is no index")


def test_a_strict_catalog_hides_what_does_not_resolve_everywhere(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "a" / "x.md", requires={"mcp": []})
    agent(tmp_path / "b" / "x.md")
    catalog = make(tmp_path)

    assert [found.uri for found in catalog.page(view=View(is_strict=True)).agents] == ["agent://b/x"]
    assert [found.uri for found in catalog.search(Query(text="x"), view=View(is_strict=True))] == ["agent://b/x"]
    for uri in ("agent://x", "agent://a/x"):
        assert catalog.definition(AgentUri(uri)).path == "a/x.md"
        with pytest.raises(UnknownAgent):
            catalog.definition(AgentUri(uri), view=View(is_strict=True))
    assert catalog.definition(AgentUri("agent://b/x"), view=View(is_strict=True)).path == "b/x.md"
    agent(tmp_path / "hidden.md", requires={"mcp": []})
    catalog.refresh()
    assert catalog.completions("h") == (("hidden",), 1)
    assert catalog.completions("h", view=View(is_strict=True)) == ((), 0)


def test_a_file_that_goes_while_it_is_judged_is_unresolved(tmp_path: Path, make: Make) -> None:
    path = agent(tmp_path / "a.md", requires={"mcp": []})
    agent(tmp_path / "0.md", requires={"mcp": []})

    def judge(raw: bytes) -> Verdict:
        path.unlink(missing_ok=True)
        return Verdict("resolved")

    catalog = make(tmp_path, judge=Judge("k", judge))

    assert statuses(catalog)["a"][0] == "unresolved"
