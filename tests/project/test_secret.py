"""Where the secrets of a project are, and what is told when they are not there."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, NoKeyringError

from agent_resolver.project import ProjectSecrets, SecretPlace, secret
from agent_resolver.registry import ToolFailure
from agent_resolver.schema import FailureCode

CANARY = "canary-77b0"


class MemoryKeyring(KeyringBackend):
    """A keyring of the test's own, which may be locked."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.passwords: dict[tuple[str, str], str] = {}
        self.error: Exception | None = None

    def get_password(self, service: str, username: str) -> str | None:
        if self.error:
            raise self.error
        return self.passwords.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.passwords[service, username] = password


@pytest.fixture
def backend() -> Iterator[MemoryKeyring]:
    """The keyring of the machine is none of the test's business."""
    before = keyring.get_keyring()
    made = MemoryKeyring()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's root, which is not the current folder."""
    (tmp_path / "project").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "project"


def found(place: SecretPlace | None, environment: Mapping[str, str] | None = None, root: str = "/") -> str | None:
    places = {} if place is None else {"KEY": place}
    return asyncio.run(ProjectSecrets(places, environment or {}, root).get("KEY"))


def refused(place: SecretPlace, root: Path) -> tuple[FailureCode, str, str]:
    with pytest.raises(ToolFailure) as failure:
        found(place, {}, str(root))
    return failure.value.code, str(failure.value), failure.value.remedy


# The environment ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "environment", "expected"),
    [
        (None, {"KEY": "value"}, "value"),
        (None, {}, None),
        (None, {"KEY": ""}, None),
        (None, {"key": "value", "OTHER": "other"}, None),
        (SecretPlace(), {"KEY": "value"}, "value"),
        (SecretPlace(env="OTHER"), {"KEY": "value", "OTHER": "other"}, "other"),
        (SecretPlace(env="OTHER"), {"KEY": "value"}, None),
        (None, {"KEY": " kept as it is \n"}, " kept as it is \n"),
    ],
)
def test_a_secret_in_the_environment(
    place: SecretPlace | None, environment: dict[str, str], expected: str | None
) -> None:
    assert found(place, environment) == expected


# A file ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"value", "value"),
        (b"value\n", "value"),
        (b"value\r\n", "value"),
        (b"value\n\n", "value"),
        (b" value \n", " value "),
        (b"one\ntwo\n", "one\ntwo"),
        ("schlüssel".encode(), "schlüssel"),
        (b"", None),
        (b"\n", None),
    ],
)
def test_a_secret_in_a_file_is_read_without_the_end_of_its_last_line(
    root: Path, content: bytes, expected: str | None
) -> None:
    (root / "key.txt").write_bytes(content)

    assert found(SecretPlace(file="key.txt"), {"KEY": "of the environment"}, str(root)) == expected


def test_a_file_is_looked_for_from_the_root_of_the_project(root: Path, tmp_path: Path) -> None:
    (root / "secrets").mkdir()
    (root / "secrets" / "key").write_text("below")
    (tmp_path / "key").write_text("beside")
    (tmp_path / "elsewhere" / "key").write_text("of the current folder")

    assert found(SecretPlace(file="secrets/key"), root=str(root)) == "below"
    assert found(SecretPlace(file="../key"), root=str(root)) == "beside"
    assert found(SecretPlace(file=str(tmp_path / "key")), root=str(root)) == "beside"
    assert found(SecretPlace(file="key"), root=str(root)) is None


def test_a_file_that_is_not_there_yet_is_a_secret_that_is_not_there_yet(root: Path) -> None:
    place = SecretPlace(file="folder/key")

    assert found(place, root=str(root)) is None
    (root / "folder").mkdir()
    assert found(place, root=str(root)) is None
    (root / "folder" / "key").write_text("there")
    assert found(place, root=str(root)) == "there"


def test_a_file_that_cannot_hold_a_secret_is_a_failure_that_says_why(root: Path) -> None:
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    (root / "huge").write_bytes(b"x" * (64 * 1024 + 1))
    (root / "latin").write_bytes("schlüssel".encode("latin-1") + CANARY.encode())
    (root / "largest").write_bytes(b"x" * 64 * 1024)

    told = {name: refused(SecretPlace(file=name), root) for name in ("folder", "pipe", "huge", "latin")}

    path = "The secret KEY cannot be read: `"
    assert {name: message for name, (_, message, _) in told.items()} == {
        "folder": f"{path}folder` is a directory, not a regular file",
        "pipe": f"{path}pipe` is a named pipe, not a regular file",
        "huge": f"{path}huge` is larger than 65,536 bytes, the most that is read",
        "latin": "The secret KEY cannot be read: its file is not UTF-8",
    }
    assert {(code, remedy) for code, _, remedy in told.values()} == {
        (FailureCode.NOT_CONFIGURED, "see `[secrets]` in agent.toml")
    }
    assert len(found(SecretPlace(file="largest"), root=str(root)) or "") == 64 * 1024


@pytest.mark.skipif(os.geteuid() == 0, reason="whoever runs this may read everything")
def test_a_file_that_may_not_be_read_is_a_failure(root: Path) -> None:
    (root / "key").write_text(CANARY)
    (root / "key").chmod(0)

    code, message, _ = refused(SecretPlace(file="key"), root)

    assert code is FailureCode.NOT_CONFIGURED
    assert CANARY not in message


# The keyring ----------------------------------------------------------------------------------------------------------


def test_a_secret_in_the_keyring(backend: MemoryKeyring) -> None:
    keyring.set_password("acme", "ada", "value")
    keyring.set_password("acme/eu", "ada", "with a slash")
    keyring.set_password("acme", "empty", "")

    assert found(SecretPlace(keyring="acme/ada"), {"KEY": "of the environment"}) == "value"
    assert found(SecretPlace(keyring="acme/eu/ada")) == "with a slash"
    assert found(SecretPlace(keyring="acme/bob")) is None
    assert found(SecretPlace(keyring="acme/empty")) is None
    assert found(SecretPlace(keyring="other/ada")) is None


@pytest.mark.parametrize(
    "error", [KeyringLocked(CANARY), NoKeyringError(CANARY), OSError(5, CANARY), ValueError(CANARY)]
)
def test_a_keyring_that_does_not_answer_is_a_failure_without_what_it_said(
    backend: MemoryKeyring, error: Exception, root: Path
) -> None:
    backend.error = error

    assert refused(SecretPlace(keyring="acme/ada"), root) == (
        FailureCode.NOT_CONFIGURED,
        f"The secret KEY cannot be read: the keyring does not answer ({type(error).__name__})",
        "see `[secrets]` in agent.toml",
    )


def test_a_keyring_that_hangs_is_a_failure_and_keeps_nothing_from_ending(
    backend: MemoryKeyring, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may wait for a person who is not there."""
    release = threading.Event()
    monkeypatch.setattr(backend, "get_password", lambda *_: release.wait(20))
    monkeypatch.setattr(secret, "KEYRING_SECONDS", 0.05)
    begin = time.monotonic()

    assert refused(SecretPlace(keyring="acme/ada"), root)[:2] == (
        FailureCode.NOT_CONFIGURED,
        "The secret KEY cannot be read: the keyring does not answer (TimeoutError)",
    )

    assert time.monotonic() - begin < 10
    release.set()


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)

    assert refused(SecretPlace(keyring="acme/ada"), root) == (
        FailureCode.NOT_CONFIGURED,
        "The secret KEY cannot be read: it is in the keyring",
        "install `agent-resolver[keyring]`",
    )
    assert found(SecretPlace(env="KEY"), {"KEY": "value"}) == "value"


# What a person is told ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (None, "set the environment variable KEY"),
        (SecretPlace(env="ACME_KEY"), "set the environment variable ACME_KEY"),
        (SecretPlace(file="secrets/key"), "write it into the file secrets/key"),
        (SecretPlace(keyring="acme/ada"), "`keyring set acme ada`"),
        (SecretPlace(keyring="acme/eu/ada"), "`keyring set acme/eu ada`"),
    ],
)
def test_a_person_is_told_where_to_put_it(place: SecretPlace | None, expected: str) -> None:
    places = {} if place is None else {"KEY": place}

    assert ProjectSecrets(places, {"KEY": CANARY}, "/").place("KEY") == expected
