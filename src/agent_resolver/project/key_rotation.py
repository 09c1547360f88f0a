"""Seals a state with another key, so that the old one can be thrown away.

The steps, each of which can be interrupted:

1. The process has the state to itself: others know only the keys that they started with.
2. The next key is in a file of its own, or in the variable that the settings name.
3. What the engine keeps is sealed again, in one transaction.
4. The state is sealed again and names the next key, in one transaction.
5. Both are written again without the old values.
6. The next key takes the place of the old one, which gets a name of its own.

Between the steps every value names its key, and both keys are known: nothing is unreadable, and the same command goes
on.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from msgspec import Struct, structs

from agent_resolver.core.audit import is_sealed
from agent_resolver.project.errors import RotationRefused
from agent_resolver.project.rotation_place import (
    Reach,
    RotationDatabase,
    RotationFile,
    RotationPlace,
)
from agent_resolver.project.sealed_place import Opens, UnopenedValue, reseal_state
from agent_resolver.project.session import Session
from agent_resolver.project.state_place import PostgresPlace
from agent_resolver.schema.audit import AuditKind, Record
from agent_resolver.storage.file import sync_folder
from agent_resolver.storage.key_ring import UNNAMED, KeyRing
from agent_resolver.storage.seal import AesSeal, UnnamedSeal, id_of_key, key_beside
from agent_resolver.storage.sql.connection import SqlConnection
from agent_resolver.storage.sql.trail import append_records, read_seal, rekey_trail


class Rotated(Struct, frozen=True, kw_only=True, rename="camel"):
    """The outcome of a rotation."""

    key: str
    """The id of the key that seals the state now."""
    before: str
    """The id of the key that sealed it before; the same one if the state was sealed with it already."""
    values: int
    """The number of values that were sealed again."""
    old_key: str | None
    """The file that the old key is kept in; None if it is in a variable."""


class _Plan(Struct, frozen=True, kw_only=True):
    """The keys of one rotation."""

    recorded: str
    """The id of the key that the state names."""
    current: bytes
    """The key that seals the state from here on."""
    known: tuple[bytes, ...]
    """Every key that opens what is there."""
    trail_before: bytes | None
    trail_after: bytes | None

    @property
    def is_unnamed(self) -> bool:
        return self.recorded == UNNAMED

    @property
    def is_done(self) -> bool:
        return self.recorded == id_of_key(self.current)

    @property
    def seal(self) -> AesSeal:
        """Closes with the next key, and opens with every key that is known."""
        return AesSeal(self.current, *self.known)

    @property
    def opener(self) -> Opens:
        return _EitherForm(self) if self.is_unnamed else self.seal


def rotate_key(  # noqa: PLR0913 - each is one option of a command line
    session: Session,
    run: str,
    at: str,
    *,
    from_file: bool = False,
    from_earlier_version: bool = False,
    reach: Reach = lambda _: None,
) -> Rotated:
    """Seal the state of a project with the newest key that the settings name, or with a new one in the key file.

    Args:
        session: The project, whose state is not open yet.
        run: The run that the rotation is recorded under.
        at: The time.
        from_file: True if the key file sealed the state, and the settings name a variable since.
        from_earlier_version: True if the operator knows that an earlier version wrote the state.
        reach: Called before each step.

    Raises:
        StateInUse: Another process has the state open.
        UnknownKey: The key that sealed the state is not known.
        RotationRefused: A value cannot be opened, or an earlier version wrote the state and the operator does not know.
        EditedTrail: The audit trail does not verify.
    """
    session.require_trust_in_state()
    place = _place_of(session)
    keys = session.keys
    place.prepare(keys)
    with place.alone() as connection:
        plan = _plan(
            connection,
            keys,
            from_file=from_file,
            from_earlier_version=from_earlier_version,
        )
        with _refusals():
            reach("engine")
            place.reseal_engine(
                connection, plan.opener, plan.seal, reach, is_unnamed=plan.is_unnamed
            )
            reach("state")
            record = Record(run, AuditKind.STATE_REKEYED, {})
            # An interrupted rotation may have sealed the state already; then only the
            # later steps are left.
            count = (
                0
                if plan.is_done
                else _rotate_state(place, connection, plan, record, at, reach)
            )
        reach("vacuum")
        # Until the files are written again, they still hold what the old key opens.
        place.forget(connection)
        reach("key")
        old_key = (
            _replace_key_file(keys)
            if keys.newest is None
            else _unused_key_file(keys, plan)
        )
        reach("end")
    return Rotated(
        key=id_of_key(plan.current), before=plan.recorded, values=count, old_key=old_key
    )


def _plan(
    connection: SqlConnection,
    keys: KeyRing,
    *,
    from_file: bool,
    from_earlier_version: bool,
) -> _Plan:
    recorded = _recorded_key(connection)
    if recorded == UNNAMED and not from_earlier_version:
        raise RotationRefused(
            "An earlier version wrote this state: its questions and answers are not sealed, and are taken as they are",
            "give `--from-earlier-version` if you know where the file comes from",
        )
    # Without a variable a next key is made, unless an interrupted rotation made one.
    current = keys.newest if keys.newest is not None else key_beside(keys.next_file)
    known = keys.known_keys()
    # If the settings name a variable, the key file is believed only because the
    # operator says so.
    if from_file and os.path.lexists(keys.file):
        known.append(key_beside(keys.file))
    # This is checked before anything is sealed again, while nothing has changed yet.
    if recorded not in {"", UNNAMED, *map(id_of_key, known)}:
        raise keys.unknown_key(recorded)
    return _Plan(
        recorded=recorded,
        current=current,
        known=tuple(known),
        trail_before=_trail_key(connection, recorded, keys),
        # The trail is sealed with a key of the settings, and never with the one in the
        # file beside the state.
        trail_after=keys.newest,
    )


def _recorded_key(connection: SqlConnection) -> str:
    """The id of the key that the state names.

    Raises:
        RotationRefused: The name was removed or edited.
    """
    found = connection.execute("SELECT key FROM sealed_with").fetchone()
    if found is None or not isinstance(found[0], str):
        problem = "The state does not name the key that seals it: the name was removed or edited"
        raise RotationRefused(
            problem, "nothing was changed; put back a backup of the state"
        )
    return found[0]


def _trail_key(connection: SqlConnection, recorded: str, keys: KeyRing) -> bytes | None:
    """The key that seals the trail now."""
    named = [key for key in (keys.newest, keys.old) if key is not None]
    if recorded == UNNAMED:
        # The state does not say which: the trail does.
        seal = read_seal(connection)
        sealing = [key for key in named if seal is not None and is_sealed(seal, key)]
        return sealing[0] if sealing else None
    return next((key for key in named if id_of_key(key) == recorded), None)


class _EitherForm:
    """Opens values of earlier versions, and those that an interrupted rotation has sealed already."""

    def __init__(self, plan: _Plan) -> None:
        self._seals: list[Opens] = [
            plan.seal,
            *(UnnamedSeal(key) for key in plan.known),
        ]

    def open(self, sealed: bytes, purpose: str) -> bytes:
        """The content of a value, in either form."""
        for seal in self._seals:
            with suppress(ValueError):
                return seal.open(sealed, purpose)
        raise ValueError("no known key opens it")


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except UnopenedValue as error:
        problem = f"{error} cannot be opened with the keys that are known: it was edited, or has another key"
        hint = "nothing was changed; name the key that sealed it in `state.old_key_env`, or remove what it belongs to"
        raise RotationRefused(problem, hint) from None


def _place_of(session: Session) -> RotationPlace:
    place = session.state_place
    if isinstance(place, PostgresPlace):
        return RotationDatabase(place.address)
    return RotationFile(session.state_path, session.engine_path)


def _rotate_state(  # noqa: PLR0913, PLR0917 - the state, its keys, and what is recorded of it
    place: RotationPlace,
    connection: SqlConnection,
    plan: _Plan,
    record: Record,
    at: str,
    reach: Reach,
) -> int:
    with place.at_once(connection):
        count = reseal_state(
            connection,
            place.sealed,
            plan.opener,
            plan.seal,
            are_words_open=plan.is_unnamed,
        )
        before = rekey_trail(
            connection, place.path, plan.trail_before, plan.trail_after
        )
        body = {
            "from": plan.recorded,
            "to": id_of_key(plan.current),
            "values": count,
            "root": before.root,
        }
        records = [structs.replace(record, body=body)]
        append_records(connection, place.path, records, at, plan.trail_after, last=None)
        connection.execute("UPDATE sealed_with SET key = ?", (id_of_key(plan.current),))
        reach("state commit")
    return count


def _unused_key_file(keys: KeyRing, plan: _Plan) -> str | None:
    """The key file, if it sealed the state until a variable took its place."""
    was_in_file = (
        os.path.lexists(keys.file) and id_of_key(key_beside(keys.file)) == plan.recorded
    )
    return keys.file if was_in_file and not plan.is_done else None


def _replace_key_file(keys: KeyRing) -> str | None:
    """Put the next key in the place of the old one, which is kept under its id: backups from before need it."""
    kept = None
    if os.path.lexists(keys.file):
        kept = keys.kept_file(id_of_key(key_beside(keys.file)))
        # A link leaves the key under its usual name until it is replaced. An
        # interrupted rotation may have made the link.
        with suppress(FileExistsError):
            os.link(keys.file, kept)
    os.replace(keys.next_file, keys.file)
    sync_folder(os.path.dirname(keys.file) or ".")
    return kept
