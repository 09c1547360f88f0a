"""Connects to a Temporal server, and says in plain words why that fails."""

import asyncio
import re
from typing import Final

from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError, TLSConfig

from agent_resolver.core.shorten import shorten
from agent_resolver.engine.errors import EngineUnreachable
from agent_resolver.engine.temporal_log import quiet_runtime
from agent_resolver.engine.temporal_place import TemporalPlace

CONNECT_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.2
_PROBLEM_LENGTH: Final = 200
_MAX_PORT: Final = 65_535
_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+):([0-9]{1,5})")
_NO_TEMPORAL: Final = (
    "what answers there is not a Temporal server; or it encrypts, which takes "
    "`engine.ca_file` or `engine.api_key_env`"
)
_STATUS: Final = re.compile(r'Status \{ code: (\w+), message: "([^"]*)"')
"""How the library's message has the answer of a server that refused."""
_REFUSED: Final = "ConnectionRefused"
"""What a message contains if nothing listens at the address, perhaps not yet."""
_STARTING: Final = "Frontend is not healthy yet"
"""What a server says that listens, and is not ready yet."""
_PLAIN_WORDS: Final = (
    ("dns error", "its name is not known here"),
    (_REFUSED, "nothing listens there"),
    (
        "InvalidContentType",
        "it does not encrypt, and `engine.ca_file` or `engine.api_key_env` asks for that",
    ),
    ("UnknownIssuer", "its certificate does not come from one that is trusted"),
    ("CaUsedAsEndEntity", "its certificate is one that only issues others"),
    ("NotValidForName", "its certificate is for another name"),
    ("Expired", "its certificate has expired"),
    ("after connection: Status { code: Unknown", _NO_TEMPORAL),
    ("h2 protocol error", _NO_TEMPORAL),
)
"""What the library's messages contain, and what that means to an operator."""


async def connect(
    place: TemporalPlace,
    converter: DataConverter,
    identity: str,
) -> Client:
    """A client of the server.

    Raises:
        EngineUnreachable: The address is not one, or there is no such server.
    """
    _require_address(place.address)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await _connect_once_started(place, converter, identity)
    except TimeoutError:
        problem = f"it was not ready in {CONNECT_SECONDS:.0f} seconds"
        raise EngineUnreachable(place.address, problem, may_be_starting=True) from None
    except (RuntimeError, ValueError) as error:
        raise EngineUnreachable(
            place.address,
            plain_words(str(error)),
            may_be_starting=_REFUSED in str(error),
        ) from None


async def _connect_once_started(
    place: TemporalPlace,
    converter: DataConverter,
    identity: str,
) -> Client:
    """A client of the server, which may have been started at the same time as this process."""
    tls: TLSConfig | bool = place.is_encrypted
    if place.root_certificate:
        tls = TLSConfig(server_root_ca_cert=place.root_certificate)
    while True:
        try:
            return await Client.connect(
                place.address,
                namespace=place.namespace,
                data_converter=converter,
                identity=identity,
                api_key=place.api_key or None,
                tls=tls,
                runtime=quiet_runtime(),
            )
        except RuntimeError as error:
            if _STARTING not in str(error):
                raise
        await asyncio.sleep(_PAUSE_SECONDS)


def words_of(error: RPCError) -> str:
    """The reason for which a request failed."""
    return f"{error.status.name}: {plain_words(error.message)}"


def plain_words(problem: str) -> str:
    """A message of the library, which may be one for its authors, in words for an operator."""
    for found, meaning in _PLAIN_WORDS:
        if found in problem:
            return meaning
    if status := _STATUS.search(problem):
        problem = f"{status[1]}: {status[2]}"
    return shorten(problem, _PROBLEM_LENGTH)


def _require_address(address: str) -> None:
    # Without a port, the library takes another one than Temporal's. User names and
    # paths it ignores.
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found[2]) <= _MAX_PORT:
        hint = (
            "set `engine.address` to a host and a port, such as `temporal.example:7233`"
        )
        _, sign, host = address.rpartition("@")
        # There may be a password before the host.
        shown = shorten(f"...{sign}{host}" if sign else host, _PROBLEM_LENGTH)
        raise EngineUnreachable(shown, "that is not a host and a port", hint)
