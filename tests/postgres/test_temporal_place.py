"""The name of a project on a Temporal server, where the state is in Postgres: machines meet if they share the state."""

from pathlib import Path

import psycopg
import pytest

from agent_resolver.project import UntrustedFolder
from agent_resolver.storage import UnreadableFile
from tests.loopback import free_port
from tests.postgres_server import PostgresServer, postgres_server
from tests.project.test_temporal_place import Place, place

__all__ = ["place"]


def database_of(url: str) -> str:
    return url.rpartition("/")[2]


def test_machines_with_one_database_meet_however_they_write_its_address(
    place: Place, server: PostgresServer, url: str
) -> None:
    database = database_of(url)
    spellings = (
        url,
        url.replace("postgresql:", "postgres:"),
        url.replace("127.0.0.1", "localhost"),
        url.replace("postgres@", "postgres:secret@"),
        f"{url}?connect_timeout=5",
        f"postgresql:///{database}?host=127.0.0.1&port={server.port}&user=postgres",
        f"postgresql:///{database}?host={server.folder}&port={server.port}&user=postgres",
    )
    found = [place(AGENT_STATE_URL=spelling) for spelling in spellings]

    assert found[0].is_shared
    assert {each.queue for each in found} == {found[0].queue}
    assert {each.state for each in found} == {found[0].state}
    assert found[0].state in found[0].queue


def test_databases_that_are_written_alike_are_told_apart(place: Place, server: PostgresServer) -> None:
    """By another server, and by the user, who gives a database without a name its name."""
    users = ["prod", "staging"]
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for user in users:
            connection.execute(f"CREATE ROLE {user} LOGIN".encode())
            connection.execute(f"CREATE DATABASE {user} OWNER {user}".encode())
    with postgres_server() as another:
        with psycopg.connect(another.url(), autocommit=True) as connection:
            connection.execute(b"CREATE DATABASE prod")
        urls = [f"postgresql://{user}@127.0.0.1:{server.port}" for user in users]
        urls += [f"postgresql:///prod?host=127.0.0.1&user=postgres&port={each.port}" for each in (server, another)]
        prod, staging, again, far = (place(AGENT_STATE_URL=url) for url in urls)

    assert (again.queue, again.state) == (prod.queue, prod.state)
    assert len({each.queue for each in (prod, staging, far)}) == 3
    assert len({each.state for each in (prod, staging, far)}) == 3


def test_a_database_of_a_file_that_no_person_trusts_is_not_asked(place: Place, tmp_path: Path, url: str) -> None:
    state = ("[state]", f'url = "{url}"')
    with pytest.raises(UntrustedFolder):
        place(*state, trusts=False)
    assert place(*state).is_shared


def test_a_server_that_is_not_there_is_named(place: Place) -> None:
    address = f"postgresql://127.0.0.1:{free_port()}/state"
    with pytest.raises(UnreadableFile, match="cannot be reached"):
        place(AGENT_STATE_URL=address)


def test_a_server_that_does_not_say_its_name_is_refused_in_words(place: Place, server: PostgresServer) -> None:
    """As an administrator may have it who takes the right from all."""
    url = server.new_database()
    name = database_of(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'CREATE ROLE "{name}" LOGIN'.encode())
        connection.execute(b"REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    with pytest.raises(UnreadableFile, match=r"does not say .*: permission denied .*pg_control_system"):
        place(AGENT_STATE_URL=url.replace("postgres@", f"{name}@"))
