"""What is sealed is read only with its key, for its purpose, and as it was."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from agent_resolver.storage import AesSeal, OversizeFile, UnreadableFile, UnwritableFile, key_beside
from tests.process import killed_at_line

SEAL = AesSeal(b"a key that only the owner has")

MAKES_KEY = """
import sys
from agent_resolver.storage import key_beside

print("ready", flush=True)
sys.stdin.readline()
print(key_beside(sys.argv[1]).hex(), flush=True)
"""


@settings(deadline=None)
@given(st.binary(max_size=2000), st.text())
def test_what_was_closed_opens_again(content: bytes, purpose: str) -> None:
    assert SEAL.open(SEAL.close(content, purpose), purpose) == content


def test_the_same_content_never_looks_the_same_nor_like_itself() -> None:
    content = b"canary-7f3a" * 10
    first, second = SEAL.close(content, "a"), SEAL.close(content, "a")

    assert first != second
    assert b"canary" not in first + second


@pytest.mark.parametrize("content", [b"", b"a", b"a longer one"])
def test_one_changed_byte_anywhere_is_noticed(content: bytes) -> None:
    sealed = SEAL.close(content, "a")

    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(ValueError, match="changed, or sealed with another key"):
            SEAL.open(bytes(changed), "a")


@pytest.mark.parametrize("length", [0, 5, 12, 20, 27, 28, -1])
def test_what_was_cut_short_is_noticed(length: int) -> None:
    sealed = SEAL.close(b"content", "a")

    with pytest.raises(ValueError, match="changed, or sealed with another key"):
        SEAL.open(sealed[:length], "a")


@pytest.mark.parametrize("purpose", ["", "b", "a ", "A"])
def test_what_was_closed_for_one_purpose_does_not_open_for_another(purpose: str) -> None:
    with pytest.raises(ValueError, match="changed, or sealed with another key"):
        SEAL.open(SEAL.close(b"content", "a"), purpose)


@pytest.mark.parametrize("key", [b"", b"a key that only the owner ha", b"a key that only the owner has "])
def test_another_key_opens_nothing(key: bytes) -> None:
    with pytest.raises(ValueError, match="changed, or sealed with another key"):
        AesSeal(key).open(SEAL.close(b"content", "a"), "a")


def test_an_error_says_nothing_of_the_content() -> None:
    with pytest.raises(ValueError, match=r"^it was changed") as caught:
        SEAL.open(b"canary-7f3a" * 10, "canary-purpose")

    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


# The key --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.key"


def test_a_key_is_made_once_and_only_its_owner_may_read_it(path: Path) -> None:
    key = key_beside(str(path))

    assert len(key) == 32
    assert key_beside(str(path)) == key
    assert path.read_bytes() == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["state.key"]


def test_a_key_that_others_could_read_is_for_its_owner_alone_again(path: Path) -> None:
    key = key_beside(str(path))
    path.chmod(0o644)

    assert key_beside(str(path)) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_projects_have_two_keys(path: Path, tmp_path: Path) -> None:
    assert key_beside(str(path)) != key_beside(str(tmp_path / "other.key"))


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 31])
def test_a_file_that_holds_no_key_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)

    with pytest.raises(UnreadableFile, match="is no key of 32 bytes"):
        key_beside(str(path))

    assert path.read_bytes() == content


def test_a_file_that_is_longer_than_a_key_is_refused(path: Path) -> None:
    path.write_bytes(b"x" * 33)

    with pytest.raises(OversizeFile):
        key_beside(str(path))


def test_a_link_that_leads_nowhere_is_refused(path: Path) -> None:
    path.symlink_to(path.parent / "absent")

    with pytest.raises(UnreadableFile, match="does not exist"):
        key_beside(str(path))


def test_a_key_that_cannot_be_made_is_told_with_a_way_out(path: Path) -> None:
    with pytest.raises(UnwritableFile, match=r"cannot be made: No such file or directory; .*`state\.key_env`"):
        key_beside(str(path.parent / "absent" / "state.key"))


def test_processes_that_make_the_key_at_once_get_the_same(path: Path) -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", MAKES_KEY, str(path)]
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(4)]
    for process in processes:
        assert process.stdout
        process.stdout.readline()
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    keys = {process.communicate()[0].strip() for process in processes}

    assert keys == {path.read_bytes().hex()}
    assert len(path.read_bytes()) == 32
    assert [one.name for one in path.parent.iterdir()] == ["state.key"]


@pytest.mark.slow
def test_a_kill_before_any_line_leaves_a_whole_key_or_none(path: Path) -> None:
    for line in range(200):
        setup = "from agent_resolver.storage import key_beside"
        is_killed = killed_at_line(line, "/storage/", path, setup=setup, act="key_beside(sys.argv[1])")
        assert not path.exists() or len(path.read_bytes()) == 32
        if not is_killed:
            break
        path.unlink(missing_ok=True)
    else:
        raise AssertionError("it never finished")
    assert line > 10
    assert len(key_beside(str(path))) == 32
