"""Keeps what was used last, within a number and a size."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from msgspec import Struct

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Counters(Struct, frozen=True):
    """The uses of a cache so far, and its present size."""

    hits: int
    misses: int
    evictions: int
    count: int
    bytes: int


class Cache(Generic[Key, Value]):
    """The values used last: at most `count` of them, of at most `size` bytes together."""

    def __init__(self, count: int, size: int) -> None:
        self._count = count
        self._size = size
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._bytes = self._hits = self._misses = self._evictions = 0

    def get(
        self, key: Key, holds: Callable[[Value], bool] = lambda _: True
    ) -> Value | None:
        """The value, which is now the one used last; one that does not hold any more is forgotten."""
        found = self._values.get(key)
        if found is not None and not holds(found[0]):
            self.drop(key)
            found = None
        if found is None:
            self._misses += 1
            return None
        self._hits += 1
        self._values.move_to_end(key)
        return found[0]

    def put(
        self,
        key: Key,
        value: Value,
        size: int,
    ) -> None:
        """Keep a value of `size` bytes, and let go of those used longest ago until all fit."""
        self.drop(key)
        if size > self._size or not self._count:
            return
        self._values[key] = (value, size)
        self._bytes += size
        while len(self._values) > self._count or self._bytes > self._size:
            _, (_, freed) = self._values.popitem(last=False)
            self._bytes -= freed
            self._evictions += 1

    def drop(self, key: Key) -> None:
        """Forget a value that does not hold any more."""
        found = self._values.pop(key, None)
        if found is not None:
            self._bytes -= found[1]

    def clear(self) -> None:
        """Forget every value, and go on counting."""
        self._values.clear()
        self._bytes = 0

    @property
    def counters(self) -> Counters:
        """Its uses so far, and its present size."""
        return Counters(
            self._hits, self._misses, self._evictions, len(self._values), self._bytes
        )
