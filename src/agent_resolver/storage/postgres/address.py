"""The address of a Postgres database, and what may be said of it."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from agent_resolver.core.loopback import is_loopback
from agent_resolver.storage.errors import UnreadableFile

_PORT: Final = "5432"
_ENCRYPTED: Final = frozenset({"require", "verify-ca", "verify-full"})
_BOUNDS: Final = {
    "connect_timeout": "10",
    # A peer that is gone without a word is noticed within a minute.
    "keepalives_idle": "20",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "40000",
}


# After `/`, `?` or `@` in a password that is not encoded, libpq takes the rest for a
# host, a port or a database.
_FORM: Final = re.compile(
    r"[a-z]+://([^/?@]*@[^/?@]*(/[^?@]*)?(\?.*)?|[^/?@]*/[^?@]*(\?.*)?|[^/?@]*(\?[^@]*)?)"
)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class NotAnAddress(UnreadableFile):
    """The address of the state is not one of Postgres, or not the one that its author meant."""

    hint = "in a user or password write `/` as `%2F`, `?` as `%3F`, `@` as `%40` and `%` as `%25`"

    def __init__(self) -> None:
        # The address is not quoted: any part of it may be a part of the password.
        super().__init__(
            "state.url", "is not an address of Postgres, postgresql://host/database"
        )


class Unencrypted(UnreadableFile):
    """Postgres is on another machine, and what is sent there could be read on the way."""

    exit_code = 1
    hint = "say `sslmode=verify-full` in the address, or `sslmode=disable` if the network between is your own"

    def __init__(self, name: str) -> None:
        super().__init__(
            name, "is on another machine, and the address does not ask for TLS"
        )


class PostgresAddress:
    """The address of a database and of the user who connects to it; its name leaves out what is secret."""

    def __init__(
        self,
        url: str,
        *,
        password: str | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """The database at a URL, as libpq reads one.

        Args:
            url: Begins with `postgresql://`.
            password: The password, where the URL has none.
            environment: The variables of libpq that fill in what the URL leaves out.

        Raises:
            NotAnAddress: It is not such a URL.
            UnreadableFile: It names a service, whose file says where the database is.
            Unencrypted: It leads to another machine, without TLS and without saying that this is meant.
        """
        given = _parse(url)
        known = _libpq_defaults() | given
        hosts = (known.get("host") or known.get("hostaddr") or "").split(",")
        numbers = known.get("hostaddr", "").split(",")
        # A name that says it is this machine is not enough: libpq connects to the
        # number beside it.
        self.is_remote = not all(map(_is_here, (*hosts, *numbers)))
        self.name = _public_name(known, hosts)
        if self.is_remote:
            self._require_tls(given, environment)
        if password is not None:
            given["password"] = password
        self.parameters: dict[str, str] = {
            **_BOUNDS,
            **given,
            "client_encoding": "UTF8",
        }
        """As libpq takes them, the password among them."""

    def __repr__(self) -> str:
        return f"PostgresAddress({self.name})"

    def _require_tls(
        self, given: dict[str, str], environment: Mapping[str, str]
    ) -> None:
        """Ask for TLS where the address does not say; refuse what would go on without it.

        `PGSSLMODE` does not count: it may be meant for other databases, and would weaken this connection unseen.
        """
        mode = given.get("sslmode")
        if mode is None:
            given["sslmode"] = "verify-full"
            has_root = (
                "sslrootcert" in given
                or "PGSSLROOTCERT" in environment
                or os.path.exists(_own_root())
            )
            if not has_root:
                given["sslrootcert"] = "system"
        elif mode not in _ENCRYPTED | {"disable"}:
            raise Unencrypted(self.name)


def _libpq_defaults() -> dict[str, str]:
    """The parts of an address that libpq takes from the environment or has built in."""
    defaults = {
        option.keyword.decode(): option.val for option in pq.Conninfo.get_defaults()
    }
    return {key: value.decode() for key, value in defaults.items() if value}


def _public_name(known: Mapping[str, str], hosts: Sequence[str]) -> str:
    """The database as messages name it: no user, no password, no socket's folder."""
    port = known.get("port") or _PORT
    named = [
        f"{host or 'localhost'}:{port}" for host in hosts if not host.startswith("/")
    ]
    database = known.get("dbname") or known.get("user") or "postgres"
    return f"postgresql://{','.join(named)}/{database}"


def _parse(url: str) -> dict[str, str]:
    """The parts of a URL, by their names in libpq.

    Raises:
        NotAnAddress: It is not such a URL, or has parts that may be the rest of a password.
    """
    if not _FORM.fullmatch(url):
        raise NotAnAddress
    try:
        given = {
            key: str(value)
            for key, value in conninfo_to_dict(url).items()
            if value is not None
        }
    except psycopg.ProgrammingError:
        # The message of libpq may quote a part of the password.
        raise NotAnAddress from None
    ports = given.get("port", "").replace(",", "")
    has_at = "@" in given.get("host", "").lstrip("@")
    is_number = ports.isascii() and ports.isdigit()
    # libpq ends a text at a zero character.
    has_control = any(map(_CONTROL.search, (url, *given.values())))
    if has_at or has_control or not (is_number or not ports):
        raise NotAnAddress
    if "service" in given:
        # Its file may name another machine, for which nothing would ask for TLS.
        raise UnreadableFile(
            "state.url",
            "names a service of libpq: write the host and the database of the service",
        )
    return given


def _own_root() -> str:
    """The file in which libpq looks for the certificates of the authorities that a user trusts."""
    return os.path.join(os.path.expanduser("~"), ".postgresql", "root.crt")


def _is_here(host: str) -> bool:
    """True for a socket in the file system, and for an address of this machine."""
    return not host or host.startswith(("/", "@")) or is_loopback(host)
