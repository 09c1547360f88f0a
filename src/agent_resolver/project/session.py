"""The session of one command: agent file, lock, index, settings and state, each opened when it is needed."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self, TypeVar

from agent_resolver.core.constraint import limits_of
from agent_resolver.core.lock_difference import remedy
from agent_resolver.core.server import Servers
from agent_resolver.core.verification import examine
from agent_resolver.project.config import Config, Layers, Loaded, load_config, masked
from agent_resolver.project.config_file import find_config, read_config
from agent_resolver.project.definition import definitions_path
from agent_resolver.project.errors import LockRefused, UntrustedFolder, UnusableState
from agent_resolver.project.index import (
    overlaid_servers,
    overlay_path,
    read_overlay_bytes,
    refuse_compiled,
)
from agent_resolver.project.open_index import JsonIndex, OpenIndex, open_index
from agent_resolver.project.state_place import StatePlace, find_place, has_password
from agent_resolver.project.trust import TrustedFolders, folders_behind
from agent_resolver.schema.agent_file import (
    AgentFile,
    Limits,
    Reading,
    limits_in_front_matter,
    read_agent_file,
)
from agent_resolver.schema.artifact_path import lock_path_of
from agent_resolver.schema.errors import InvalidAgentFile
from agent_resolver.schema.governing_key import governing_faults
from agent_resolver.schema.index import Server
from agent_resolver.schema.index_reader import parse_index
from agent_resolver.schema.issue import Issue
from agent_resolver.schema.limit import (
    MAX_AGENT_FILE_BYTES,
    MAX_INDEX_BYTES,
    MAX_LOCKFILE_BYTES,
)
from agent_resolver.schema.lockfile import Lockfile
from agent_resolver.schema.tree import Mapping as Tree, Node
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.file import Stamp, read_bounded, read_head, stamp_of
from agent_resolver.storage.index_file.form import LARGE, MAGIC
from agent_resolver.storage.ownership import believed_users, require_own

if TYPE_CHECKING:
    from agent_resolver.catalog.catalog import Catalog
    from agent_resolver.catalog.query import Judge
    from agent_resolver.project.secret import ProjectSecrets
    from agent_resolver.storage.key_ring import KeyRing
    from agent_resolver.storage.port import ProjectStore
    from agent_resolver.storage.seal import AesSeal

Shared = TypeVar("Shared")

_DEFAULT_ROOTS = ("agents", "agents.md")
_COMPILED = f"{os.sep}__pycache__"
_OF_A_LOCK = {("requires",), ("version",)}
"""What an agent file must say only for the sake of its lock."""


class Session:
    """Everything that belongs to one agent file, for one command: each part is opened when it is needed, and once.

    Use it as a context manager: it closes what was opened, in reverse order.
    """

    def __init__(  # noqa: PLR0913 - each is one option of a command line
        self,
        agent_path: str,
        index_path: str,
        *,
        environment: Mapping[str, str],
        lock_path: str | None = None,
        flags: tuple[str, ...] = (),
        trusts: bool = False,
        is_agent_named: bool = False,
        index: bytes | None = None,
        on_index: Callable[[str, Sequence[Issue]], None] | None = None,
    ) -> None:
        """The session of the agent file at `agent_path`; `trusts` lets the code of its project run this once.

        An agent file that the operator named must be there: without it, nothing would govern what it should.
        `index` is the content of an index that is not written yet. `on_index` gets the path of the index and what is
        to be said about it, once for each change.
        """
        self._index = index
        self._on_index = on_index
        self._index_stamp: Stamp | None = None
        """The stamp of the index when it was read, for one use."""
        self._newest: tuple[tuple[Stamp | None, bytes | None], OpenIndex] | None = None
        self.agent_path = agent_path
        self.index_path = index_path
        self.lock_path = lock_path or lock_path_of(agent_path)
        self._is_agent_named = is_agent_named
        # A linked agent file belongs to the folder that it lies in, with the settings
        # and the trust of that folder.
        self.folder = os.path.dirname(os.path.realpath(agent_path))
        self.environment = environment
        self._flags = flags
        self._trusts = trusts
        self.users = believed_users(environment)
        """Those whose files may decide what runs."""
        self.config_path = find_config(self.folder)
        self.root = (
            os.path.dirname(self.config_path) if self.config_path else self.folder
        )
        self._project: Session | None = None
        """The session whose settings and state this one shares."""
        self._opened = ExitStack()
        self._shared: dict[str, Any] = {}
        """What there may be only one of in all sessions of the project."""

    def for_agent(self, agent_path: str) -> "Session":
        """The session of another agent file of this project: it shares settings, state and trust with this one.

        The agent file, its lock and the index are read and verified again, whatever this session has read of them.
        """
        other = Session(
            agent_path,
            self.index_path,
            environment=self.environment,
            trusts=self._trusts,
            is_agent_named=True,
            on_index=self._on_index,
        )
        # An agent file may be in a folder with settings of its own, which say nothing
        # about this project.
        other.config_path = self.config_path
        other.root = self.root
        other._project = self
        return other

    def shared(self, name: str, make: Callable[[], Shared]) -> Shared:
        """The one thing of this name in all sessions of the project, made when it is first asked for."""
        if self._project is not None:
            return self._project.shared(name, make)
        if name not in self._shared:
            self._shared[name] = make()
        found: Shared = self._shared[name]
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what was opened, in reverse order."""
        self._opened.close()

    @cached_property
    def loaded(self) -> Loaded:
        """The settings, and where each came from.

        Raises:
            ForeignFile: Their file belongs to another user.
            InvalidConfig: With every fault of the first layer that has one.
        """
        if self._project is not None:
            return self._project.loaded
        content = read_config(self.config_path, self.users) if self.config_path else b""
        # Settings remember this spelling of the path as their origin, which
        # `is_set_by_file` looks for.
        shown = os.path.relpath(self.config_path) if self.config_path else None
        return load_config(
            Layers(
                file=shown,
                content=content,
                environment=self.environment,
                flags=self._flags,
            )
        )

    @property
    def config(self) -> Config:
        """The settings."""
        return self.loaded.config

    @cached_property
    def agent(self) -> AgentFile:
        """The agent file. A misspelt constraint would open what it should shut, so here unknown keys are refused.

        Raises:
            InvalidAgentFile: With every error in the file.
        """
        if self._reading.agent is None or self._agent_faults:
            raise InvalidAgentFile(self._agent_faults)
        return self._reading.agent

    @cached_property
    def _reading(self) -> Reading:
        return read_agent_file(
            read_bounded(self.agent_path, MAX_AGENT_FILE_BYTES, self.users)
        )

    @property
    def _agent_faults(self) -> list[Issue]:
        return governing_faults(self._reading.issues)

    @property
    def has_requirements(self) -> bool:
        """True if the agent file asks for servers, and so has a lock."""
        return "requires" in self._front_matter

    @cached_property
    def limits(self) -> Limits:
        """The constraints of the agent file; one that asks for no servers needs no version either.

        Raises:
            InvalidAgentFile: With every error in the file.
        """
        if self.has_requirements:
            return limits_of(self.agent)
        # Without `requires` there is no lock, so what a file must say only for the sake
        # of one may be missing.
        if faults := [
            issue for issue in self._agent_faults if issue.at not in _OF_A_LOCK
        ]:
            raise InvalidAgentFile(faults)
        tree = self._reading.tree
        return limits_in_front_matter(tree) if isinstance(tree, Tree) else Limits()

    @property
    def _front_matter(self) -> dict[str, Node]:
        tree = self._reading.tree
        return (
            {item.key: item.value for item in tree.items}
            if isinstance(tree, Tree)
            else {}
        )

    @cached_property
    def index(self) -> OpenIndex:
        """The index, in whichever form it is.

        Raises:
            InvalidIndex: With every error in the index.
            InvalidOverlay: With every error in the overlay.
            UnusableIndex: It is compiled, and damaged, newer, or not ours.
        """
        if self._index is not None:
            return JsonIndex(self.index_path, self._index, self.overlay_content)
        # The stamp is taken before the content is read: a change in between then looks
        # like one that came later.
        self._index_stamp = stamp_of(self.index_path)
        return self._open_index()

    def _open_index(self) -> OpenIndex:
        found = open_index(self.index_path, self.environment)
        if self._on_index is not None:
            # One index may be opened again by every session of the project.
            last: dict[str, tuple[Issue, ...]] = self.shared("index issues", dict)
            if last.get(self.index_path, ()) != found.issues:
                self._on_index(self.index_path, found.issues)
            last[self.index_path] = found.issues
        return found

    @property
    def index_content(self) -> bytes:
        """The bytes of the JSON index.

        Raises:
            UnusableIndex: The index is compiled: what is changed is the JSON that it was built from.
        """
        if isinstance(self.index, JsonIndex):
            return self.index.raw
        # The file is compiled, which is refused, or a large JSON file that was opened
        # with its cache.
        refuse_compiled(
            self.index_path, read_head(self.index_path, len(MAGIC)), "--index"
        )
        return read_bounded(self.index_path, MAX_INDEX_BYTES)

    @cached_property
    def overlay_content(self) -> bytes | None:
        """The bytes of the overlay of the index; None if there is none."""
        return read_overlay_bytes(self.index_path)

    @property
    def servers(self) -> Servers:
        """The servers of the index, with the facts of its overlay.

        Raises:
            InvalidIndex: With every error in the index.
            InvalidOverlay: With every error in the overlay.
            UnusableIndex: The index is compiled, and damaged, newer, or not ours.
        """
        return self.index.servers

    @cached_property
    def listed_servers(self) -> tuple[Server, ...]:
        """The servers of a JSON index in its order, for commands that change it."""
        content = self.index_content
        if isinstance(self.index, JsonIndex):
            return self.index.servers.servers
        return overlaid_servers(
            parse_index(content), self.overlay_content, self.index_path
        )

    def servers_now(self) -> Servers:
        """The servers as index and overlay are now: the same object for as long as both are the same.

        A session may live as long as a server; what `servers` has was read at its start.

        Raises:
            InvalidIndex: With every error in the index.
            InvalidOverlay: With every error in the overlay.
        """
        # A cached property keeps its value in `vars`, which tells here if the next line
        # is the first to read the index.
        is_first = "index" not in vars(self)
        first = self.index
        # An index that is not written yet has no file that could change.
        if self._index is not None:
            return first.servers
        overlay = read_overlay_bytes(self.index_path)
        if self._newest is None:
            self._newest = ((self._index_stamp, self.overlay_content), first)
        (stamp, known), index = self._newest
        now = stamp_of(self.index_path)
        # What was read just now is up to date. Later both stamps must be equal; a file
        # that changed a moment ago has none.
        is_as_read = (
            is_first or (stamp is not None and stamp == now)
        ) and known == overlay
        # Another stamp need not mean another content: a small file is compared by its
        # bytes before it is parsed again.
        if not is_as_read and not (known == overlay and self._has_same_bytes(index)):
            index = self._open_index()
        self._newest = ((now, overlay), index)
        return index.servers

    def _has_same_bytes(self, index: OpenIndex) -> bool:
        """True if a small JSON index is the one that was read: the times alone do not tell."""
        if not isinstance(index, JsonIndex) or len(index.raw) >= LARGE:
            # To read a large file for each comparison would cost more than to open it
            # again, with its cache.
            return False
        return read_bounded(self.index_path, MAX_INDEX_BYTES) == index.raw

    @cached_property
    def lockfile(self) -> Lockfile:
        """The lock, verified in full: nothing may be connected that it does not vouch for.

        Raises:
            ForeignFile: It, the agent file or the index belongs to another user.
            LockRefused: It is missing, or anything about it does not hold.
        """
        # What decides about connections must be out of reach of other users, so this
        # comes before anything is verified.
        require_own(self.index_path, self.users)
        # Also where a cache or a compiled index is read: what stands beside an index is
        # part of it.
        if self.overlay_content is not None:
            require_own(overlay_path(self.index_path), self.users)
        # The lock is compared with the agent file and the index as this session read
        # them, and is believed as a whole or not at all.
        examined = examine(self._lock_content, self.agent, self.servers)
        if examined.lockfile is None or examined.differences:
            hint = remedy(examined.differences[0].kind)
            raise LockRefused(
                f"`{self.lock_path}` does not hold", examined.differences, hint
            )
        return examined.lockfile

    @property
    def lock_digest(self) -> str:
        """The SHA-256 of the lock file."""
        return f"sha256-{sha256(self._lock_content).hexdigest()}"

    @cached_property
    def _lock_content(self) -> bytes:
        try:
            return read_bounded(self.lock_path, MAX_LOCKFILE_BYTES, self.users)
        except UnreadableFile as error:
            if error.missing:
                raise LockRefused(
                    f"`{self.lock_path}` is missing", hint="run `agent resolve`"
                ) from None
            raise

    @cached_property
    def state_place(self) -> StatePlace:
        """The path at which the state is, or would be.

        Raises:
            UnusableState: It cannot be kept there, or the address in agent.toml holds a password.
        """
        url = self.config.state.url
        # A file is committed and shared, and a password in it with it. A variable or a
        # flag is the operator's own.
        if self.is_set_by_file("state.url") and has_password(url):
            what = f"{masked(url)}, an address with a password in a file"
            raise UnusableState(
                what,
                "name a variable with the password in `state.password_env`, or use a passfile",
            )
        name = self.config.state.password_env or ""
        password = self._in_variable(name, "state.password_env") if name else None
        return find_place(url, self.root, password, self.environment)

    @property
    def state_path(self) -> str:
        """The place of the state as messages name it: a path, or an address without what is secret."""
        return self.state_place.name

    @cached_property
    def store(self) -> "ProjectStore":
        """The state, made if it is not there.

        Raises:
            UntrustedFolder: The state would be outside of the project or use a secret, and no person trusts the folder.
            UnreadableFile: It is not a state, is damaged, cannot be reached, or comes from a newer version.
        """
        if self._project is not None:
            return self._project.store
        self.require_trust_in_state()
        store = self.state_place.open(self.keys)
        self._opened.callback(store.close)
        return store

    def require_trust_in_state(self) -> None:
        """Stop before the state is opened outside of the project or with a secret, unless a person trusts the folder.

        Raises:
            UntrustedFolder: No person does.
        """
        place = self.state_place
        is_outside = place.is_outside and self.is_set_by_file("state.url")
        # The files are those behind symbolic links too: a link in the project could
        # lead the state anywhere.
        if is_outside or any(
            not _is_within(os.path.realpath(path), self.root) for path in place.files()
        ):
            self.require_trust("its settings keep the state outside of it")
        if self.is_set_by_file("state.password_env"):
            self.require_trust(
                "its settings send a secret of this machine to the server of the state"
            )
        # What is sealed with a secret lets its reader try out guesses of the secret.
        if self.is_set_by_file("state.key_env"):
            self.require_trust(
                "its settings seal the state with a secret of this machine"
            )
        if self.is_set_by_file("state.old_key_env"):
            self.require_trust(
                "its settings open the state with a secret of this machine"
            )

    @property
    def engine_path(self) -> str:
        """The path at which an engine that needs a file keeps what it needs to drive runs."""
        return self.state_place.engine_path

    @property
    def has_state(self) -> bool:
        """True if there is a state: looking at what is not there must not make it.

        Raises:
            UntrustedFolder: To look there would already need trust.
        """
        if self.state_place.is_outside:
            # To ask a database if it has a state means to connect to it, which may send
            # a password.
            self.require_trust_in_state()
        return self.state_place.is_there()

    @property
    def seal(self) -> "AesSeal":
        """The seal of the state; without a key in the settings, one is kept beside the state file.

        Raises:
            UnknownKey: The state is sealed with a key that is not known here.
        """
        return self.store.find_seal()

    @cached_property
    def keys(self) -> "KeyRing":
        """The keys of the state: those that the settings name, or the one in the file beside it."""
        from agent_resolver.storage.key_ring import KeyRing

        return KeyRing(
            self.state_path, self.key_path, newest=self.key, old=self.old_key
        )

    @cached_property
    def evidence_key(self) -> bytes:
        """The key that seals the evidence of tasks, made of the key that the state is sealed with.

        Raises:
            UnknownKey: The state is sealed with a key that is not known here.
        """
        from agent_resolver.storage.seal import evidence_key

        return evidence_key(self.keys.sealing_key(self.store.key_id))

    @property
    def key_path(self) -> str:
        """The path of the key that is made where the settings name none."""
        return self.state_place.key_path

    def catalog(
        self,
        named_roots: Sequence[str] = (),
        *,
        index_path: str = "",
        judge: "Judge | None" = None,
    ) -> "Catalog":
        """The agents of the named folders, else of those in the settings; closed with the session.

        Args:
            named_roots: Folders that the operator named.
            index_path: The index of servers that `judge` goes by.
            judge: Tells whether an agent file resolves.
        """
        from agent_resolver.project.catalog import open_catalog

        catalog = open_catalog(
            self.catalog_roots(named_roots), self.environment, judge, index_path
        )
        self._opened.callback(catalog.close)
        return catalog

    def catalog_roots(self, named: Sequence[str] = ()) -> tuple[str, ...]:
        """The folders of agent files: those named, else those of the settings, else `agents` and `agents.md`."""
        if named:
            return tuple(os.path.normpath(root) for root in named)
        configured = self.config.catalog.roots
        # The settings mean folders beside agent.toml, and the command may run in
        # another one.
        base = os.path.relpath(self.root)
        roots = (
            os.path.normpath(os.path.join(base, root))
            for root in configured or _DEFAULT_ROOTS
        )
        # A default that is missing is left out. A folder that the settings name stays,
        # and is an error once it is opened.
        return tuple(root for root in roots if configured or os.path.exists(root))

    @property
    def key(self) -> bytes | None:
        """The key that the settings name: it seals the audit trail too."""
        return self._key_in_variable(self.config.state.key_env or "", "state.key_env")

    @property
    def old_key(self) -> bytes | None:
        """The key before it, as long as the settings name it."""
        return self._key_in_variable(
            self.config.state.old_key_env or "", "state.old_key_env"
        )

    def _key_in_variable(self, name: str, setting: str) -> bytes | None:
        # The system has bytes in its variables: this gives back exactly those that were
        # set.
        if name:
            return os.fsencode(self._in_variable(name, setting))
        return None

    def _in_variable(self, name: str, setting: str) -> str:
        if not (value := self.environment.get(name)):
            raise UnusableState(
                f"the environment variable {name}",
                f"set it: `{setting}` in agent.toml names it",
            )
        return value

    @property
    def is_of_project(self) -> bool:
        """False for the session of another agent file of the project, which may have a lock of its own."""
        return self._project is None

    @property
    def has_issuer(self) -> bool:
        """True if an issuer vouches for callers, so that others may not call."""
        return bool(self.config.identity.issuer)

    @property
    def has_agent(self) -> bool:
        """True if an agent file governs the project; one that was named and is missing is an error once it is read."""
        return self._is_agent_named or os.path.lexists(self.agent_path)

    @property
    def app_id(self) -> str:
        """The name of this project in telemetry and tasks: as its settings say, else its agent, else its folder."""
        if self.config.project.name:
            return self.config.project.name
        is_named = self.has_agent and self.has_requirements
        if is_named:
            return self.agent.name
        return os.path.basename(self.root)

    @cached_property
    def secrets(self) -> "ProjectSecrets":
        """The secrets of its tools."""
        from agent_resolver.project.secret import ProjectSecrets

        return ProjectSecrets(self.config.secrets, self.environment, self.root)

    def is_set_by_file(self, key: str) -> bool:
        """True if `agent.toml` decides about a setting, rather than the operator with a variable or a flag."""
        if not self.config_path:
            return False
        prefix = f"{os.path.relpath(self.config_path)}:"
        return any(
            item.key == key and item.origin.startswith(prefix)
            for item in self.loaded.settings
        )

    def require_trust(
        self, why: str, *, files: Sequence[str] = (), modules: Sequence[str] = ()
    ) -> None:
        """Stop before the project decides what runs, unless a person trusts every folder that has a say in it.

        Args:
            why: What the project would do, for the refusal.
            files: What has a say besides the settings and the agent file.
            modules: The files of modules that the settings name.

        Raises:
            ForeignFile: One of the folders, or a module, belongs to another user.
            UntrustedFolder: No person trusts one of the folders; holds all of them.
        """
        folders = self.folders_to_trust(files, modules)
        # Not even `--trust` waives this: another user could change a file after the
        # operator has looked at it.
        for path in (*folders, *modules):
            require_own(path, self.users)
        if self._trusts:
            return
        trusted = TrustedFolders(self.environment).all()
        if missing := [folder for folder in folders if folder not in trusted]:
            raise UntrustedFolder(missing, why)

    def folders_to_trust(
        self, files: Sequence[str] = (), modules: Sequence[str] = ()
    ) -> list[str]:
        """Every folder that a person must trust before these files and modules decide what runs, in order.

        1. The root, which has the settings, and which modules are imported from.
        2. The folders behind the settings, the agent file and the other files. Trust in the root covers those that
           hold agent files the settings know of. An agent file elsewhere below the root may have come with other
           people's code, so its own folder counts.
        3. The folders behind the modules, as far as they lie outside of the root.
        """
        settings = [self.config_path] if self.config_path else []
        agents = [self.agent_path] if self.has_agent else []
        governing = {
            folder
            for path in (*settings, *agents, *files)
            for folder in folders_behind(path)
        }
        # What is compiled belongs to the folder of its source.
        imported = {
            folder.removesuffix(_COMPILED)
            for path in modules
            for folder in folders_behind(path)
        }
        return sorted(
            {
                self.root,
                *(folder for folder in governing if not self._is_known(folder)),
                *(folder for folder in imported if not _is_within(folder, self.root)),
            }
        )

    def _is_known(self, folder: str) -> bool:
        """True if the settings look for agent files in a folder of the project."""
        known = (
            os.path.realpath(os.path.join(self.root, root))
            for root in self.config.catalog.roots or ("agents",)
        )
        return any(
            _is_within(folder, each) and _is_within(each, self.root) for each in known
        )

    @property
    def files_of_lock(self) -> tuple[str, ...]:
        """The files that decide about locked servers besides the settings and the agent file."""
        return (*self.files_of_index, self.lock_path)

    @property
    def files_of_index(self) -> tuple[str, ...]:
        """The files that say which servers there are."""
        beside = (overlay_path(self.index_path), definitions_path(self.index_path))
        return (self.index_path, *filter(os.path.lexists, beside))

    @property
    def why_trust_is_needed(self) -> str | None:
        """The reason to trust the folders before the locked servers are opened; None if this machine risks nothing."""
        entries = self.lockfile.servers
        if any(entry.launch for entry in entries):
            return "its lock starts commands"
        # The author of the project chose both the secret and where it is sent.
        if any(entry.server_id in self.config.servers for entry in entries):
            return "its settings send secrets of this machine to servers"
        return None


def _is_within(path: str, folder: str) -> bool:
    return os.path.commonpath([path, folder]) == folder
