import psycopg

from tests.postgres_server import PostgresServer


def test_server_is_there_again_after_a_kill(server: PostgresServer) -> None:
    url = server.new_database()
    server.kill()
    server.start()

    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
