"""Fetches documents over HTTPS, within one budget of bytes and time, and from no address that it should not call.

The rules hold for the address that the operator names and for every address that it redirects to:

- HTTPS only; plain HTTP for this machine alone, and only if the operator named this machine;
- no private address, which could be a service of the operator's network: the name is looked up once, every address
  behind it is judged, and the connection goes to one of those that were judged;
- no proxy, no compression, no HTML, no body whose end looks like a lost connection.
"""

import re
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from time import monotonic
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

from msgspec import Struct

from agent_resolver._version import __version__
from agent_resolver.core.loopback import is_loopback
from agent_resolver.exchange.secret_argument import has_secret
from agent_resolver.schema.errors import ResolverError

MAX_FETCHED_BYTES: Final = 256 * 1024 * 1024
"""The most that one sync may fetch."""
_MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_BLOCK: Final = 64 * 1024
_STEP_SECONDS: Final = 30.0
_PORTS: Final = {"http": 80, "https": 443}
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_TRANSLATION: Final = IPv6Network("64:ff9b::/96")
_LAST_32_BITS: Final = 0xFFFFFFFF


class FetchFailed(ResolverError):
    """A document could not be fetched, or is not to be."""

    def __init__(
        self,
        url: str,
        problem: str,
        hint: str = "",
    ) -> None:
        super().__init__(f"`{public_form(url)}`: {problem}")
        self.hint = hint


class Fetched(Struct, frozen=True):
    """A document, and where it came from in the end."""

    url: str
    content: bytes


class Fetcher:
    """Fetches documents until its time or its bytes are used up."""

    def __init__(
        self,
        named: str,
        *,
        seconds: float,
        allows_private: bool = False,
        most_bytes: int,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """A fetcher for what begins at the address `named`.

        Args:
            named: The address that the operator named.
            seconds: How long all of it may take.
            allows_private: True to call a private address, if the operator named its host.
            most_bytes: How many bytes may be fetched altogether.
            context: What decides which certificates count; the system's default if None.
        """
        parts = split_url(named)
        self._named_host = parts.hostname or ""
        self._is_local = is_loopback(self._named_host)
        self._allows_private = allows_private
        self._most_bytes = most_bytes
        self._bytes_left = most_bytes
        self._seconds = seconds
        self._deadline = monotonic() + seconds
        self._context = context

    def get(self, url: str) -> Fetched:
        """The document at an address, redirects followed.

        Raises:
            FetchFailed: It could not be fetched, or breaks a rule.
        """
        for _ in range(_MAX_REDIRECTS + 1):
            target = self._get_once(url)
            if isinstance(target, bytes):
                return Fetched(url, target)
            url = urljoin(url, target)
        raise FetchFailed(url, f"redirects more than {_MAX_REDIRECTS} times")

    def _get_once(self, url: str) -> bytes | str:
        """The body, or the address that it redirects to."""
        parts = split_url(url)
        addresses = self._allowed_addresses(url, parts)
        try:
            with self._connected(parts, addresses) as connection:
                path = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
                connection.request(
                    "GET", path, headers={**_HEADERS, "Host": parts.netloc}
                )
                with closing(connection.getresponse()) as response:
                    if response.status in _REDIRECTS:
                        return response.headers.get("Location") or ""
                    self._check_head(url, response)
                    return self._body_of(url, response)
        except (OSError, HTTPException, ValueError) as error:
            if monotonic() >= self._deadline:
                raise self._too_slow(url) from None
            raise FetchFailed(url, f"cannot be fetched: {_reason(error)}") from None

    @contextmanager
    def _connected(
        self, parts: SplitResult, addresses: Sequence[str]
    ) -> Iterator[HTTPConnection]:
        """A connection that ends by force when the time is up, however slowly the other side talks."""
        port = parts.port or _PORTS[parts.scheme]
        plain = self._first_connection(addresses, port)
        with closing(self._secured(plain, parts)) as wire:
            end = threading.Timer(
                max(self._deadline - monotonic(), 0.0), _shut_down, (wire,)
            )
            end.daemon = True
            end.start()
            try:
                if isinstance(wire, ssl.SSLSocket):
                    wire.do_handshake()
                connection = HTTPConnection(parts.hostname or "", port)
                connection.sock = wire
                with closing(connection):
                    yield connection
            finally:
                end.cancel()

    def _first_connection(self, addresses: Sequence[str], port: int) -> socket.socket:
        """A connection to the first address that takes one."""
        problem: OSError = TimeoutError()
        for address in addresses:
            left = self._deadline - monotonic()
            if left <= 0:
                break
            try:
                return socket.create_connection(
                    (address, port), min(left, _STEP_SECONDS)
                )
            except OSError as error:
                problem = error
        raise problem

    def _secured(self, wire: socket.socket, parts: SplitResult) -> socket.socket:
        """The socket, for HTTPS with TLS around it; nothing is said on it yet."""
        if parts.scheme == "http":
            return wire
        context = self._context or ssl.create_default_context()
        return context.wrap_socket(
            wire, server_hostname=parts.hostname, do_handshake_on_connect=False
        )

    def _check_head(self, url: str, response: HTTPResponse) -> None:
        if monotonic() >= self._deadline:
            # Headers that were cut off look like headers that say little.
            raise self._too_slow(url)
        if response.status != 200:  # noqa: PLR2004 - HTTP says what it means
            raise FetchFailed(
                url, f"answers with HTTP {response.status}", "check the address"
            )
        if (
            response.headers.get("Content-Encoding", "identity").strip().lower()
            != "identity"
        ):
            raise FetchFailed(
                url, "answers with a compressed body, which was not asked for"
            )
        if "html" in response.headers.get("Content-Type", "").lower():
            raise FetchFailed(
                url, "answers with an HTML page, not with data", "check the address"
            )
        if response.length is None and not response.chunked:
            raise FetchFailed(
                url,
                "does not say where its answer ends, so a part could be taken for the whole",
            )
        if response.length is not None and response.length > self._bytes_left:
            raise self._too_large(url)

    def _body_of(self, url: str, response: HTTPResponse) -> bytes:
        blocks: list[bytes] = []
        while block := response.read(_BLOCK):
            self._bytes_left -= len(block)
            if self._bytes_left < 0:
                raise self._too_large(url)
            blocks.append(block)
        if monotonic() >= self._deadline:
            raise self._too_slow(url)
        if response.length:
            raise FetchFailed(url, "was cut off in the middle", "try again")
        return b"".join(blocks)

    def _allowed_addresses(self, url: str, parts: SplitResult) -> list[str]:
        host = parts.hostname or ""
        if parts.scheme != "https" and not (self._is_local and is_loopback(host)):
            raise FetchFailed(
                url,
                "is not an `https` address",
                "use `https`; `http` is for this machine alone",
            )
        try:
            found = socket.getaddrinfo(
                host, parts.port or _PORTS[parts.scheme], type=socket.SOCK_STREAM
            )
        except (OSError, UnicodeError) as error:
            raise FetchFailed(url, f"cannot be fetched: {_reason(error)}") from None
        addresses = [str(entry[4][0]) for entry in found]
        if refused := [
            address for address in addresses if not self._may_call(host, address)
        ]:
            hint = (
                "`--allow-private` lets the host that you name have a private address"
            )
            raise FetchFailed(
                url,
                f"leads to the private address {refused[0]}, which is not called",
                hint,
            )
        return addresses

    def _may_call(self, host: str, address: str) -> bool:
        if self._is_local and is_loopback(host):
            return is_loopback(address)
        if self._allows_private and host == self._named_host:
            return True
        return is_public(address)

    def _too_large(self, url: str) -> FetchFailed:
        return FetchFailed(
            url,
            f"makes more than {self._most_bytes:,} bytes, the most that is fetched at once",
        )

    def _too_slow(self, url: str) -> FetchFailed:
        return FetchFailed(
            url,
            f"took longer than {self._seconds:g} seconds",
            "`--timeout` allows more",
        )


def is_public(address: str) -> bool:
    """True for an address of the public internet."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        # What is packed into an address of IPv6 is where it leads.
        inner = found.ipv4_mapped or found.sixtofour or _translated(found)
        if inner is not None:
            return is_public(str(inner))
        # Python calls what it does not know global:
        # https://www.iana.org/assignments/ipv6-address-space has one block.
        return found in _GLOBAL_UNICAST and found.is_global
    return found.is_global and not found.is_multicast


def _translated(address: IPv6Address) -> IPv4Address | None:
    """The address that a gateway between the two protocols calls (RFC 6052); None for any other."""
    if address in _TRANSLATION:
        return IPv4Address(int(address) & _LAST_32_BITS)
    return None


def split_url(url: str) -> SplitResult:
    """The parts of an HTTP address.

    Raises:
        FetchFailed: It is not one, or holds a user name or a password.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise FetchFailed(url, "is not an HTTP address") from None
    if not is_address or any(ord(character) <= ord(" ") for character in url):
        raise FetchFailed(url, "is not an HTTP address")
    if parts.username is not None or parts.password is not None:
        raise FetchFailed(url, "holds a user name or a password, which would be kept")
    return parts


def public_form(url: str) -> str:
    """An address to show and to keep: only its host where the rest holds what looks like a secret.

    A redirect often leads to an address that is signed for a few minutes.
    """
    if not has_secret(url):
        return url
    scheme, _, rest = url.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    return f"{scheme}://{host}/…"


_HEADERS: Final = {
    "Accept": "application/json, */*;q=0.5",
    "Accept-Encoding": "identity",
    "Connection": "close",
    "User-Agent": f"agent-resolver/{__version__}",
}


def _shut_down(wire: socket.socket) -> None:
    with suppress(OSError):  # It may have ended by itself.
        wire.shutdown(socket.SHUT_RDWR)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
