"""What LangGraph writes into the state file: sealed for one thread, whatever format a row claims to have."""

from typing import Any, Final

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agent_resolver.registry.port import Seal

CIPHER: Final = "+ares1"
"""Ends the format of every value that was sealed here. A value without it was not written by this program."""
_KINDS: Final = frozenset({"null", "bytes", "bytearray", "msgpack"})
"""The formats that are written here; LangGraph knows others, one of which runs code."""


class SealedSerializer:
    """Seals values for a thread, and opens them again. Its methods are those of LangGraph's `SerializerProtocol`."""

    def __init__(self, seal: Seal, thread: str) -> None:
        self._seal = seal
        # A value that is copied to another thread of the same file does not open there.
        self._purpose = f"checkpoint of {thread}"
        # Only plain values and LangGraph's own: a class that a row names is never imported.
        self._plain = JsonPlusSerializer(allowed_msgpack_modules=None)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:  # noqa: ANN401 - whatever LangGraph keeps
        """The format and the sealed bytes of a value."""
        kind, content = self._plain.dumps_typed(obj)
        return f"{kind}{CIPHER}", self._seal.close(content, f"{self._purpose} as {kind}")

    def loads_typed(self, data: tuple[Any, Any]) -> Any:  # noqa: ANN401 - whatever LangGraph keeps
        """The value again.

        Raises:
            ValueError: This program did not write it for this thread, or not with this key.
        """
        kind, sealed = data
        # The file may hold anything in any column.
        if not (isinstance(kind, str) and isinstance(sealed, bytes) and kind.endswith(CIPHER)):
            raise ValueError("a value of a checkpoint is not sealed")
        plain_kind = kind.removesuffix(CIPHER)
        if plain_kind not in _KINDS:
            raise ValueError(f"a value of a checkpoint claims to be `{plain_kind[:20]}`")
        content = self._seal.open(sealed, f"{self._purpose} as {plain_kind}")
        return self._plain.loads_typed((plain_kind, content))
