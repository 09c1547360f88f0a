"""JSON values that cannot be changed, so that what was checked once stays as it was."""

from typing import Any, Final, NoReturn

from msgspec import Struct, structs

_CHANGES_OF_DICT: Final = (
    *("__setitem__", "__delitem__", "__ior__"),
    *("clear", "pop", "popitem", "setdefault", "update"),
)
_CHANGES_OF_LIST: Final = (
    *("__setitem__", "__delitem__", "__iadd__", "__imul__"),
    *("append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"),
)


def freeze(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    """A copy of a JSON value that cannot be changed, however deep; what is already frozen is given back.

    The copy is equal to the value and can be used like it.
    """
    # Most values are neither: they are looked at once.
    if not isinstance(value, (dict, list)) or isinstance(
        value, (FrozenDict, FrozenList)
    ):
        return value
    if isinstance(value, dict):
        return FrozenDict({key: freeze(each) for key, each in value.items()})
    return FrozenList(map(freeze, value))


def freeze_fields(value: Struct, *names: str) -> None:
    """Freeze fields of a struct that is being made; for its `__post_init__`.

    A value that nests without end is left alone: the check of the struct refuses it.
    """
    for name in names:
        try:
            structs.force_setattr(value, name, freeze(getattr(value, name)))
        except RecursionError:
            continue


def _refuse_change(self: object, *_: object, **__: object) -> NoReturn:
    raise TypeError(f"a {type(self).__name__} cannot be changed")


class FrozenDict(dict[str, Any]):
    """An object of JSON that cannot be changed; `freeze` makes it."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return freeze, (dict(self),)


class FrozenList(list[Any]):
    """An array of JSON that cannot be changed; `freeze` makes it."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return freeze, (list(self),)


for _name in _CHANGES_OF_DICT:
    setattr(FrozenDict, _name, _refuse_change)
for _name in _CHANGES_OF_LIST:
    setattr(FrozenList, _name, _refuse_change)
