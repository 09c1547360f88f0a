"""Commands on a project whose state is in Postgres."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.postgres_server import PostgresServer

TICKETS = Path(__file__).parents[2] / "examples" / "tickets" / "tickets.py"
CREATED = {"id": 4, "title": "x", "status": "open"}


class Project:
    """A folder with a tool, on one machine of several."""

    def __init__(self, folder: Path, url: str, **settings: str) -> None:
        folder.mkdir()
        self.folder = folder
        shutil.copy(TICKETS, folder)
        lines = [f'url = "{url}"', *(f'{name} = "{value}"' for name, value in settings.items())]
        (folder / "agent.toml").write_text("\n".join(['[tools]\nmodules = ["tickets"]', "[state]", *lines, ""]))

    def run(self, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "agent_resolver", *words]
        home = str(self.folder.parent)
        env = {"HOME": home, "PATH": "/usr/bin:/bin", **environment}
        return subprocess.run(command, cwd=self.folder, env=env, check=False, capture_output=True, text=True)


def call(project: Project, key: str, **environment: str) -> Any:
    arguments = ("tools", "call", "tickets.create", '{"title": "x"}', "--key", key, "--trust")
    done = project.run(*arguments, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_two_machines_share_a_state_by_a_key_of_their_own(url: str, tmp_path: Path) -> None:
    secret = {"STATE_KEY": "k" * 40}
    machines = [Project(tmp_path / name, url, key_env="STATE_KEY") for name in ("first", "second")]

    assert [call(machine, "once", **secret) for machine in machines] == [CREATED, CREATED]

    shown = machines[1].run("audit", "show", "--json", "--trust", **secret)
    kinds = [record["kind"] for record in json.loads(shown.stdout)]
    assert kinds.count("call.started") == 1, "the second machine was given the result of the first"
    verified = machines[0].run("audit", "verify", "--trust", **secret)
    assert (verified.returncode, verified.stderr) == (0, "")


def test_a_machine_without_the_key_is_told_where_to_name_it(url: str, tmp_path: Path) -> None:
    first, second = (Project(tmp_path / name, url) for name in ("first", "second"))
    call(first, "once")
    assert (first.folder / ".agent" / "state.key").exists()

    done = second.run("tools", "call", "tickets.create", '{"title": "y"}', "--trust")

    assert done.returncode == 1
    assert "is sealed with the key" in done.stderr
    assert "`state.key_env`" in done.stderr


def test_a_folder_that_is_not_trusted_reaches_no_server(url: str, tmp_path: Path) -> None:
    project = Project(tmp_path / "project", url)

    done = project.run("audit", "verify")

    assert done.returncode == 1
    assert "is not trusted, and its settings keep the state outside of it" in done.stderr


def test_a_password_in_a_file_is_refused_and_never_shown(server: PostgresServer, tmp_path: Path) -> None:
    url = f"postgresql://postgres:s3cret@127.0.0.1:{server.port}/postgres"
    project = Project(tmp_path / "project", url)

    done = project.run("audit", "verify", "--trust")
    shown = project.run("config", "show")

    assert done.returncode == 1
    assert "`state.password_env`" in done.stderr
    assert "s3cret" not in done.stdout + done.stderr + shown.stdout + shown.stderr


def test_a_password_comes_from_a_variable(server: PostgresServer, tmp_path: Path) -> None:
    project = Project(tmp_path / "project", server.new_database(), password_env="DB_PASSWORD")

    missing = project.run("state", "info", "--trust")
    assert missing.returncode == 1
    assert "DB_PASSWORD" in missing.stderr
    assert call(project, "a", DB_PASSWORD="s3cret") == CREATED


def test_a_server_that_does_not_answer_is_named_with_what_to_do(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", "postgresql://ada@127.0.0.1:1/state")

    done = project.run("audit", "verify", "--trust")

    assert done.returncode == 2
    assert "`postgresql://127.0.0.1:1/state` cannot be reached" in done.stderr
    assert "hint: see that the server runs" in done.stderr
    assert "Traceback" not in done.stderr


def test_looking_at_a_database_without_a_state_makes_none(url: str, tmp_path: Path) -> None:
    done = Project(tmp_path / "project", url).run("audit", "verify", "--trust")

    assert done.returncode == 2
    assert "has no state" in done.stderr
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT to_regnamespace('agent_resolver')").fetchone() == (None,)


@pytest.mark.parametrize("right", ["", "GRANT USAGE ON SCHEMA agent_resolver TO"], ids=["none", "of the schema alone"])
def test_an_auditor_without_the_rights_is_told_which_one_is_missing(
    server: PostgresServer, tmp_path: Path, right: str
) -> None:
    secret, url = {"STATE_KEY": "k" * 40}, server.new_database()
    call(Project(tmp_path / "project", url, key_env="STATE_KEY"), "a", **secret)
    name = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN".encode())
        if right:
            connection.execute(f"{right} {name}".encode())
    auditor = Project(tmp_path / "auditor", url.replace("postgres@", f"{name}@"), key_env="STATE_KEY")

    for words in ("audit verify", "runs list", "doctor"):
        done = auditor.run(*words.split(), "--trust", **secret)
        assert done.returncode == (1 if words == "doctor" else 2)
        missing = "table version" if right else "schema agent_resolver"
        assert f"cannot be used as the state: permission denied for {missing}" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


@contextmanager
def working(folder: Path, **environment: str) -> Iterator[None]:
    """A worker that is there."""
    command = [sys.executable, "-m", "agent_resolver", "worker", "--trust", "--json"]
    env = {"HOME": str(folder.parent), "PATH": "/usr/bin:/bin", **environment}
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            assert process.stdout is not None
            while "worker.started" not in (line := process.stdout.readline()):
                assert line, "the worker has ended"
            yield
        finally:
            process.terminate()


def test_an_auditor_looks_with_a_role_that_may_only_look(server: PostgresServer, tmp_path: Path) -> None:
    secret, url = {"STATE_KEY": "k" * 40}, server.new_database()
    call(Project(tmp_path / "project", url, key_env="STATE_KEY"), "a", **secret)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE looking LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA agent_resolver TO looking")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA agent_resolver TO looking")
    auditor = Project(tmp_path / "auditor", url.replace("postgres@", "looking@"), key_env="STATE_KEY")

    with working(tmp_path / "project", **secret):
        for words in ("audit verify", "audit show", "state info", "runs list", "inbox list", "worker list", "doctor"):
            done = auditor.run(*words.split(), "--trust", **secret)
            assert done.returncode == 0, (words, done.stderr)
            assert words != "worker list" or "working" in done.stdout
    refused = auditor.run("tools", "call", "tickets.create", '{"title": "y"}', "--trust", **secret)
    assert refused.returncode == 1
    assert "permission denied" in refused.stderr
