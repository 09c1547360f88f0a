"""Ids for names that cannot be ids."""

import re

import pytest
from hypothesis import given, strategies as st

from agent_resolver.exchange import assign_ids, is_path, mapped_id


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("github", "github"),
        ("GitHub_2.0-x", "GitHub_2.0-x"),
        ("@scope/pkg", "scope-pkg"),
        ("io.github.user/server", "io.github.user-server"),
        ("My server (beta)", "My-server-beta"),
        ("Zürich", "Zurich"),
        ("日本", "server-cf2abf0c"),
    ],
)
def test_a_name_maps_to_a_readable_id(name: str, found: str) -> None:
    assert mapped_id(name) == found


@given(st.text(min_size=1))
def test_every_id_is_made_of_plain_characters_and_stays_itself(name: str) -> None:
    found = mapped_id(name)

    assert re.fullmatch(r"[A-Za-z0-9._-]{1,100}", found)
    assert len(found) > 80 or mapped_id(found) == found


def test_names_that_map_to_one_id_get_a_suffix_but_the_one_that_is_it() -> None:
    found = assign_ids(["a-b", "a/b", "@a/b"], {})

    assert found["a-b"] == "a-b"
    assert len(set(found.values())) == 3
    assert all(value.startswith("a-b") for value in found.values())


@given(st.lists(st.sampled_from(["a-b", "a/b", "@a/b", "a b", "x", "x y"]), unique=True), st.randoms())
def test_the_order_of_names_does_not_change_an_id(names: list[str], random: object) -> None:
    shuffled = sorted(names, key=lambda _: random.random())  # type: ignore[attr-defined]

    assert assign_ids(names, {}) == assign_ids(shuffled, {})


def test_a_server_of_the_index_keeps_its_id() -> None:
    known = {"a/b": "a-b"}

    assert assign_ids(["a/b"], known) == {"a/b": "a-b"}
    found = assign_ids(["a/b", "a-b", "@a/b"], known)
    assert found["a/b"] == "a-b"
    assert len(set(found.values())) == 3


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../x", "..", ".", "a/../b", "a/..", "~root", "C:\\x", "c:/x", "\\\\host\\x", "a\\b", "./a"]
)
def test_a_path_is_no_name(name: str) -> None:
    assert is_path(name)


@pytest.mark.parametrize("name", ["@scope/pkg", "io.github.user/server", "a..b", ".hidden", "x.y", "a: b"])
def test_names_of_packages_are_no_paths(name: str) -> None:
    assert not is_path(name)
