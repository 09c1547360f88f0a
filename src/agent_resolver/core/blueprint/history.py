"""Recorded histories of runs, and their replay.

A history of each kind is kept for every released version of the interpreter. If one of them replays with a difference,
runs that are under way would be given the results of other steps after an update.
"""

from typing import Any

import msgspec
from msgspec import Struct

from agent_resolver.core.blueprint.move import Course
from agent_resolver.core.blueprint.prepared_blueprint import prepare
from agent_resolver.core.blueprint.wave import (
    INTERPRETER_VERSION,
    Ended,
    Known,
    Move,
    RunFacts,
    StepOutcome,
)
from agent_resolver.schema.blueprint import Blueprint


class RecordedWave(Struct, frozen=True, kw_only=True):
    """A wave of a run, and what came of it."""

    wave: tuple[str, ...]
    """The paths of its calls, then those of its waits."""
    arguments: dict[str, Any] = {}
    """The arguments of its calls by path; those that are not recorded are not compared."""
    outcomes: dict[str, StepOutcome] = {}
    """Not all of the wave if the run was cancelled during it, or is still under way."""


class History(Struct, frozen=True, kw_only=True):
    """Everything that a run did, as far as it has come."""

    interpreter: str
    """The version of the interpreter that made the moves."""
    blueprint: Blueprint
    input: dict[str, Any]
    run: RunFacts
    waves: tuple[RecordedWave, ...]
    cancelled_after: int | None = None
    """The number of waves after which the wish to cancel was seen; None if there was none."""
    ended: Ended | None = None
    """None while it is under way."""


class HistoryDifference(Struct, frozen=True, kw_only=True):
    """The first move of a replay that is not the recorded one."""

    wave: int
    """The number of the wave, from 1; that of the end is one more than that of the last wave."""
    recorded: str
    replayed: str

    def __str__(self) -> str:
        return f"wave {self.wave}: recorded was {self.recorded}, the replay has {self.replayed}"


def encode_history(history: History) -> bytes:
    """A history as JSON, in the one spelling that its files have."""
    return msgspec.json.format(msgspec.json.encode(history), indent=2) + b"\n"


def decode_history(raw: bytes) -> History:
    """A history from JSON.

    Raises:
        msgspec.DecodeError: It is not a history.
    """
    return msgspec.json.decode(raw, type=History)


def replay_history(history: History) -> HistoryDifference | None:
    """Give a run its recorded outcomes again; return the first difference, or None if it makes the same moves."""
    # Another version may order its moves in another way, so that a comparison would say
    # nothing.
    if history.interpreter != INTERPRETER_VERSION:
        recorded = f"interpreter {history.interpreter}"
        replayed = f"interpreter {INTERPRETER_VERSION}"
        return HistoryDifference(wave=1, recorded=recorded, replayed=replayed)
    known = Known(input=history.input, run=history.run)
    # The same course that an engine runs, given recorded outcomes in place of calls.
    course = Course(prepare(history.blueprint), known)
    # The end comes after the last wave, in its place among the moves.
    for number, expected in enumerate([*history.waves, history.ended]):
        if number == history.cancelled_after:
            course.cancel()
        if expected is None:
            break
        found = course.next_move()
        recorded, replayed = _compared(expected, found)
        if recorded != replayed:
            return HistoryDifference(
                wave=number + 1,
                recorded=recorded,
                replayed=replayed,
            )
        if isinstance(expected, RecordedWave):
            course.add(expected.outcomes)
    return None


def _compared(expected: RecordedWave | Ended, found: Move) -> tuple[str, str]:
    """A recorded move and that of the replay, as texts that are the same if the moves are."""
    if isinstance(expected, Ended) or isinstance(found, Ended):
        return _described(expected), _described(found)
    if expected.wave != found.paths:
        return _described(expected), _described(found)
    for call in found.calls:
        # Only the order of steps is compared where no arguments were recorded.
        arguments = expected.arguments.get(call.path, call.arguments)
        if arguments != call.arguments:
            return _with_arguments(call.path, arguments), _with_arguments(
                call.path, call.arguments
            )
    return "", ""


def _described(move: RecordedWave | Move) -> str:
    if isinstance(move, Ended):
        return f"the end {_json(move)}"
    paths = move.wave if isinstance(move, RecordedWave) else move.paths
    return ", ".join(paths)


def _with_arguments(path: str, arguments: object) -> str:
    return f"{path} with {_json(arguments)}"


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
