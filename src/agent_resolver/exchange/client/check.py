"""Judges an entry of a client: whether a lock covers what it starts."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from agent_resolver.core.count import counted
from agent_resolver.exchange.client.direct import LockedUse
from agent_resolver.exchange.client.entry import KEPT_KEYS, Client, ClientEntry
from agent_resolver.exchange.client.settings import UnusableSettings
from agent_resolver.schema.artifact_path import lock_path_of

Kind = Literal["governed", "direct", "off", "outside"]

_BARE_COMMANDS: Final = ("agent", "agent-resolver")
"""The words by which a shell finds this program."""
_ADDRESSES: Final = ("url", "httpUrl")
_HEADERS: Final = (
    "headers",
    "http_headers",
    "env_http_headers",
    "bearer_token_env_var",
)
_READ: Final = frozenset(
    {
        "command",
        "args",
        "env",
        "env_vars",
        *_ADDRESSES,
        "includeTools",
        "enabled_tools",
        *_HEADERS,
    }
)
_VERIFIED_OPTIONS: Final = frozenset({"--index", "--tools-of", "--lock"})
_OPTIONS_WITH_WORD: Final = frozenset({"--project", "--page-size", "--root"})
# Not `--inbox`, by which a model could approve calls, and not `--token-file`, which may
# name any file.
_OPTIONS_ALONE: Final = frozenset({"--strict"})
_HARMLESS: Final = KEPT_KEYS | {"type", "default_tools_enabled"}
_SWITCHED_OFF: Final = {"disabled": True, "enabled": False}
"""Keys by which some client does not start an entry, and which others do not read."""
_INDEX: Final = "mcp.index.json"
"""The index that `agent serve` reads unless another is named."""
_WORD_TO_SHOW: Final = re.compile(r"(?:[A-Za-z]:)?[\w./\\~+-]{1,200}(?=\s|$)")
# A password may hold a slash, so nothing is shown of an address with an `@` behind the
# first slash.
_HOST_TO_SHOW: Final = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^/?#\\]*@)?([\w.-]+|\[[0-9a-fA-F:.]+\])(:\d+)?(?=[/?#\\][^@]*$|$)"
)


class Governing(Struct, frozen=True, kw_only=True):
    """The facts of a project by which entries are judged."""

    project: str
    """The folder of the project."""
    folder: str = ""
    """The folder that clients are started in, if it is another; relative paths of an entry begin there."""
    command: tuple[str, ...]
    """The command line of this program, without arguments."""
    uses: tuple[LockedUse, ...] = ()
    """The servers of every lock that holds."""
    files: frozenset[str] = frozenset()
    """The agent files, locks and indexes that were verified, by their real paths."""


class ClientFinding(Struct, frozen=True, kw_only=True):
    """A server that a client starts or calls."""

    path: str
    """The file that has it, from the current folder."""
    client: str
    name: str
    kind: Kind
    starts: str
    """The command or the address, without what looks like a secret."""
    why: str = ""
    """Why it is outside of the lock, why it is not started, or what a direct entry opens beyond the lock."""


def decode_settings(raw: bytes, path: str) -> str:
    """The text of a client's settings.

    Raises:
        UnusableSettings: It is not UTF-8.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise UnusableSettings(path, "it is not UTF-8") from error


def judge_entry(
    client: Client,
    name: str,
    values: object,
    governing: Governing,
    path: str = "",
) -> ClientFinding:
    """The judgement of an entry: it serves the project under its lock, starts a locked server itself, or neither.

    Args:
        client: Whose settings have it.
        name: Its name there.
        values: What the settings say.
        governing: What it is held against.
        path: The settings, if they are not where the client has them in a project.
    """
    entry = _Entry(values if isinstance(values, Mapping) else {})
    kind, why = _judge(client, entry, governing)
    starts = entry.render_start() or "nothing that can be read"
    place = path or client.path
    return ClientFinding(
        path=place, client=client.name, name=name, kind=kind, starts=starts, why=why
    )


def command_of(values: object) -> tuple[Any, ...]:
    """The program and the arguments of an entry; empty if it has none in the usual form."""
    if not isinstance(values, Mapping) or "command" not in values:
        return ()
    arguments = values.get("args", [])
    if _is_texts(arguments):
        return (values["command"], *arguments)
    return ()


def served_agent(command: Sequence[object]) -> str | None:
    """The agent file whose tools a command line serves, empty for none; None if it does not start `agent serve`.

    Where the program is installed does not matter here: an entry that another installation wrote is ours too.
    """
    words = [str(word) for word in command]
    if not words or not _serves(os.path.basename(words[0]), words[1:]):
        return None
    if "--tools-of" in words[:-1]:
        return words[words.index("--tools-of") + 1]
    return ""


def _serves(program: str, arguments: list[str]) -> bool:
    """True for `agent serve`, also if Python is started with this program as its module."""
    if program in _BARE_COMMANDS:
        return arguments[:1] == ["serve"]
    if arguments[:1] == ["-P"]:
        arguments = arguments[1:]
    return arguments[:3] == ["-m", "agent_resolver", "serve"]


def sets_values(client: Client, values: Mapping[str, Any]) -> bool:
    """True if an entry has values of variables that its user wrote, where the client could read them."""
    environment = values.get("env", {})
    if not client.reads_variables or not isinstance(environment, Mapping):
        return False
    return any(value != _reference(client, name) for name, value in environment.items())


def _judge(client: Client, entry: "_Entry", governing: Governing) -> tuple[Kind, str]:
    if client.is_off(entry.values):
        return "off", f"{client.title} does not start it"
    if unusual := sorted(set(entry.values) - _READ - _HARMLESS):
        return (
            "outside",
            f"`{unusual[0]}` may change what is started, and the lock knows nothing of it",
        )
    if not entry.is_clear:
        return "outside", "it does not say in the usual form what is started"
    if client.expands and any(
        re.search(client.expands, word) for word in (*entry.command, entry.url)
    ):
        return (
            "outside",
            f"{client.title} fills in part of what is started, so it may be anything",
        )
    if arguments := _arguments_of_ours(entry.command, governing.command):
        why = _why_not_ours(client, entry, governing) or _why_not_governed(
            arguments[1:], governing
        )
        return ("outside", why) if why else ("governed", "")
    return _judge_server(client, entry, governing)


def _judge_server(
    client: Client, entry: "_Entry", governing: Governing
) -> tuple[Kind, str]:
    """The judgement of an entry that does not start this program: it is a locked server, or outside."""
    use = next((use for use in governing.uses if entry.is_locked(use)), None)
    if use is None:
        why = "no lock of the project has it"
        for key, value in _SWITCHED_OFF.items():
            if entry.values.get(key) is value:
                why += f"; `{key}` is not known to keep {client.title} from starting it"
                break
        return "outside", why
    why = _why_not_direct(client, entry, use)
    if why:
        return "outside", why
    return "direct", _render_wider(client, entry, use)


class _Entry:
    """An entry of a client, in the terms that all of them share."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.command = command_of(values)
        addresses = [values[key] for key in _ADDRESSES if key in values]
        first = next(iter(addresses), "")
        self.url = first if isinstance(first, str) else ""
        # A client calls one of two addresses, and which one is its own choice.
        has_one_address = all(address == self.url for address in addresses)
        has_one_way = bool(self.command) != bool(self.url)
        has_words = all(map(_is_word, (*self.command, self.url)))
        variables = _read_variables(values)
        self.is_clear = has_one_way and has_one_address and has_words
        self.variables: dict[str, str | None] = {}
        """The value of each variable; None where the client passes on its own."""
        if variables is None:
            self.is_clear = False
        elif self.is_clear:
            self.variables = variables

    def is_locked(self, use: LockedUse) -> bool:
        """True if this is the command line or the address of a locked server."""
        launch = use.entry.launch
        if launch:
            return self.command == (launch.command, *launch.args)
        return bool(self.url) and self.url == use.entry.endpoint

    def render_start(self) -> str:
        """The program or the host, for people: any argument, path or query may be a secret, so none is shown."""
        if self.command:
            return self._render_command()
        return self._render_address()

    def _render_command(self) -> str:
        found = _WORD_TO_SHOW.match(str(self.command[0]))
        program = found[0] if found else "***"
        count = len(self.command) - 1
        if count:
            return f"{program} with {counted(count, 'argument')}"
        return program

    def _render_address(self) -> str:
        found = _HOST_TO_SHOW.match(self.url)
        if found:
            scheme, host, port = found.groups(default="")
            return f"{scheme}{host}{port}"
        return "an address that is not shown" if self.url else ""


def _read_variables(values: Mapping[str, Any]) -> dict[str, str | None] | None:
    """The variables that an entry sets, with None for those that it passes on; None if they have another form."""
    environment = values.get("env", {})
    names = values.get("env_vars", [])
    if not _is_texts(names) or not isinstance(environment, Mapping):
        return None
    if not all(map(_is_word, environment.values())):
        return None
    return {**dict.fromkeys(names), **environment}


def _is_word(value: object) -> bool:
    """True for a text that can be a word of a command line or the value of a variable."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _arguments_of_ours(command: Sequence[str], own: Sequence[str]) -> Sequence[str]:
    """The arguments that an entry starts this program with; empty if it starts something else, or does not serve."""
    if not command:
        return ()
    if command[0] in _BARE_COMMANDS:
        arguments = command[1:]
    elif own and tuple(command[: len(own)]) == tuple(own):
        arguments = command[len(own) :]
    else:
        return ()
    return arguments if arguments[:1] == ("serve",) else ()


def _reference(client: Client, name: str) -> str | None:
    """The reference by which the client gives a variable the value that the client itself has."""
    written = client.render(ClientEntry(name="", command=("",), variables=(name,)))
    reference: str | None = written.get("env", {}).get(name)
    return reference


def _why_not_ours(client: Client, entry: _Entry, governing: Governing) -> str:
    """Why a variable may keep this program from holding to the lock; empty if none does."""
    launched = {
        name
        for use in governing.uses
        if use.entry.launch
        for name in use.entry.launch.env
    }
    for name, value in sorted(entry.variables.items()):
        # A client that reads no variables has their values in its settings; those of
        # locked servers do not steer us.
        is_filled_in = not client.reads_variables and name in launched
        if value is not None and value != _reference(client, name) and not is_filled_in:
            return f"it sets `{name}`, which may change what this program does"
    return ""


def _why_not_governed(arguments: Sequence[str], governing: Governing) -> str:
    """Why the arguments of `agent serve` do not hold it to a lock of this project; empty if they do."""
    given = list(arguments)
    named: dict[str, str] = {}
    folder = governing.folder or governing.project
    while given:
        option = given.pop(0)
        if option in _OPTIONS_ALONE:
            continue
        if option not in _VERIFIED_OPTIONS | _OPTIONS_WITH_WORD or not given:
            return f"it passes `{_render_option(option)}` to `agent serve`"
        path = os.path.realpath(os.path.join(folder, given.pop(0)))
        named[option] = path
        if why := _why_not_allowed(option, path, governing):
            return why
    served = named.get("--project")
    if served is None:
        return "it does not name the folder that it serves"
    if served != os.path.realpath(governing.project):
        return "it serves another folder"
    return _why_not_verified(named, governing)


def _render_option(option: str) -> str:
    """An option for people: a word in the place of an option may be anything, also a secret."""
    name = re.match(r"--[a-z][a-z-]{,20}(?![\w-])", option)
    return name[0] if name else "***"


def _why_not_allowed(option: str, path: str, governing: Governing) -> str:
    """The reason why an option of `agent serve` may not name this path; empty if it may."""
    if option == "--root" and not _is_within(path, governing.project):
        return "`--root` names a folder outside of the project"
    if option in _VERIFIED_OPTIONS and path not in governing.files:
        return f"`{option}` names a file that was not verified"
    return ""


def _why_not_verified(named: Mapping[str, str], governing: Governing) -> str:
    """Why the files that `agent serve` reads without being told are not those that were verified; empty if they are."""
    agent = named.get("--tools-of")
    if agent is None:
        return ""
    lock = named.get("--lock") or lock_path_of(agent)
    index = named.get("--index") or os.path.join(governing.project, _INDEX)
    for path in (lock, index):
        if os.path.realpath(path) not in governing.files:
            return f"it reads `{os.path.basename(path)}`, which was not verified"
    return ""


def _why_not_direct(client: Client, entry: _Entry, use: LockedUse) -> str:
    """The reason why an entry with the command line or address of a locked server is not it; empty if it is."""
    why = _why_other_variables(client, entry, use)
    return why or _why_other_headers(client, entry, use)


def _why_other_variables(client: Client, entry: _Entry, use: LockedUse) -> str:
    """The reason why the variables of an entry are not those of a locked server; empty if they are."""
    allowed = use.entry.launch.env if use.entry.launch else ()
    for name, value in sorted(entry.variables.items()):
        if name not in allowed:
            return f"it sets `{name}`, which the lock does not name"
        if (
            value
            and client.expands
            and re.search(client.expands, value)
            and value != _reference(client, name)
        ):
            return f"it fills `{name}` with something else"
    return ""


def _why_other_headers(client: Client, entry: _Entry, use: LockedUse) -> str:
    """The reason why an entry may send more than the token of a locked server; empty if it cannot."""
    written = client.render(
        ClientEntry(
            name="",
            url=use.entry.endpoint,
            wire="http",
            token_variable=use.token_variable,
        )
    )
    for key in _HEADERS:
        value = entry.values.get(key, {})
        is_token = not use.entry.launch and value == written.get(key)
        if value != {} and not is_token:
            return f"`{key}` sends something that is not the token of the server"
    return ""


def _is_within(path: str, folder: str) -> bool:
    real_path = os.path.realpath(path)
    real_folder = os.path.realpath(folder)
    return os.path.commonpath([real_path, real_folder]) == real_folder


def _render_wider(client: Client, entry: _Entry, use: LockedUse) -> str:
    # The filter of another client is one that this client does not read.
    named = entry.values.get(client.tool_filter) if client.filters_tools else None
    if not isinstance(named, list):
        if use.opens_all:
            return ""
        return "the client offers every tool of it, and the lock does not open all"
    wider = [str(tool) for tool in named if tool not in use.tools]
    if wider:
        return f"the client offers {wider[0]}, which the lock does not open"
    return ""
