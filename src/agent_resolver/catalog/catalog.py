"""The catalog: folders of agent files, an index over them, and definitions read when they are asked for."""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final, Literal, Self, TypeVar

import msgspec
from msgspec import structs

from agent_resolver._version import __version__
from agent_resolver.catalog.cache import Cache, Counters
from agent_resolver.catalog.cursor import decode_cursor, encode_cursor
from agent_resolver.catalog.entry import Definition, Entry
from agent_resolver.catalog.errors import BadCursor, BadLimit, Stopped, UnknownAgent
from agent_resolver.catalog.folder_scan import FolderScan, left_out_file
from agent_resolver.catalog.index import CatalogIndex
from agent_resolver.catalog.listing import (
    ADDRESSES,
    COLUMNS,
    NOTHING,
    Listed,
    Verdict,
    Visible,
    digests,
    listed,
    read_visible,
    remove_agents,
    write_agent,
)
from agent_resolver.catalog.naming import Named, addresses
from agent_resolver.catalog.query import (
    EVERYTHING,
    Changes,
    Finding,
    Judge,
    Page,
    Query,
    View,
)
from agent_resolver.catalog.reader import content_digest, read_entry
from agent_resolver.catalog.role import ROLES_FILE, Role, parse_roles, with_role
from agent_resolver.catalog.search import search_index
from agent_resolver.catalog.uri import SCHEME, AgentUri, agent_uri, parse_uri
from agent_resolver.schema.issue import Issue, IssueCode, Severity
from agent_resolver.schema.limit import MAX_AGENT_FILE_BYTES
from agent_resolver.storage.errors import FileError
from agent_resolver.storage.file import read_bounded
from agent_resolver.storage.walk import Identity, identity_of

Value = TypeVar("Value")
Key = tuple[int, str]
"""The root and the path below it of an agent file."""
MAX_PAGE: Final = 100
DEFAULT_PAGE: Final = 20
CACHED_DEFINITIONS: Final = 20
_PATHS: Final = (
    f"(SELECT substr(uri, {len(SCHEME) + 1}) AS name, status, clearance FROM agent"  # noqa: S608 - a fixed number
    f" UNION SELECT substr(also, {len(SCHEME) + 1}), status, clearance FROM agent WHERE also IS NOT NULL)"
)
"""Every address without its scheme."""
_CACHED_BYTES: Final = 8 * 1024 * 1024
_TRIES: Final = 3
"""How often a file is looked for that changes whenever it is."""
_DAMAGE: Final = (sqlite3.DatabaseError, msgspec.DecodeError)
_entry_decoder = msgspec.json.Decoder(Entry)
_issue_decoder = msgspec.json.Decoder(Issue)


class Catalog:
    """The agent files below some folders. Not for several threads at once."""

    def __init__(
        self,
        roots: Sequence[str],
        index: CatalogIndex,
        *,
        judge: Judge | None = None,
    ) -> None:
        """The catalog of these folders or files; nothing is read before `refresh`."""
        self.roots = tuple(roots)
        self._disk = FolderScan(self.roots)
        self._index = index
        self._judge = judge
        self._definitions: Cache[str, tuple[Identity, Definition]] = Cache(
            CACHED_DEFINITIONS, _CACHED_BYTES
        )
        self._known_version = -1
        self._listing = ""
        self._strict_listing = ""
        self._total = 0
        self._seen: str | None = None
        """The digest of what clients could see at the last look of `refresh`; None before the first."""
        self._visible: Visible | None = None
        """The same, address by address, from the first time that a caller may want to know what changed."""
        self._is_stopped = False
        self._known_roles: dict[str, Role] = {}
        self._roles_seen: list[Identity | None] = []
        self._role_files: dict[str, str] = {}
        """Which file says who stands for each agent."""
        self._role_issues: list[Finding] = []

    @classmethod
    def open(cls, *roots: str | os.PathLike[str]) -> Self:
        """The catalog of these folders or files, up to date with the disk; its index is kept in memory alone.

        Raises:
            UnusableRoot: A folder cannot be read.
        """
        absolute = dict.fromkeys(map(os.path.abspath, roots))
        catalog = cls(list(absolute), CatalogIndex(None))
        catalog.refresh()
        return catalog

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Keeping up with the disk ---------------------------------------------------------

    @property
    def watched(self) -> tuple[list[str], list[str]]:
        """The folders and the single files that agents come from."""
        files = [root for root in self.roots if os.path.isfile(root)]
        return [root for root in self.roots if root not in files], files

    @property
    def is_indexed(self) -> bool:
        """False if the index is new: the first `refresh` then reads every file, which takes a while for many."""
        return bool(self._mended(lambda: self._index.meta("state")))

    def check_roots(self) -> None:
        """Look at the folders without reading a file.

        Raises:
            UnusableRoot: A folder cannot be read.
        """
        self._scan()

    def stop(self) -> None:
        """Make a `refresh` that runs in another thread end early, with `Stopped`."""
        self._is_stopped = True

    def refresh(self, judge: Judge | Literal["same"] | None = "same") -> Changes:
        """Bring the index up to date with the disk: what changed is read, what did not is only looked at.

        Args:
            judge: Who tells from now on whether agent files resolve; None where nobody can.

        Returns:
            What changed since it was called last, whoever noticed first; nothing the first time.

        Raises:
            UnusableRoot: A folder cannot be read the first time; one that goes later is taken as empty.
        """
        if judge != "same":
            self._judge = judge
        self._mended(self._refresh)
        return self._mended(self._changes)

    def _changes(self) -> Changes:
        seen = self._index.meta("shown")
        if self._seen is None:
            self._seen = seen  # To note every address takes time, which a server has once it serves.
            return Changes()
        if self._visible is not None and seen == self._visible.digest:
            return Changes()
        before = self._visible
        after = self._read_visible()
        if before is None:
            # Another process has been at it before anything was noted: then anything
            # may have changed.
            before = after if after.digest == self._seen else NOTHING
        self._visible = after
        self._seen = after.digest
        changed = before.changed(after)
        strict = frozenset(uri for uri in changed if before.has(uri) or after.has(uri))
        ranks = {uri: _lowest_rank(uri, before, after) for uri in changed}
        above_lowest = {uri: rank for uri, rank in ranks.items() if rank}
        return Changes(changed, strict, above_lowest)

    def _read_visible(self) -> Visible:
        return read_visible(self._index.each(ADDRESSES))

    def _refresh(self) -> None:
        scanned = self._scan()
        roles = self._roles()
        basis = self._basis(roles)
        state = sha256(
            msgspec.json.encode([basis, scanned], order="deterministic")
        ).hexdigest()
        if self._index.meta("state") == state:
            return
        found = {
            (root, path): seen
            for root, files in enumerate(scanned)
            for path, seen in files.items()
        }
        self._known_version = -1
        with self._index.transaction() as connection:
            # Only now no other process writes, and one may have been faster.
            if self._index.meta("state") == state:
                return
            if self._visible is None and self._index.meta("shown") == self._seen:
                self._visible = self._read_visible()
            known = self._known_files()
            stale = self._stale_files(found, known)
            read = [(key, found[key], self._read(key)) for key in stale]
            gone = [key for key in known if key not in found]
            names = self._write_files(connection, read, gone)
            is_same_basis = self._index.meta("basis") == basis
            self._write_agents(connection, names if is_same_basis else None, roles)
            facts = {
                "reader": __version__,
                "basis": basis,
                "state": state,
                **digests(connection),
            }
            connection.executemany(
                "INSERT OR REPLACE INTO meta VALUES (?, ?)", facts.items()
            )

    def _known_files(self) -> dict[Key, Identity]:
        """Every file that the index has, as it was when it was read."""
        rows = self._index.rows("SELECT root, path, mtime, size, inode FROM file")
        return {(row[0], row[1]): row[2:] for row in rows}

    def _stale_files(
        self, found: dict[Key, Identity], known: dict[Key, Identity]
    ) -> list[Key]:
        """The files to read again: those that changed, or all if another version has read them."""
        # Another version may read the same file otherwise.
        if self._index.meta("reader") != __version__:
            return sorted(found)
        return sorted(key for key, seen in found.items() if known.get(key) != seen)

    def _mended(self, action: Callable[[], Value]) -> Value:
        """The result of the action; an index that is damaged or cannot be used is made again first."""
        try:
            return action()
        except _DAMAGE as error:
            self._index.recover(error)
            self._known_version = -1
            self._refresh()
            return action()

    def _scan(self) -> list[dict[str, Identity]]:
        return self._disk.scan(is_first=self._seen is None)

    def _read(self, key: Key) -> Entry | Issue | None:
        if self._is_stopped:
            raise Stopped
        if not self._is_inside(self._path(key), key[0]):
            return None  # A link since it was found; the next look leaves it out.
        try:
            raw = self._bytes(key)
        except FileError as error:
            return Issue(at=(), code=IssueCode.LIMIT, message=str(error))
        return read_entry(raw, os.path.basename(key[1]).removesuffix(".md"))

    def _bytes(self, key: Key) -> bytes:
        return read_bounded(self._path(key), MAX_AGENT_FILE_BYTES)

    def _path(self, key: Key) -> str:
        root = self.roots[key[0]]
        if os.path.isfile(root):
            return root
        return os.path.join(root, *key[1].split("/"))

    def _roles(self) -> dict[str, Role]:
        """The roles of every root by the agent that plays each; the first root wins."""
        paths = [os.path.join(root, ROLES_FILE) for root in self.roots]
        seen = list(map(identity_of, paths))
        if seen == self._roles_seen:
            return self._known_roles
        self._role_issues = []
        self._role_files = {}
        roles: dict[str, Role] = {}
        for path, is_there in zip(paths, seen, strict=True):
            if not is_there:
                continue
            found, issues = _roles_of(path)
            roles = found | roles
            self._role_files = dict.fromkeys(found, path) | self._role_files
            self._role_issues += [Finding(path, issue) for issue in issues]
        self._known_roles = roles
        self._roles_seen = seen
        return roles

    def _basis(self, roles: dict[str, Role]) -> str:
        """All that a listing depends on but the agent files."""
        said = [
            __version__,
            self.roots,
            sorted(roles.items()),
            self._judge.key if self._judge else None,
        ]
        return sha256(msgspec.json.encode(said)).hexdigest()

    def _write_files(
        self,
        connection: sqlite3.Connection,
        read: list[tuple[Key, Identity, Entry | Issue | None]],
        gone: list[Key],
    ) -> set[str]:
        """Write what the files say; the names that came, went or changed hands."""
        touched = [*gone, *(key for key, _, _ in read)]
        names = set()
        for key in touched:
            row = connection.execute(
                "SELECT id, name FROM file WHERE root = ? AND path = ?", key
            ).fetchone()
            if row:
                names.add(row[1])
                remove_agents(connection, [row[0]])
        connection.executemany("DELETE FROM file WHERE root = ? AND path = ?", touched)
        for key, seen, found in read:
            name, entry, issue = _columns_of(found)
            connection.execute(
                "INSERT INTO file (root, path, mtime, size, inode, name, entry, issue) VALUES (?,?,?,?,?,?,?,?)",
                (*key, *seen, name, entry, issue),
            )
            names.add(name)
        return {name for name in names if name is not None}

    def _write_agents(
        self,
        connection: sqlite3.Connection,
        names: set[str] | None,
        roles: dict[str, Role],
    ) -> None:
        """List the agents of these names again, or all: an address depends on every agent of its name."""
        question = (
            "SELECT id, root, path, name, entry FROM file WHERE entry IS NOT NULL"
        )
        if names is None:
            rows = connection.execute(question).fetchall()
        else:
            by_name = f"{question} AND name = ?"
            rows = [
                row
                for name in sorted(names)
                for row in connection.execute(by_name, [name])
            ]
        remove_agents(connection, [row[0] for row in rows])
        entries = {row[0]: ((row[1], row[2]), row[4]) for row in rows}
        for address in addresses([Named(*row[:4]) for row in rows], self.roots):
            if self._is_stopped:
                raise Stopped
            key, encoded = entries[address.file]
            entry = with_role(_entry_decoder.decode(encoded), roles)
            write_agent(connection, address, key[1], entry, self._verdict(key, entry))

    def _verdict(self, key: Key, entry: Entry) -> Verdict:
        if not entry.requires:
            return Verdict("not-required")
        if self._judge is None:
            return Verdict("unresolved", "there is no index")
        try:
            return self._judge.of(self._bytes(key))
        except FileError:
            return Verdict("unresolved", "the agent file cannot be read")

    # Listings -------------------------------------------------------------------------

    @property
    def listing(self) -> str:
        """The digest of the listing: another one means that an agent came, went or changed."""
        self._mended(self._look)
        return self._listing

    @property
    def total(self) -> int:
        """The number of agents."""
        self._mended(self._look)
        return self._total

    def _look(self) -> None:
        """Notice when another process has brought the index up to date."""
        version = self._index.version
        if version != self._known_version:
            self._listing = self._index.meta("listing")
            self._strict_listing = self._index.meta("strict")
            self._total = int(self._index.rows("SELECT count(*) FROM agent")[0][0])
            # An address may be another file's now, and a file may have another role.
            self._definitions.clear()
            self._known_version = version

    def page(
        self,
        cursor: str | None = None,
        limit: int = DEFAULT_PAGE,
        *,
        view: View = EVERYTHING,
    ) -> Page:
        """The agents of a view after `cursor`, by name.

        Raises:
            BadCursor: This listing did not give the cursor, or has changed since.
            BadLimit: The limit is not one of 1 to `MAX_PAGE`.
        """
        most = _check_limit(limit)
        return self._mended(lambda: self._page(cursor, most, view))

    def _page(
        self,
        cursor: str | None,
        limit: int,
        view: View,
    ) -> Page:
        self._look()
        digest = self._strict_listing if view.is_strict else self._listing
        # A cursor of one view leads nowhere in another.
        condition = view.condition
        listing = digest if view.is_whole else f"{digest} {condition}"
        after: list[Any] = []
        if cursor:
            last = decode_cursor(cursor, listing)
            condition += (
                " AND (name, uri) > ((SELECT name FROM agent WHERE uri = ?), ?)"
            )
            after = [last, last]
        rows = self._index.rows(
            f"SELECT {COLUMNS} FROM agent WHERE {condition} ORDER BY name, uri LIMIT ?",  # noqa: S608 - fixed words
            [*after, limit + 1],
        )
        if cursor and not rows:
            raise BadCursor(
                "it was not given by this server"
            )  # A page that is the last one comes without any.
        total = self._total
        if not view.is_whole:
            total = int(
                self._index.rows(f"SELECT count(*) FROM agent WHERE {view.condition}")[  # noqa: S608 - fixed
                    0
                ][0]
            )
        agents = tuple(map(listed, rows[:limit]))
        return Page(
            agents,
            total,
            encode_cursor(listing, agents[-1].uri) if len(rows) > limit else None,
        )

    def search(
        self,
        query: Query | str,
        limit: int | None = DEFAULT_PAGE,
        *,
        view: View = EVERYTHING,
    ) -> tuple[Listed, ...]:
        """The agents that fit all that is asked for: the best fit for the text first, else by name; None for all.

        Raises:
            BadLimit: The limit is not one of 1 to `MAX_PAGE`.
        """
        most = None if limit is None else _check_limit(limit)
        asked = Query(text=query) if isinstance(query, str) else query
        return self._mended(lambda: search_index(self._index, asked, view, most))

    def has(self, uri: str) -> bool:
        """True if an agent has this address."""
        return self._mended(lambda: self._row(AgentUri(uri))) is not None

    def completions(
        self,
        start: str,
        limit: int = MAX_PAGE,
        *,
        is_path: bool = False,
        view: View = EVERYTHING,
    ) -> tuple[tuple[str, ...], int]:
        """The names, or the addresses without their scheme, that start like this, and how many there are."""
        words = _PATHS if is_path else "agent"
        return self._mended(
            lambda: self._completions(start, limit, words, view.condition)
        )

    def _completions(
        self,
        start: str,
        limit: int,
        words: str,
        shown: str,
    ) -> tuple[tuple[str, ...], int]:
        pattern = (
            start.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        )
        where = f"FROM (SELECT DISTINCT name FROM {words} WHERE name LIKE ? ESCAPE '\\' AND {shown})"  # noqa: S608 - fixed
        rows = self._index.rows(
            f"SELECT name {where} ORDER BY name LIMIT ?", [pattern, limit]
        )
        names = tuple(row[0] for row in rows)
        return names, int(
            self._index.rows(f"SELECT count(*) {where}", [pattern])[0][0]
        ) if names else 0

    # Definitions ----------------------------------------------------------------------

    def load(self, agent: str) -> Definition:
        """One agent, whole, by its name or its address, as it is on the disk now.

        Raises:
            UnknownAgent: No agent has that name or address, or not at that version.
            MalformedUri: The address is not one.
        """
        try:
            uri = agent if "://" in agent else agent_uri(*agent.split("/"))
        except UnicodeEncodeError:
            raise UnknownAgent(agent) from None
        return self.definition(parse_uri(uri))

    def definition(self, uri: AgentUri, *, view: View = EVERYTHING) -> Definition:
        """One agent, whole, as it is on the disk now.

        Raises:
            UnknownAgent: No agent of the view has that address, or not at that version.
        """
        self._mended(self._look)
        cached = self._definitions.get(
            uri.name, lambda kept: self._identity(kept[1].file) == kept[0]
        )
        found = cached[1] if cached else self._mended(lambda: self._load(uri))
        # Only now: what was edited may have been judged again.
        if not view.is_whole and not self._mended(lambda: self._is_in_view(uri, view)):
            raise UnknownAgent(uri.name)
        return _at_version(found, uri)

    def read_definition(self, uri: AgentUri) -> Definition:
        """One agent, whole, read from the disk for this very call: nothing of it is taken from memory or the index.

        Raises:
            UnknownAgent: No agent has that address, or not at that version.
        """
        self._mended(self._look)
        found = self._mended(lambda: self._load(uri))
        if found.entry.digest != content_digest(found.raw):
            # It was edited within one tick of the clock, or its times were put back, so
            # that the index did not see it.
            entry = read_entry(
                found.raw, os.path.basename(found.path).removesuffix(".md")
            )
            if isinstance(entry, Issue) or entry.name != found.entry.name:
                raise UnknownAgent(uri.name)
            found = structs.replace(found, entry=with_role(entry, self._roles()))
        return _at_version(found, uri)

    def _load(self, uri: AgentUri) -> Definition:
        for _ in range(_TRIES):
            row = self._row(uri)
            if row is None:
                break
            listed_at, root, below, *identity, encoded = row
            key = (root, below)
            seen = tuple(identity)
            path = self._path(key)
            if self._identity(path) == seen and self._is_inside(path, key[0]):
                try:
                    raw = self._bytes(key)
                except FileError:
                    break
                if self._identity(path) == seen:
                    entry = with_role(_entry_decoder.decode(encoded), self._roles())
                    definition = Definition(listed_at, entry, key[1], path, raw)
                    self._definitions.put(uri.name, (seen, definition), len(raw))
                    return definition
            self._refresh()
        raise UnknownAgent(uri.name)

    def _identity(self, path: str) -> Identity | None:
        """The identity of an agent file; only a root may be a symbolic link."""
        return identity_of(os.path.realpath(path) if path in self.roots else path)

    def _is_in_view(self, uri: AgentUri, view: View) -> bool:
        question = (
            f"SELECT 1 FROM agent WHERE (uri = ? OR also = ?) AND {view.condition}"  # noqa: S608 - fixed words
        )
        return bool(self._index.rows(question, [uri.name, uri.name]))

    def _row(self, uri: AgentUri) -> tuple[Any, ...] | None:
        rows = self._index.rows(
            "SELECT uri, root, path, mtime, file.size, inode, entry FROM agent JOIN file ON file.id = agent.file"
            " WHERE uri = ? OR also = ?",
            [uri.name, uri.name],
        )
        return rows[0] if rows else None

    def _is_inside(self, path: str, root: int) -> bool:
        """True if a file is where it seems to be: a folder may have become a link since it was looked at."""
        folder = self.roots[root]
        below = path[len(folder) :].lstrip(os.sep)
        seeming = os.path.join(os.path.realpath(folder), below)
        return os.path.realpath(path) == seeming.rstrip(os.sep)

    # What a person should know --------------------------------------------------------

    def findings(self) -> list[Finding]:
        """Everything that was noticed about the agent files, by path."""
        return [
            *self._disk.unusable,
            *self._disk.passed_over,
            *self._mended(lambda: [*self._role_findings(), *self._file_findings()]),
        ]

    def _file_findings(self) -> Iterator[Finding]:
        rows = self._index.rows(
            "SELECT id, root, path, entry, issue FROM file ORDER BY root, path"
        )
        paths = {row[0]: self._path((row[1], row[2])) for row in rows}
        clashes = dict(
            self._index.rows(
                "SELECT file, clashes_with FROM agent WHERE clashes_with IS NOT NULL"
            )
        )
        uris = dict(self._index.rows("SELECT file, uri FROM agent"))
        for file, _, _, entry, issue in rows:
            noticed: tuple[Issue, ...] = ()
            if entry:
                found = _entry_decoder.decode(entry)
                noticed = (
                    *found.issues,
                    *(
                        _unknown_agent(name, "fallbacks")
                        for name in self._absent(found.fallbacks)
                    ),
                )
            if issue:
                noticed = (_issue_decoder.decode(issue),)
            yield from (Finding(paths[file], each) for each in noticed)
            if file in clashes:
                yield Finding(
                    paths[file], _name_clash(paths[clashes[file]], uris[file])
                )

    def _role_findings(self) -> Iterator[Finding]:
        """The problems of the roles: faults of the file, and agents that do not exist."""
        roles = self._roles()
        yield from self._role_issues
        for role in sorted(roles.values(), key=lambda role: role.name):
            for name in self._absent((role.primary, *role.fallbacks)):
                yield Finding(
                    self._role_files[role.primary],
                    _unknown_agent(name, "roles", role.name),
                )

    def _absent(self, names: Sequence[str]) -> Iterator[str]:
        """The names that no agent has."""
        return (name for name in names if self._row(AgentUri(agent_uri(name))) is None)

    @property
    def refused(self) -> int:
        """The number of agent files that cannot be served; `findings` gives the reasons."""
        return sum(found.issue.severity is Severity.ERROR for found in self._issues())

    @property
    def left_out(self) -> list[Finding]:
        """The Markdown files that are not taken for agents, such as a README, each with the reason."""
        return sorted(
            [
                *self._disk.passed_over,
                *(
                    found
                    for found in self._issues()
                    if found.issue.code is IssueCode.LEFT_OUT
                ),
            ],
            key=lambda found: found.path,
        )

    def _issues(self) -> Iterator[Finding]:
        """The issues that keep files from being served."""
        rows = self._index.rows(
            "SELECT root, path, issue FROM file WHERE issue IS NOT NULL ORDER BY root, path"
        )
        return (
            Finding(self._path((row[0], row[1])), _issue_decoder.decode(row[2]))
            for row in rows
        )

    @property
    def counters(self) -> Counters:
        """The uses of the cache of definitions so far, and its present size."""
        return self._definitions.counters

    def close(self) -> None:
        """Close the index."""
        self._index.close()


def _roles_of(path: str) -> tuple[dict[str, Role], list[Issue]]:
    if os.path.islink(path):
        return {}, [
            structs.replace(
                left_out_file("it is a symbolic link"), severity=Severity.WARNING
            )
        ]
    try:
        return parse_roles(read_bounded(path, MAX_AGENT_FILE_BYTES))
    except FileError as error:
        return {}, [
            Issue(
                at=(),
                code=IssueCode.LIMIT,
                message=str(error),
                severity=Severity.WARNING,
            )
        ]


def _lowest_rank(uri: str, before: Visible, after: Visible) -> int:
    """The rank of the clearance with which a client could see or can see an address."""
    ranks = (before.rank(uri), after.rank(uri))
    return min(rank for rank in ranks if rank is not None)


def _columns_of(
    found: Entry | Issue | None,
) -> tuple[str | None, bytes | None, bytes | None]:
    """The name, the entry and the issue of a file, as the index has them."""
    if isinstance(found, Entry):
        return found.name, msgspec.json.encode(found), None
    if isinstance(found, Issue):
        return None, None, msgspec.json.encode(found)
    return None, None, None


def _check_limit(limit: int) -> int:
    if type(limit) is not int or not 1 <= limit <= MAX_PAGE:
        raise BadLimit(MAX_PAGE)
    return limit


def _unknown_agent(name: str, *at: str) -> Issue:
    return Issue(
        at=at,
        code=IssueCode.UNKNOWN_AGENT,
        message=f"No agent is called `{name}`",
        severity=Severity.WARNING,
    )


def _name_clash(first: str, uri: str) -> Issue:
    return Issue(
        at=("name",),
        code=IssueCode.NAME_CLASH,
        message=f"`{first}` has the same name, so this one is `{uri}`",
        severity=Severity.WARNING,
        hint="give one of them another name",
    )


def _at_version(definition: Definition, uri: AgentUri) -> Definition:
    if uri.version is not None and uri.version != definition.entry.version:
        raise UnknownAgent(
            f"{uri.name}?version={agent_uri(uri.version).removeprefix('agent://')}"
        )
    return definition
