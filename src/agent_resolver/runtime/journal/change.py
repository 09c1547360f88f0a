"""Changes of a run's state: what each entry of the journal holds in place of the whole state."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from agent_resolver.runtime.call_key import call_key
from agent_resolver.runtime.message import Message, tool_message
from agent_resolver.runtime.run import RunState

_IDENTITY: Final = frozenset({"run", "trace_id", "agent_id", "delegate"})
"""Fields that never change, or that a journal does not need: a delegate has a journal of its own."""
_SPECIAL: Final = frozenset({"messages", "open_calls", "values"})
_PLAIN: Final = tuple(
    name for name in RunState.__struct_fields__ if name not in _IDENTITY | _SPECIAL
)
"""Fields that a change holds whole, once they are another value than before."""
_ENCODER: Final = msgspec.json.Encoder()


class _Special(Struct, kw_only=True, omit_defaults=True):
    """The changes of fields that grow: each holds what is new."""

    messages: list[Message] = field(default_factory=list)
    """Messages are only ever added."""
    results: dict[int, str] = field(default_factory=dict)
    """By the place among the new messages: the tool whose result the ledger has, in place of the message's text."""
    open_calls: int | UnsetType = UNSET
    """The number of open calls of the newest message with calls; they are always its last ones."""
    values: dict[str, Any] = field(default_factory=dict)
    """The state keys that changed."""
    lost_values: list[str] = field(default_factory=list)
    """The state keys that no plugin has any longer."""


# Made of the fields of `RunState`, so that a new field is journaled without a second
# list of names.
StateChange: Any = msgspec.defstruct(
    "StateChange",
    [
        (each.name, each.type | msgspec.UnsetType, UNSET)
        for each in msgspec.structs.fields(RunState)
        if each.name in _PLAIN
    ],
    bases=(_Special,),
    kw_only=True,
    omit_defaults=True,
    module=__name__,
)
"""The changes of a state: a field for each of `RunState` that can change."""

ReadResult = Callable[[str, str], str]
"""The text that a model was given of a call, by its tool and the key that the run gave it."""


class WatchMark(Struct, frozen=True):
    """The part of a state that a journal has at one moment."""

    count: int
    fields: dict[str, Any]
    open: int
    values: Mapping[str, Any]
    results: dict[int, str]


class StateWatch:
    """Knows a state as the journal has it, and finds what changed since."""

    def __init__(self, state: RunState, *, message_count: int) -> None:
        self.state = state
        self._count = message_count
        """The number of messages that the journal has."""
        self._fields: dict[str, Any] = {
            name: _kept(getattr(state, name)) for name in _PLAIN
        }
        self._open = len(state.open_calls)
        self._values: Mapping[str, Any] = state.values
        self.results: dict[int, str] = {}
        """By the place among all messages: the tools of results that the ledger has and the journal does not yet."""

    def watch(self, state: RunState) -> None:
        """Watch another state from here on: what differs from the one before counts as changed."""
        self.state = state

    def mark(self) -> "WatchMark":
        """A mark at what counts as written now, for `go_back`."""
        return WatchMark(
            self._count,
            self._fields.copy(),
            self._open,
            self._values,
            self.results.copy(),
        )

    def go_back(self, mark: "WatchMark") -> None:
        """Count nothing as written that was taken since the mark: it was not kept."""
        self._count = mark.count
        self._open = mark.open
        self._values = mark.values
        self._fields = mark.fields
        self.results = mark.results

    def take(self, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a `StateChange`
        """The changes since the last time, which then count as written.

        Args:
            values: The values of state keys as they are now.
        """
        state = self.state
        change: dict[str, Any] = {}
        # Most fields are the same from step to step, and what a change leaves out takes
        # no bytes.
        for name, before in self._fields.items():
            now = getattr(state, name)
            if now != before:
                change[name] = self._fields[name] = _kept(now)
        if len(state.messages) > self._count:
            change["messages"], change["results"] = self._new_messages()
        if len(state.open_calls) != self._open:
            change["open_calls"] = self._open = len(state.open_calls)
        # Values are replaced as a whole, never changed in place: the same mapping has
        # no changes.
        if values is not self._values:
            before_values = self._values
            change["values"] = {
                key: value
                for key, value in values.items()
                if key not in before_values
                or not _is_same_value(before_values[key], value)
            }
            # A key is lost where the run goes on with an agent that no longer has the
            # plugin for it.
            change["lost_values"] = [key for key in before_values if key not in values]
            self._values = values
        return StateChange(**change)

    def _new_messages(self) -> tuple[list[Message], dict[int, str]]:
        first = self._count
        messages = self.state.messages[first:]
        # Places in the whole conversation become places among the new messages.
        results = {place - first: tool_id for place, tool_id in self.results.items()}
        for place in results:
            # The ledger has the text already.
            messages[place] = tool_message(messages[place].call_id, "")
        self._count = len(self.state.messages)
        self.results = {}
        return messages, results


def apply_change(state: RunState, change: Any, read_result: ReadResult) -> None:  # noqa: ANN401 - a `StateChange`
    """Bring a state to where it was when the change was written."""
    # Results belong to the calls that were open before: their keys have the round and
    # the place of that time.
    is_open = len(state.open_calls)
    for place, message in enumerate(change.messages):
        tool_id = change.results.get(place)
        if tool_id is not None:
            text = read_result(tool_id, call_key(state, is_open, message.call_id))
            state.messages.append(tool_message(message.call_id, text))
        else:
            state.messages.append(message)
        # A tool message answers one open call, so the next key has one open call less
        # in it.
        is_open -= message.role == "tool"
    for name in _PLAIN:
        value = getattr(change, name)
        if value is not UNSET:
            setattr(state, name, value)
    # After the messages: the open calls are parts of the newest one with calls.
    if change.open_calls is not UNSET:
        state.open_calls = _last_calls(state.messages, change.open_calls)
    for key in change.lost_values:
        state.values.pop(key, None)
    state.values.update(change.values)


def _last_calls(messages: list[Message], count: int) -> list[Any]:
    """The last calls of the newest message that has calls."""
    if not count:
        return []
    newest = next(message for message in reversed(messages) if message.calls)
    return list(newest.calls[-count:])


def _is_same_value(before: Any, now: Any) -> bool:  # noqa: ANN401 - JSON values
    """True if both are the same as JSON: Python takes 1, 1.0 and True for equal."""
    return before is now or _ENCODER.encode(before) == _ENCODER.encode(now)


def _kept(value: Any) -> Any:  # noqa: ANN401 - the value of any field
    """A value that does not change with the state: lists and dictionaries of it are copied."""
    if isinstance(value, list | dict):
        return value.copy()
    return value
