"""Tables of the state, declared as data: a store keeps any of them without knowing what its rows mean."""

from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct, structs

Row = TypeVar("Row", bound=Struct)


class Table(Struct, Generic[Row], frozen=True, kw_only=True):
    """A table of rows of one struct; its columns are the struct's fields.

    A field is a `str`, `int`, `float`, `bool` or `bytes`, a literal of those, or one of them or None.
    """

    name: str
    row: type[Row]
    key: tuple[str, ...]
    """The columns that tell rows apart."""
    order: Literal["put", "key"] = "put"
    """The order in which rows are found: that of their first puts, or that of their keys, which is cheaper to keep."""
    indexes: tuple[tuple[str, ...], ...] = ()
    """The columns that rows can be found by, besides the key."""
    scans: tuple[tuple[str, ...], ...] = ()
    """The columns that rows can be found by at the price of looking at every row: for what is rarely looked for."""
    owner: str = ""
    """The column that names the process a row belongs to; a store remembers the process while a row names it."""

    is_durable: bool = True
    """False for rows that the end of the machine may undo: they say what processes do now, and processes end with it.
    `Store.write_leases` changes such rows without a flush to the disk."""

    sealed: tuple[str, ...] = ()
    """Columns with words that only the holder of the key may read. A store that writes to a disk seals each text for
    its place, and leaves an empty one and None as they are; rows can be found by them only where they are None."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in the order of the fields."""
        return self.row.__struct_fields__

    def key_of(self, row: Row) -> tuple[Any, ...]:
        """The key of a row."""
        return tuple(getattr(row, name) for name in self.key)

    def check_columns(self, columns: frozenset[str]) -> None:
        """Refuse to find rows by columns that neither the key nor an index covers.

        Raises:
            ValueError: A store would have to look at every row.
        """
        if not columns or any(
            columns == frozenset(each)
            for each in (self.key, *self.indexes, *self.scans)
        ):
            return
        raise ValueError(f"{self.name} has no index on {', '.join(sorted(columns))}")


def optional_columns(table: Table[Any]) -> frozenset[str]:
    """The columns that may hold nothing."""
    return frozenset(
        field.name for field in structs.fields(table.row) if field.default is None
    )
