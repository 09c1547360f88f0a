"""Who is asking, by the settings of a project and the token that was given."""

import asyncio
import getpass
import os
from pathlib import Path

import pytest

from agent_resolver.identity import (
    ClientCredentials,
    InvalidToken,
    MissingToken,
    TokenCode,
    UnusableIdentity,
    Verifier,
    WorkerUnavailable,
)
from agent_resolver.project import (
    Session,
    UntrustedFolder,
    caller_of,
    caller_or_anonymous,
    user_name,
    verifier_of,
    worker_of,
)
from agent_resolver.schema import ANONYMOUS, Caller, local_caller
from agent_resolver.storage import OversizeFile, UnreadableFile

ISSUER = "https://login.example.com"
CONFIGURED = (f"identity.issuer={ISSUER}", "identity.audience=agents")


def opened(folder: Path, *flags: str) -> Session:
    return Session(str(folder / "agents.md"), str(folder / "mcp.index.json"), environment={}, flags=flags)


def caller(project: Session, token_file: Path | None = None, **environment: str) -> Caller:
    return asyncio.run(caller_of(project, str(token_file) if token_file else None, environment))


def test_without_an_issuer_it_is_whoever_sits_here(tmp_path: Path) -> None:
    project = opened(tmp_path)

    assert caller(project) == local_caller(getpass.getuser())
    assert caller(project, AGENT_TOKEN=" ") == local_caller(user_name())
    assert verifier_of(project) is None


def test_whoever_has_no_name_is_known_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)

    assert user_name() == str(os.getuid())


def test_a_token_that_nobody_could_verify_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("canary.token.x\n")

    for given, source in (({"AGENT_TOKEN": "canary.token.x"}, "AGENT_TOKEN"), ({}, "`--token-file`")):
        with pytest.raises(UnusableIdentity) as caught:
            caller(opened(tmp_path), None if given else tmp_path / "token", **given)
        assert str(caught.value) == f"{source} gives a token, and no issuer is set that could vouch for it"
        assert "identity.issuer" in caught.value.hint
        assert "canary" not in f"{caught.value!r}{caught.value.hint}"


def test_with_an_issuer_and_no_token_one_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(MissingToken) as caught:
        caller(opened(tmp_path, *CONFIGURED), AGENT_TOKEN="")

    assert str(caught.value) == f"{ISSUER} vouches for callers here, and no token was given"
    assert caught.value.hint == "set AGENT_TOKEN, or name a file that holds the token with `--token-file`"


def test_a_server_that_is_told_with_each_request_begins_with_nobody(tmp_path: Path) -> None:
    project = opened(tmp_path, *CONFIGURED)

    assert asyncio.run(caller_or_anonymous(project, None, {})) is ANONYMOUS
    assert not ANONYMOUS.is_verified
    assert asyncio.run(caller_or_anonymous(opened(tmp_path), None, {})) == local_caller(user_name())


@pytest.mark.parametrize(("there", "missing"), [("issuer", "audience"), ("audience", "issuer")])
def test_one_half_of_the_settings_is_refused(tmp_path: Path, there: str, missing: str) -> None:
    with pytest.raises(UnusableIdentity) as caught:
        caller(opened(tmp_path, f"identity.{there}=https://a.example"))

    assert str(caught.value) == f"`identity.{there}` is set, and `identity.{missing}` is not"
    assert caught.value.hint.startswith(f"set `identity.{missing}` too: ")


def test_an_issuer_that_could_be_forged_on_the_way_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableIdentity, match="neither an `https` address"):
        verifier_of(opened(tmp_path, "identity.issuer=http://login.example.com", "identity.audience=agents"))


def test_the_settings_say_what_a_token_is_held_against(tmp_path: Path) -> None:
    verifier = verifier_of(opened(tmp_path, *CONFIGURED))

    assert isinstance(verifier, Verifier)
    assert (verifier.issuer, verifier.audience) == (ISSUER, "agents")


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe", "tökén".encode()])
def test_a_file_without_a_token_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)

    with pytest.raises(InvalidToken) as caught:
        caller(opened(tmp_path, *CONFIGURED), tmp_path / "token", AGENT_TOKEN="not.looked.at")
    assert caught.value.code is TokenCode.MALFORMED
    assert str(caught.value) == f"`{tmp_path / 'token'}` holds no token"


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 100_000)
    project = opened(tmp_path, *CONFIGURED)

    with pytest.raises(UnreadableFile):
        caller(project, tmp_path / "missing")
    with pytest.raises(UnreadableFile):
        caller(project, tmp_path)
    with pytest.raises(OversizeFile):
        caller(project, tmp_path / "large")


# The worker -----------------------------------------------------------------------------------------------------------

CLIENT = ("identity.client_id=agents", "identity.client_secret_env=WORKER_SECRET")


def test_without_a_client_there_is_no_worker(tmp_path: Path) -> None:
    assert worker_of(opened(tmp_path)) is None
    assert worker_of(opened(tmp_path, *CONFIGURED)) is None


@pytest.mark.parametrize(
    ("flags", "missing"),
    [
        ((*CONFIGURED, CLIENT[0]), "identity.client_secret_env"),
        ((*CONFIGURED, CLIENT[1]), "identity.client_id"),
        (CLIENT, "identity.issuer"),
    ],
)
def test_a_worker_takes_an_issuer_a_client_and_a_secret(tmp_path: Path, flags: tuple[str, ...], missing: str) -> None:
    with pytest.raises(UnusableIdentity) as caught:
        worker_of(opened(tmp_path, *flags))

    assert f"set `{missing}`" in caught.value.hint


@pytest.mark.parametrize("secret", [None, "", "canary\n", "canary\udcff"])
def test_a_worker_whose_secret_is_not_there_says_which_variable_to_set(tmp_path: Path, secret: str | None) -> None:
    files = (str(tmp_path / "agents.md"), str(tmp_path / "mcp.index.json"))
    environment = {} if secret is None else {"WORKER_SECRET": secret}
    worker = worker_of(Session(*files, environment=environment, flags=(*CONFIGURED, *CLIENT)))

    assert worker is not None
    with pytest.raises(WorkerUnavailable) as caught:
        asyncio.run(worker.caller())
    assert str(caught.value) == "The worker agents has no token: the environment variable WORKER_SECRET holds no secret"
    assert caught.value.hint == "set WORKER_SECRET to the secret of the client, without a line break"


def test_a_worker_asks_for_tokens_with_the_secret_of_the_environment(tmp_path: Path) -> None:
    files = (str(tmp_path / "agents.md"), str(tmp_path / "mcp.index.json"))
    project = Session(*files, environment={"WORKER_SECRET": "canary"}, flags=(*CONFIGURED, *CLIENT))

    worker = worker_of(project)

    assert isinstance(worker, ClientCredentials)
    assert "canary" not in repr(worker)


@pytest.mark.parametrize(
    ("setting", "flag"),
    [('client_id = "agents"', CLIENT[1]), ('client_secret_env = "AWS_SECRET_ACCESS_KEY"', CLIENT[0])],
)
def test_a_folder_that_nobody_trusts_sends_no_secret_to_an_issuer(tmp_path: Path, setting: str, flag: str) -> None:
    (tmp_path / "agent.toml").write_text(f"[identity]\n{setting}\n")

    with pytest.raises(UntrustedFolder) as caught:
        worker_of(opened(tmp_path, *CONFIGURED, flag))
    assert "its settings say which secret is sent to the issuer" in f"{caught.value} {caught.value.hint}"
