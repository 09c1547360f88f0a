"""The state of a project in one SQLite file, which several processes share."""

import os
import time
from collections.abc import Callable
from threading import Lock, get_ident
from typing import Final

from agent_resolver.storage.clock import system_time
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.key_ring import KeyRing
from agent_resolver.storage.port import Lease
from agent_resolver.storage.sql.store import OWNERS_IN_USE, SqlStore
from agent_resolver.storage.sql.writer import QUICK_SECONDS
from agent_resolver.storage.sqlite.database import Database
from agent_resolver.storage.sqlite.owner import Owner, owners_folder

_POLL_SECONDS: Final = 0.05
"""How often a waiting process looks for wake-ups of other processes."""


class SqliteStore(SqlStore):
    """A store on one file.

    Work that comes alone is committed by the event loop itself: on a quick disk, handing it to a thread and back would
    take as long again. What comes together goes to a thread, in one commit.
    """

    def __init__(  # noqa: PLR0913 - the keys of a state, and the clocks of tests
        self,
        path: str,
        *,
        key: bytes | None = None,
        keys: KeyRing | None = None,
        now: Callable[[], str] = system_time,
        seconds: Callable[[], float] = time.time,
        quick_seconds: float = QUICK_SECONDS,
    ) -> None:
        """Open the state file, making it and its folder, and bring it to the newest schema.

        Args:
            path: The file.
            key: What seals the trail, where there are no `keys`.
            keys: The keys that seal the words in the state; without them, words are kept as they are.
            now: The time for records, as ISO 8601 in UTC with milliseconds.
            seconds: The time for leases.
            quick_seconds: How long a commit may take that the event loop waits for; 0 leaves all to the thread.

        Raises:
            UnreadableFile: It is not a state file, is damaged, or comes from a newer version.
            UnknownKey: The settings name keys, and it is sealed with another one.
        """
        self.database = Database(path, key, keys)
        super().__init__(
            self.database,
            keys,
            now=now,
            seconds=seconds,
            quick_seconds=quick_seconds,
            poll_seconds=_POLL_SECONDS,
        )
        self._naming = Lock()
        self._owner: Owner | None = None

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return os.path.getsize(self.path)

    @property
    def owner(self) -> str:
        """The name of this process; made when it is first asked for."""
        return self._known_owner().name

    def is_gone(self, owner: str) -> bool:
        """True if the process of that name is known to have ended."""
        return self._known_owner().is_gone(owner)

    def _known_owner(self) -> Owner:
        self._require_own_process()
        with self._naming:
            if self._owner is not None:
                return self._owner
            self._require_open()
            folder = owners_folder(self.path)
            try:
                self._owner = owner = Owner(folder)
            except OSError as error:
                problem = f"cannot be used for the names of processes: {error.strerror}"
                raise UnreadableFile(folder, problem) from error
        # Outside of the lock: another thread may read, and ask for the name meanwhile.
        # In the middle of a read, the state that is read may be too old to tell which
        # names are in use: the next process sweeps.
        if self._reader != get_ident():
            owner.sweep(self._owners_in_use)
        return owner

    def _owners_in_use(self) -> set[str]:
        """Every process that a row belongs to."""
        with self._snapshot() as connection:
            return {str(name) for (name,) in connection.execute(OWNERS_IN_USE)}

    async def claim(self, name: str, seconds: float) -> Lease | None:
        """Take a lease, unless another holder has it."""
        self._known_owner()  # Making the name reads the file, which a piece of work must not do.
        return await super().claim(name, seconds)

    def _give_up_name(self) -> None:
        if self._owner is not None:
            self._owner.close(is_in_use=self._is_owner_in_use(self._owner.name))

    def _is_owner_in_use(self, name: str) -> bool:
        try:
            return name in self._owners_in_use()
        except UnreadableFile:
            # A file that cannot be read may name this process; it is closed all the
            # same.
            return True
