"""Serializes what LangGraph writes into the state file: sealed for one thread, whatever format a row claims to have."""

from typing import Any, Final

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agent_resolver.reasoner.sealed_purpose import checkpoint_purpose, kind_of_sealed
from agent_resolver.registry.port import Seal

_KINDS: Final = frozenset({"null", "bytes", "bytearray", "msgpack"})
"""The formats that are written here; LangGraph knows others, one of which runs code."""


class SealedSerializer:
    """Seals values for a thread, and opens them again. Its methods are those of LangGraph's `SerializerProtocol`."""

    def __init__(self, seal: Seal, thread: str) -> None:
        self._seal = seal
        self._thread = thread
        # Only plain values and LangGraph's own: a class that a row names is never
        # imported.
        self._plain = JsonPlusSerializer(allowed_msgpack_modules=None)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:  # noqa: ANN401 - whatever LangGraph keeps
        """The format and the sealed bytes of a value."""
        kind, content = self._plain.dumps_typed(obj)
        return f"{kind}+{self._seal.cipher}", self._seal.close(
            content, checkpoint_purpose(self._thread, kind)
        )

    def loads_typed(self, data: tuple[Any, Any]) -> Any:  # noqa: ANN401 - whatever LangGraph keeps
        """The value again.

        Raises:
            ValueError: This program did not write it for this thread, or not with this key.
        """
        kind, sealed = data
        plain_kind = kind_of_sealed(kind, sealed)
        # Checked before the seal is opened: LangGraph would read a row of the format
        # `pickle` by running its code.
        if plain_kind not in _KINDS:
            raise ValueError(
                f"a value of a checkpoint claims to be `{plain_kind[:20]}`"
            )
        content = self._seal.open(sealed, checkpoint_purpose(self._thread, plain_kind))
        return self._plain.loads_typed((plain_kind, content))
