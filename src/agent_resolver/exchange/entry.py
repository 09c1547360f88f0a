"""Makes an entry of an index from what a source says about a server."""

import re
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import urlsplit

from msgspec import UNSET, Struct, structs

from agent_resolver.core.count import counted
from agent_resolver.exchange.category import categories_of
from agent_resolver.exchange.imported import Note, NoteKind
from agent_resolver.exchange.launch_record import is_package_name
from agent_resolver.exchange.part import Part
from agent_resolver.exchange.secret_argument import (
    has_secret,
    is_known_key,
    references_in,
    secret_arguments,
)
from agent_resolver.exchange.server_id import is_path, mapped_id
from agent_resolver.schema.index import IndexEntry, Launch
from agent_resolver.schema.issue import IssueCode
from agent_resolver.schema.vocabulary import SEPARATORS, EndpointTransport, Status

_MAX_NAME: Final = 256
_MAX_CATEGORY: Final = 100
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_PLACEHOLDER: Final = re.compile(r"<[^<>]+>|\{[A-Za-z_][^{}]*\}")
_STATUS_WORDS: Final[dict[str, Status]] = {
    "active": "active",
    "deprecated": "deprecated",
    "deleted": "deleted",
    "removed": "deleted",
    "archived": "deprecated",
}
_TRANSPORT_WORDS: Final[dict[str, EndpointTransport]] = {
    "http": "streamable-http",
    "streamable": "streamable-http",
    "streamable-http": "streamable-http",
    "streamable_http": "streamable-http",
    "streamablehttp": "streamable-http",
    "sse": "sse",
}


class Remote(Struct, frozen=True):
    """A server that is called."""

    endpoint: str
    transport: EndpointTransport


class Facts(Struct, frozen=True, kw_only=True):
    """All that a source says about a server."""

    name: str
    source: str
    """The kind of the source."""
    version: str | None = None
    description: str | None = None
    words: Sequence[str] = ()
    """What the source says that the server is for."""
    status: Status | None = None
    reach: Remote | Launch


def make_entry(part: Part, facts: Facts, notes: list[Note]) -> IndexEntry:
    """The entry for a server. What is wrong with the facts becomes faults of `part`."""
    _check_name(part, facts.name)
    _check_version(part, facts.version)
    _check_words(part, facts.words)
    found_id = mapped_id(facts.name)
    entry = IndexEntry(
        id=found_id,
        version=facts.version or UNSET,
        categories=categories_of(facts.words),
        name=UNSET if found_id == facts.name else facts.name,
        description=facts.description or UNSET,
        status=facts.status or UNSET,
        source=facts.source,
    )
    reach = facts.reach
    if isinstance(reach, Launch):
        _check_launch(part, reach)
        note_placeholders(reach.args, facts.name, notes)
        return structs.replace(entry, launch=reach)
    _check_endpoint(part, reach.endpoint)
    note_placeholders([reach.endpoint], facts.name, notes)
    return structs.replace(entry, endpoint=reach.endpoint, transport=reach.transport)


def status_from(part: Part, name: str, notes: list[Note]) -> Status | None:
    """The stage of life that a source states."""
    word = part.text()
    if word is None:
        return None
    status = _STATUS_WORDS.get(word.lower())
    if status is None:
        notes.append(
            Note(
                NoteKind.STATUS,
                name,
                f"the status `{word}` is left out: the index has no word for it",
            )
        )
    return status


def endpoint_transport(part: Part) -> EndpointTransport:
    """The protocol of a remote server; Streamable HTTP where nothing is said."""
    word = part.text()
    if word is None:
        return "streamable-http"
    transport = _TRANSPORT_WORDS.get(word.lower())
    if transport is None:
        message = (
            f"Invalid enum value. Expected 'streamable-http' | 'sse', received '{word}'"
        )
        raise part.refuse_entry(IssueCode.INVALID_ENUM, message)
    return transport


def variables_from(parts: Iterable[Part]) -> tuple[str, ...]:
    """The names of variables, each once."""
    found = dict.fromkeys(variable_from(part) for part in parts)
    return tuple(name for name in found if name)


def variable_from(part: Part) -> str:
    """The name of a variable."""
    name = part.text() or ""
    if name:
        check_variable(part, name)
    return name


def check_variable(part: Part, name: str) -> None:
    """Refuse what cannot be the name of a variable, without showing it: it may hold a value."""
    if not _VARIABLE.fullmatch(name) or is_known_key(name):
        # Where the name is a key, the path to the part would show it.
        is_key = part.at[-1:] == (name,)
        at = part.at[:-1] if is_key else part.at
        Part(part.value, at, part.faults).refuse(
            IssueCode.NAME_REFUSED,
            "Not the name of an environment variable",
            "give the name alone",
        )


def check_package(part: Part, name: str) -> None:
    """Refuse what a program would take for an option, and so for access to this machine."""
    if not is_package_name(name):
        message = (
            "Not the name of a package or image: it begins with `-`, or holds a space"
        )
        raise part.refuse_entry(IssueCode.NAME_REFUSED, message, "give the name alone")


def note_environment(
    name: str,
    required: Sequence[str],
    optional: Sequence[str],
    notes: list[Note],
) -> None:
    """Say which variables a server reads."""
    if required:
        listed = ", ".join(f"`{each}`" for each in required)
        notes.append(
            Note(
                NoteKind.ENVIRONMENT,
                name,
                f"set {listed} before it starts",
                tuple(required),
            )
        )
    if optional:
        listed = ", ".join(f"`{each}`" for each in optional)
        message = f"also reads {listed}; add to `launch.env` what you set"
        notes.append(
            Note(NoteKind.OPTIONAL_ENVIRONMENT, name, message, tuple(optional))
        )


def note_tools(name: str, tools: Sequence[str], notes: list[Note]) -> None:
    """Name the tools that a source lists; only the server itself can say what they are."""
    if tools:
        message = f"the source lists {counted(len(tools), 'tool')}; `agent index probe` pins what the server offers"
        notes.append(Note(NoteKind.TOOLS, name, message, tuple(tools)))


def note_headers(
    name: str, headers: Iterable[tuple[str, Part]], notes: list[Note]
) -> None:
    """Say what becomes of the headers of a remote server; no value is carried over or shown."""
    for header, part in headers:
        value = part.text() or ""
        variables = references_in(value)
        is_bearer = header.lower() == "authorization" and re.fullmatch(
            r"(?i:bearer) \$\{[^}]*\}", value
        )
        if is_bearer and variables:
            note_token(name, variables[0], notes)
            continue
        listed = ", ".join(f"`{each}`" for each in variables)
        named = f", which reads {listed}," if variables else ""
        is_credential = header.lower() == "authorization"
        advice = (
            "; name the variable of a bearer token as `token_env` in agent.toml"
            if is_credential
            else ""
        )
        message = f"the header `{header}`{named} is not carried over{advice}"
        notes.append(Note(NoteKind.HEADER, name, message, (header, *variables)))


def note_token(name: str, variable: str, notes: list[Note]) -> None:
    """Say which variable holds the bearer token of a remote server."""
    message = f"its bearer token is in `{variable}`; say so in agent.toml"
    notes.append(Note(NoteKind.TOKEN, name, message, (variable,)))


def note_placeholders(texts: Iterable[str], name: str, notes: list[Note]) -> None:
    """Name the parts of a command or address that a person has to fill in."""
    found = tuple(
        dict.fromkeys(found for text in texts for found in _PLACEHOLDER.findall(text))
    )
    if found:
        listed = ", ".join(f"`{each}`" for each in found)
        notes.append(
            Note(NoteKind.MISSING_VALUE, name, f"replace {listed} in its entry", found)
        )


def _check_name(part: Part, name: str) -> None:
    if not name.strip():
        part.refuse(IssueCode.REQUIRED, "The name is empty", "give the server a name")
    if len(name) > _MAX_NAME:
        part.refuse(IssueCode.LIMIT, f"A name is longer than {_MAX_NAME} characters")
    if is_path(name):
        part.refuse(
            IssueCode.NAME_REFUSED,
            "The name is a path",
            "give the server a name of its own",
        )
    if any(not character.isprintable() for character in name):
        part.refuse(
            IssueCode.CONTROL_CHARACTER,
            "The name holds a character that cannot be printed",
            "remove it",
        )


def _check_version(part: Part, version: str | None) -> None:
    if any(separator in (version or "") for separator in SEPARATORS):
        message = f"The version holds one of `{SEPARATORS}`"
        part.refuse(IssueCode.SEPARATOR, message, "name one version")


def _check_words(part: Part, words: Iterable[str]) -> None:
    if any(len(word) > _MAX_CATEGORY for word in words):
        part.refuse(
            IssueCode.LIMIT, f"A category is longer than {_MAX_CATEGORY} characters"
        )


def _check_launch(part: Part, launch: Launch) -> None:
    if not launch.command:
        part.refuse(IssueCode.REQUIRED, "Required")
    if secret_arguments([launch.command, *launch.args]):
        message = "An argument looks like a secret, and an index is a file to share"
        hint = "put the secret into an environment variable, and have the server read it from there"
        part.refuse(IssueCode.SECRET, message, hint)


def _check_endpoint(part: Part, endpoint: str) -> None:
    if "|" in endpoint:
        part.refuse(IssueCode.SEPARATOR, "The address holds `|`")
    if not _is_http(endpoint):
        part.refuse(
            IssueCode.ENDPOINT_NOT_URL,
            "The address of a remote server is not an HTTP address",
        )
    if has_secret(endpoint):
        message = "The address holds what looks like a secret, and an index is a file to share"
        hint = "take it out, and name the variable of a bearer token as `token_env` in agent.toml"
        part.refuse(IssueCode.SECRET, message, hint)


def _is_http(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint)
        has_port = parts.port != 0  # Asking for one that is too large is an error.
    except ValueError:
        # A part to fill in may be the port.
        return _PLACEHOLDER.search(endpoint) is not None
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and has_port
