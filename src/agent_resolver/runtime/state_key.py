"""Keys of a run's state: what a plugin keeps there, and how updates of it are merged."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from msgspec import Struct

from agent_resolver.runtime.errors import StateFailure

MergeRule = Literal["exclusive", "replace", "append", "add", "merge"]
"""What becomes of an update: `exclusive` and `replace` put it in place of the value, `append` extends a list, `add`
adds a number, `merge` lays the entries of an object over those there are. Two hooks of one phase may not both update
an exclusive key: they are run again, one after the other."""
KeyScope = Literal["run", "thread", "profile"]
"""How long a value lives: as long as the run, the conversation, or the user's profile."""

MERGE_RULES: Final[tuple[MergeRule, ...]] = get_args(MergeRule)
KEY_SCOPES: Final[tuple[KeyScope, ...]] = get_args(KeyScope)


class KeyRegistration(Struct, frozen=True, kw_only=True):
    """A key of a run's state that a plugin keeps."""

    plugin: str
    key: str
    merge: MergeRule = "exclusive"
    scope: KeyScope = "run"
    default: Any = None
    """The value before the first update: a JSON value."""


class KeyValues:
    """The values of a run's keys."""

    def __init__(self, registrations: Iterable[KeyRegistration], known: Mapping[str, Any] = {}) -> None:
        """Values as they are `known` from an earlier part of the run, else as registered."""
        self._registrations = {each.key: each for each in registrations}
        self._values = {key: known.get(key, each.default) for key, each in self._registrations.items()}
        self._view = MappingProxyType(self._values)

    def snapshot(self) -> dict[str, Any]:
        """The values of now; later updates do not change it."""
        return dict(self._values)

    @property
    def current(self) -> Mapping[str, Any]:
        """The values as they are at each look."""
        return self._view

    def reset(self, keys: Iterable[str]) -> None:
        """Give keys their defaults again."""
        for key in keys:
            self._values[key] = self._registrations[key].default

    def is_exclusive(self, key: str) -> bool:
        """True if two hooks of one phase may not both update the key."""
        found = self._registrations.get(key)
        return found is not None and found.merge == "exclusive"

    def update(self, plugin: str, updates: Mapping[str, Any]) -> None:
        """Merge what a plugin says into the values, each by the rule of its key.

        Raises:
            StateFailure: A key is not registered, or an update does not fit its rule.
        """
        for key, update in updates.items():
            registration = self._registrations.get(key)
            if registration is None:
                raise StateFailure(
                    "UNKNOWN_KEY", f"plugin {plugin} updates the state key {key!r}, which is not registered"
                )
            self._values[key] = _merged(registration, self._values[key], update)


def _merged(registration: KeyRegistration, value: Any, update: Any) -> Any:  # noqa: ANN401 - JSON values
    rule = registration.merge
    try:
        if rule == "append":
            return [*(value or ()), *update]
        if rule == "add":
            return (value or 0) + update
        if rule == "merge":
            return {**(value or {}), **update}
    except TypeError as error:
        message = f"an update of the state key {registration.key!r} does not fit its rule `{rule}`"
        raise StateFailure("KEY_UPDATE", message) from error
    return update
