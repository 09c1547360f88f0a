"""What a schema refers to is never fetched: somebody listens, and nobody comes."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from agent_resolver.registry import compile_schema


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server that would notice whoever comes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)  # noqa: FBT003 - the socket module calls it so
        yield server


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "{address}"}}},
        {"type": "object", "properties": {"a": {"$dynamicRef": "{address}"}}},
        {"$id": "{address}", "$ref": "other.json"},
        {"$schema": "{address}"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"$ref": "{address}#/a"}]},
    ],
)
def test_a_schema_that_refers_elsewhere_is_never_fetched(listener: socket.socket, schema: dict[str, Any]) -> None:
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"

    with pytest.raises(ValueError, match=r"\S"):
        compile_schema(_with(address, schema))

    with pytest.raises(BlockingIOError):
        listener.accept()


def _with(address: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with(address, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with(address, inner) for inner in value]
    return value.replace("{address}", address)
