"""The address of a Postgres database, and what may be said of it."""

import os
from collections.abc import Mapping
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


class Unencrypted(UnreadableFile):
    """Postgres is on another machine, and what is sent there could be read on the way."""

    exit_code = 1
    hint = "say `sslmode=verify-full` in the address, or `sslmode=disable` if the network between is your own"

    def __init__(self, name: str) -> None:
        super().__init__(name, "is on another machine, and the address does not ask for TLS")


class PostgresAddress:
    """Where a database is and who connects to it; its name leaves out what is secret."""

    def __init__(self, url: str, *, password: str | None = None, environment: Mapping[str, str] = os.environ) -> None:
        """The database at a URL, as libpq reads one.

        Args:
            url: Begins with `postgresql://`.
            password: The password, where the URL has none.
            environment: The variables of libpq that fill in what the URL leaves out.

        Raises:
            UnreadableFile: It is not such a URL.
            Unencrypted: It leads to another machine, without TLS and without saying that this is meant.
        """
        try:
            given = {key: str(value) for key, value in conninfo_to_dict(url).items() if value is not None}
        except psycopg.ProgrammingError:
            # The message of libpq may quote a part of the password.
            raise UnreadableFile("state.url", "is not an address of Postgres, postgresql://host/database") from None
        defaults = {option.keyword.decode(): option.val for option in pq.Conninfo.get_defaults()}
        known = {key: value.decode() for key, value in defaults.items() if value} | given
        hosts = (known.get("host") or known.get("hostaddr") or "").split(",")
        # A name that says it is this machine is not enough: libpq connects to the number beside it.
        self.is_remote = any(not _is_here(host) for host in (*hosts, *known.get("hostaddr", "").split(",")))
        database = known.get("dbname") or known.get("user") or "postgres"
        named = [f"{host or 'localhost'}:{known.get('port') or _PORT}" for host in hosts if not host.startswith("/")]
        self.name = f"postgresql://{','.join(named)}/{database}"
        if self.is_remote:
            self._require_tls(given, environment)
        if password is not None:
            given["password"] = password
        self.parameters: dict[str, str] = {**_BOUNDS, **given, "client_encoding": "UTF8"}
        """As libpq takes them, the password among them."""

    def __repr__(self) -> str:
        return f"PostgresAddress({self.name})"

    def _require_tls(self, given: dict[str, str], environment: Mapping[str, str]) -> None:
        """Ask for TLS where the address does not say; refuse what would go on without it."""
        mode = given.get("sslmode") or environment.get("PGSSLMODE")
        if mode is None:
            given["sslmode"] = "verify-full"
            has_root = "sslrootcert" in given or "PGSSLROOTCERT" in environment or os.path.exists(_own_root())
            if not has_root:
                given["sslrootcert"] = "system"
        elif mode not in _ENCRYPTED | {"disable"}:
            raise Unencrypted(self.name)


def _own_root() -> str:
    """Where libpq looks for the certificates of authorities that a user trusts."""
    return os.path.join(os.path.expanduser("~"), ".postgresql", "root.crt")


def _is_here(host: str) -> bool:
    """True for a socket in the file system, and for an address of this machine."""
    return not host or host.startswith(("/", "@")) or is_loopback(host)
