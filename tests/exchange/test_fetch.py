"""Documents are fetched within bounds, and from no address that should not be called."""

import ssl
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509

from agent_resolver.exchange import Fetcher, FetchFailed, is_public, split_url
from tests.certificate import authority, pem_of_certificate, pem_of_key
from tests.exchange.registry_server import RegistryServer, registry_server


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with registry_server() as server:
        yield server


def failure_of(fetcher: Fetcher, url: str) -> str:
    with pytest.raises(FetchFailed) as failed:
        fetcher.get(url)
    return str(failed.value)


def fetcher(registry: RegistryServer, seconds: float = 10.0, most_bytes: int = 1_000_000) -> Fetcher:
    return Fetcher(registry.url, seconds=seconds, most_bytes=most_bytes)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("html", "an HTML page"),
        ("broken", "HTTP 500"),
        ("absent", "HTTP 404"),
        ("half?cursor=2", "was cut off in the middle"),
        ("unmeasured", "does not say where its answer ends"),
        ("packed", "a compressed body"),
        ("large", "more than 1,000,000 bytes"),
        ("stream", "more than 1,000,000 bytes"),
        ("around", "redirects more than 5 times"),
        ("to?url=http://example.com/", "is not an `https` address"),
        ("to?url=https://192.168.0.1/", "the private address 192.168.0.1"),
        ("to?url=https://169.254.169.254/latest", "the private address 169.254.169.254"),
        ("to?url=https://%5B%3A%3A1%5D/", "cannot be fetched"),
        ("to?url=ftp://example.com/", "is not an HTTP address"),
        ("to?url=file:///etc/passwd", "is not an HTTP address"),
        ("to?url=https://user:secret@example.com/", "a user name or a password"),
    ],
)
def test_an_answer_that_breaks_a_rule_is_an_error(registry: RegistryServer, path: str, problem: str) -> None:
    said = failure_of(fetcher(registry), f"{registry.url}/{path}")

    assert problem in said
    assert "secret" not in said


def test_the_budget_of_bytes_counts_all_documents_together(registry: RegistryServer) -> None:
    small = fetcher(registry, most_bytes=20)

    assert small.get(f"{registry.url}/file").content == b"servers:\n  - a\n"
    assert "more than 20 bytes" in failure_of(small, f"{registry.url}/file")


@pytest.mark.parametrize("path", ["drip", "stream"])
def test_an_answer_that_never_ends_is_cut_off_in_time(registry: RegistryServer, path: str) -> None:
    impatient = fetcher(registry, seconds=0.3, most_bytes=10**12)

    assert "took longer than 0.3 seconds" in failure_of(impatient, f"{registry.url}/{path}")
    assert "took longer" in failure_of(impatient, f"{registry.url}/file")


def test_this_machine_is_called_only_if_the_operator_named_it(registry: RegistryServer) -> None:
    public = Fetcher("https://registry.example", seconds=10.0, most_bytes=1_000)

    assert "is not an `https` address" in failure_of(public, f"{registry.url}/file")
    assert "private address" in failure_of(public, f"https://127.0.0.1:{registry.server_port}/file")
    assert "private address" in failure_of(public, f"https://localhost:{registry.server_port}/file")
    assert registry.asked == []


def test_a_private_address_is_called_only_at_the_host_that_was_named() -> None:
    named = Fetcher("https://10.0.0.1:1", seconds=0.2, most_bytes=1_000, allows_private=True)

    assert "private address 10.0.0.2" in failure_of(named, "https://10.0.0.2:1/")
    local = Fetcher("https://127.0.0.2:1", seconds=1, most_bytes=1_000)
    assert "private address" not in failure_of(local, "https://127.0.0.2:1/")


@pytest.mark.parametrize("url", ["", "example.com", "https://", "https://a b/", "https://[/", "https://a:0/", "x:y"])
def test_what_is_not_an_address_is_refused(url: str) -> None:
    with pytest.raises(FetchFailed):
        split_url(url)


@pytest.mark.parametrize(
    ("address", "is_so"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("10.0.0.1", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("127.0.0.1", False),
        ("0.0.0.1", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("2002:0a00:0001::", False),
        ("64:ff9b::10.0.0.1", False),
        ("64:ff9b::93.184.216.34", True),
        ("64:ff9b:1::10.0.0.1", False),
        ("::10.0.0.1", False),
        ("::ffff:0:10.0.0.1", False),
        ("2001:0:10::1", False),
        ("fec0::1", False),
    ],
)
def test_only_addresses_of_the_internet_are_public(address: str, *, is_so: bool) -> None:
    assert is_public(address) is is_so


def test_https_is_spoken_with_a_certificate_that_counts(registry: RegistryServer, tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    registry.socket = context.wrap_socket(registry.socket, server_side=True)
    url = registry.url.replace("http:", "https:")
    system = ssl.create_default_context(cafile=str(certificate))
    trusting = Fetcher(url, seconds=10.0, most_bytes=1_000, context=system)

    assert trusting.get(f"{url}/file").content == b"servers:\n  - a\n"
    assert "certificate" in failure_of(Fetcher(url, seconds=10.0, most_bytes=1_000), f"{url}/file").lower()


def self_signed(folder: Path) -> Path:
    """A certificate for this machine with its key, in one file."""
    certificate, key = authority("localhost", x509.IPAddress(IPv4Address("127.0.0.1")))
    path = folder / "certificate.pem"
    path.write_bytes(pem_of_key(key) + pem_of_certificate(certificate))
    return path
