"""The keys of one state: which of them seals it, and which others open what is left from before a rotation."""

import os
import re
from typing import Final

from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.seal import AesSeal, id_of_key, key_beside

UNNAMED: Final = "unnamed"
"""Takes the place of a key's id in a state that an earlier version sealed, whose values name no key."""
_NEXT: Final = ".next"
_ID: Final = re.compile(r"[0-9a-f]{16}")


class UnknownKey(UnreadableFile):
    """The state is sealed with a key that is not known here."""

    exit_code = 1

    def __init__(self, path: str, problem: str, hint: str) -> None:
        super().__init__(path, problem)
        self.hint = hint


class KeyRing:
    """The keys that the settings of a project name, or that a file beside the state holds.

    The state file says by an id which key seals it, so that every process uses the same one. A rotation changes that id
    together with all that is sealed; until then a new key only opens what it closed.
    """

    def __init__(
        self,
        state: str,
        file: str,
        *,
        newest: bytes | None = None,
        old: bytes | None = None,
    ) -> None:
        """The keys of a state.

        Args:
            state: The path of the state, for errors.
            file: The path of the key file, which is used and made only where the settings name no variable.
            newest: The key of the variable that the settings name.
            old: The key that the settings name as the one before.
        """
        self._state = state
        self.file = file
        self.newest = newest
        self.old = old

    @property
    def next_file(self) -> str:
        """Where a rotation keeps the next key until the state is sealed with it."""
        return f"{self.file}{_NEXT}"

    def first_id(self) -> str:
        """The id of the key for a state that nothing was sealed in yet."""
        return id_of_key(
            self.newest if self.newest is not None else key_beside(self.file)
        )

    def trail_key(self, recorded: str) -> bytes | None:
        """The key of the audit trail; a key in a file beside the trail would prove nothing, so that one has none.

        Args:
            recorded: The id of the key that the state says it is sealed with.

        Raises:
            UnknownKey: The settings name keys, and none of them has this id.
        """
        named = [key for key in (self.newest, self.old) if key is not None]
        found = [key for key in named if id_of_key(key) == recorded]
        if found:
            return found[0]
        if self.newest is not None and recorded not in {"", UNNAMED}:
            raise self.unknown_key(recorded)
        return self.newest

    def seal(self, recorded: str) -> AesSeal:
        """Closes with the key that the state is sealed with, and opens with every key that is known.

        Args:
            recorded: The id of that key.

        Raises:
            UnknownKey: No key that is known here has this id.
        """
        return AesSeal(self.sealing_key(recorded), *self.known_keys())

    def sealing_key(self, recorded: str) -> bytes:
        """The key that the state is sealed with.

        Args:
            recorded: The id of that key.

        Raises:
            UnknownKey: No key that is known here has this id.
        """
        if recorded == UNNAMED:
            hint = "`agent state rotate-key --from-earlier-version` takes it over: read docs/state.md first"
            raise UnknownKey(
                self._state,
                "was sealed by an earlier version, in a form that is not read any more",
                hint,
            )
        current = [key for key in self.known_keys() if id_of_key(key) == recorded]
        if not current:
            raise self.unknown_key(recorded)
        return current[0]

    def kept_file(self, recorded: str) -> str:
        """Where a rotation keeps a key that the file held before.

        Args:
            recorded: The id of that key.
        """
        return f"{self.file}.{recorded}"

    def earlier_key(self, recorded: str) -> bytes | None:
        """A key that sealed the state before a rotation; None if it was thrown away.

        Args:
            recorded: The id of that key, as the trail has it.
        """
        # The id becomes a part of a path, and the file must hold the key of that id.
        # The key file itself stays where it is if a variable took its place.
        files = [self.file, self.kept_file(recorded)] if _ID.fullmatch(recorded) else []
        kept = [key_beside(path) for path in files if os.path.lexists(path)]
        return next(
            (key for key in (*self.known_keys(), *kept) if id_of_key(key) == recorded),
            None,
        )

    def known_keys(self) -> list[bytes]:
        """Every key that is there, the newest first; no file is made."""
        files = () if self.newest is not None else (self.next_file, self.file)
        kept = [key_beside(path) for path in files if os.path.lexists(path)]
        return [key for key in (self.newest, *kept, self.old) if key is not None]

    def unknown_key(self, recorded: str) -> UnknownKey:
        """The refusal of a state that is sealed with a key that is not known here."""
        problem = f"is sealed with the key {recorded[:40]}, which is not known here"
        return UnknownKey(self._state, problem, self._hint_at(recorded))

    def _hint_at(self, recorded: str) -> str:
        """Where the key may be that the state is sealed with."""
        if self.newest is None:
            return f"put the key that was in `{self.file}` back, or name its variable in `state.key_env`"
        if self._is_in_file(recorded):
            return (
                f"it is in `{self.file}`: `agent state rotate-key --from-file` seals "
                "the state with the variable's key"
            )
        return "set the variable of `state.key_env` to that key, or name the one that holds it in `state.old_key_env`"

    def _is_in_file(self, recorded: str) -> bool:
        return (
            os.path.lexists(self.file) and id_of_key(key_beside(self.file)) == recorded
        )
