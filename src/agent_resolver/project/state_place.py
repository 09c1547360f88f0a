"""The place where the state of a project is kept: in a file of the project, or in Postgres."""

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import parse_qsl, unquote

from agent_resolver.project.config import SECRET_PARAMETERS, masked
from agent_resolver.project.errors import UnusableState

if TYPE_CHECKING:
    from agent_resolver.storage.key_ring import KeyRing
    from agent_resolver.storage.port import ProjectStore
    from agent_resolver.storage.postgres.address import PostgresAddress

_SQLITE: Final = "sqlite:///"
POSTGRES: Final = ("postgresql://", "postgres://")
_FOLDER: Final = ".agent"
_JOURNALS: Final = ("-wal", "-shm", "-journal")
"""What SQLite adds to the name of a database for the files that it keeps beside it."""
_ENGINE_NAME: Final = "engine.db"


class StatePlace(Protocol):
    """A place where a state is, or would be."""

    is_outside: bool
    """True if it is not among the files of a project at all."""

    @property
    def name(self) -> str:
        """The place as messages name it: a path or an address, without what is secret."""
        ...

    @property
    def key_path(self) -> str:
        """The path of the key that is made where the settings name none."""
        ...

    @property
    def engine_path(self) -> str:
        """The path at which an engine that needs a file keeps what it needs to drive runs."""
        ...

    def files(self) -> tuple[str, ...]:
        """Every file that a state has or would have: all but the first only as far as they are links."""
        ...

    def is_there(self) -> bool:
        """True if there is a state: looking at what is not there must not make it."""
        ...

    def identity(self) -> str:
        """What tells this state from every other one that processes here could mean: no secret is a part of it."""
        ...

    def open(self, keys: "KeyRing") -> "ProjectStore":
        """Open the state, making it if it is not there."""
        ...


class SqlitePlace:
    """A state file."""

    is_outside = False

    def __init__(self, path: str) -> None:
        self.name = path
        self.key_path = f"{os.path.splitext(path)[0]}.key"
        self.engine_path = os.path.join(os.path.dirname(path), _ENGINE_NAME)

    def files(self) -> tuple[str, ...]:
        """The state file, and each symbolic link among what is written beside it: it may lead out of the project."""
        from agent_resolver.storage.sqlite.owner import owners_folder

        path = self.name
        engine = self.engine_path
        # A journal holds what the state holds, so a link in its place counts as well.
        journals = (
            f"{each}{suffix}" for each in (path, engine) for suffix in _JOURNALS
        )
        beside = (*journals, owners_folder(path), *_key_files(self.key_path), engine)
        return (path, *filter(os.path.islink, beside))

    def is_there(self) -> bool:
        """True if there is a state file."""
        return os.path.exists(self.name)

    def identity(self) -> str:
        """The real path."""
        return os.path.realpath(self.name)

    def open(self, keys: "KeyRing") -> "ProjectStore":
        """Open the state file, making it if it is not there."""
        from agent_resolver.storage.sqlite.store import SqliteStore

        return SqliteStore(self.name, keys=keys)


class PostgresPlace:
    """A database of Postgres. What has to be a file is in the project, as with a state file."""

    is_outside = True

    def __init__(
        self,
        url: str,
        folder: str,
        password: str | None,
        environment: Mapping[str, str],
    ) -> None:
        """A database.

        Args:
            url: Its address.
            folder: The folder of the project for files of a state.
            password: The password, where the address has none.
            environment: The variables of libpq.
        """
        self._url = url
        self._password = password
        self._environment = environment
        self._folder = folder
        self.key_path = os.path.join(folder, "state.key")
        self.engine_path = os.path.join(folder, _ENGINE_NAME)

    @cached_property
    def address(self) -> "PostgresAddress":
        """The address, as libpq takes it.

        Raises:
            MissingExtra: psycopg is not installed.
            UnreadableFile: It is not an address.
            Unencrypted: It leads to another machine without TLS.
        """
        from agent_resolver._extra import needing_extra

        with needing_extra("postgres"):
            from agent_resolver.storage.postgres.address import PostgresAddress
        return PostgresAddress(
            self._url, password=self._password, environment=self._environment
        )

    @property
    def name(self) -> str:
        """The address without what is secret."""
        return self.address.name

    def files(self) -> tuple[str, ...]:
        """The files in the project, as far as they are links: they may lead out of it."""
        return tuple(
            filter(
                os.path.islink,
                (self._folder, *_key_files(self.key_path), self.engine_path),
            )
        )

    def is_there(self) -> bool:
        """True if the database has the tables of a state.

        Raises:
            UnreadableFile: It cannot be reached, or does not let this user look.
        """
        # The address comes before the import, since it reports a missing package in
        # words.
        address = self.address
        from agent_resolver.storage.postgres.store import has_state

        return has_state(address)

    def identity(self) -> str:
        """What the server itself says: one database has many addresses, and one address means many databases.

        Raises:
            UnreachableState: It cannot be reached.
        """
        # As above: the address comes before the import.
        address = self.address
        from agent_resolver.storage.postgres.store import database_identity

        return database_identity(address)

    def open(self, keys: "KeyRing") -> "ProjectStore":
        """Connect, and make the tables if they are not there."""
        address = self.address
        from agent_resolver.storage.file import make_state_folder
        from agent_resolver.storage.postgres.store import PostgresStore

        # Without a key in the settings, the key is in a file of the project, whose
        # folder is made here.
        if keys.newest is None:
            make_state_folder(self._folder)
        return PostgresStore(address, keys=keys)


def _key_files(path: str) -> tuple[str, ...]:
    # A rotation that was interrupted leaves the next key beside the present one.
    return path, f"{path}.next"


def find_place(
    url: str, root: str, password: str | None, environment: Mapping[str, str]
) -> StatePlace:
    """The place that an address names.

    Raises:
        UnusableState: It is not an address of SQLite or Postgres.
    """
    if url.startswith(_SQLITE):
        # The real path counts, so that a link which leads out of the project is seen as
        # one.
        return SqlitePlace(
            os.path.realpath(os.path.join(root, url.removeprefix(_SQLITE)))
        )
    if url.startswith(POSTGRES):
        return PostgresPlace(url, os.path.join(root, _FOLDER), password, environment)
    raise UnusableState(masked(url))


def without_password(url: str) -> str:
    """An address of Postgres as it may be shown and written to a file."""
    scheme, _, rest = url.partition("://")
    location, question, parameters = rest.partition("?")
    # A password may hold an at sign itself, so the last one comes before the host.
    user, at, host = location.rpartition("@")
    # The name of a parameter may be written with escapes, which libpq undoes.
    kept = [
        pair
        for pair in parameters.split("&")
        if unquote(pair.partition("=")[0]).lower() not in SECRET_PARAMETERS
    ]
    user = user.partition(":")[0]
    return f"{scheme}://{user}{at}{host}{question if any(kept) else ''}{'&'.join(kept)}"


def has_password(url: str) -> bool:
    """True if an address of Postgres holds a password, before its host or among its parameters."""
    authority, _, parameters = url.partition("://")[2].partition("?")
    user, at, _ = authority.rpartition("@")
    names = {name.lower() for name, _ in parse_qsl(parameters, keep_blank_values=True)}
    return bool(at and ":" in user) or bool(names & SECRET_PARAMETERS)
