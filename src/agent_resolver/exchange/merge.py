"""Puts imported entries and those of an index together by one rule.

1. Entries with the same id and version are one server. A hand-written entry of the index comes first, then the sources
   in the order in which they are named.
2. The earlier entry decides. A later one only fills in the facts that the earlier leaves out.
3. Two values for one fact are a conflict: the earlier stays, and the report names both.
4. An entry of the index that was imported from the same kind of source is older news: the new values replace it, and
   the facts that only it has are kept. Where a person or a probe vouched for it, in the index or in the overlay, how it
   is reached stays, and another way is a conflict: what they vouched for is not what another package does.
5. Versions of one id that start different packages are noted. Where the overlay vouches for the id, it is a warning:
   its facts hold for all of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, structs

from agent_resolver.exchange.imported import Note, NoteKind
from agent_resolver.exchange.reached import reached_name
from agent_resolver.exchange.secret_argument import has_secret, masked_arguments
from agent_resolver.exchange.server_id import assign_ids, mapped_id
from agent_resolver.schema.index import UNVERSIONED, IndexEntry, ServerData, ServerTrust

_REACH: Final = ("endpoint", "launch", "transport")
"""The keys that say how a server is reached, which is one fact."""
_FACTS: Final = (
    "categories",
    "scopes",
    "policy",
    "tool_scopes",
    "status",
    "tools",
    "drafted",
)
_NESTED: Final = (("data", ServerData), ("trust", ServerTrust))
"""The keys whose members are facts of their own."""
_WORDS: Final = ("name", "description", "source")
"""The keys that are not facts: the earlier entry keeps its value, and no conflict is reported."""
_VOUCHED: Final = ("trust", "data", "scopes", "tool_scopes", "tools")
"""The keys that no source states: a person does, or a probe of the server."""
_HAND: Final = "the index"


class Batch(Struct, frozen=True):
    """The entries of one source."""

    label: str
    """What a report calls the source."""
    entries: tuple[IndexEntry, ...]


class MergeConflict(Struct, frozen=True, rename="camel"):
    """Two values for one fact of a server."""

    server: str
    fact: str
    kept: str
    kept_from: str
    refused: str
    refused_from: str

    def __str__(self) -> str:
        return (
            f"{self.server}: `{self.fact}` is {self.kept} ({self.kept_from}), "
            f"and {self.refused} in {self.refused_from}, which is not used"
        )


class Update(Struct, frozen=True):
    """A fact of an entry that was imported before and has another value now."""

    server: str
    fact: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.server}: `{self.fact}` was {self.before}, and is {self.after}"


class Merged(Struct, frozen=True):
    """An index made of several sources."""

    entries: tuple[IndexEntry, ...]
    """By id and version."""
    ids: dict[str, str]
    """The id of each imported name."""
    added: tuple[str, ...]
    """The servers that the index did not have, as `id@version`."""
    updates: tuple[Update, ...]
    conflicts: tuple[MergeConflict, ...]
    notes: tuple[Note, ...]
    """A note for each name that is not its id, and for each id that means different servers."""
    warnings: tuple[Note, ...] = ()
    """Such ids of which the overlay states facts, which were written for one of the servers."""


class _Held(Struct):
    """An entry in the making, and where each of its facts comes from."""

    entry: IndexEntry
    origin: dict[str, str]


def _vouch_for_none(_server_id: str) -> bool:
    return False


def merge_entries(
    existing: Sequence[IndexEntry],
    batches: Sequence[Batch],
    is_vouched: Callable[[str], bool] = _vouch_for_none,
) -> Merged:
    """The index that holds what was there and what is imported.

    Args:
        existing: The index.
        batches: What is imported.
        is_vouched: True for an id of which the overlay states facts that no source does.
    """
    known = {_name_of(entry): entry.id for entry in existing}
    names = [_name_of(entry) for batch in batches for entry in batch.entries]
    ids = assign_ids(names, known)
    conflicts: list[MergeConflict] = []
    # Rules 1 to 3 among the sources themselves, before the index is looked at.
    fresh = _join_batches(batches, ids, conflicts)
    before = {_key(entry): entry for entry in existing}
    updates: list[Update] = []
    result = dict(before)
    for key, held in fresh.items():
        old = before.get(key)
        if old is None:
            result[key] = held.entry
        # Rule 4: what was imported before gives way, except what a person vouched for.
        elif _is_older_news(old, held.entry):
            reached = _keep_vouched(old, held, conflicts, is_vouched)
            result[key] = _fill(reached, old, "", None).entry
            updates += _updates_between(old, result[key])
        else:
            # Rule 2: the entry of the index was written by hand, so it comes first.
            kept = _Held(old, dict.fromkeys(_stated(old), _HAND))
            result[key] = _fill(kept, held.entry, "", conflicts, held.origin).entry
    ordered = sorted(
        conflicts,
        # The report must not depend on the order in which sources were read.
        key=lambda conflict: (conflict.server, conflict.fact, conflict.refused_from),
    )
    strangers = _strangers(existing, [result[key] for key in sorted(fresh)])
    noted, doubtful = _split_by_voucher(strangers, is_vouched)
    return Merged(
        entries=tuple(result[key] for key in sorted(result)),
        ids=ids,
        added=tuple(map(_render_key, sorted(fresh.keys() - before.keys()))),
        updates=tuple(updates),
        conflicts=tuple(dict.fromkeys(ordered)),
        notes=(*_id_notes(ids), *noted),
        warnings=tuple(doubtful),
    )


def _name_of(entry: IndexEntry) -> str:
    return entry.name or entry.id


def _key(entry: IndexEntry) -> tuple[str, str]:
    return entry.id, entry.version or UNVERSIONED


def _render_key(key: tuple[str, str]) -> str:
    return "@".join(key)


def _with_id(entry: IndexEntry, server_id: str) -> IndexEntry:
    if entry.id == server_id:
        return entry
    return structs.replace(entry, id=server_id, name=_name_of(entry))


def _join_batches(
    batches: Sequence[Batch], ids: dict[str, str], conflicts: list[MergeConflict]
) -> dict[tuple[str, str], _Held]:
    """The imported servers, each once and under its id; different values for one fact go to `conflicts`."""
    joined: dict[tuple[str, str], _Held] = {}
    for batch in batches:
        for imported in batch.entries:
            entry = _with_id(imported, ids[_name_of(imported)])
            key = _key(entry)
            if key in joined:
                joined[key] = _fill(joined[key], entry, batch.label, conflicts)
            else:
                joined[key] = _Held(entry, dict.fromkeys(_stated(entry), batch.label))
    return joined


def _is_older_news(old: IndexEntry, imported: IndexEntry) -> bool:
    """True if an entry of the index was imported before, from the same kind of source."""
    return old.source is not UNSET and old.source == imported.source


def _split_by_voucher(
    notes: Iterable[tuple[str, Note]], is_vouched: Callable[[str], bool]
) -> tuple[list[Note], list[Note]]:
    """The notes on ids that the overlay says nothing of, and those on ids that it states facts of."""
    noted: list[Note] = []
    doubtful: list[Note] = []
    for server_id, note in notes:
        kept = doubtful if is_vouched(server_id) else noted
        kept.append(note)
    return noted, doubtful


def _strangers(
    existing: Sequence[IndexEntry], imported: Sequence[IndexEntry]
) -> Iterator[tuple[str, Note]]:
    """A note for each imported entry that is another server than all others of its id, with that id."""
    known: dict[str, dict[str, str]] = {}
    # The servers of the index come first, so that an import is noted and not they.
    for entry in existing:
        known.setdefault(entry.id, {})[_render_key(_key(entry))] = reached_name(entry)
    for entry in imported:
        shown = _render_key(_key(entry))
        reached = reached_name(entry)
        others = known.setdefault(entry.id, {})
        if others and reached not in others.values():
            other, was = (
                (shown, others[shown]) if shown in others else min(others.items())
            )
            both = f"`{other}` is `{was}`: facts that the overlay states of `{entry.id}` hold for both"
            before = f"was `{was}`" if other == shown else both
            message = f"`{shown}` is `{reached}`, and {before}"
            yield (
                entry.id,
                Note(NoteKind.OTHER_SERVER, _name_of(entry), message, (reached, was)),
            )
        others[shown] = reached


def _keep_vouched(
    old: IndexEntry,
    fresh: _Held,
    conflicts: list[MergeConflict],
    is_vouched: Callable[[str], bool],
) -> _Held:
    """The entry that is imported again; it is reached as before if a person or a probe vouched for that server."""
    before = _stated(old)["reach"]
    now = _stated(fresh.entry)["reach"]
    # Without a voucher, or nothing changed: the newest way to reach the server counts.
    if before == now or (
        all(getattr(old, key) is UNSET for key in _VOUCHED) and not is_vouched(old.id)
    ):
        return fresh
    conflicts.append(
        MergeConflict(
            server=_render_key(_key(old)),
            fact="reach",
            kept=_render_value("reach", before),
            kept_from=_HAND,
            refused=_render_value("reach", now),
            refused_from=fresh.origin["reach"],
        )
    )
    return _Held(
        structs.replace(fresh.entry, **{key: before.get(key, UNSET) for key in _REACH}),
        fresh.origin,
    )


def _fill(
    held: _Held,
    later: IndexEntry,
    label: str,
    conflicts: list[MergeConflict] | None,
    origins: dict[str, str] | None = None,
) -> _Held:
    """The entry with the facts that it leaves out from a later one; different values go to `conflicts`."""
    earlier_facts = _stated(held.entry)
    later_facts = _stated(later)
    origin = dict(held.origin)
    for fact, value in later_facts.items():
        # An entry that was itself joined from several sources names one for each fact.
        place = (origins or {}).get(fact, label)
        if fact not in earlier_facts:
            origin[fact] = place
        elif conflicts is not None and earlier_facts[fact] != value:
            conflicts.append(
                MergeConflict(
                    server=_render_key(_key(held.entry)),
                    fact=fact,
                    kept=_render_value(fact, earlier_facts[fact]),
                    kept_from=held.origin.get(fact, _HAND),
                    refused=_render_value(fact, value),
                    refused_from=place,
                )
            )
    return _Held(
        _with_facts(held.entry, {**later_facts, **earlier_facts}, later), origin
    )


def _stated(entry: IndexEntry) -> dict[str, Any]:
    """The facts that an entry states, by the name that reports use."""
    found: dict[str, Any] = {}
    reach = {
        key: getattr(entry, key) for key in _REACH if getattr(entry, key) is not UNSET
    }
    found["reach"] = reach
    for key in _FACTS:
        value = getattr(entry, key)
        # An importer that finds no category writes an empty list, which states nothing.
        if value is not UNSET and not (key == "categories" and not value):
            found[key] = value
    for section, kind in _NESTED:
        held = getattr(entry, section)
        for field in structs.fields(kind) if held else ():
            value = getattr(held, field.name)
            if value is not UNSET:
                found[f"{section}.{field.name}"] = value
    return found


def _with_facts(
    entry: IndexEntry, facts: dict[str, Any], later: IndexEntry
) -> IndexEntry:
    values: dict[str, Any] = {key: facts["reach"].get(key, UNSET) for key in _REACH}
    values |= {key: facts[key] for key in _FACTS if key in facts}
    for section, kind in _NESTED:
        members = {
            name: facts[f"{section}.{name}"]
            for name in kind.__struct_fields__
            if f"{section}.{name}" in facts
        }
        if members:
            values[section] = kind(**members)
    values |= {
        key: getattr(later, key)
        for key in _WORDS
        if getattr(entry, key) is UNSET and key != "source"
    }
    return structs.replace(entry, **values)


def _updates_between(old: IndexEntry, new: IndexEntry) -> Iterable[Update]:
    before = _stated(old)
    after = _stated(new)
    for fact in sorted(after):
        if before.get(fact) != after[fact]:
            yield Update(
                server=_render_key(_key(new)),
                fact=fact,
                before=_render_value(fact, before.get(fact)),
                after=_render_value(fact, after[fact]),
            )


def _render_value(fact: str, value: Any) -> str:  # noqa: ANN401 - any fact
    """A value for a person, without what looks like a secret in a hand-written command."""
    # Only a fact that the entry did not have before is None here: JSON has no null.
    if value is None:
        return "not known"
    if fact == "reach" and "launch" in value:
        launch = value["launch"]
        shown = " ".join(masked_arguments([launch.command, *launch.args]))
        return f"`{shown}`"
    if fact == "reach":
        if has_secret(value["endpoint"]):
            return "`***`"
        return f"`{value['endpoint']}`"
    return f"`{msgspec.json.encode(value).decode()}`"


def _id_notes(ids: dict[str, str]) -> Iterable[Note]:
    for name, server_id in sorted(ids.items()):
        if server_id != mapped_id(name):
            message = f"another name maps to `{mapped_id(name)}` as well, so its id is `{server_id}`"
            yield Note(NoteKind.ID_CLASH, name, message, (server_id,))
        elif server_id != name:
            yield Note(
                NoteKind.MAPPED_ID, name, f"its id is `{server_id}`", (server_id,)
            )
