"""A connection to a database, as far as the adapters of the store are alike."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol


class SqlCursor(Protocol):
    """The outcome of a statement."""

    @property
    def rowcount(self) -> int:
        """The number of rows that it changed."""
        ...

    def fetchone(self) -> Any:  # noqa: ANN401 - the values of any row
        """The next row; None after the last."""
        ...

    def fetchall(self) -> list[Any]:
        """The rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class SqlConnection(Protocol):
    """Runs statements in which `?` marks the place of a value."""

    @property
    def IntegrityError(self) -> type[Exception]:  # noqa: N802 - as Python's DB API names it
        """Raised for a row that breaks a rule of its table."""
        ...

    @property
    def DataError(self) -> type[Exception]:  # noqa: N802 - as above
        """Raised for a value that its column cannot hold."""
        ...

    def execute(self, statement: str, parameters: Sequence[Any] = ..., /) -> SqlCursor:
        """Run one statement."""
        ...

    def executemany(
        self, statement: str, parameters: Iterable[Sequence[Any]], /
    ) -> object:
        """Run one statement for each of the parameters."""
        ...
