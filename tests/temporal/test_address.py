"""Addresses, certificates and namespaces: what a worker connects to, and what it says where it cannot."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec import Struct
from temporalio.client import Client

from agent_resolver.engine import EngineRefused, EngineUnreachable, RunResult, temporal_carrier, temporal_client
from tests.certificate import authority, pem_of_certificate, pem_of_key, unsigned
from tests.engine.stage import Stage, blueprint
from tests.loopback import free_port
from tests.temporal.places import carrier_for
from tests.temporal.working import STEPS, fail_first
from tests.temporal_server import TemporalServer, temporal_server


def problem_of(server: TemporalServer, folder: Path, **changes: Any) -> EngineUnreachable:
    """Why a worker of this place does not begin."""
    return asyncio.run(refusal_of(server, folder, **changes))


async def refusal_of(server: TemporalServer, folder: Path, **changes: Any) -> EngineUnreachable:
    stage = Stage(folder, driver=carrier_for(server, folder, **changes))
    try:
        with pytest.raises(EngineUnreachable) as refused:
            await stage.engine.open()
    finally:
        stage.close()
    assert refused.value.exit_code == 2
    for word in ("tonic", "Custom {", "\n"):
        assert word not in str(refused.value)
    return refused.value


BAD_ADDRESSES = (
    *("", "temporal", "127.0.0.1", "::1:7233", "http://127.0.0.1:7233", "127.0.0.1:7233/x", "127.0.0.1:0"),
    *("127.0.0.1:99999", "127.0.0.1:port", "a host:7233", "a\nhost:7233"),
)


@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_an_address_is_a_host_and_a_port(server: TemporalServer, tmp_path: Path, address: str) -> None:
    error = problem_of(server, tmp_path, address=address)

    assert "is not a host and a port" in str(error)
    assert "temporal.example:7233" in error.hint


def test_a_password_in_an_address_is_not_shown(server: TemporalServer, tmp_path: Path) -> None:
    assert "pass-phrase" not in str(problem_of(server, tmp_path, address=f"ada:pass-phrase@{server.address}"))


def test_a_server_that_is_not_there_is_named_in_plain_words(server: TemporalServer, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    error = problem_of(server, tmp_path, address=address)

    assert str(error) == f"The Temporal server at `{address}` cannot be used: nothing listens there"
    assert "engine.address" in error.hint


STARTING = (
    "Failed client connect: `get_system_info` call error after connection: Status { code: Unavailable, "
    'message: "Frontend is not healthy yet", metadata: MetadataMap { headers: {"content-type": "application/grpc"} }, '
    "source: None }"
)
"""What the library says of a server that was started a moment ago."""


def test_a_worker_waits_for_a_server_that_is_still_starting(
    server: TemporalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_first(monkeypatch, Client, "connect", RuntimeError(STARTING), RuntimeError(STARTING))

    asyncio.run(works(server, tmp_path))


def test_a_server_that_never_gets_ready_is_named(
    server: TemporalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(temporal_client, "CONNECT_SECONDS", 1.0)
    fail_first(monkeypatch, Client, "connect", *[RuntimeError(STARTING)] * 100)

    assert "it was not ready in 1 seconds" in str(problem_of(server, tmp_path))


@pytest.mark.parametrize("is_shared", [False, True], ids=["state in a file", "shared state"])
def test_a_server_without_room_for_a_further_project_is_not_taken_for_a_silent_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_shared: bool
) -> None:
    with temporal_server(tmp_path, settings=["matching.maxDeployments=1"]) as full:
        asyncio.run(works(full, tmp_path, queue="agent-tests-first"))
        monkeypatch.setattr(temporal_carrier, "CONNECT_SECONDS", 0.5)
        error = problem_of(full, tmp_path, queue="agent-tests-second", is_shared=is_shared)

    assert "it does not register this worker" in str(error)
    assert "matching.maxDeployments" in error.hint


def test_a_name_can_stand_for_the_host(server: TemporalServer, tmp_path: Path) -> None:
    asyncio.run(works(server, tmp_path, address=f"localhost:{server.port}"))


async def works(server: TemporalServer, folder: Path, **changes: Any) -> None:
    """A run comes to its end."""
    stage = Stage(folder, driver=carrier_for(server, folder, **changes))
    stage.add("shop.pay")
    await stage.engine.open()
    try:
        await stage.start(blueprint(*STEPS))
        async with asyncio.timeout(30):
            await stage.engine.worker.drain()
        ended = await stage.result()
        assert isinstance(ended, RunResult)
        assert ended.status == "done"
    finally:
        await stage.engine.close()
        stage.close()


@pytest.mark.parametrize("namespace", ["elsewhere", "a b"])
def test_a_namespace_that_is_not_there_is_named_with_what_makes_it(
    server: TemporalServer, tmp_path: Path, namespace: str
) -> None:
    stage = Stage(tmp_path, driver=carrier_for(server, tmp_path, namespace=namespace))
    with pytest.raises(EngineRefused, match=namespace) as refused:
        asyncio.run(stage.engine.open())
    stage.close()

    assert "engine.namespace" in refused.value.hint
    assert refused.value.exit_code == 1


# Certificates ---------------------------------------------------------------------------------------------------------


class Certificates(Struct, frozen=True):
    """Two authorities, and what the first one has issued for this machine, in a file with its key."""

    mine: bytes
    other: bytes
    chain: Path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    mine, key = authority("mine")
    other, _ = authority("other")
    own_key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    leaf = unsigned("localhost", mine.subject, own_key).add_extension(names, critical=False).sign(key, hashes.SHA256())
    chain = folder / "chain.pem"
    chain.write_bytes(pem_of_key(own_key) + pem_of_certificate(leaf))
    return Certificates(pem_of_certificate(mine), pem_of_certificate(other), chain)


@asynccontextmanager
async def encrypting(server: TemporalServer, certificates: Certificates) -> AsyncIterator[int]:
    """The port of something in front of the server that speaks TLS, as in front of one in production."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.chain)
    context.set_alpn_protocols(["h2"])
    joined: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while content := await reader.read(65536):
                writer.write(content)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", server.port)
        for pair in ((reader, inner_writer), (inner_reader, writer)):
            task = asyncio.create_task(pump(*pair))
            joined.add(task)
            task.add_done_callback(joined.discard)

    front = await asyncio.start_server(join, "127.0.0.1", 0, ssl=context)
    try:
        yield front.sockets[0].getsockname()[1]
    finally:
        front.close()
        for task in list(joined):
            task.cancel()
        await asyncio.gather(*joined, return_exceptions=True)


@pytest.mark.parametrize("key", ["", "secret"], ids=["without a key", "with a key"])
def test_a_run_is_carried_over_a_connection_that_is_encrypted(
    server: TemporalServer, tmp_path: Path, certificates: Certificates, key: str
) -> None:
    async def story() -> None:
        async with encrypting(server, certificates) as port:
            place = {"address": f"localhost:{port}", "root_certificate": certificates.mine, "is_encrypted": True}
            await works(server, tmp_path, api_key=key, **place)

    asyncio.run(story())


UNKNOWN = "its certificate does not come from one that is trusted"
REFUSED = {
    "another authority": ("localhost", "other", UNKNOWN),
    "the authorities of this machine": ("localhost", "", UNKNOWN),
    "another name": ("127.0.0.1", "mine", "its certificate is for another name"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_certificate_that_does_not_hold_is_refused(
    server: TemporalServer, tmp_path: Path, certificates: Certificates, case: str
) -> None:
    host, trusted, words = REFUSED[case]

    async def story() -> str:
        async with encrypting(server, certificates) as port:
            root = getattr(certificates, trusted) if trusted else b""
            place = {"address": f"{host}:{port}", "root_certificate": root, "is_encrypted": True}
            return str(await refusal_of(server, tmp_path, **place))

    assert asyncio.run(story()).endswith(words)


def test_a_server_that_encrypts_is_not_reached_in_the_clear(
    server: TemporalServer, tmp_path: Path, certificates: Certificates
) -> None:
    async def story() -> str:
        async with encrypting(server, certificates) as port:
            return str(await refusal_of(server, tmp_path, address=f"localhost:{port}"))

    assert "engine.ca_file" in asyncio.run(story())


def test_a_server_that_does_not_encrypt_gets_no_key(server: TemporalServer, tmp_path: Path) -> None:
    assert "does not encrypt" in str(problem_of(server, tmp_path, api_key="secret", is_encrypted=True))


def test_something_else_that_answers_is_not_taken_for_the_server(server: TemporalServer, tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def story() -> str:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as other:
            port = other.sockets[0].getsockname()[1]
            return str(await refusal_of(server, tmp_path, address=f"127.0.0.1:{port}"))

    assert "is not a Temporal server" in asyncio.run(story())
