"""Merge conflict markers are recognised, and both files that were merged are recovered."""

import subprocess
from pathlib import Path
from shutil import which

import pytest
from hypothesis import given, strategies as st

from agent_resolver.schema import Conflict, find_conflict
from tests.strategies import law

LAW = law(150)

PLAIN = b"""{
<<<<<<< HEAD
  "version": 1,
=======
  "version": 2,
>>>>>>> feature/two
  "servers": []
}
"""
OURS = b'{\n  "version": 1,\n  "servers": []\n}\n'
THEIRS = b'{\n  "version": 2,\n  "servers": []\n}\n'


def test_a_conflict_has_a_line_two_names_and_two_sides() -> None:
    assert find_conflict(PLAIN) == Conflict(2, "HEAD", "feature/two", (OURS, THEIRS))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends_are_kept_whatever_they_are(end: bytes) -> None:
    found = find_conflict(PLAIN.replace(b"\n", end))

    assert found == Conflict(2, "HEAD", "feature/two", (OURS.replace(b"\n", end), THEIRS.replace(b"\n", end)))


def test_the_common_ancestor_belongs_to_neither_side() -> None:
    raw = PLAIN.replace(b"=======\n", b'||||||| 1a2b3c4\n  "version": 0,\n=======\n')

    assert find_conflict(raw) == find_conflict(PLAIN)


def test_markers_without_names_are_markers() -> None:
    raw = PLAIN.replace(b" HEAD", b"").replace(b" feature/two", b"")

    assert find_conflict(raw) == Conflict(2, "", "", (OURS, THEIRS))


def test_a_conflict_over_the_whole_file_may_close_without_a_line_end() -> None:
    raw = b"<<<<<<< ours\n" + OURS + b"=======\n" + THEIRS + b">>>>>>> theirs"

    assert find_conflict(raw) == Conflict(1, "ours", "theirs", (OURS, THEIRS))


def test_of_several_conflicts_the_first_is_named_and_all_are_taken_apart() -> None:
    second = b"<<<<<<< later\nthree\n=======\nfour\n>>>>>>> last\n"

    assert find_conflict(PLAIN + second) == Conflict(2, "HEAD", "feature/two", (OURS + b"three\n", THEIRS + b"four\n"))


def test_a_side_may_be_empty() -> None:
    assert find_conflict(b"<<<<<<< a\n=======\nx\n>>>>>>> b\n") == Conflict(1, "a", "b", (b"", b"x\n"))


def test_a_name_that_is_no_text_is_shown_as_far_as_it_is() -> None:
    found = find_conflict(b"<<<<<<< \xff\xc3\xa9\n=======\n>>>>>>> \n")

    assert found
    assert (found.ours, found.theirs) == ("\ufffdé", "")


@pytest.mark.parametrize("part", [PLAIN[: PLAIN.index(line)] for line in (b"=======", b'  "version": 2', b">>>>>>>")])
def test_a_conflict_that_does_not_close_is_none(part: bytes) -> None:
    assert find_conflict(part) is None
    assert find_conflict(PLAIN + part) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        OURS,
        b"<<<<<<<",
        b"<<<<<<< a\n>>>>>>> b\n",
        b"<<<<<<< a\n||||||| base\n>>>>>>> b\n",
        b"=======\n>>>>>>> b\n<<<<<<< a\n",
        PLAIN.replace(b"<<<<<<<", b" <<<<<<<"),
        PLAIN.replace(b"<<<<<<<", b'"<<<<<<<'),
        PLAIN.replace(b"<<<<<<<", b"<<<<<<<<"),
        PLAIN.replace(b"<<<<<<<", b"<<<<<<"),
        PLAIN.replace(b"<<<<<<< HEAD", b"<<<<<<<HEAD"),
        PLAIN.replace(b"=======", b"========"),
        PLAIN.replace(b"=======", b"======"),
        PLAIN.replace(b">>>>>>> ", b">>>>>>>\t"),
    ],
)
def test_text_that_only_looks_like_markers_is_no_conflict(raw: bytes) -> None:
    assert find_conflict(raw) is None


def test_what_looks_like_a_marker_out_of_order_stays_in_its_side() -> None:
    raw = b"<<<<<<< a\n<<<<<<< x\n>>>>>>> y\n=======\n=======\n||||||| z\n>>>>>>> b\n======= after\n"

    assert find_conflict(raw) == Conflict(
        1, "a", "b", (b"<<<<<<< x\n>>>>>>> y\n======= after\n", b"=======\n||||||| z\n======= after\n")
    )


# Lines as files have them, and some that a careless reader would take for markers.
LINES = st.sampled_from(
    [b"{", b'  "a": 1,', b"", b"<<<<<<", b" =======", b'"<<<<<<< a"', b">>>>>>>>", b"========", b"\xff", b"<<<<<<<x"]
)


@st.composite
def conflicts(draw: st.DrawFn) -> tuple[bytes, bytes, bytes]:
    """A merged file with at least one conflict, and the two files that it was merged from."""
    end = draw(st.sampled_from([b"\n", b"\r\n"]))
    merged, ours, theirs = b"", b"", b""
    count = draw(st.integers(1, 3))
    for number in range(count + 1):
        same, left, base, right = (b"".join(line + end for line in draw(st.lists(LINES, max_size=3))) for _ in range(4))
        merged, ours, theirs = merged + same, ours + same, theirs + same
        if number < count:
            ancestor = draw(st.sampled_from([b"", b"||||||| base" + end + base]))
            merged += b"<<<<<<< HEAD" + end + left + ancestor + b"=======" + end + right + b">>>>>>> other" + end
            ours, theirs = ours + left, theirs + right
    return merged, ours, theirs


@LAW
@given(conflicts())
def test_both_sides_are_recovered_to_the_byte(files: tuple[bytes, bytes, bytes]) -> None:
    merged, ours, theirs = files
    found = find_conflict(merged)

    assert found
    assert found.sides == (ours, theirs)
    assert merged.splitlines()[found.line - 1] == b"<<<<<<< HEAD"


@LAW
@given(st.lists(LINES | st.sampled_from([b"<<<<<<< a", b"||||||| b", b"=======", b">>>>>>> c"]), max_size=12))
def test_markers_in_any_order_conflict_or_not_and_sides_hold_no_markers(lines: list[bytes]) -> None:
    found = find_conflict(b"".join(line + b"\n" for line in lines))

    if found:
        assert set(b"".join(found.sides).splitlines()) <= set(lines)
        assert lines[found.line - 1] == b"<<<<<<< a"


@pytest.mark.skipif(which("git") is None, reason="needs git")
@pytest.mark.parametrize("style", ["merge", "diff3"])
def test_what_git_leaves_behind_is_recognised(style: str, tmp_path: Path) -> None:
    """A real merge, in each of the styles that git has."""
    base = b'{\n  "a": 1,\n  "version": 0,\n  "b": 2,\n  "servers": []\n}\n'
    ours, theirs = (base.replace(b'"version": 0', b'"version": %d' % number) for number in (1, 2))
    for name, content in (("base", base), ("ours", ours), ("theirs", theirs)):
        (tmp_path / name).write_bytes(content)
    done = subprocess.run(
        ["git", "-c", f"merge.conflictStyle={style}", "merge-file", "-p", "ours", "base", "theirs"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )

    found = find_conflict(done.stdout)

    assert found
    assert (found.ours, found.theirs) == ("ours", "theirs")
    assert found.sides == (ours, theirs)
