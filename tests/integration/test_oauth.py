"""Client credentials of OAuth 2 with a real issuer, `nanoidp`, which is not ours."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.integration.conftest import BUILD, Project, Served, entry
from tests.loopback import free_port
from tests.process import eventually

SECRET = "canary-secret-5e90"

SETTINGS = """\
config_version: 1
server: {{ host: 127.0.0.1, port: {port} }}
oauth:
  issuer: {issuer}
  audience: nobody
  token_expiry_minutes: 5
  scopes_supported: [use, admin]
  clients:
    - {{ client_id: ours, client_secret: {secret}, description: Tests }}
"""


def answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as answer:  # noqa: S310 - loopback
            return bool(json.load(answer))
    except (URLError, ConnectionError, TimeoutError):
        return False


@pytest.fixture
def issuer(tmp_path: Path, project: Project) -> Iterator[str]:
    """The address of an issuer that knows one client."""
    command = BUILD / "idp" / "bin" / "nanoidp"
    assert command.exists(), "run `make integration`, which installs it"
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    config = tmp_path / "idp"
    config.mkdir()
    (config / "settings.yaml").write_text(SETTINGS.format(port=port, issuer=address, secret=SECRET))
    (config / "users.yaml").write_text("users: {}\n")
    line = [str(command), "--config", str(config), "--port", str(port)]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=config) as process:
        try:
            assert eventually(lambda: answers(f"{address}/.well-known/openid-configuration"), 30)
            yield address
        finally:
            process.kill()


def settings(issuer: str) -> str:
    return f'[servers.guarded.oauth]\nclient_id = "ours"\nclient_secret_env = "GUARDED_SECRET"\nissuer = "{issuer}"\n'


@pytest.fixture
def guarded(project: Project, http: Served, issuer: str) -> Project:
    """A project with a server that takes what the issuer signs."""
    server = entry("guarded", {"whoami": ["use"], "echo": ["admin"]}, endpoint=http("issuer", issuer).url)
    project.write(server, config=settings(issuer))
    return project


def leaks(project: Project) -> list[Path]:
    return [path for path in project.holds("canary") if path.parent.name != "idp"]


def test_credentials_are_exchanged_for_a_token_with_the_locked_scopes_and_no_others(guarded: Project) -> None:
    guarded.environment["GUARDED_SECRET"] = SECRET

    ran = guarded.call("guarded.whoami")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout) == {"client": "ours", "scopes": ["use"]}
    assert leaks(guarded) == []


def test_a_wrong_secret_is_told_and_is_seen_nowhere(guarded: Project) -> None:
    guarded.environment["GUARDED_SECRET"] = "canary-wrong-secret"

    outcome = guarded.outcome("guarded.whoami")
    shown = guarded.call("guarded.whoami", "-v")

    assert outcome["code"] == "UNAUTHORIZED"
    assert outcome["message"].startswith("guarded refused our credentials (Token exchange failed (401)")
    assert "canary" not in shown.stdout + shown.stderr
    assert leaks(guarded) == []


def test_a_server_that_names_another_issuer_gets_no_secret_sent_there(
    project: Project, http: Served, issuer: str
) -> None:
    server = entry("guarded", {"whoami": ["use"]}, endpoint=http("issuer", issuer).url)
    project.write(server, config=settings("http://127.0.0.1:9"))
    project.environment["GUARDED_SECRET"] = SECRET

    outcome = project.outcome("guarded.whoami")

    assert outcome["code"] == "UNAUTHORIZED"
    assert "issuer" in outcome["message"]


def test_a_secret_that_is_not_there_waits_for_a_person(guarded: Project) -> None:
    outcome = guarded.outcome("guarded.whoami")

    assert (outcome["status"], outcome["type"]) == ("pending", "SECRET")
