"""Which address each agent has where names clash."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, strategies as st

from agent_resolver.catalog import AgentUri, Named, addresses, parse_uri
from agent_resolver.schema import IssueCode
from tests.catalog.conftest import Make, agent, codes, uris


def served(make: Make, *roots: Path) -> dict[str, str]:
    """What each address leads to, the longer one of the first of a name as well."""
    catalog = make(*roots)
    also = [row[0] for row in catalog._index.rows("SELECT also FROM agent WHERE also IS NOT NULL ORDER BY also")]
    return {uri: catalog.definition(parse_uri(uri)).content for uri in [*uris(catalog), *also]}


def test_two_of_one_name_in_one_root_are_told_apart_by_folder(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "a" / "x.md", "one")
    agent(tmp_path / "b" / "x.md", "two")

    assert served(make, tmp_path) == {"agent://b/x": "two", "agent://x": "one", "agent://a/x": "one"}
    assert codes(make(tmp_path)) == [IssueCode.NAME_CLASH]


def test_the_first_root_has_the_short_address(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "z" / "x.md", "one")
    agent(tmp_path / "a" / "x.md", "two")

    assert served(make, tmp_path / "z", tmp_path / "a") == {
        "agent://x": "one",
        "agent://z/x": "one",
        "agent://a/x": "two",
    }


def test_as_many_folders_as_it_takes_and_no_more(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "one" / "team" / "x.md", "1")
    agent(tmp_path / "two" / "team" / "x.md", "2")
    agent(tmp_path / "other" / "x.md", "3")

    assert served(make, tmp_path) == {
        "agent://one/team/x": "1",
        "agent://x": "1",
        "agent://two/team/x": "2",
        "agent://other/x": "3",
    }


def test_the_same_path_in_two_roots_is_told_apart_by_the_root(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "mine" / "team" / "x.md", "1")
    agent(tmp_path / "theirs" / "team" / "x.md", "2")

    assert served(make, tmp_path / "mine", tmp_path / "theirs") == {
        "agent://x": "1",
        "agent://mine/team/x": "1",
        "agent://theirs/team/x": "2",
    }


def test_in_one_folder_the_file_tells_them_apart(tmp_path: Path, make: Make) -> None:
    for file in "abc":
        agent(tmp_path / f"{file}.md", file, name="x")

    assert served(make, tmp_path) == {
        "agent://x": "a",
        "agent://a.md/x": "a",
        "agent://b.md/x": "b",
        "agent://c.md/x": "c",
    }
    assert codes(make(tmp_path)) == [IssueCode.NAME_CLASH] * 2


def test_a_folder_that_has_the_name_of_a_file_takes_nothing_from_it(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "a.md", "1", name="x")
    agent(tmp_path / "b.md", "2", name="x")
    agent(tmp_path / "b.md.d" / "x.md", "3")
    agent(tmp_path / "d" / "b.md", "4", name="x")

    assert len(set(served(make, tmp_path).values())) == 4


def test_a_root_given_twice_is_one_root(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "a.md")
    agent(tmp_path / "s" / "b.md")
    (tmp_path / "link").symlink_to(tmp_path)

    for roots in ([tmp_path] * 3, [tmp_path, tmp_path / "link"], [tmp_path, tmp_path / "s", tmp_path / "a.md"]):
        catalog = make(*roots)
        assert uris(catalog) == ["agent://a", "agent://b"]
        assert not catalog.findings()


def test_a_hidden_folder_below_a_root_can_be_a_root_itself(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "a.md")
    agent(tmp_path / ".hidden" / "b.md")

    assert uris(make(tmp_path, tmp_path / ".hidden")) == ["agent://a", "agent://b"]


def test_a_single_file_is_a_root_and_so_is_a_link_to_one(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "one.md", "1", name="x")
    agent(tmp_path / "two.md", "2", name="x")
    (tmp_path / "link.md").symlink_to("two.md")

    assert served(make, tmp_path / "one.md", tmp_path / "link.md") == {
        "agent://x": "1",
        "agent://one.md/x": "1",
        "agent://link.md/x": "2",
    }


def test_what_is_not_plain_in_a_uri_is_percent_encoded(tmp_path: Path, make: Make) -> None:
    for name in ("a b", "ä", "a%2fb", "名", "a?b#c"):
        agent(tmp_path / f"{len(name)}-{ord(name[0])}-{ord(name[-1])}.md", name, name=name)
    agent(tmp_path / "ein Team" / "x.md", "1")
    agent(tmp_path / "andere" / "x.md", "2")

    assert served(make, tmp_path) == {
        "agent://a%20b": "a b",
        "agent://a%252fb": "a%2fb",
        "agent://a%3Fb%23c": "a?b#c",
        "agent://x": "2",
        "agent://andere/x": "2",
        "agent://ein%20Team/x": "1",
        "agent://%C3%A4": "ä",
        "agent://%E5%90%8D": "名",
    }


@pytest.mark.parametrize("folder", ["a\nb", "a\\b", "\x1b[31m", "x" * 240, "ä" * 120, "\u202e"])
def test_agents_in_folders_that_no_address_can_hold_are_served(tmp_path: Path, make: Make, folder: str) -> None:
    agent(tmp_path / "1" / folder / "x.md", "1")
    agent(tmp_path / "2" / folder / "x.md", "2")
    agent(tmp_path / "2" / folder / "y.md", "3", name="x")

    found = served(make, tmp_path)

    assert sorted(set(found.values())) == ["1", "2", "3"]
    assert all(uri.isascii() and uri.isprintable() for uri in found)


def test_a_name_that_is_refused_is_reported_and_the_name_of_the_file_serves(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "a.md", name="../../etc/passwd")
    agent(tmp_path / "b.md")
    catalog = make(tmp_path)

    assert uris(catalog) == ["agent://a", "agent://b"]
    assert codes(catalog) == [IssueCode.NAME_REFUSED]
    assert catalog.refused == 0


def test_the_clash_names_the_other_file(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "a" / "x.md")
    agent(tmp_path / "b" / "x.md")
    [finding] = make(tmp_path).findings()

    assert finding.path == str(tmp_path / "b" / "x.md")
    assert finding.issue.message == f"`{tmp_path / 'a' / 'x.md'}` has the same name, so this one is `agent://b/x`"


def test_when_the_first_goes_the_next_one_takes_its_address(tmp_path: Path, make: Make) -> None:
    first = agent(tmp_path / "a" / "x.md", "1")
    agent(tmp_path / "b" / "x.md", "2")
    catalog = make(tmp_path)
    assert catalog.definition(AgentUri("agent://x")).content == "1"

    first.unlink()
    assert catalog.refresh().uris == {"agent://x", "agent://a/x", "agent://b/x"}
    assert catalog.definition(AgentUri("agent://x")).content == "2"
    assert uris(catalog) == ["agent://x"]
    assert not catalog.findings()


PARTS = st.lists(st.sampled_from(["a", "b", "x.md", "ä", "..."]), max_size=4)


@given(
    paths=st.sets(st.tuples(st.integers(0, 1), PARTS.map(tuple), st.sampled_from(["x", "y"])), max_size=12),
    order=st.randoms(use_true_random=False),
)
def test_every_agent_has_an_address_of_its_own_whatever_the_order(
    paths: set[tuple[int, tuple[str, ...], str]], order: Random
) -> None:
    agents = [
        Named(number, root, "/".join((*folders, f"{file}.md")), "name")
        for number, (root, folders, file) in enumerate(sorted(paths))
    ]
    shuffled = list(agents)
    order.shuffle(shuffled)

    found = addresses(agents, ["/one", "/one/two"])

    assert found == addresses(shuffled, ["/one", "/one/two"])
    everything = [uri for address in found for uri in (address.uri, address.also) if uri]
    assert len(everything) == len(set(everything))
    assert [parse_uri(uri).name for uri in everything] == everything


def test_ten_thousand_agents_of_one_name_take_no_time_to_tell_apart() -> None:
    agents = [Named(number, 0, f"{number}/team/x.md", "x") for number in range(10_000)]

    assert len({address.uri for address in addresses(agents, ["/root"])}) == 10_000
