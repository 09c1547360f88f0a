"""A file of another user decides nothing."""

import os
from pathlib import Path

import pytest

from agent_resolver.storage import ForeignFile, UnreadableFile, believed_users, read_bounded, require_own

ME = os.geteuid()
STRANGER = frozenset({ME + 1})
"""As if another user ran this test."""


@pytest.mark.parametrize(
    ("user", "environment", "believed"),
    [
        (1000, {}, {0, 1000}),
        (0, {}, {0}),
        (0, {"SUDO_UID": "1000"}, {0, 1000}),
        (1000, {"SUDO_UID": "1001"}, {0, 1000}),
        (0, {"SUDO_UID": ""}, {0}),
        (0, {"SUDO_UID": "-1"}, {0}),
        (0, {"SUDO_UID": "²"}, {0}),
    ],
)
def test_files_of_this_user_and_of_root_count(user: int, environment: dict[str, str], believed: set[int]) -> None:
    assert believed_users(environment, user) == believed


def test_the_user_is_the_one_of_this_process() -> None:
    assert believed_users({}) == {0, ME}


def test_a_file_or_folder_of_ones_own_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")

    require_own(str(file), believed_users({}))
    require_own(str(tmp_path), believed_users({}))
    assert read_bounded(str(file), 1, believed_users({})) == b"x"


def test_a_file_of_another_user_is_refused_with_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")

    for read in (lambda: require_own(str(file), STRANGER), lambda: read_bounded(str(file), 1, STRANGER)):
        with pytest.raises(ForeignFile, match=r"file` belongs to the user .*, and would decide what runs as you") as it:
            read()
        assert it.value.owner == ME
        assert "chown" in it.value.hint


def test_a_link_is_refused_for_its_maker_and_for_its_target(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/")

    require_own(str(link), frozenset({0, ME}))
    with pytest.raises(ForeignFile):
        require_own(str(link), STRANGER)


def test_where_files_have_no_owners_every_file_is_taken(tmp_path: Path) -> None:
    require_own(str(tmp_path), frozenset())


def test_what_is_not_there_decides_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "broken").symlink_to("absent")

    for name in ("absent", "file/below", "broken"):
        require_own(str(tmp_path / name), frozenset({ME}))


def test_a_path_that_cannot_be_asked_for_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    for name in ("a\0b", "x" * 300, "loop/x"):
        with pytest.raises(UnreadableFile, match="cannot be read"):
            require_own(str(tmp_path / name), frozenset({ME}))
