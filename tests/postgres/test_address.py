"""Where the state is, and that nothing on the way can read it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509

from agent_resolver.project.state_place import has_password
from agent_resolver.storage import PostgresAddress, PostgresStore, UnreadableFile
from tests.certificate import authority, pem_of_certificate, pem_of_key
from tests.postgres_server import PostgresServer, postgres_server

HOST = "db.example"


def test_the_name_of_an_address_has_no_password() -> None:
    address = PostgresAddress("postgresql://ada:secret@localhost:7/state?application_name=x", environment={})

    assert address.name == "postgresql://localhost:7/state"
    assert "secret" not in repr(address)


@pytest.mark.parametrize("url", ["postgresql://ada:se%zzcret@localhost/state", "postgresql://localhost/?nonsense=1"])
def test_what_is_not_an_address_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(UnreadableFile, match="is not an address of Postgres") as caught:
        PostgresAddress(url)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:se/cret@localhost/state",
        "postgresql://ada:5432/cret@localhost/state",
        "postgresql://ada:se@cret@localhost/state",
        "postgresql://ada:12@34/cret@localhost/state",
        "postgresql://ada:se?cret@localhost/state",
        "postgresql://ada:cret@localhost:port/state",
        "postgresql:///state?host=ada:cret@localhost",
        "postgresql://cret\n/state",
        "postgresql://cret\x00/state",
        "postgresql://[cret/state",
    ],
)
def test_a_password_that_is_not_encoded_is_never_taken_for_a_host_or_a_database(url: str) -> None:
    with pytest.raises(UnreadableFile, match="is not an address of Postgres") as caught:
        PostgresAddress(url, environment={})

    assert "cret" not in str(caught.value)
    assert "%2F" in caught.value.hint
    # The file with the address is checked before the address is parsed.
    assert isinstance(has_password(url), bool)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:se%2Fcr%40et@localhost/state",
        "postgresql://localhost",
        "postgresql://localhost?application_name=x",
        "postgresql://a,b:5433/state?port=&sslmode=disable",
        "postgres://[::1]:7/state",
        "postgresql:///state?host=/run/postgresql",
        "postgresql:///state?host=%40abstract",
        "postgresql://ada@localhost/state?password=a@b",
    ],
)
def test_every_form_of_an_address_that_is_clear_is_read(url: str) -> None:
    assert PostgresAddress(url, environment={}).name.startswith("postgresql://")


def test_a_service_does_not_lead_to_another_machine_without_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = tmp_path / "services"
    services.write_text(f"[far]\nhost={HOST}\nhostaddr=127.0.0.1\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))

    with pytest.raises(UnreadableFile, match="names a service"):
        PostgresAddress("postgresql:///state?service=far", environment={})
    monkeypatch.setenv("PGSERVICE", "far")
    address = PostgresAddress("postgresql:///state", environment={})
    assert (address.is_remote, address.parameters["sslmode"]) == (True, "verify-full")


@pytest.mark.parametrize("mode", ["prefer", "allow"])
def test_another_machine_is_refused_where_tls_could_be_left_out(mode: str) -> None:
    with pytest.raises(UnreadableFile, match="does not ask for TLS"):
        PostgresAddress(f"postgresql://{HOST}/state?sslmode={mode}", environment={})


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer", "require", "verify-ca"])
def test_a_variable_of_libpq_does_not_weaken_the_connection_to_another_machine(
    mode: str, monkeypatch: pytest.MonkeyPatch, encrypted: tuple[PostgresServer, Path]
) -> None:
    server, _ = encrypted
    monkeypatch.setenv("PGSSLMODE", mode)
    address = PostgresAddress(f"postgresql://postgres@{HOST}:{server.port}/postgres?hostaddr=127.0.0.1")

    assert address.parameters["sslmode"] == "verify-full"
    with pytest.raises(UnreadableFile, match="certificate"):
        PostgresStore(address)


def test_another_machine_is_asked_for_tls_unless_the_address_says_otherwise() -> None:
    def mode(url: str) -> str | None:
        return PostgresAddress(url, environment={}).parameters.get("sslmode")

    assert mode(f"postgresql://{HOST}/state") == "verify-full"
    assert mode(f"postgresql://localhost,{HOST}/state") == "verify-full"
    assert mode("postgresql://localhost/state?hostaddr=192.0.2.1") == "verify-full"
    assert mode(f"postgresql://{HOST}/state?sslmode=require") == "require"
    assert mode(f"postgresql://{HOST}/state?sslmode=disable") == "disable"
    assert mode("postgresql:///state?host=/run/postgresql") is None
    assert mode("postgresql://127.0.0.1/state") is None


@pytest.fixture(scope="module")
def encrypted() -> Iterator[tuple[PostgresServer, Path]]:
    """A server with a certificate of its own, and the file that has it."""
    with postgres_server() as server:
        server.stop()
        folder = server.folder
        key, certificate = folder / "server.key", folder / "server.crt"
        _make_certificate(key, certificate)
        server.settings = ["ssl=on", f"ssl_cert_file={certificate}", f"ssl_key_file={key}"]
        server.start()
        yield server, certificate


def _make_certificate(key_file: Path, certificate_file: Path) -> None:
    certificate, key = authority(HOST, x509.DNSName(HOST))
    key_file.write_bytes(pem_of_key(key))
    certificate_file.write_bytes(pem_of_certificate(certificate))
    for file in (key_file, certificate_file):
        file.chmod(0o600)
        shutil.chown(file, key_file.parent.owner())
    certificate_file.chmod(0o644)


def test_a_server_whose_certificate_holds_is_used(encrypted: tuple[PostgresServer, Path]) -> None:
    server, certificate = encrypted
    where = f"postgresql://postgres@{HOST}:{server.port}/postgres?hostaddr=127.0.0.1"

    PostgresStore(PostgresAddress(f"{where}&sslmode=verify-full&sslrootcert={certificate}")).close()
    PostgresStore(PostgresAddress(f"{where}&sslmode=disable")).close()


def test_a_server_whose_certificate_does_not_hold_is_refused(encrypted: tuple[PostgresServer, Path]) -> None:
    server, certificate = encrypted

    with pytest.raises(UnreadableFile, match="certificate"):
        PostgresStore(PostgresAddress(f"postgresql://postgres@{HOST}:{server.port}/postgres?hostaddr=127.0.0.1"))
    other = f"postgresql://postgres@other.example:{server.port}/postgres?hostaddr=127.0.0.1"
    with pytest.raises(UnreadableFile, match="certificate"):
        PostgresStore(PostgresAddress(f"{other}&sslmode=verify-full&sslrootcert={certificate}"))


def test_a_server_on_another_machine_without_tls_is_refused(server: PostgresServer) -> None:
    with pytest.raises(UnreadableFile, match="SSL"):
        PostgresStore(PostgresAddress(f"postgresql://postgres@{HOST}:{server.port}/postgres?hostaddr=127.0.0.1"))
