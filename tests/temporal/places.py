"""Where the tests' runs are carried, and what carries them."""

from pathlib import Path
from typing import Any, Final

from msgspec import structs
from temporalio.client import Client
from temporalio.converter import DataConverter

from agent_resolver.engine.temporal_carrier import TemporalCarrier
from agent_resolver.engine.temporal_client import connect
from agent_resolver.engine.temporal_codec import SealedCodec, sealed_converter
from agent_resolver.engine.temporal_place import TemporalPlace, place_of
from agent_resolver.storage import AesSeal, Store
from tests.temporal_server import TemporalServer

KEY: Final = bytes(range(32))


def place_for(server: TemporalServer, folder: Path, **changes: Any) -> TemporalPlace:
    """The place of the state in a folder."""
    place = place_of(server.address, "tests", str(folder), is_shared=False)
    return structs.replace(place, is_versioned=not server.skips_time, **changes)


def carrier_for(server: TemporalServer, folder: Path, **changes: Any) -> TemporalCarrier:
    """What carries the runs of the state in a folder."""
    return TemporalCarrier(place_for(server, folder, **changes), AesSeal(KEY))


async def client_of(server: TemporalServer, store: Store | None = None, queue: str = "") -> Client:
    """A client of the server; without a store it knows no key."""
    converter = DataConverter.default
    if store is not None:
        converter = sealed_converter(SealedCodec(store, AesSeal(KEY), f"{queue}/"))
    # Not the library's own function: a server that listens may not be ready yet.
    return await connect(place_of(server.address, "tests", "", is_shared=False), converter, "tests")
