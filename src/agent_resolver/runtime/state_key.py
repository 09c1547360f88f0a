"""Keys of a run's state: what a plugin keeps there, and how updates of it are merged."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import Struct

from agent_resolver.runtime.errors import StateFailure
from agent_resolver.schema.frozen import FrozenDict, FrozenList, freeze

MergeRule = Literal["exclusive", "replace", "append", "add", "merge"]
"""What becomes of an update: `exclusive` and `replace` put it in place of the value, `append` extends a list, `add`
adds a number, `merge` lays the entries of an object over those there are. Two hooks of one phase may not both update
an exclusive key: they are run again, one after the other."""
KeyScope = Literal["run", "thread", "profile"]
"""How long a value lives: as long as the run, the conversation, or the user's profile."""

MERGE_RULES: Final[tuple[MergeRule, ...]] = get_args(MergeRule)
KEY_SCOPES: Final[tuple[KeyScope, ...]] = get_args(KeyScope)

_MERGED: Final[dict[str, tuple[type, ...]]] = {
    "append": (list,),
    "add": (int, float),
    "merge": (dict,),
}
"""The rules that make a value of the old one and an update, and the types that both must have."""


class KeyRegistration(Struct, frozen=True, kw_only=True):
    """A key of a run's state that a plugin keeps."""

    plugin: str
    key: str
    merge: MergeRule = "exclusive"
    scope: KeyScope = "run"
    default: Any = None
    """The value before the first update: a JSON value."""


def initial_values(
    registrations: Iterable[KeyRegistration], known: Mapping[str, Any] = {}
) -> Mapping[str, Any]:
    """The values that keys begin with, by key; nothing in them can be changed."""
    return MappingProxyType(
        {each.key: freeze(known.get(each.key, each.default)) for each in registrations}
    )


class KeyValues:
    """The values of a run's keys. They are frozen: a hook that changes what it was given would go round the rules."""

    __slots__ = ("_registrations", "_values")

    def __init__(
        self,
        registrations: tuple[KeyRegistration, ...],
        known: Mapping[str, Any] = {},
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        """Values as they are `known` from an earlier part of the run, else as registered.

        Args:
            registrations: The keys.
            known: Values from an earlier part of the run.
            defaults: What `initial_values` makes of the registrations, where it is at hand.
        """
        self._registrations = registrations
        # The shared defaults serve as they are, unless an earlier part of the run kept
        # values.
        if defaults is None or known:
            defaults = initial_values(registrations, known)
        self._values: Mapping[str, Any] = defaults

    @property
    def current(self) -> Mapping[str, Any]:
        """The values of now; later updates do not change what is given here."""
        return self._values

    def reset(self, keys: Iterable[str]) -> None:
        """Give keys their defaults again."""
        self._replace(
            {
                key: freeze(self._registrations[self._place_of(key)].default)
                for key in keys
            }
        )

    def _replace(self, changes: Mapping[str, Any]) -> None:
        # A new mapping: hooks may still look at the one before.
        self._values = MappingProxyType({**self._values, **changes})

    def _place_of(self, key: str) -> int:
        """The place of a key among the registrations, which are few; -1 for one that is not registered."""
        return next(
            (
                place
                for place, each in enumerate(self._registrations)
                if each.key == key
            ),
            -1,
        )

    def is_exclusive(self, key: str) -> bool:
        """True if two hooks of one phase may not both update the key."""
        place = self._place_of(key)
        return place >= 0 and self._registrations[place].merge == "exclusive"

    def update(self, plugin: str, updates: Mapping[str, Any]) -> None:
        """Merge what a plugin says into the values, each by the rule of its key.

        Raises:
            StateFailure: A key is not registered, or an update does not fit its rule.
        """
        for key, update in updates.items():
            place = self._place_of(key)
            if place < 0:
                raise StateFailure(
                    "UNKNOWN_KEY",
                    f"plugin {plugin} updates the state key {key!r}, which is not registered",
                )
            self._replace(
                {key: _merged(self._registrations[place], self._values[key], update)}
            )


def _merged(registration: KeyRegistration, value: Any, update: Any) -> Any:  # noqa: ANN401 - JSON values
    """The value after an update.

    Raises:
        StateFailure: The update is not a JSON value, or does not fit the rule.
    """
    rule = registration.merge
    try:
        # A copy: the hook that gave the update may change it afterwards.
        checked = freeze(msgspec.json.decode(msgspec.json.encode(update)))
    except (TypeError, ValueError, RecursionError) as error:
        message = f"an update of the state key {registration.key!r} is not a JSON value"
        raise StateFailure("KEY_UPDATE", message) from error
    # A value may be missing, and an update may not: there is nothing to append, to add
    # or to merge.
    is_missing = checked is None and rule in _MERGED
    if is_missing or not fits_rule(rule, checked) or not fits_rule(rule, value):
        message = f"an update of the state key {registration.key!r} does not fit its rule `{rule}`"
        raise StateFailure("KEY_UPDATE", message)
    return _combine(rule, value, checked)


def _combine(rule: MergeRule, value: Any, update: Any) -> Any:  # noqa: ANN401 - JSON values
    """The value after an update, both of which fit the rule; the value may be missing."""
    match rule:
        case "append":
            return FrozenList([*(value or ()), *update])
        case "add":
            return (value or 0) + update
        case "merge":
            return FrozenDict({**(value or {}), **update})
    return update


def fits_rule(rule: MergeRule, value: object) -> bool:
    """True if a key with this rule may have this value; every key may have none."""
    kinds = _MERGED.get(rule)
    if kinds is None or value is None:
        return True
    # True is an integer to Python, and not a number to add.
    return isinstance(value, kinds) and not isinstance(value, bool)
