"""The content of the rows of DBOS: JSON that is sealed, whatever format a row claims to have."""

import json
from typing import Any, Final, cast

from agent_resolver.engine.errors import EditedRecord, EngineRefused
from agent_resolver.registry.port import Seal
from agent_resolver.storage.seal import sealed_as_text, sealed_from_text

NAME: Final = "sealed_json"
"""How the rows of the engine call this format."""
PURPOSE: Final = "engine"
"""What every value of the engine is sealed for."""
_MOST_BYTES: Final = 4_000_000
"""The largest value; inputs and results over 256 KB travel as references, so this is far above what is usual."""


class SealedText(str):
    """A value that is sealed already."""

    __slots__ = ()


class SealedJson:
    """Seals values for DBOS, and opens them again. Its methods are those of DBOS's `Serializer`."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal

    def name(self) -> str:
        """The format of a row, as the row says it."""
        return NAME

    def serialize(self, data: Any) -> SealedText:  # noqa: ANN401 - whatever DBOS keeps
        """Seal a value; of an exception, only its kind.

        Raises:
            EngineRefused: It is not JSON, or too large.
        """
        # The result of a step is sealed before DBOS gets it, and must not be sealed
        # twice.
        if isinstance(data, SealedText):
            return data
        if isinstance(data, BaseException):
            # The message may quote arguments and results, and nothing here reads it.
            return self._close({"error": type(data).__name__})
        return self._close({"value": data})

    def deserialize(self, serialized_data: str) -> Any:  # noqa: ANN401 - whatever DBOS keeps
        """The value again, or the exception that takes the place of a sealed one.

        Raises:
            EditedRecord: This program did not write it, or not with this key.
        """
        try:
            kept = json.loads(
                self._seal.open(sealed_from_text(serialized_data), PURPOSE)
            )
        except (RecursionError, ValueError):
            raise EditedRecord from None
        match kept:
            case {"value": value}:
                return value
            case {"error": str(kind)}:
                return EngineRefused(f"The segment ended with {kind}")
        raise EditedRecord

    def _close(self, document: dict[str, Any]) -> SealedText:
        try:
            content = json.dumps(
                document, allow_nan=False, separators=(",", ":")
            ).encode()
        except (RecursionError, TypeError, ValueError) as error:
            raise EngineRefused(
                f"A value for the engine is not JSON: {error}"
            ) from error
        if len(content) > _MOST_BYTES:
            problem = f"A value for the engine has {len(content):,} bytes, and {_MOST_BYTES:,} is the most"
            raise EngineRefused(problem, "hand it on as a reference")
        return SealedText(sealed_as_text(self._seal.close(content, PURPOSE)))


def seal_every_format(serializer: SealedJson) -> None:
    """Let DBOS read and write every format of its own through `serializer`, for the rest of this process.

    DBOS reads a row in the format that a column of the row names, whatever serializer it was given. One of its own
    formats is pickle: a person who can write the file could run code here. The other one is JSON without a seal.
    """
    from dbos import _serialization

    for built_in in (
        _serialization.DefaultSerializer,
        _serialization.DBOSPortableJSONSerializer,
    ):
        patched = cast("Any", built_in)
        patched.serialize = lambda _, data: serializer.serialize(data)
        patched.deserialize = lambda _, text: serializer.deserialize(text)
